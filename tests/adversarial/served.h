// A kvserver of its own for tests that attack it, and a well-behaved client beside them whose operations are
// all judged.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "rdma/address.h"
#include "store/base/clock.h"
#include "tests/support/server_thread.h"

namespace remora {

class Served {
 public:
  /// Serves when this returns. `flags`: beside the address, and that it keeps all in memory if none names a
  /// data directory. `where`: an address of that kind; one that is nobody's, if there is none.
  static absl::StatusOr<std::unique_ptr<Served>> Start(rdma::TransportKind kind,
                                                       std::vector<std::string> flags = {},
                                                       std::optional<rdma::Address> where = std::nullopt);
  /// By SIGKILL, unless Stop was called.
  ~Served();
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  const rdma::Address& where() const { return where_; }
  std::string address() const { return where_.ToString(); }
  const std::string& folder() const { return folder_.path(); }
  pid_t pid() const { return pid_; }
  bool IsAlive() const;
  /// By SIGTERM; its exit status, or -1.
  int Stop();
  /// By name, as it is once the server has answered what came before.
  std::uint64_t Count(const std::string& counter);
  /// Asks until the counter has at least this value. False: minutes have passed.
  bool AwaitCount(const std::string& counter, std::uint64_t at_least);
  /// Likewise: at most.
  bool AwaitNoMore(const std::string& counter, std::uint64_t at_most);
  const Clock& clock() const { return clock_; }

 private:
  Served() = default;
  template <typename IsSo>
  bool Await(const std::string& counter, IsSo is_so);

  const SteadyClock clock_{};
  TempDir folder_;
  rdma::Address where_;
  pid_t pid_ = -1;
  std::unique_ptr<Client> asker_;
};

/// Reads and writes keys of its own in a thread, from its construction on, without pause or with `pause`
/// between two operations. Nobody else writes these keys, so it knows what each operation has to end with.
class Witness {
 public:
  struct Report {
    std::uint64_t operations = 0;
    std::uint64_t faults = 0;
    std::string first_fault;
    // How long each took.
    std::vector<std::uint32_t> get_ns;
    std::vector<std::uint32_t> put_ns;
  };

  Witness(const std::string& address, const Clock& clock, const std::string& name = "witness",
          std::chrono::microseconds pause = {});
  ~Witness();
  /// Ends it. At least this many operations are made before.
  Report Stop(std::uint64_t at_least = 100);
  std::uint64_t operations() const { return done_.load(std::memory_order_relaxed); }
  /// Returns true if it ended of itself: it has found a fault.
  bool has_ended() const { return ended_.load(std::memory_order_relaxed); }

 private:
  void Run(const std::string& address, const Clock& clock, const std::string& name,
           std::chrono::microseconds pause);

  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> at_least_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<bool> ended_ = false;
  Report report_;
  std::thread thread_;
};

/// The value that so many of 100 are not above; sorts them. 0: there are none.
std::uint32_t Percentile(std::vector<std::uint32_t>& values, double percent);

}  // namespace remora
