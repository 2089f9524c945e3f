// A shard in etcd: its configuration, which commands read and change, and its members.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "server/cluster/config_store.h"
#include "server/cluster/shard_configuration.h"
#include "store/base/clock.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/members/report.h"

namespace remora::kvctl {

/// The configuration of the shard of --shard.
///
/// Thread safety: none.
class ShardInEtcd {
 public:
  /// Asks nobody yet. Errors are those of ReadEtcdFiles and ConfigStore::Create. The clock outlives it.
  static absl::StatusOr<ShardInEtcd> Open(const Arguments& arguments, const Clock& clock);

  /// NotFound: etcd has no configuration of the shard. Others as of ConfigStore::Read and
  /// DecodeConfiguration.
  absl::StatusOr<ShardConfiguration> Read();

  /// Writes the configuration where there is none, or that of a shard that has not begun, as Read has found
  /// it.
  ///
  /// - FailedPrecondition: another one came first. Unknown: it may have been written.
  absl::Status Begin(ShardConfiguration configuration);

  using Next = std::function<absl::StatusOr<ShardConfiguration>(const ShardConfiguration& now)>;
  /// Swaps in the configuration that `next` returns, and returns it. If another change comes first, it begins
  /// anew. `is_done`: the change is in place. Errors are those of Read and `next`.
  ///
  /// - Unknown: it may have been done, or may still be done.
  absl::StatusOr<ShardConfiguration> Change(
      const Next& next, const std::function<bool(const ShardConfiguration& now)>& is_done);

 private:
  ShardInEtcd(std::unique_ptr<ConfigStore> store, std::string key, const Clock& clock, Duration patience)
      : store_(std::move(store)), key_(std::move(key)), clock_(clock), patience_(patience) {}

  /// Swaps in a text, and settles the outcome until the deadline. `was_unknown` is set if it was unknown.
  absl::StatusOr<std::int64_t> Swap(const std::string& text, TimePoint deadline, bool* was_unknown);

  std::unique_ptr<ConfigStore> store_;
  std::string key_;
  const Clock& clock_;
  Duration patience_;
  std::int64_t revision_ = 0;  // of the configuration that was read last
};

/// Returns the outcome of a command for an error of ShardInEtcd.
Outcome FailureOf(const absl::Status& status);

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const Replica& member, const Arguments& arguments,
                                                  const Clock& clock);
/// Returns the member's answer. If it does not answer, that says why.
MemberAnswer Ask(const Replica& member, const Arguments& arguments, const Clock& clock);

}  // namespace remora::kvctl
