// One way of running the store, for the suite that all of them must pass: embedded, or a server with clients
// over a transport.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "store/server_store.h"

namespace remora {

class ClusterSlots;

enum class DeploymentKind {
  kEmbedded,
  kLocal,
  kTcp,
  kTls,
  kVerbs,
  kVerbsAndLocal,  // one server; its clients connect in turns over the one and over the other
  kSim
};

/// For test names.
std::string NameOf(DeploymentKind kind);
inline void PrintTo(DeploymentKind kind, std::ostream* out) { *out << NameOf(kind); }

/// Common interface of their scans.
class KeyScan {
 public:
  virtual ~KeyScan() = default;
  virtual bool Next() = 0;
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual std::uint64_t version() const = 0;
  virtual std::uint64_t expiry_ms() const = 0;
  virtual const absl::Status& status() const = 0;
  virtual std::string resume_token() const = 0;
};

/// Common interface of their watches.
class KeyWatch {
 public:
  virtual ~KeyWatch() = default;
  virtual absl::StatusOr<bool> Next(std::chrono::milliseconds wait) = 0;
  virtual ChangeKind kind() const = 0;
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual std::uint64_t version() const = 0;
  virtual std::uint64_t expiry_ms() const = 0;
  virtual std::uint64_t sequence() const = 0;
  virtual std::string resume_token() const = 0;
};

/// Common interface of an embedded store and a client.
class KeyValue {
 public:
  virtual ~KeyValue() = default;
  virtual absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version) = 0;
  absl::Status Get(std::string_view key, std::string* value) { return Get(key, value, nullptr); }
  virtual absl::Status Visit(std::string_view key, absl::FunctionRef<void(std::string_view)> show,
                             std::uint64_t* version) = 0;
  virtual absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) = 0;
  virtual absl::Status Apply(const WriteBatch& batch, std::uint64_t* version) = 0;
  absl::Status Apply(const WriteBatch& batch) { return Apply(batch, nullptr); }
  virtual absl::StatusOr<bool> Exists(std::string_view key) = 0;
  virtual absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options) = 0;
  absl::Status Put(std::string_view key, std::string_view value) { return Put(key, value, {}); }
  virtual absl::Status Delete(std::string_view key, const WriteOptions& options) = 0;
  absl::Status Delete(std::string_view key) { return Delete(key, {}); }
  virtual absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl,
                             const WriteOptions& options) = 0;
  absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl) { return Touch(key, ttl, {}); }
  virtual absl::Status Persist(std::string_view key, const WriteOptions& options) = 0;
  absl::Status Persist(std::string_view key) { return Persist(key, {}); }
  virtual absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta,
                                                 const PutOptions& options) = 0;
  absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta) {
    return Increment(key, delta, {});
  }
  virtual absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes,
                                             const PutOptions& options) = 0;
  absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes) {
    return Append(key, bytes, {});
  }
  virtual absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key) = 0;
  virtual absl::StatusOr<std::unique_ptr<KeyScan>> Scan(const ScanOptions& options) = 0;
  virtual absl::StatusOr<std::unique_ptr<KeyWatch>> Watch(const WatchOptions& options) = 0;
  virtual absl::StatusOr<std::uint64_t> Count() = 0;
  virtual absl::StatusOr<std::uint64_t> Count(const RangeOptions& range) = 0;
  virtual absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range) = 0;
  virtual absl::StatusOr<std::uint64_t> DeleteAll() = 0;
  /// Null where the store is embedded.
  virtual Client* client() { return nullptr; }
};

std::unique_ptr<KeyValue> KeyValueOf(std::unique_ptr<Client> client);

class Deployment {
 public:
  struct Options {
    Durability durability = Durability::kMemory;
    std::size_t memory_size = std::size_t{16} << 20;
    Eviction eviction = Eviction::kNone;
    bool ordered_index = false;
    std::uint32_t max_clients = 512;
    std::chrono::milliseconds grace{100};
    std::chrono::milliseconds default_ttl = kNeverExpires;
    /// Drift of the server's clock, beside that of its clients. Its date is another in any case.
    std::int64_t drift_ppm = 0;
    Loading loading = Loading::kInOpen;
    std::uint64_t watch_retention_bytes = StoreOptions().watch_retention_bytes;
    std::chrono::seconds watch_retention{0};
    std::uint64_t commit_log_bytes = 0;
    std::uint64_t change_log_bytes = 0;
    std::shared_ptr<const ClusterSlots> slots{};
    std::string tokens_file{};
    bool serves_without_token = false;
    rdma::MemoryWindows memory_windows = rdma::MemoryWindows::kAuto;
  };

  /// Null, and the reason in *why_not, where this kind cannot run here.
  static std::unique_ptr<Deployment> Create(DeploymentKind kind, const Options& options,
                                            std::string* why_not);
  virtual ~Deployment() = default;

  /// Connects; for use by one thread. Clients must be gone before the deployment is restarted or destroyed.
  virtual absl::StatusOr<std::unique_ptr<KeyValue>> Connect(const ClientOptions& options) = 0;
  /// Stops cleanly and starts on the same data directory, at the same address.
  virtual absl::Status Restart() = 0;
  virtual void Stop() = 0;
  /// A connection that is dialled and not connected, for tests that speak for themselves. Not embedded.
  virtual absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> Dial() = 0;

  /// Reloads ServerOptions::tokens_file in one of the server's next steps.
  virtual void ReloadTokens() {}

  virtual ServerStore& store() = 0;
  virtual const Clock& clock() const = 0;
  /// Lets this much time pass for all at once.
  virtual void Advance(Duration duration) = 0;
  /// Returns true if clients and server run at the same time, in threads.
  virtual bool concurrent() const { return true; }
};

}  // namespace remora
