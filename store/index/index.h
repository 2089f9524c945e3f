// The index: a linear hash table from keys' hashes to the slots of their records. It grows bucket by bucket
// while readers, also in other processes, read its memory.
//
// A reader without a lock searches with KeySearch on copies of buckets. The invariants I1 to I3 of layout.h
// make that search right. This file is the writer's side: nothing changes while the writer searches.
//
// Growth. When there are kPeakLoad entries for each main bucket, the writer splits all buckets, one after the
// other, at the pace of the inserts. A split copies half of a bucket's entries to a new bucket at the end of
// the table. Then the old bucket states a depth that is greater by one. Readers may still look at the old
// slots, so the writer clears those only after a grace period.
//
// The writer moves entries in the same way for two more reasons. When a slot becomes free, it copies an entry
// there from an overflow bucket further down the chain. It unlinks an overflow bucket that has become empty,
// and uses it again later. When the line of a bucket in which readers look first for a key has space again,
// it copies the key's entry there from another line.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "store/base/clock.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"
#include "store/index/change_log.h"
#include "store/region/atomic_word.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// The index of a store, as the writer sees it.
///
/// The class has more than 25 methods and 15 fields, because they keep one invariant together: readers find
/// each key in exactly one slot. Growth, cold slots and retired slots change the same buckets.
///
/// Thread safety: any thread may call view, Copy, Peek, Prefetch and PrefetchBucket. All else is for one
/// writer at a time.
class Index {
 public:
  /// Number of entries for each main bucket at which the index grows. docs/performance/index-buckets.md has
  /// the measurements of READs and bytes for each key that led to it.
  static constexpr std::uint64_t kPeakLoad = 24;
  static constexpr std::uint32_t kFirstLevel = 6;

  /// Return the lowest level at which that many entries do not make the index grow, and the number of
  /// segments with main buckets at that level.
  static constexpr std::uint32_t LevelFor(std::uint64_t entries) {
    std::uint32_t level = kFirstLevel;
    while (level < kMaxDepth - 1 && kPeakLoad << level < entries) ++level;
    return level;
  }
  static constexpr std::uint64_t SegmentsFor(std::uint64_t entries) {
    return ((std::uint64_t{1} << LevelFor(entries)) + kBucketsPerSegment - 1) / kBucketsPerSegment;
  }

  /// Makes an empty index and states its level in the superblock of `region`. Slots and buckets that readers
  /// may still read are reused after `reuse_delay`. `region`, `segments` and `log` must outlive the index.
  /// REQUIRES: two segments are free.
  Index(std::span<std::byte> region, Segments& segments, const ValueLog& log, Duration reuse_delay);
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  /// Returns how far the index has grown, or slightly less.
  IndexView view() const;
  /// Makes a private copy of a bucket. REQUIRES: the bucket exists.
  void Copy(const BucketRef& bucket, Bucket* copy) const;

  /// Returns the content of the first slot in the key's line that has the key's fingerprint, or all zeros if
  /// there is none. The slot may belong to another key, or be retired.
  Slot Peek(std::uint64_t key_hash) const;

  /// Position of a key's entry, and the place of its record.
  struct Entry {
    std::uint64_t bucket = 0;  // its place, counted in buckets from the region's start
    std::size_t slot = 0;
    Place place;
  };
  std::optional<Entry> Find(std::string_view key, std::uint64_t key_hash) const;

  /// Position of the entry of a cold key with a given hash.
  struct ColdEntry {
    std::uint64_t bucket = 0;
    std::size_t slot = 0;
  };
  std::optional<ColdEntry> FindCold(std::uint64_t key_hash) const;
  /// Returns a counter that grows whenever a key with this content of a cold slot becomes cold. Other keys
  /// may share the counter. While it stays the same, the key of this hash has not become cold.
  std::uint64_t ColdMarks(std::uint64_t key_hash) const { return cold_marks_[ColdMarkOf(key_hash)]; }

  /// Returns the number of the main bucket of keys with this hash. It changes as the index grows.
  std::uint64_t MainBucketOf(std::uint64_t key_hash) const { return HomeOf(key_hash).bucket; }
  Home HomeOf(std::uint64_t key_hash) const { return exact_.HomeOf(key_hash); }

  /// Makes sure that `count` entries can be inserted in the bucket of `key_hash`. Returns false if no segment
  /// is free for an overflow bucket.
  [[nodiscard]] bool Reserve(std::uint64_t key_hash, std::size_t count);

