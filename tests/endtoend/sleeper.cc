// A client that sleeps and is woken again and again, for the wake-up test:
//   sleeper ADDRESS NAME CONNECTIONS COUNTS sync|async
//
// Writes and reads over several connections, mostly over the one of the last time, so that the server parks
// the others. Each call has a time limit of an hour: only its answer ends a wait. It counts in the file
// COUNTS, as words of 64 bits: answered calls, and how often the kernel has put this thread to sleep in them.
// It ends when an answer is wrong, or when its parent ends.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/async_client.h"
#include "client/client.h"

namespace {

constexpr std::chrono::hours kNever(1);
// Most calls leave nothing behind. A server that has memory to reclaim also wakes up by itself, and would
// find a message of which it was not told.
constexpr std::uint64_t kCallsPerWrite = 64;
constexpr int kInFlight = 4;

struct Counts {
  std::atomic<std::uint64_t> answered;
  std::atomic<std::uint64_t> sleeps;
};

/// The file, for ever; nullptr: it cannot be mapped.
Counts* MapCounts(const char* path) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  void* const memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Counts*>(memory);
}

std::uint64_t TimesAsleep() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::uint64_t>(usage.ru_nvcsw);
}

[[noreturn]] void Fail(std::string_view call, std::string_view outcome) {
  std::fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(call.size()), call.data(),
               static_cast<int>(outcome.size()), outcome.data());
  std::_Exit(EX_SOFTWARE);
}

/// One connection.
class Caller {
 public:
  virtual ~Caller() = default;
  /// Stores the value, and reads it.
  virtual void Write(const std::string& key, const std::string& value) = 0;
  /// Has the server reject a write of a key that exists.
  virtual void Ask(const std::string& key) = 0;
};

class SyncCaller final : public Caller {
 public:
  explicit SyncCaller(std::unique_ptr<remora::Client> client) : client_(std::move(client)) {}

  void Write(const std::string& key, const std::string& value) override {
    if (const absl::Status put = client_->Put(key, value); !put.ok()) Fail("put", put.ToString());
    const absl::StatusOr<std::string> found = client_->Get(key);
    if (!found.ok()) Fail("get", found.status().ToString());
    if (*found != value) Fail("get", *found);
  }
  void Ask(const std::string& key) override {
    const absl::Status put = client_->Put(key, "", {.condition = remora::Condition::Absent()});
    if (!absl::IsAlreadyExists(put)) Fail("put of a key that exists", put.ToString());
  }

 private:
  std::unique_ptr<remora::Client> client_;
};

class AsyncCaller final : public Caller {
 public:
  explicit AsyncCaller(std::unique_ptr<remora::AsyncClient> client) : client_(std::move(client)) {}

  void Write(const std::string& key, const std::string& value) override {
    const auto put = client_->Put(key, value, [](const remora::AsyncResult& result) {
      if (!result.status.ok()) Fail("put", result.status.ToString());
    });
    Await(put.status());
    const auto get = client_->Get(key, [&value](const remora::AsyncResult& result) {
      if (!result.status.ok()) Fail("get", result.status.ToString());
      if (result.value != value) Fail("get", result.value);
    });
    Await(get.status());
  }
  void Ask(const std::string& key) override {
    absl::Status begun;
    for (int i = 0; i < kInFlight && begun.ok(); ++i) {
      begun = client_
                  ->Put(key, "", {.condition = remora::Condition::Absent()},
                        [](const remora::AsyncResult& result) {
                          if (!absl::IsAlreadyExists(result.status)) {
                            Fail("put of a key that exists", result.status.ToString());
                          }
                        })
                  .status();
    }
    Await(begun);
  }

 private:
  void Await(const absl::Status& begun) {
    if (!begun.ok()) Fail("begin", begun.ToString());
    const absl::Status ended = client_->WaitAll(client_->clock().Now() + kNever);
    if (!ended.ok()) Fail("wait", ended.ToString());
  }

  std::unique_ptr<remora::AsyncClient> client_;
};

std::unique_ptr<Caller> Connect(const char* address, bool is_async, const remora::Clock& clock) {
  const remora::ClientOptions options = {.connect_timeout = kNever, .timeout = kNever, .reconnect = false};
  if (is_async) {
    auto client = remora::AsyncClient::Connect(address, options, {}, clock);
    if (!client.ok()) Fail("connect", client.status().ToString());
    return std::make_unique<AsyncCaller>(*std::move(client));
  }
  auto client = remora::Client::Connect(address, options, clock);
  if (!client.ok()) Fail("connect", client.status().ToString());
  return std::make_unique<SyncCaller>(*std::move(client));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view kind = argc == 6 ? argv[5] : "";
  const std::size_t connections = argc == 6 ? std::strtoull(argv[3], nullptr, 10) : 0;
  if (connections == 0 || (kind != "sync" && kind != "async")) {
    std::fprintf(stderr, "usage: sleeper ADDRESS NAME CONNECTIONS COUNTS sync|async\n");
    return EX_USAGE;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Counts* const counts = MapCounts(argv[4]);
  if (counts == nullptr) Fail("map", argv[4]);
  const remora::SteadyClock clock;
  std::vector<std::unique_ptr<Caller>> callers;
  while (callers.size() < connections) callers.push_back(Connect(argv[1], kind == "async", clock));

  std::mt19937_64 random(std::random_device{}());
  const std::string key = argv[2];
  std::size_t which = 0;
  std::uint64_t seen = TimesAsleep();
  for (std::uint64_t n = 0;; ++n) {
    if (n % kCallsPerWrite == 0) {
      callers[which]->Write(key, std::to_string(n));
    } else {
      callers[which]->Ask(key);
    }
    const std::uint64_t now = TimesAsleep();
    counts->sleeps.fetch_add(now - seen, std::memory_order_relaxed);
    counts->answered.store(n + 1, std::memory_order_relaxed);
    seen = now;
    const std::uint64_t dice = random();
    if (dice % 16 == 0) which = (dice >> 8) % callers.size();
    if (dice % 8 == 1) {
      // So that the server falls asleep, too.
      std::this_thread::sleep_for(std::chrono::microseconds((dice >> 8) % 100));
      seen = TimesAsleep();
    }
  }
}
