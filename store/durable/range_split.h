// Split of the durable tier's keys into parts of about the same size.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace remora {

/// Returns the borders between at most `parts` parts of about the same number of bytes, none much smaller
/// than 16 KiB. A border is the first string of a part. The borders are sorted and distinct, and the first
/// part has none. A border need not be an existing key.
///
/// RocksDB's estimates may change from call to call; only the evenness of the parts depends on them.
std::vector<std::string> KeyBorders(rocksdb::DB& db, rocksdb::ColumnFamilyHandle& family, std::size_t parts);

}  // namespace remora