  /// Publishes a record that the index does not know. REQUIRES: Reserve returned true; Find finds nothing.
  void Insert(std::uint64_t key_hash, const Place& place, TimePoint now);
  /// Free slot for one entry. FindSpace and InsertAt do the work of Reserve and Insert for a caller that
  /// inserts many entries. FindSpace looks first at one line of the bucket (PreferredLine), and mostly at no
  /// other, because the cost of an insert is the wait for memory. The result is valid until the index changes
  /// next.
  struct Space {
    std::uint64_t bucket = 0;
    std::size_t slot = 0;
  };
  std::optional<Space> FindSpace(std::uint64_t key_hash);
  void InsertAt(const Space& space, std::uint64_t key_hash, const Place& place);
  /// Prefetch memory to this CPU. Prefetch: the line at which FindSpace looks first. PrefetchBucket: the
  /// lines that Find and InsertCold read. PrefetchRecords, once these are there: the records with which Find
  /// will compare the key.
  void Prefetch(std::uint64_t key_hash) const;
  void PrefetchBucket(std::uint64_t key_hash) const;
  void PrefetchRecords(std::uint64_t key_hash) const;

  /// Publishes a record in place of the one to which `entry` leads. REQUIRES: that one is dead already.
  void Replace(const Entry& entry, const Place& place);
  void Erase(std::uint64_t key_hash, const Entry& entry);

  /// Makes a key cold. REQUIRES: its record is dead already; Reserve returned true; FindCold finds nothing.
  void MarkCold(std::uint64_t key_hash, const Entry& entry, TimePoint now);
  /// Publishes the record of a cold key. REQUIRES: Reserve returned true.
  void MarkHot(std::uint64_t key_hash, const ColdEntry& entry, const Place& place, TimePoint now);
  void EraseCold(const ColdEntry& entry);
  /// Inserts a cold key that the index does not know, and makes space for it.
  enum class Entered : std::uint8_t {
    kDone = 1,
    kNoSpace = 2,  // no segment is free for an overflow bucket
    kTaken = 3,    // another key with this hash has a cold entry already
  };
  Entered InsertCold(std::uint64_t key_hash);

  /// Splits up to `splits` buckets if it is time to grow. Returns false if it was not, or if no segment is
  /// free for a new bucket.
  bool Grow(std::size_t splits, TimePoint now);

  /// Clears slots and frees buckets that were retired long enough ago, a bounded number at a time. A retired
  /// slot may still name a place in a retired segment. So the caller must not free a segment that was retired
  /// after one of the slots that Tick has left. REQUIRES: no space is reserved.
  void Tick(TimePoint now);
  /// Starts the grace period of all that was retired since the last call. REQUIRES: the caller read the clock
  /// (`now`) after the last of it was retired.
  void StartGracePeriod(TimePoint now);
  bool has_retired() const { return just_retired_ > 0; }
  /// Returns when Tick will have something to do; nullopt if nothing is retired.
  std::optional<TimePoint> next_tick() const;

  /// Gives the empty index the size to which it would grow with `entries`, or less if segments are missing.
  /// It does not touch the segments. REQUIRES: the index is empty, and no thread reads it yet.
  void Presize(std::uint64_t entries);

  /// Sets the delay after which retired memory is reused. It is 0 while no thread reads yet.
  void set_reuse_delay(Duration delay) { delay_ = delay; }

  std::uint64_t bucket_count() const { return (std::uint64_t{1} << exact_.level) + exact_.split; }
  std::uint64_t overflow_count() const { return overflow_used_; }
  /// Return the number of all entries, and of those of cold keys.
  std::uint64_t entry_count() const { return entries_; }
  std::uint64_t cold_count() const { return cold_entries_; }
  std::uint64_t segment_count() const { return segments_used_; }

 private:
  // A slot, by the place of its bucket, and its content.
  struct SlotRef {
    std::uint64_t bucket = 0;
    std::size_t slot = 0;
    std::uint64_t word = 0;
  };

  // An entry that a split moves to the new bucket, and the line of that bucket in which it should be.
  struct Mover {
    std::uint64_t word = 0;
    std::size_t line = 0;
  };

  // Retired slots, or a retired bucket: the work to do once the grace period is over.
  struct Retired {
    enum class Kind : std::uint8_t {
      // Clear the slots of `bucket` in `mask`, and `slot` and `slots`. Then move the entries in `away` to
      // their keys' lines, and compact the chain of `bucket`.
      kClear = 1,
      kFree = 2,  // free the overflow bucket that was unlinked from `bucket`
    };
    TimePoint due;
    Kind kind;
    std::uint32_t mask = 0;
    std::uint32_t away = 0;  // slots of `bucket` whose entries are not in their keys' lines
    std::uint64_t bucket = 0;
    SlotRef slot = {};
    std::vector<SlotRef> slots = {};
    std::uint64_t unlinked = 0;  // kFree: Unlinked::id
  };

  struct Unlinked {
    std::uint64_t overflow;
    std::uint64_t id;
  };

