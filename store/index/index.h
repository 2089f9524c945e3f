// The index: from a key's hash to the slots of its records, in memory that others read. A linear hash table
// that grows bucket by bucket while it is read.
//
// Who reads it without a lock searches with KeySearch on copies; what keeps that right is in layout.h, I1 to
// I3. This is the writer's side, which knows that nothing changes under it.
//
// Growth. When there are kPeakLoad entries for each main bucket, all buckets are split, one after the other,
// at the pace of the inserts: half of a bucket's entries are copied to the new bucket at the other end, then
// the bucket says that it is one bit deeper. Readers on their way may still look at the old slots, so those
// are cleared only when they have rested. In the same way an entry in an overflow bucket is copied to a slot
// that came free before it in the chain, and the overflow bucket, once empty, unlinked and used again; and
// one that found no room in its line of the bucket, where readers look first, is copied there when there is
// some.
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
#include "store/region/atomic_word.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Thread Safety: view, Copy and Peek from any thread; all else by one writer at a time.
class Index {
 public:
  /// Entries for each main bucket at which the index grows. Measured (docs/performance/index-buckets.md): on
  /// the way from half of it up to it, 1.3 % of the missing keys cost a second READ, and a key costs 15
  /// bytes.
  static constexpr std::uint64_t kPeakLoad = 24;
  static constexpr std::uint32_t kFirstLevel = 6;

  /// The level at which that many entries are no reason to grow, and the segments of main buckets it has
  /// then.
  static constexpr std::uint32_t LevelFor(std::uint64_t entries) {
    std::uint32_t level = kFirstLevel;
    while (level < kMaxDepth - 1 && kPeakLoad << level < entries) ++level;
    return level;
  }
  static constexpr std::uint64_t SegmentsFor(std::uint64_t entries) {
    return ((std::uint64_t{1} << LevelFor(entries)) + kBucketsPerSegment - 1) / kBucketsPerSegment;
  }

  /// `region`, whose superblock says the level, `segments` and `log` outlive the index. What others may still
  /// read rests for `rest` before it is used again. REQUIRES: two segments are free.
  Index(std::span<std::byte> region, Segments& segments, const ValueLog& log, Duration rest);
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  /// How far it has grown, or a little less.
  IndexView view() const;
  /// A private copy of a bucket. REQUIRES: there is such a bucket.
  void Copy(const BucketRef& bucket, Bucket* copy) const;

  /// What the first slot with the key's fingerprint in its line says; all 0: there is none. REQUIRES:
  /// nothing; it may be another key's, or an old one.
  Slot Peek(std::uint64_t key_hash) const;

  /// Where a key's entry is, and what it says.
  struct Entry {
    std::uint64_t bucket = 0;  // its place, counted in buckets from the region's start
    std::size_t slot = 0;
    Place place;
  };
  std::optional<Entry> Find(std::string_view key, std::uint64_t key_hash) const;

  /// Where the entry of a cold key of this hash is.
  struct ColdEntry {
    std::uint64_t bucket = 0;
    std::size_t slot = 0;
  };
  std::optional<ColdEntry> FindCold(std::uint64_t key_hash) const;

  /// The main bucket that these keys share; changes as the index grows.
  std::uint64_t MainBucketOf(std::uint64_t key_hash) const { return HomeOf(key_hash).bucket; }
  Home HomeOf(std::uint64_t key_hash) const { return exact_.HomeOf(key_hash); }

  /// Makes sure that `count` entries can be inserted where `key_hash` belongs. False: no segment is free for
  /// an overflow bucket.
  [[nodiscard]] bool Reserve(std::uint64_t key_hash, std::size_t count);

