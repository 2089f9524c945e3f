// How RocksDB is set up for the durable tier.
#pragma once

#include <cstddef>

#include "store/durable/wal_archive.h"

namespace rocksdb {
struct ColumnFamilyOptions;
struct DBOptions;
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

}  // namespace remora
