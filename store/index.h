// The index: from a key's hash to the slots of its records, in memory that others read.
//
// Who reads it without a lock searches with KeySearch on copies; what keeps that right is in layout.h, I1 to
// I3. This is the writer's side, which knows that nothing changes under it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "store/format/layout.h"
#include "store/memory_plan.h"
#include "store/value_log.h"

namespace remora {

/// Thread Safety: Copy from any thread; all else by one writer at a time.
class Index {
 public:
  /// `memory` is zero-filled and holds as many buckets as `shape` says; it and `log` outlive the index.
  Index(std::span<std::byte> memory, const IndexShape& shape, const ValueLog& log);
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  /// A private copy of a bucket. REQUIRES: there is such a bucket.
  void Copy(std::uint64_t bucket, Bucket* copy) const;

  /// Where a key's entry is, and what it says.
  struct Entry {
    std::uint64_t bucket = 0;
    std::size_t slot = 0;
    Place place;
  };
  std::optional<Entry> Find(std::string_view key, std::uint64_t key_hash) const;

  /// Makes sure that `count` entries can be inserted where `key_hash` belongs. False: the index is full.
  [[nodiscard]] bool Reserve(std::uint64_t key_hash, std::size_t count);

  /// Publishes a record that the index does not know. REQUIRES: Reserve, and that Find would find nothing.
  void Insert(std::uint64_t key_hash, const Place& place);
  /// Publishes a record instead of the one that `entry` leads to, which is dead already.
  void Replace(const Entry& entry, const Place& place);
  void Erase(const Entry& entry);

  std::uint64_t slot_count() const { return buckets_.size() * kSlotsPerBucket; }
  std::uint64_t overflow_count() const { return buckets_.size() - bucket_count_; }
  std::uint64_t overflow_used() const { return next_overflow_ - bucket_count_; }

 private:
  std::uint64_t SlotWord(std::uint64_t bucket, std::size_t slot) const;
  void StoreSlot(std::uint64_t bucket, std::size_t slot, std::uint64_t word);
  /// The bucket that continues this one, or 0.
  std::uint64_t Next(std::uint64_t bucket) const;

  const std::span<Bucket> buckets_;
  const std::uint64_t bucket_count_;
  const ValueLog& log_;
  std::uint64_t next_overflow_;  // the first overflow bucket that continues none
};

}  // namespace remora