  /// Publishes a record that the index does not know. REQUIRES: Reserve, and that Find would find nothing.
  void Insert(std::uint64_t key_hash, const Place& place, TimePoint now);
  /// Room for one entry: as Reserve for one and Insert, for who inserts many. Looks first at one line of the
  /// bucket (LineOf), and mostly at no other: what an insert costs is what it has to wait for from memory.
  /// Good until the next change of the index.
  struct Room {
    std::uint64_t bucket = 0;
    std::size_t slot = 0;
  };
  std::optional<Room> FindRoom(std::uint64_t key_hash);
  void InsertAt(const Room& room, std::uint64_t key_hash, const Place& place);
  /// Brings closer to this processor what FindRoom will look at first; what Find and InsertCold will; and,
  /// once that is there, the records that Find will compare the key with. The first two: any thread.
  void Prefetch(std::uint64_t key_hash) const;
  void PrefetchBucket(std::uint64_t key_hash) const;
  void PrefetchRecords(std::uint64_t key_hash) const;

  /// Publishes a record instead of the one that `entry` leads to, which is dead already.
  void Replace(const Entry& entry, const Place& place);
  void Erase(std::uint64_t key_hash, const Entry& entry);

  /// Makes a key cold whose record is dead already. REQUIRES: Reserve, and that FindCold finds nothing.
  void Chill(std::uint64_t key_hash, const Entry& entry, TimePoint now);
  /// Publishes the record of a key that was cold. REQUIRES: Reserve.
  void Warm(std::uint64_t key_hash, const ColdEntry& entry, const Place& place, TimePoint now);
  void EraseCold(const ColdEntry& entry);
  /// Enters a cold key that the index does not know, and makes room for it.
  enum class Entered : std::uint8_t {
    kDone = 1,
    kNoRoom = 2,  // no segment is free for an overflow bucket
    kTaken = 3,   // there is a cold entry of another key of this hash
  };
  Entered InsertCold(std::uint64_t key_hash);

  /// Splits up to `splits` buckets if it is time to grow. False: there was nothing to do, or no segment for
  /// it.
  bool Grow(std::size_t splits, TimePoint now);

  /// Clears and frees what has rested long enough, a bounded number of things at a time. A slot that rests
  /// may still name a place in a resting segment: do not release one that began to rest later than what is
  /// left here. REQUIRES: no room is reserved.
  void Tick(TimePoint now);
  /// What came to rest since the last call rests from `now`, which is read after it did.
  void RestFrom(TimePoint now);
  bool has_come_to_rest() const { return just_resting_ > 0; }
  /// When what is left has rested long enough. Nothing: nothing rests.
  std::optional<TimePoint> next_tick() const;

  /// Makes it as large as it becomes by itself for `entries`, or less if there are not so many segments,
  /// without touching them.
  /// REQUIRES: it is empty and nobody reads yet.
  void Presize(std::uint64_t entries);

  /// While nobody reads yet, nothing has to rest.
  void set_rest(Duration rest) { rest_ = rest; }

  std::uint64_t bucket_count() const { return (std::uint64_t{1} << exact_.level) + exact_.split; }
  std::uint64_t overflow_count() const { return overflow_used_; }
  /// Of all keys, and of those that are cold.
  std::uint64_t entry_count() const { return entries_; }
  std::uint64_t cold_count() const { return cold_entries_; }
  std::uint64_t segment_count() const { return segments_used_; }

 private:
  // A slot by the place of its bucket; and what it says.
  struct SlotRef {
    std::uint64_t bucket = 0;
    std::size_t slot = 0;
    std::uint64_t word = 0;
  };

  // An entry that goes to another bucket, and the line that it is for.
  struct Mover {
    std::uint64_t word = 0;
    std::size_t line = 0;
  };

