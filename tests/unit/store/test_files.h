// Directories that tests may fill, and files in them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/server_store.h"

namespace remora {

/// A new empty directory, which is removed with its contents.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

/// Returns the paths of the files in a directory whose names have this ending.
std::vector<std::string> FilesIn(const std::string& dir, const std::string& ending = "");

StoreOptions LoggedIn(const std::string& dir, std::size_t memory_size = std::size_t{16} << 20);

}  // namespace remora
