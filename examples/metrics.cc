// A program that exports metrics of its clients, in the text format of Prometheus: here to standard output; a
// server program would answer a request for /metrics with it. It needs a server, as the first program does.
//   example_metrics ADDRESS
#include <remora/client.h>
#include <remora/client_metrics.h>
#include <remora/client_pool.h>

#include <array>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: example_metrics ADDRESS\n";
    return 64;
  }
  const remora::ClientOptions options{.metrics = true};  // off by default
  const auto config = remora::Client::Connect(argv[1], options);
  const auto sessions = remora::ClientPool::Create(argv[1], options, {.max_clients = 2});
  if (!config.ok() || !sessions.ok()) {
    std::cerr << (config.ok() ? sessions.status() : config.status()) << '\n';
    return 1;
  }
  std::string value;
  const absl::Status got = (*config)->Get("config", &value);  // not there, perhaps
  if (!got.ok() && !absl::IsNotFound(got)) {
    std::cerr << got << '\n';
    return 1;
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&sessions, i] {
      const auto client = (*sessions)->Acquire();
      if (client.ok()) (*client)->Put("session/" + std::to_string(i), "open").IgnoreError();
    });
  }
  for (std::thread& thread : threads) thread.join();

  // All in one call, each under a name of its own.
  const std::array<remora::NamedClientMetrics, 2> all = {
      {{"config", (*config)->metrics()}, {"sessions", (*sessions)->metrics()}}};
  std::cout << remora::PrometheusText(all);
}
