// Options of RocksDB for the durable tier.
#pragma once

#include <cstddef>
#include <memory>

#include "store/durable/wal/wal_archive.h"

namespace rocksdb {
struct ColumnFamilyOptions;
struct DBOptions;
struct ReadOptions;
}  // namespace rocksdb

namespace remora {

/// Returns the options of the family of keys and values. See DurableTierOptions for both numbers.
rocksdb::ColumnFamilyOptions DataOptions(std::size_t block_cache_bytes, std::size_t write_buffer_bytes);
/// Returns the options of the meta family.
rocksdb::ColumnFamilyOptions MetaOptions(std::size_t write_buffer_bytes);

/// Returns DBOptions::max_open_files, so that all files together take about `descriptors`. 0: half of the
/// process's limit.
int MaxOpenTables(std::size_t descriptors);
/// Returns the options of the database. If `fresh`, RocksDB makes it; otherwise it must exist. `has_own_log`:
/// it logs writes itself, as without a commit log.
rocksdb::DBOptions DatabaseOptions(bool fresh, const LogRetention& log_retention, bool has_own_log = true);

/// Returns options for a reader that reads each block once. Its blocks do not enter the cache, where they
/// would push out blocks that Get needs again.
rocksdb::ReadOptions ReadOnce();

/// Bytes of explicit read-ahead.
inline constexpr std::uint64_t kReadAhead = std::uint64_t{2} << 20;
/// Returns options for a reader of about `bytes` on disk. For less than kReadAhead it sets no read-ahead:
/// RocksDB then reads ahead by itself, more and more, up to 256 KiB.
rocksdb::ReadOptions ReadThrough(std::uint64_t bytes = kReadAhead);

}  // namespace remora
