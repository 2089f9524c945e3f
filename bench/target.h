// What is put under load: a server, or a store in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "store/base/clock.h"
#include "store/store.h"

namespace remora::bench {

/// One thread's way to the records.
///
/// Thread Safety: none; one thread at a time.
class Session {
 public:
  virtual ~Session() = default;
  virtual absl::Status Get(std::string_view key, std::string* value) = 0;
  virtual absl::Status Put(std::string_view key, std::string_view value) = 0;

  /// The counters of the server (or of the embedded store), by name.
  virtual absl::StatusOr<std::vector<std::pair<std::string, std::uint64_t>>> ServerCounters() = 0;
  /// All zero for an embedded store, which is read without READs.
  virtual ClientCounters OwnCounters() const = 0;
};

inline constexpr std::string_view kEmbeddedTarget = "embedded";

struct TargetOptions {
  /// `verbs://HOST:PORT`, `local:///PATH`, or kEmbeddedTarget.
  std::string address;
  /// kEmbeddedTarget only.
  StoreOptions store;
  /// Of a server only; one for each session.
  ClientOptions client;
};

/// Thread Safety: none. Its sessions may be used by one thread each.
class Target {
 public:
  virtual ~Target() = default;
  /// Must not outlive the target. Errors as Client::Connect.
  virtual absl::StatusOr<std::unique_ptr<Session>> NewSession() = 0;
};

/// A server is not contacted before the first NewSession. `clock` must outlive the target.
/// Embedded: opens the store; errors as Store::Open.
absl::StatusOr<std::unique_ptr<Target>> OpenTarget(const TargetOptions& options, const Clock& clock);

/// What an embedded store needs for so many records, all of one size.
std::size_t EmbeddedMemoryFor(std::uint64_t records, std::size_t key_size, std::size_t value_size);

}  // namespace remora::bench