  Bucket& At(std::uint64_t place) const {
    return *reinterpret_cast<Bucket*>(region_.data() + place * sizeof(Bucket));
  }
  std::uint64_t& DirectoryEntry(std::uint64_t number) const {
    return reinterpret_cast<std::uint64_t*>(region_.data() + DirectoryOffset())[number / kBucketsPerSegment];
  }
  /// Returns the place of a main bucket.
  std::uint64_t Main(std::uint64_t number) const {
    return MainBucketPlace(LoadWord(DirectoryEntry(number), std::memory_order_relaxed), number);
  }
  std::uint64_t SlotWord(std::uint64_t bucket, std::size_t slot) const {
    return LoadWord(At(bucket).slots[slot], std::memory_order_relaxed);
  }
  void StoreSlot(std::uint64_t bucket, std::size_t slot, std::uint64_t word) {
    StoreWord(At(bucket).slots[slot], word, std::memory_order_release);
    if (word != 0 && !SlotIsCold(word)) changes_.Append(bucket, word);
  }
  /// Returns the place of the overflow bucket that continues this one, or 0.
  std::uint64_t Next(std::uint64_t bucket) const;
  void Link(std::uint64_t bucket, std::uint64_t next);
  /// Returns a free slot of a bucket, in this line if the line has one.
  std::optional<std::size_t> FreeSlotIn(std::uint64_t bucket, std::size_t line) const;
  /// Returns a free slot in the first bucket of a key's chain that has one. REQUIRES: there is one.
  SlotRef FreeSlot(std::uint64_t key_hash) const;
  /// Returns the entry of the key among these slots.
  std::optional<Entry> FindAmong(std::uint64_t bucket, SlotSet slots, std::string_view key) const;
  /// Returns the hash of the key to which an entry belongs; for a cold key, the bits of it that the slot has.
  /// Returns nullopt if the entry belongs to no key any more: the slot is retired.
  std::optional<std::uint64_t> OwnerHash(const SlotRef& slot) const;
  static std::uint64_t IdOf(std::uint64_t bucket, std::size_t slot) {
    return bucket * kSlotsPerBucket + slot;
  }
  bool ColdIsRetired(std::uint64_t bucket, std::size_t slot) const {
    return retired_cold_.contains(IdOf(bucket, slot));
  }

  std::optional<std::uint64_t> TakeOverflow();
  bool AddOverflow(std::uint64_t last);
  bool Split(TimePoint now);
  void Begin(std::uint32_t level);
  bool EnsureMain(std::uint64_t number);
  bool Fill(std::uint64_t place, std::uint32_t depth, std::span<const Mover> entries);
  void Retire(Retired&& what);
  /// Retires a slot: Tick clears it after the grace period.
  void RetireSlot(std::uint64_t key_hash, const SlotRef& slot, TimePoint now);
  void Clear(const SlotRef& rested);
  void Free(const Retired& rested);
  static std::size_t LineOfSlot(std::size_t slot) { return (slot + 1) / kWordsPerLine; }
  bool HasPreferredCopy(const SlotRef& entry, std::uint64_t key_hash) const;
  void MoveToPreferredLine(std::uint64_t main, SlotSet away, TimePoint now);
  void Compact(std::uint64_t main, TimePoint now);
  void UnlinkEmpty(std::uint64_t main, TimePoint now);
  void PublishView();

  const std::span<std::byte> region_;
  Segments& segments_;
  const ValueLog& log_;
  Duration delay_;

  IndexChangeLog changes_;
  IndexView exact_;
  std::atomic<std::uint64_t> view_;  // level << 56 | split, for readers
  std::uint64_t entries_ = 0;
  std::uint64_t cold_entries_ = 0;
  std::uint64_t segments_used_ = 0;

  // Free overflow buckets: those that were in use before, and the rest of a segment.
  std::vector<std::uint64_t> free_overflow_;
  std::uint64_t next_overflow_ = 0;
  std::uint64_t end_overflow_ = 0;
  std::uint64_t overflow_used_ = 0;

  static constexpr int kMaxTick = 1024;
  std::deque<Retired> retired_;   // in the order of their times
  std::size_t just_retired_ = 0;  // number of the last ones, whose grace period has not started
  // Keys whose cold slots have the same content share a counter, because FindCold cannot distinguish them.
  static constexpr std::size_t kColdMarks = 8192;
  static std::size_t ColdMarkOf(std::uint64_t key_hash) { return EncodeColdSlot(key_hash) % kColdMarks; }
  std::array<std::uint64_t, kColdMarks> cold_marks_{};

  // Retired slots of cold keys, by IdOf. Nothing else shows that they are retired.
  absl::flat_hash_set<std::uint64_t> retired_cold_;
  std::uint64_t next_unlinked_ = 0;
  std::vector<std::uint64_t> to_compact_;                  // main buckets of chains that lost an entry
  absl::flat_hash_map<std::uint64_t, Unlinked> unlinked_;  // by the bucket that it continued

  std::vector<Mover> movers_;  // entries that one split moves; a member so that its memory is reused
};

}  // namespace remora
