#include "test_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

#include "store/base/check.h"

namespace remora {

TempDir::TempDir() {
  path_ = (std::filesystem::temp_directory_path() / "remora-store-test-XXXXXX").string();
  REMORA_CHECK(mkdtemp(path_.data()) != nullptr);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REMORA_CHECK(file.is_open());
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  REMORA_CHECK(file.good());
}

std::vector<std::string> FilesIn(const std::string& dir, const std::string& ending) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().string().ends_with(ending)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

StoreOptions LoggedIn(const std::string& dir, std::size_t memory_size) {
  StoreOptions options;
  options.memory_size = memory_size;
  options.durability = Durability::kLogged;
  options.data_dir = dir;
  return options;
}

}  // namespace remora
