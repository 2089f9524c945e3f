// One JSON value in etcd, by the JSON gateway of its API v3 (etcd 3.4 and later).
//
//   K1   A value is replaced only by a swap that names the revision of the value before it, so the
//        values of a key form a line. A swap is sent to one endpoint, once. An answer that does not
//        come leaves it unknown, and it is then neither repeated nor taken for failed.
//   K6   Only linearizable reads and swaps are used: no watches, and no leases of etcd.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

struct ConfigStoreOptions {
  /// Addresses of etcd: http://HOST:PORT or https://HOST:PORT. A call tries them in this order, but the one
  /// that answered last before all others.
  std::vector<std::string> endpoints{};
  std::string user{};  // empty: without authentication
  std::string password{};
  std::string ca_file{};  // of the authorities of https endpoints (PEM); empty: the system's
  std::chrono::milliseconds timeout{1000};  // of a request to one endpoint
};

/// Longest value.
inline constexpr std::size_t kMaxConfigValue = std::size_t{64} << 10;

/// Returns OK if ConfigStore takes this as an endpoint. InvalidArgument: it is none.
absl::Status CheckEndpoint(std::string_view endpoint);

/// Reads and swaps values in etcd. Each call blocks for the timeout of each endpoint at most, and makes a
/// connection of its own.
///
/// Thread safety: none; one thread at a time.
class ConfigStore {
 public:
  struct Value {
    std::string text{};         // empty: there is no such key
    std::int64_t revision = 0;  // etcd's number of the change that wrote it; 0: there is no such key
  };

  /// Connects to nobody yet. InvalidArgument: an endpoint is malformed, or there is none.
  static absl::StatusOr<std::unique_ptr<ConfigStore>> Create(ConfigStoreOptions options);
  ~ConfigStore();
  ConfigStore(const ConfigStore&) = delete;
  ConfigStore& operator=(const ConfigStore&) = delete;

  /// Returns the value as it is at a moment between the call and its return.
  ///
  /// - Unavailable: no endpoint answers, or etcd has no majority.
  /// - PermissionDenied: etcd does not accept the user, or the user may not read the key.
  /// - FailedPrecondition: the processes there are no etcd.
  absl::StatusOr<Value> Read(std::string_view key);

  /// A key, and the revision of its value (0: there is none).
  struct Revision {
    std::string key{};
    std::int64_t revision = 0;
  };
  /// Replaces the value of this revision (0: there is none), and returns the new one's revision. `others`: up
  /// to kMaxOthers keys whose values must be of these revisions, too.
  ///
  /// - Aborted: another value has taken its place, or that of one of the others. Nothing was done.
  /// - Unknown: the request was sent, and its outcome is unknown. It may still be done later. Settle tells.
  /// - Others, as of Read: nothing was done.
  absl::StatusOr<std::int64_t> Swap(std::string_view key, std::int64_t revision, std::string_view text,
                                    std::span<const Revision> others = {});
  /// etcd takes 128 comparisons, unless it is told otherwise.
  static constexpr std::size_t kMaxOthers = 100;

  /// Settles a swap without `others` whose outcome is unknown: returns its value's revision if it was done,
  /// or is done now. REQUIRES: nobody else writes the same text.
  ///
  /// - Aborted: it was not done, and will not be.
  /// - Unknown: it is still unknown. Others, as of Read: the same.
  absl::StatusOr<std::int64_t> Settle(std::string_view key, std::int64_t revision, std::string_view text);

 private:
  struct Answer;
  struct Connection;
  explicit ConfigStore(ConfigStoreOptions options);
  /// Posts to the endpoints until one answers. `changes`: a request that was sent is not sent again.
  absl::StatusOr<std::string> Call(std::string_view path, const std::string& body, bool changes);
  /// Posts to one endpoint, with a token if there is a user.
  absl::StatusOr<std::string> CallAt(const std::string& endpoint, std::string_view path,
                                     const std::string& body);
  absl::Status Authenticate(const std::string& endpoint);
  absl::StatusOr<Answer> Post(const std::string& endpoint, std::string_view path, const std::string& body);

  const ConfigStoreOptions options_;
  std::size_t first_ = 0;  // the endpoint that answered last
  std::string token_;      // of etcd; empty: none yet
};

}  // namespace remora
