// A copy that follows: shows what is there, then each change as it comes, until one of key "stop" does. It
// needs a logged server (kvserver --durability=logged).
//   example_watch ADDRESS PREFIX
#include <remora/client.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <string_view>

namespace {

struct Versioned {
  std::uint64_t version = 0;
  std::string value;
};

absl::Status Follow(remora::Client& client, std::string_view prefix) {
  // First the watch, then the scan: a write in between comes by both ways, and none is lost.
  auto watch = client.Watch({.prefix = prefix});
  if (!watch.ok()) return watch.status();
  auto scan = client.Scan({.prefix = prefix});
  if (!scan.ok()) return scan.status();
  std::map<std::string, Versioned> copy;
  while ((*scan)->Next()) {
    copy[std::string((*scan)->key())] = {(*scan)->version(), std::string((*scan)->value())};
  }
  if (!(*scan)->status().ok()) return (*scan)->status();
  for (const auto& [key, entry] : copy) std::cout << key << " is " << entry.value << std::endl;

  for (;;) {
    const absl::StatusOr<bool> came = (*watch)->Next(std::chrono::seconds(1));
    if (!came.ok()) return came.status();
    if (!*came) continue;
    const std::string key((*watch)->key());
    if ((*watch)->kind() == remora::ChangeKind::kDelete) {
      copy.erase(key);
      std::cout << key << " is gone" << std::endl;
    } else if (Versioned& entry = copy[key]; entry.version < (*watch)->version()) {
      entry = {(*watch)->version(), std::string((*watch)->value())};
      std::cout << key << " becomes " << entry.value << std::endl;
    }
    if (key == std::string(prefix) + "stop") return absl::OkStatus();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: example_watch ADDRESS PREFIX\n";
    return 64;
  }
  auto client = remora::Client::Connect(argv[1]);
  const absl::Status status = client.ok() ? Follow(**client, argv[2]) : client.status();
  if (status.ok()) return 0;
  std::cerr << status << '\n';
  return 1;
}
