// An iterator of RocksDB that one read leaves for the next. To make one takes as long as some tens of its
// steps (decision 0094).
//
//   K1  A read sees the state of RocksDB as of Take, or a later one: an iterator that was kept is refreshed.
//   K2  While nobody uses it, the iterator pins no memtable and no table that RocksDB has replaced. It is
//       dropped when a flush or a compaction ends, and is not kept if one has ended since Take.
#pragma once

#include <cstdint>
#include <memory>

namespace rocksdb {
class EventListener;
class Iterator;
}  // namespace rocksdb

namespace remora {

/// Place for one iterator over one column family.
///
/// Thread safety: any thread may call any member.
class KeptIterator {
 public:
  KeptIterator();
  ~KeptIterator();
  KeptIterator(const KeptIterator&) = delete;
  KeptIterator& operator=(const KeptIterator&) = delete;

  /// Returns a part of this that has to be in DBOptions::listeners before the database is opened.
  std::shared_ptr<rocksdb::EventListener> listener() const;

  struct Taken {
    std::unique_ptr<rocksdb::Iterator> iterator;  // null: none is kept, and the caller makes one
    std::uint64_t replaced = 0;                   // flushes and compactions that had ended by then
  };
  /// Takes the iterator, which then is at no key.
  Taken Take();
  /// Keeps the iterator, if the place is free and K2 allows it. An idle iterator holds a block of each table
  /// that it has searched. So keep none that has met a large value.
  void Keep(Taken taken);
  /// Drops the iterator. REQUIRES: it is called before the database is closed, after the last Keep.
  void Drop();

 private:
  class Place;

  const std::shared_ptr<Place> place_;
};

}  // namespace remora
