// The subject of the load: a server, or a store in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "store/base/clock.h"
#include "store/store.h"

namespace remora::bench {

/// A Get or Put that is in flight together with others. It belongs to the session from Begin until it ends.
struct Request {
  bool is_put = false;
  std::string_view key{};
  std::string_view value{};      // of a Put
  std::string* found = nullptr;  // of a Get: gets the value
  absl::Status status{};         // how it ended
};

/// Is shown each entry of a scan.
using ScanSink = absl::FunctionRef<void(std::string_view key, std::string_view value)>;

using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

/// One thread's way to the records. Errors as of the store's client, in its own words; NotFound: no such key.
///
/// Thread safety: none; one thread at a time.
class Session {
 public:
  virtual ~Session() = default;
  virtual absl::Status Get(std::string_view key, std::string* value) = 0;
  virtual absl::Status Put(std::string_view key, std::string_view value) = 0;
  /// Shows `limit` records in the order of their keys, from `first` on, or as many as there are.
  /// Unimplemented: this target has no scans.
  virtual absl::Status Scan(std::string_view first, std::uint64_t limit, ScanSink sink);

  // Several at once, where that is more than 1: up to the depth of NewSession. None of the calls above may be
  // made meanwhile.
  virtual void Begin(Request* request) = 0;
  /// Adds those that have ended, in whatever order; with `wait`, returns with one at least. REQUIRES: one is
  /// in flight.
  virtual void Advance(bool wait, std::vector<Request*>* ended) = 0;

  /// The counters of the server (or of the embedded store), by name; empty for those of others.
  virtual absl::StatusOr<CounterList> ServerCounters() { return CounterList(); }
  /// Another number after each start of the server, as of the last call that reached it; 0: not known.
  virtual std::uint64_t Incarnation() { return 0; }
  /// All zero where there are no READs.
  virtual ClientCounters OwnCounters() const { return {}; }
};

/// For stores that have no requests in flight, but do several at a time: those that were begun are done
/// together when somebody asks for their ends.
class BatchSession : public Session {
 public:
  void Begin(Request* request) final { (request->is_put ? puts_ : gets_).push_back(request); }
  void Advance(bool wait, std::vector<Request*>* ended) final;

 protected:
  // One at least. Each gets its status.
  virtual void GetAll(std::span<Request* const> requests) = 0;
  virtual void PutAll(std::span<Request* const> requests) = 0;

 private:
  std::vector<Request*> gets_;
  std::vector<Request*> puts_;
};

// Targets that are no addresses: stores inside this process.
inline constexpr std::string_view kEmbeddedTarget = "embedded";
inline constexpr std::string_view kRocksdbTarget = "rocksdb";
inline constexpr std::string_view kLmdbTarget = "lmdb";

/// Stands before the topology file of a cluster.
inline constexpr std::string_view kClusterScheme = "cluster:";

/// Returns true if the target is in this process, so that all sessions share it, and other processes cannot.
bool IsInProcess(std::string_view address);

struct TargetOptions {
  /// `verbs://HOST:PORT`, `local:///PATH`, `cluster:FILE` with a topology file, one of those above, or
  /// another store's server: `redis://HOST:PORT`, `redis:///PATH` (a Unix socket), `memcached:` likewise, and
  /// `rediss://HOST:PORT` (TLS).
  std::string address;
  /// kEmbeddedTarget. Of the others in this process: durability, data_dir, and memory_size, as what is cached
  /// or mapped at most.
  StoreOptions store;
  /// Options of a Remora server's clients; one client for each session. For `rediss:`, `tls` alone.
  ClientOptions client;
  /// MultiGet and MultiPut of a Remora server do the operations in flight, and not an AsyncClient; MGET and
  /// MSET of a Redis do them, and not a pipeline.
  bool batch = false;
  /// Scans of a Remora server's clients are one-sided (ScanOptions::one_sided).
  bool one_sided = false;
};

/// A server or an embedded store that takes the load; makes sessions with it.
///
/// Thread safety: none. Its sessions may be used by one thread each.
class Target {
 public:
  virtual ~Target() = default;
  /// Must not outlive the target. `depth`: requests that may be in flight at once. Errors as Client::Connect.
  virtual absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t depth) = 0;
};

/// A server is not contacted before the first NewSession. `clock` must outlive the target.
/// In this process: opens the store; errors as Store::Open. Unimplemented: this build has no client for it.
absl::StatusOr<std::unique_ptr<Target>> OpenTarget(const TargetOptions& options, const Clock& clock);

/// Returns the memory that an embedded store needs for so many records, all of one size.
std::size_t EmbeddedMemoryFor(std::uint64_t records, std::size_t key_size, std::size_t value_size);

}  // namespace remora::bench
