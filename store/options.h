// The options of a store.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/base/clock.h"
#include "store/format/cluster/shard_identity.h"
#include "store/format/types/expiry.h"
#include "store/format/types/write_options.h"

namespace remora {

class ClusterSlots;

/// Reaction of the store to a write for which its memory has no space.
enum class Eviction : std::uint8_t {
  kNone = 1,       // rejects the write (ResourceExhausted)
  kLeastUsed = 2,  // evicts records that were not used lately, by S3-FIFO (store/reclaim/evictor.h). The
                   // durable tier keeps them, and a read brings them back; without one they are lost
};

/// Time at which a logged store loads the contents of its data directory. It loads records while there is
/// space, and then, with Eviction::kLeastUsed, only the keys of the others.
///
/// With kInBackground, Open still loads everything itself if the index alone might not fit into memory, or,
/// without eviction, if the records might not fit.
enum class Loading : std::uint8_t {
  kInOpen = 1,        // before Open returns
  kInBackground = 2,  // in threads of the store, while it serves
  kInSteps = 3,       // while it serves, in calls of ServerStore::Load
};

/// Thread that waits for the disk when a write is to be synced before it is visible.
enum class Syncing : std::uint8_t {
  kInThread = 1,  // a thread of the store
  kInSteps =
      2,  // the thread that calls ServerStore::Sync, or a call that waits for its write (Commit, Put, ...)
};

/// Bounds of StoreOptions::memory_size, in bytes.
inline constexpr std::size_t kMinMemorySize = std::size_t{16} << 20;
inline constexpr std::size_t kMaxMemorySize = std::size_t{8} << 40;

/// Returns the size in bytes, whole segments, of the region in which a store with this memory_size keeps
/// everything that readers see. InvalidArgument: memory_size is not in [kMinMemorySize, kMaxMemorySize].
absl::StatusOr<std::size_t> RegionSize(std::size_t memory_size);

/// Lower bound of StoreOptions::change_log_bytes, unless that is 0.
inline constexpr std::uint64_t kMinChangeLogBytes = std::uint64_t{1} << 20;

/// Options of a store, fixed by Store::Open.
struct StoreOptions {
  /// Bytes for everything that readers see: the index, the records, and the data that manages them. With a
  /// durable tier and eviction, a store may hold more than this. Then memory has the records in use, and an
  /// index entry of about 15 bytes for each other record.
  std::size_t memory_size = std::size_t{256} << 20;
  /// Level of a write that does not choose one. Any level but kMemory gives the store a durable tier.
  Durability durability = Durability::kMemory;
  Eviction eviction = Eviction::kLeastUsed;
  /// Keeps all keys in order, in memory of the store beside memory_size: some 22 bytes for a random key of 23
  /// bytes (docs/operating/memory-sizing.md). Then a store that is only in memory has ordered scans, of one
  /// moment (store/scan.h), and a deletion of a range looks only at keys of that range. A store with a
  /// durable tier has the order from RocksDB without it. With it, scans and counts do not read RocksDB for
  /// keys whose records are in memory, once the load is over.
  bool ordered_index = false;
  /// RocksDB's directory. Open makes it if it is missing; its parent must exist. Empty exactly when
  /// `durability` is kMemory.
  std::string data_dir{};
  /// Identity of the shard whose data these are (kvserver --shard). Open rejects a data_dir that keeps
  /// another one (FailedPrecondition), and has it keep this one if it has none. All zeros: Open does not
  /// compare it.
  ShardIdentity shard{};
  /// Slots of a cluster that the store has (kvserver --slots); null: all. Writes to other slots end with
  /// FailedPrecondition. Records of other slots in data_dir stay there. Gets, scans, counts and deletions of
  /// a range leave them out; watches show changes that were made before the store was opened with `slots`.
  std::shared_ptr<const ClusterSlots> slots{};
  /// The store follows a primary: it applies the groups that ServerStore::ApplyGroup brings, and rejects all
  /// other writes until ServerStore::Promote. Needs commit_log_bytes.
  bool follows = false;
  Loading loading = Loading::kInOpen;
  /// Largest number of threads that load. 0: one for each CPU. Without meaning for kInSteps.
  std::size_t load_threads = 0;
  Syncing syncing = Syncing::kInThread;
  /// Lower bounds on the log that the store keeps for watches that are behind: the latest
  /// `watch_retention_bytes` bytes, and all writes of the last `watch_retention`. A write takes its key, its
  /// value and some 100 bytes. A watch can continue over the last 1000 restarts, clean or not. On disk, the
  /// log exceeds the bounds by at most two files of some 64 MiB each.
  std::uint64_t watch_retention_bytes = std::uint64_t{64} << 20;
  std::chrono::seconds watch_retention{0};
  /// Approximate number of files that the durable tier may have open. If it has more tables, the most
  /// recently used ones are open. 0: half of the process's limit (ulimit -n).
  std::size_t max_open_files = 0;
  /// Bytes that the durable tier collects in memory before it makes a table of them. Together with the table
  /// that it is writing, other buffers and a cache, it takes up to three times as much, besides memory_size.
  /// The default is so large that keys which are overwritten often never reach a file of their own.
  std::size_t write_buffer_bytes = std::size_t{64} << 20;
  /// Unless 0, the store logs writes in files of its own in data_dir, and fills RocksDB behind them, so that
  /// no write waits for one of RocksDB. The files have this size together: at least 1 MiB; 1 GiB is a good
  /// size. Files that watch_retention keeps come on top. With Syncing::kInSteps, the calls that write also
  /// fill RocksDB.
  ///
  /// The store takes over a data directory without such a log, but the resume tokens of its watches become
  /// invalid. Later it opens only with such a log, and not in an earlier version.
  std::uint64_t commit_log_bytes = 0;
  /// Unless 0, a store that is only in memory keeps its last changes for watches, in so many bytes beside
  /// memory_size, which it takes as they fill: at least kMinChangeLogBytes. A change takes its key and its
  /// value, and a quarter of the bytes has an entry of 32 bytes for each. So the store keeps the last
  /// change_log_bytes / 128 changes, or the last three quarters of change_log_bytes of keys and values,
  /// whichever is less. A write with more than that, and a watch that falls further behind, end with
  /// OutOfRange. Each write costs a copy of its key and value. Open rejects it for a store with a data_dir,
  /// which has a log on disk.
  std::uint64_t change_log_bytes = 0;
  /// Function that the store calls when writes that ServerStore::Submit left pending have become visible or
  /// failed. The thread that ended them calls it, without a lock. May be empty.
  std::function<void()> on_synced{};
  /// Function that the store calls at the first use of memory beyond all that it ever used: of a segment that
  /// ends `end` bytes from the region's start. A writing thread calls it, under the writers' lock, so it must
  /// not block. May be empty.
  std::function<void(std::uint64_t end)> on_first_use{};
  /// Incarnation of the store, so that a test can choose it. 0: the store draws a random number.
  std::uint64_t incarnation = 0;
  /// Grace period (T of layout.h, I6), from 50 ms (kMinGraceMs) to 60 s. If it is longer, memory waits longer
  /// before it is reused. If it is shorter, a reader that was held up begins again sooner.
  std::chrono::milliseconds grace{100};
  /// Time to live of a record whose write gives none: 1 ms to kMaxTtl, or kNeverExpires.
  std::chrono::milliseconds default_ttl = kNeverExpires;
  /// Clock, which must outlive the store. Null: the machine's. Its UnixMillis decides when records expire. If
  /// it goes back over a restart, expired records that were not yet removed come back.
  const Clock* clock = nullptr;
};

}  // namespace remora
