// A client for the kill tests: writes numbered values, says which are acknowledged, and checks them later.
//   acked_writer ADDRESS NAME KEYS write          until killed, or until the server is gone (exit status 69)
//   acked_writer ADDRESS NAME KEYS verify ACKED
//
// Write n (from 0) goes to key NAME/(n % KEYS); its number is printed as soon as it is acknowledged.
// Afterwards each key must hold the newest write to it among the ACKED first ones. The write that was in
// flight at the end may be there instead: acknowledged or not, it may have been done.
#include <sysexits.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "client/client.h"

namespace {

std::string KeyOf(std::string_view name, std::uint64_t number, std::uint64_t keys) {
  return std::string(name) + "/" + std::to_string(number % keys);
}

// Tells its number, and is of many sizes: mostly some bytes, now and then some kilobytes.
std::string ValueOf(std::uint64_t number) {
  std::string value = std::to_string(number) + ":";
  const std::uint64_t size = number * 7919 % (number % 64 == 0 ? 20'000 : 300);
  value.append(size, static_cast<char>('a' + number % 26));
  return value;
}

int WriteUntilTheEnd(remora::Client& client, std::string_view name, std::uint64_t keys) {
  for (std::uint64_t number = 0;; ++number) {
    if (absl::Status status = client.Put(KeyOf(name, number, keys), ValueOf(number)); !status.ok()) {
      std::fprintf(stderr, "write %s: %s\n", std::to_string(number).c_str(), status.ToString().c_str());
      return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ? EX_UNAVAILABLE : EX_SOFTWARE;
    }
    const std::string line = std::to_string(number) + "\n";
    if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return EX_IOERR;
  }
}

int Verify(remora::Client& client, std::string_view name, std::uint64_t keys, std::uint64_t acked) {
  int wrong = 0;
  for (std::uint64_t k = 0; k < keys && k < acked; ++k) {
    const std::uint64_t newest = k + (acked - 1 - k) / keys * keys;
    const bool may_be_newer = acked % keys == k;  // write number `acked` was in flight
    const absl::StatusOr<std::string> value = client.Get(KeyOf(name, k, keys));
    if (value.ok() && (*value == ValueOf(newest) || (may_be_newer && *value == ValueOf(acked)))) continue;
    std::fprintf(stderr, "key %s: %s in place of write %s\n", KeyOf(name, k, keys).c_str(),
                 value.ok() ? value->substr(0, value->find(':')).c_str() : value.status().ToString().c_str(),
                 std::to_string(newest).c_str());
    ++wrong;
  }
  return wrong == 0 ? EX_OK : EX_DATAERR;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 4 ? argv[4] : "";
  if (!(argc == 5 && mode == "write") && !(argc == 6 && mode == "verify")) {
    std::fprintf(stderr, "usage: acked_writer ADDRESS NAME KEYS write|verify [ACKED]\n");
    return EX_USAGE;
  }
  const std::string_view name = argv[2];
  const std::uint64_t keys = std::strtoull(argv[3], nullptr, 10);
  const remora::SteadyClock clock;
  // A server that is gone ends it at once.
  auto client = remora::Client::Connect(argv[1], {.reconnect = false}, clock);
  if (!client.ok()) {
    std::fprintf(stderr, "connect: %s\n", client.status().ToString().c_str());
    return EX_UNAVAILABLE;
  }
  if (mode == "write") return WriteUntilTheEnd(**client, name, keys);
  return Verify(**client, name, keys, std::strtoull(argv[5], nullptr, 10));
}
