// A program with many threads and few connections, as a web server may be: each request takes a client from a
// pool, counts itself, and returns the client. It needs a server, as the first program does.
//   example_pool ADDRESS THREADS CLIENTS REQUESTS
#include <remora/client_pool.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace {

bool Parse(std::string_view digits, std::uint64_t* number) {
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), *number);
  return !digits.empty() && parsed.ptr == digits.data() + digits.size() && *number > 0;
}

/// One request. The lease ends with it, and the next thread gets the client.
absl::Status Serve(remora::ClientPool& pool) {
  absl::StatusOr<remora::ClientPool::Lease> client = pool.Acquire();
  if (!client.ok()) return client.status();
  return (*client)->Increment("served", 1).status();
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t threads = 0, clients = 0, requests = 0;
  if (argc != 5 || !Parse(argv[2], &threads) || !Parse(argv[3], &clients) || !Parse(argv[4], &requests)) {
    std::cerr << "usage: example_pool ADDRESS THREADS CLIENTS REQUESTS\n";
    return 64;
  }
  // Requests wait while the server is restarted.
  constexpr std::chrono::minutes kPatience{1};
  const auto pool = remora::ClientPool::Create(argv[1], {.timeout = kPatience},
                                               {.max_clients = clients, .acquire_timeout = kPatience});
  if (!pool.ok()) {
    std::cerr << pool.status() << '\n';
    return 1;
  }
  std::atomic<std::uint64_t> begun = 0, failed = 0;
  std::mutex output;
  std::vector<std::thread> workers;
  for (std::uint64_t i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      while (begun++ < requests) {
        const absl::Status served = Serve(**pool);
        if (served.ok()) continue;
        ++failed;
        const std::lock_guard lock(output);
        std::cerr << served << '\n';
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const remora::ClientPoolCounters counters = (*pool)->counters();
  std::cout << "served " << requests - failed << " requests over " << counters.connects << " connections\n";
  return failed == 0 ? 0 : 1;
}
