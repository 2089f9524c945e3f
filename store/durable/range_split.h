// Where to split what the durable tier holds into parts of about the same size.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace remora {

/// The keys that begin parts of about the same number of bytes, at most `parts` of them and none much smaller
/// than 16 KiB, without the first one's; ordered, each once. They need not be keys that are there. RocksDB's
/// estimates may change from one call to the next, so nothing but the evenness of parts hangs on them.
std::vector<std::string> KeyBorders(rocksdb::DB& db, rocksdb::ColumnFamilyHandle& family, std::size_t parts);

}  // namespace remora
