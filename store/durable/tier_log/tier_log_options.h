// Options of the commit log of a durable tier (tier_log.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "store/durable/commit_log/log_file.h"
#include "store/durable/flusher.h"
#include "store/durable/tier_log/log_retention.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace remora {

/// Least value of TierLogOptions::max_bytes.
inline constexpr std::uint64_t kMinTierLogBytes = std::uint64_t{1} << 20;

/// The actor that applies the log. In addition, Holds, ApplyAll, and a write to a full log apply it.
enum class LogApplying : std::uint8_t {
  kInThread = 1,  // a thread of the tier; a second one persists
  kByWriter = 2,  // Write, once enough bytes are logged
  kOnDemand = 3,  // none; for tests
};

struct TierLogOptions {
  /// An existing directory that holds this log and nothing else.
  std::string dir{};
  /// The database and its families, see LogApplierOptions. RocksDB never flushes the memtables by itself.
  /// The database outlives the log.
  rocksdb::DB* db = nullptr;
  rocksdb::ColumnFamilyHandle* entries = nullptr;
  rocksdb::ColumnFamilyHandle* meta = nullptr;
  /// ResumedBy::kFlusher. The database has its listener. The default hears of no error: the first is final.
  std::shared_ptr<Flusher> flusher = std::make_shared<Flusher>(ResumedBy::kFlusher);
  /// See CommitLogOptions.
  bool is_of_this_boot = false;
  LogWriterKind writer = LogWriterKind::kChoose;
  /// Bound on the bytes of all files together. LogFileSizeFor says how large each is.
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  /// See DurableTierOptions::keeps_group_number.
  bool keeps_group_number = false;
  /// Approximate bound on the memory of what is applied and not persisted. Another bound is a quarter of
  /// max_bytes, in bytes of the log.
  std::uint64_t write_buffer_bytes = std::uint64_t{64} << 20;
  LogApplying applying = LogApplying::kInThread;
  /// See CommitLogOptions.
  LogRetention retention{};
};

/// Returns the size of each file of a log with this bound: a sixteenth of it, but at least kMinLogFileSize.
/// From 1 GiB on, it is 65 MiB, so that each value fits into a file, and T1 is for large batches alone.
std::uint64_t LogFileSizeFor(std::uint64_t max_bytes);

/// Returns the memory that RocksDB and the applier may take for what is logged already: a step of the
/// applier, RocksDB's batch of it, and two write buffers (T4). Arguments as in TierLogOptions.
std::uint64_t ApplierMemory(std::uint64_t max_bytes, std::uint64_t write_buffer_bytes);

}  // namespace remora
