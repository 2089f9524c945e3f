// How RocksDB is set up for the durable tier.
#pragma once

#include <cstddef>

#include "store/durable/wal_archive.h"

namespace rocksdb {
struct ColumnFamilyOptions;
struct DBOptions;
struct ReadOptions;
}  // namespace rocksdb

namespace remora {

/// Of keys and values. Both numbers are as in DurableTierOptions.
rocksdb::ColumnFamilyOptions DataOptions(std::size_t block_cache_bytes, std::size_t write_buffer_bytes);
/// Of what is kept beside them.
rocksdb::ColumnFamilyOptions MetaOptions(std::size_t write_buffer_bytes);

/// DBOptions::max_open_files, where all files may take so many descriptors; 0: as StoreOptions::descriptors.
int MaxOpenTables(std::size_t descriptors);
/// `fresh`: it is made; else it must be there.
rocksdb::DBOptions DatabaseOptions(bool fresh, const LogRetention& log_retention);

/// Each block is read once: it shall not push out what Get comes back to.
rocksdb::ReadOptions ReadOnce();

/// What reads some entries reads no more than these: RocksDB, asked for nothing, reads ahead by itself, more
/// the further one comes, and 256 KiB at most.
inline constexpr std::uint64_t kReadAhead = std::uint64_t{2} << 20;
rocksdb::ReadOptions ReadThrough(std::uint64_t bytes = kReadAhead);

}  // namespace remora