  // What is to be done when it has rested.
  struct Resting {
    enum class Kind : std::uint8_t {
      // The slots of `bucket` in `mask`, `slot` and `slots`; then those in `away` are brought home, and its
      // chain is compacted.
      kClear = 1,
      kFree = 2,  // the overflow bucket that was unlinked from `bucket`
    };
    TimePoint due;
    Kind kind;
    std::uint32_t mask = 0;
    std::uint32_t away = 0;  // not in their keys' lines
    std::uint64_t bucket = 0;
    SlotRef slot = {};
    std::vector<SlotRef> slots = {};
    std::uint64_t unlinked = 0;  // kFree: its id
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
  /// The place of a main bucket.
  std::uint64_t Main(std::uint64_t number) const {
    return MainBucketPlace(LoadWord(DirectoryEntry(number), std::memory_order_relaxed), number);
  }
  std::uint64_t SlotWord(std::uint64_t bucket, std::size_t slot) const {
    return LoadWord(At(bucket).slots[slot], std::memory_order_relaxed);
  }
  void StoreSlot(std::uint64_t bucket, std::size_t slot, std::uint64_t word);
  /// The place of the bucket that continues this one, or 0.
  std::uint64_t Next(std::uint64_t bucket) const;
  void Link(std::uint64_t bucket, std::uint64_t next);
  /// A free slot of a bucket, in this line if there is one.
  std::optional<std::size_t> FreeSlotIn(std::uint64_t bucket, std::size_t line) const;
  /// The first free slot of a key's chain. REQUIRES: there is one.
  SlotRef FreeSlot(std::uint64_t key_hash) const;
  /// The entry of the key among these slots.
  std::optional<Entry> FindAmong(std::uint64_t bucket, SlotSet slots, std::string_view key) const;
  /// The hash of the key whose entry this is; of that of a cold one, what its slot says. Nothing: it is
  /// nobody's any more, and rests.
  std::optional<std::uint64_t> OwnerHash(const SlotRef& slot) const;
  static std::uint64_t IdOf(std::uint64_t bucket, std::size_t slot) {
    return bucket * kSlotsPerBucket + slot;
  }
  bool ColdRests(std::uint64_t bucket, std::size_t slot) const {
    return resting_cold_.contains(IdOf(bucket, slot));
  }

  std::optional<std::uint64_t> TakeOverflow();
  bool AddOverflow(std::uint64_t last);
  bool Split(TimePoint now);
  void Begin(std::uint32_t level);
  bool EnsureMain(std::uint64_t number);
  bool Fill(std::uint64_t place, std::uint32_t depth, std::span<const Mover> entries);
  void Rest(Resting&& what);
  /// The slot is cleared when it has rested.
  void RestSlot(std::uint64_t key_hash, const SlotRef& slot, TimePoint now);
  void Clear(const SlotRef& rested);
  void Free(const Resting& rested);
  static std::size_t LineOfSlot(std::size_t slot) { return (slot + 1) / kWordsPerLine; }
  bool IsHome(const SlotRef& entry, std::uint64_t key_hash) const;
  void BringHome(std::uint64_t main, SlotSet away, TimePoint now);
  void Compact(std::uint64_t main, TimePoint now);
  void UnlinkEmpty(std::uint64_t main, TimePoint now);
  void PublishView();

  const std::span<std::byte> region_;
  Segments& segments_;
  const ValueLog& log_;
  Duration rest_;

  IndexView exact_;
  std::atomic<std::uint64_t> view_;  // level << 56 | split, for readers
  std::uint64_t entries_ = 0;
  std::uint64_t cold_entries_ = 0;
  std::uint64_t segments_used_ = 0;

  // Overflow buckets: used again, or from the rest of a segment.
  std::vector<std::uint64_t> free_overflow_;
  std::uint64_t next_overflow_ = 0;
  std::uint64_t end_overflow_ = 0;
  std::uint64_t overflow_used_ = 0;

  static constexpr int kMaxTick = 1024;
  std::deque<Resting> resting_;   // in the order of time
  std::size_t just_resting_ = 0;  // the last of these
  // The slots among them, by IdOf, that say that a key of their chain is cold: nothing else tells that they
  // rest.
  absl::flat_hash_set<std::uint64_t> resting_cold_;
  std::uint64_t next_unlinked_ = 0;
  std::vector<std::uint64_t> to_compact_;                  // main buckets of chains that lost an entry
  absl::flat_hash_map<std::uint64_t, Unlinked> unlinked_;  // by the bucket that it continued

  std::vector<Mover> movers_;  // of one split; kept for its memory
};

}  // namespace remora
