// Files of RocksDB that hold large values beside the tables ("blob files"), so that a compaction copies the
// keys alone.
//
//   B1  A value of kMinBlobBytes or more is in a blob file. A flush writes it there, once.
//   B2  A file whose values are all dead is deleted. Files are short, so many of them die as a whole.
//   B3  Live values are copied out of the oldest files only while more than kMostGarbage of all bytes in blob
//       files are dead. One compaction copies out of no more than about kCopiedBytes of files. So few bytes
//       are copied for each byte written, and no compaction takes long because of them.
//
// RocksDB can copy live values with each compaction. But tables that have few bytes for each value are few
// themselves, so each compaction reads all keys, and would copy the same share of all values each time.
#pragma once

#include <cstdint>

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
struct ColumnFamilyOptions;
}  // namespace rocksdb

namespace remora {

inline constexpr std::uint64_t kMinBlobBytes = std::uint64_t{16} << 10;

/// Has RocksDB write blob files (B1, B2). It then copies nothing out of them until BlobFiles asks for it.
void UseBlobFiles(rocksdb::ColumnFamilyOptions* options);

/// Bytes of the blob files of a database.
struct BlobBytes {
  std::uint64_t all = 0;
  std::uint64_t dead = 0;  // as far as compactions have found them
};

/// Decides when compactions copy live values out of blob files (B3).
///
/// Thread safety: none.
class BlobFiles {
 public:
  /// With fewer bytes in all files, dead values may stay.
  static constexpr std::uint64_t kWorthCopying = std::uint64_t{256} << 20;

  /// Makes the owner of the decision for a family with UseBlobFiles. Database and family outlive it.
  BlobFiles(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, std::uint64_t worth_copying = kWorthCopying)
      : db_(db), family_(family), worth_copying_(worth_copying) {}
  BlobFiles(const BlobFiles&) = delete;
  BlobFiles& operator=(const BlobFiles&) = delete;

  BlobBytes bytes() const;
  /// Turns copying on or off, as B3 says. The caller calls it after each flush. Cost: some microseconds, and
  /// some milliseconds and a small file each time it turns. If RocksDB rejects the change, a later call tries
  /// again.
  void Decide();
  /// Returns whether compactions copy live values.
  bool copies() const { return copies_; }

 private:
  rocksdb::DB* const db_;
  rocksdb::ColumnFamilyHandle* const family_;
  const std::uint64_t worth_copying_;
  bool copies_ = false;
};

}  // namespace remora
