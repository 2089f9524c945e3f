// Manual pages in a store: loads them, reads each back and compares it with its file, byte for byte, or reads
// them in turns for a second.
//   example_pages --server=ADDRESS load|compare|measure FILE...
// The page of a file `/some/where/rdma_post_readv.3` has the key `3/rdma_post_readv`.
#include <remora/client.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

[[noreturn]] void Fail(std::string_view what, const absl::Status& status) {
  std::cerr << what << ": " << status << '\n';
  std::exit(1);
}

std::string KeyOf(const std::filesystem::path& file) {
  const std::string dot_section = file.extension();
  if (dot_section.size() < 2) Fail(file.native(), absl::InvalidArgumentError("not named NAME.SECTION"));
  return dot_section.substr(1) + "/" + file.stem().native();
}

std::string Contents(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream.is_open() || stream.bad()) Fail(file.native(), absl::UnavailableError("cannot be read"));
  return bytes;
}

/// Reads the pages in turns for a second, and prints how many reads that were.
void Measure(remora::Client& client, const std::vector<std::string>& keys) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::string page;
  std::size_t reads = 0;
  Clock::duration took{};
  for (; took < std::chrono::seconds(1); took = Clock::now() - start) {
    for (const std::string& key : keys) {
      if (absl::Status status = client.Get(key, &page); !status.ok()) Fail(key, status);
    }
    reads += keys.size();
  }
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  std::cout << reads << " GETs of whole pages, " << nanoseconds / static_cast<long long>(reads)
            << " ns each\n";
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view kServer = "--server=";
  const std::string_view server = argc > 3 ? argv[1] : "";
  const std::string_view command = argc > 3 ? argv[2] : "";
  if (!server.starts_with(kServer) || (command != "load" && command != "compare" && command != "measure")) {
    std::cerr << "usage: example_pages --server=ADDRESS load|compare|measure FILE...\n";
    return 64;
  }
  auto client = remora::Client::Connect(server.substr(kServer.size()));
  if (!client.ok()) Fail("connecting", client.status());

  if (command == "measure") {
    std::vector<std::string> keys;
    for (int i = 3; i < argc; ++i) keys.push_back(KeyOf(argv[i]));
    Measure(**client, keys);
    return 0;
  }

  std::size_t bytes = 0;
  int different = 0;
  for (int i = 3; i < argc; ++i) {
    const std::string key = KeyOf(argv[i]);
    const std::string page = Contents(argv[i]);
    bytes += page.size();
    if (command == "load") {
      if (absl::Status status = (*client)->Put(key, page); !status.ok()) Fail(key, status);
      continue;
    }
    const absl::StatusOr<std::string> stored = (*client)->Get(key);
    if (!stored.ok()) Fail(key, stored.status());
    if (*stored != page) {
      std::cerr << key << ": differs from " << argv[i] << '\n';
      ++different;
    }
  }
  std::cout << (command == "load" ? "loaded " : "compared ") << argc - 3 << " pages, " << bytes << " bytes";
  std::cout << (command == "load" ? "\n" : ", " + std::to_string(different) + " differ\n");
  return different == 0 ? 0 : 1;
}
