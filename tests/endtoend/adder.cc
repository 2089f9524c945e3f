// A client for the kill tests: adds 1 to a key, again and again, as servers come and go.
//   adder ADDRESS KEY     until its standard input ends
//
// Prints how many additions were acknowledged, and how many ended with nobody knowing: "ADDED UNKNOWN". Says
// "." for each hundred that were added, when they were. Any other outcome ends it, with exit status 70.
#include <poll.h>
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "client/client.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: adder ADDRESS KEY\n");
    return EX_USAGE;
  }
  const remora::SteadyClock clock;
  // Longer than any server of the test takes to come back.
  auto client = remora::Client::Connect(argv[1], {.timeout = std::chrono::seconds(50)}, clock);
  if (!client.ok()) {
    std::fprintf(stderr, "connect: %s\n", client.status().ToString().c_str());
    return EX_UNAVAILABLE;
  }
  unsigned long added = 0, unknown = 0;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, 0) == 0) {
    const absl::StatusOr<std::int64_t> sum = (*client)->Increment(argv[2], 1);
    if (sum.ok()) {
      if (++added % 100 == 0 && write(STDOUT_FILENO, ".", 1) != 1) return EX_IOERR;
    } else if (absl::IsUnknown(sum.status())) {
      ++unknown;
    } else {
      std::fprintf(stderr, "add: %s\n", sum.status().ToString().c_str());
      return EX_SOFTWARE;
    }
  }
  std::printf("\n%lu %lu\n", added, unknown);
  return EX_OK;
}
