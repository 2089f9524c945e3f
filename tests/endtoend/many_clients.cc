// As many clients as a server takes, for the memory test:
//   many_clients ADDRESS WRITES VALUE_SIZE
//
// Connects until it is rejected, and prints how many clients it has, and why no more. They take turns to
// write, each time another key. Then it prints the server's registered_bytes, and keeps all connections until
// standard input ends.
#include <sysexits.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: many_clients ADDRESS WRITES VALUE_SIZE\n");
    return EX_USAGE;
  }
  const remora::SteadyClock clock;
  std::vector<std::unique_ptr<remora::Client>> clients;
  for (;;) {
    auto client = remora::Client::Connect(argv[1], {}, clock);
    if (!client.ok()) {
      std::printf("%zu clients\n%s\n", clients.size(), std::string(client.status().message()).c_str());
      break;
    }
    clients.push_back(*std::move(client));
  }
  if (clients.empty()) return EX_UNAVAILABLE;

  const std::uint64_t writes = std::strtoull(argv[2], nullptr, 10);
  const std::string value(std::strtoull(argv[3], nullptr, 10), 'v');
  for (std::uint64_t i = 0; i < writes; ++i) {
    const absl::Status status = clients[i % clients.size()]->Put("key " + std::to_string(i), value);
    if (!status.ok()) {
      std::fprintf(stderr, "write %s: %s\n", std::to_string(i).c_str(), status.ToString().c_str());
      return EX_SOFTWARE;
    }
  }
  const auto stats = clients.front()->Stats();
  if (!stats.ok()) return EX_SOFTWARE;
  for (const auto& [name, number] : *stats) {
    if (name == "registered_bytes") std::printf("%s\n", std::to_string(number).c_str());
  }
  std::fflush(stdout);
  char byte = 0;
  return read(STDIN_FILENO, &byte, 1) == 0 ? EX_OK : EX_IOERR;
}
