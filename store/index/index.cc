#include "store/index/index.h"

#include <algorithm>
#include <bit>

#include "store/base/check.h"
#include "store/format/memory/record.h"
#include "store/index/bucket_line.h"
#include "store/region/atomic_word.h"

namespace remora {

// Memory orders, here and in index_reads.cc. The writer stores a slot with release. So a reader that acquires
// it sees the whole live record that the slot names, and the cleared live bit of the old record (I5). The
// writer stores a control word with release, too. So the bucket that it links, and the other half of a bucket
// that it calls split, are visible before (I3). The same holds for the view. Readers in this process acquire
// all of them. The writer itself loads relaxed, or plainly, because it reads only its own stores.

Index::Index(std::span<std::byte> region, Segments& segments, const ValueLog& log, Duration reuse_delay)
    : region_(region), segments_(segments), log_(log), delay_(reuse_delay), changes_(region) {
  REMORA_CHECK(reinterpret_cast<std::uintptr_t>(region.data()) % alignof(Bucket) == 0);
  static_assert(SegmentsFor(0) == 1);
  REMORA_CHECK(EnsureMain(0));
  Begin(kFirstLevel);
}

// An empty bucket is all zeros, and so is a segment that was never used.
void Index::Begin(std::uint32_t level) {
  reinterpret_cast<Superblock*>(region_.data())->base_depth = level;  // no thread reads yet
  exact_ = {level, 0};
  PublishView();
}

// --- Entries --------------------------------------------------------------------------------------------

std::optional<Index::Entry> Index::FindAmong(std::uint64_t bucket, SlotSet slots,
                                             std::string_view key) const {
  while (!slots.empty()) {
    const auto slot = static_cast<std::size_t>(slots.Next());
    const std::uint64_t word = SlotWord(bucket, slot);
    if (SlotIsCold(word)) continue;
    const Place place = Place::Of(DecodeSlot(word));
    // A retired slot may name a record that has died since.
    if (IsSame(log_.Key(place), key) && log_.IsLive(place)) return Entry{bucket, slot, place};
  }
  return std::nullopt;
}

std::optional<Index::Entry> Index::Find(std::string_view key, std::uint64_t key_hash) const {
  const std::uint64_t main = Main(MainBucketOf(key_hash));
  if (auto entry = FindAmong(main, FindSlotsInLine(At(main), key_hash), key)) return entry;
  for (std::uint64_t bucket = main; bucket != 0; bucket = Next(bucket)) {
    if (auto entry = FindAmong(bucket, FindSlots(At(bucket), key_hash), key)) return entry;
  }
  return std::nullopt;
}

std::optional<Index::ColdEntry> Index::FindCold(std::uint64_t key_hash) const {
  const std::uint64_t word = EncodeColdSlot(key_hash);
  for (std::uint64_t bucket = Main(MainBucketOf(key_hash)); bucket != 0; bucket = Next(bucket)) {
    for (SlotSet found = FindSlots(At(bucket), key_hash); !found.empty();) {
      const auto slot = static_cast<std::size_t>(found.Next());
      if (SlotWord(bucket, slot) == word && !ColdIsRetired(bucket, slot)) return ColdEntry{bucket, slot};
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Index::OwnerHash(const SlotRef& slot) const {
  if (SlotIsCold(slot.word)) {
    if (ColdIsRetired(slot.bucket, slot.slot)) return std::nullopt;
    return slot.word;  // its low bits are those of the hash, and decide in which bucket it belongs
  }
  const Place place = Place::Of(DecodeSlot(slot.word));
  if (!log_.IsLive(place)) return std::nullopt;
  return HashKey(log_.Key(place));
}

bool Index::Reserve(std::uint64_t key_hash, std::size_t count) {
  std::size_t space = 0;
  for (std::uint64_t bucket = Main(MainBucketOf(key_hash));; bucket = Next(bucket)) {
    space += SlotsWith(At(bucket), 0).size();
    if (space >= count) return true;
    if (Next(bucket) == 0 && !AddOverflow(bucket)) return false;
  }
}

void Index::Insert(std::uint64_t key_hash, const Place& place, TimePoint now) {
  const SlotRef free = FreeSlot(key_hash);
  StoreSlot(free.bucket, free.slot,
            EncodeSlot({Fingerprint(key_hash), place.extent_code, place.offset_units}));
  ++entries_;
  if (LineOfSlot(free.slot) == PreferredLine(key_hash) || free.bucket != Main(MainBucketOf(key_hash))) return;
  // The line may be full of retired slots: once they are free, MoveToPreferredLine brings the entry there.
  Retired away{now + delay_, Retired::Kind::kClear};
  away.bucket = free.bucket;
  away.away = std::uint32_t{1} << free.slot;
  Retire(std::move(away));
}

std::optional<Index::Space> Index::FindSpace(std::uint64_t key_hash) {
  for (std::uint64_t bucket = Main(MainBucketOf(key_hash));; bucket = Next(bucket)) {
    if (const auto slot = FreeSlotIn(bucket, PreferredLine(key_hash))) return Space{bucket, *slot};
    if (Next(bucket) == 0 && !AddOverflow(bucket)) return std::nullopt;
  }
}

void Index::InsertAt(const Space& space, std::uint64_t key_hash, const Place& place) {
  StoreSlot(space.bucket, space.slot,
            EncodeSlot({Fingerprint(key_hash), place.extent_code, place.offset_units}));
  ++entries_;
}

void Index::Replace(const Entry& entry, const Place& place) {
  const std::uint32_t fingerprint = DecodeSlot(SlotWord(entry.bucket, entry.slot)).fingerprint;
  StoreSlot(entry.bucket, entry.slot, EncodeSlot({fingerprint, place.extent_code, place.offset_units}));
}

void Index::Erase(std::uint64_t key_hash, const Entry& entry) {
  const std::uint64_t word = SlotWord(entry.bucket, entry.slot);
  --entries_;
  // The chain may have two copies of the entry (Compact). The key is gone, so both slots can go at once.
  const std::uint64_t main = Main(MainBucketOf(key_hash));
  for (std::uint64_t bucket = main; bucket != 0; bucket = Next(bucket)) {
    for (SlotSet same = FindSlots(At(bucket), key_hash); !same.empty();) {
      const auto slot = static_cast<std::size_t>(same.Next());
      if (SlotWord(bucket, slot) == word) StoreSlot(bucket, slot, 0);
    }
  }
  // Compacts later: a caller may have reserved space in the chain.
  if (Next(main) != 0) to_compact_.push_back(main);
}

// --- Cold keys ------------------------------------------------------------------------------------------

void Index::MarkCold(std::uint64_t key_hash, const Entry& entry, TimePoint now) {
  const SlotRef hot{entry.bucket, entry.slot, SlotWord(entry.bucket, entry.slot)};
  const SlotRef free = FreeSlot(key_hash);
  StoreSlot(free.bucket, free.slot, EncodeColdSlot(key_hash));
  ++cold_entries_;
  ++cold_marks_[ColdMarkOf(key_hash)];
  RetireSlot(key_hash, hot, now);
}

void Index::MarkHot(std::uint64_t key_hash, const ColdEntry& entry, const Place& place, TimePoint now) {
  const SlotRef cold{entry.bucket, entry.slot, SlotWord(entry.bucket, entry.slot)};
  const SlotRef free = FreeSlot(key_hash);
  StoreSlot(free.bucket, free.slot,
            EncodeSlot({Fingerprint(key_hash), place.extent_code, place.offset_units}));
  --cold_entries_;
  RetireSlot(key_hash, cold, now);
}

// Retired copies stay until Clear. In a free slot, Clear could hit a new entry of the same hash.
void Index::EraseCold(const ColdEntry& entry) {
  StoreSlot(entry.bucket, entry.slot, 0);
  --entries_;
  --cold_entries_;
}

Index::Entered Index::InsertCold(std::uint64_t key_hash) {
  if (FindCold(key_hash)) return Entered::kTaken;
  const std::optional<Space> space = FindSpace(key_hash);
  if (!space) return Entered::kNoSpace;
  StoreSlot(space->bucket, space->slot, EncodeColdSlot(key_hash));
  ++entries_;
  ++cold_entries_;
  ++cold_marks_[ColdMarkOf(key_hash)];
  return Entered::kDone;
}

void Index::RetireSlot(std::uint64_t key_hash, const SlotRef& slot, TimePoint now) {
  Retired clear{now + delay_, Retired::Kind::kClear};
  clear.bucket = Main(MainBucketOf(key_hash));
  clear.slot = slot;
  if (SlotIsCold(slot.word)) retired_cold_.insert(IdOf(slot.bucket, slot.slot));
  Retire(std::move(clear));
}

std::uint64_t Index::Next(std::uint64_t bucket) const {
  return ControlLink(LoadWord(At(bucket).control, std::memory_order_relaxed));
}

void Index::Link(std::uint64_t bucket, std::uint64_t next) {
  std::uint64_t& control = At(bucket).control;
  const std::uint32_t depth = ControlDepth(LoadWord(control, std::memory_order_relaxed));
  StoreWord(control, EncodeControl(depth, next), std::memory_order_release);
}

std::optional<std::size_t> Index::FreeSlotIn(std::uint64_t bucket, std::size_t line) const {
  const std::size_t begin = line * kWordsPerLine;
  std::uint32_t empty = ZeroWords(WordsOf(At(bucket)) + begin);
  if (line == 0) empty &= ~std::uint32_t{1};  // the control word is not a slot
  if (empty != 0) return begin + static_cast<std::size_t>(std::countr_zero(empty)) - 1;
  SlotSet free = SlotsWith(At(bucket), 0);
  if (free.empty()) return std::nullopt;
  return static_cast<std::size_t>(free.Next());
}

Index::SlotRef Index::FreeSlot(std::uint64_t key_hash) const {
  for (std::uint64_t bucket = Main(MainBucketOf(key_hash)); bucket != 0; bucket = Next(bucket)) {
    if (const auto slot = FreeSlotIn(bucket, PreferredLine(key_hash))) return {bucket, *slot, 0};
  }
  REMORA_CHECK(false);  // the caller has reserved space
  return {};
}

// --- Overflow buckets -----------------------------------------------------------------------------------

std::optional<std::uint64_t> Index::TakeOverflow() {
  std::uint64_t place = 0;
  if (!free_overflow_.empty()) {
    place = free_overflow_.back();
    free_overflow_.pop_back();
  } else {
    if (next_overflow_ == end_overflow_) {
      const auto segment = segments_.Take(Segments::Use::kIndex, Segments::kReserve);
      if (!segment) return std::nullopt;
      ++segments_used_;
      next_overflow_ = *segment * std::uint64_t{kBucketsPerSegment};
      end_overflow_ = next_overflow_ + kBucketsPerSegment;
    }
    place = next_overflow_++;
  }
  ++overflow_used_;
  return place;
}

bool Index::AddOverflow(std::uint64_t last) {
  // A link changes only between none and one bucket (I3): one that was just unlinked here comes back.
  if (const auto found = unlinked_.find(last); found != unlinked_.end()) {
    Link(last, found->second.overflow);
    unlinked_.erase(found);
    return true;
  }
  const std::optional<std::uint64_t> place = TakeOverflow();
  if (!place) return false;
  REMORA_CHECK(Fill(*place, 0, {}));
  Link(last, *place);
  return true;
}

// --- Growth ---------------------------------------------------------------------------------------------

bool Index::Grow(std::size_t splits, TimePoint now) {
  bool grew = false;
  for (; splits > 0; --splits) {
    const bool due = exact_.split > 0 || entries_ > kPeakLoad << exact_.level;
    if (!due || exact_.level == kMaxDepth - 1 || !Split(now)) break;
    grew = true;
  }
  return grew;
}

void Index::Presize(std::uint64_t entries) {
  REMORA_CHECK(entries_ == 0 && exact_.split == 0);
  std::uint32_t level = LevelFor(entries);
  // Takes one segment after the other: if there are too few, growth uses the taken ones later.
  for (std::uint64_t number = 0; number < std::uint64_t{1} << level; number += kBucketsPerSegment) {
    if (EnsureMain(number)) continue;
    while (std::uint64_t{1} << level > number) --level;
    break;
  }
  if (level <= exact_.level) return;
  Begin(level);
}

bool Index::EnsureMain(std::uint64_t number) {
  std::uint64_t& entry = DirectoryEntry(number);
  if (LoadWord(entry, std::memory_order_relaxed) != 0) return true;
  if (number / kBucketsPerSegment >= SegmentCount(region_.size())) return false;
  const auto segment = segments_.Take(Segments::Use::kIndex, Segments::kReserve);
  if (!segment) return false;
  ++segments_used_;
  StoreWord(entry, EncodeDirectoryEntry(*segment), std::memory_order_release);
  return true;
}

/// Fills a bucket, and overflow buckets as needed, in memory to which nothing leads any reader yet.
bool Index::Fill(std::uint64_t place, std::uint32_t depth, std::span<const Mover> entries) {
  std::uint64_t link = 0;
  const std::span<const Mover> here = entries.first(std::min<std::size_t>(entries.size(), kSlotsPerBucket));
  if (entries.size() > here.size()) {
    const std::optional<std::uint64_t> overflow = TakeOverflow();
    if (!overflow) return false;
    if (!Fill(*overflow, 0, entries.subspan(here.size()))) {
      free_overflow_.push_back(*overflow);
      --overflow_used_;
      return false;
    }
    link = *overflow;
  }
  // Relaxed: no reader comes here before the control word is stored and something leads here.
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    StoreWord(At(place).slots[i], 0, std::memory_order_relaxed);
  }
  for (const Mover& entry : here) {
    const std::size_t slot = FreeSlotIn(place, entry.line).value();
    StoreWord(At(place).slots[slot], entry.word, std::memory_order_relaxed);
  }
  StoreWord(At(place).control, EncodeControl(depth, link), std::memory_order_release);
  return true;
}

bool Index::Split(TimePoint now) {
  const std::uint64_t number = exact_.split;
  const std::uint64_t sibling = number + (std::uint64_t{1} << exact_.level);
  if (!EnsureMain(sibling)) return false;
  const std::uint64_t main = Main(number);
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    // OwnerHash below reads most of the keys, which are anywhere in memory.
    const std::uint64_t word = SlotWord(main, i);
    if (!SlotIsCold(word)) __builtin_prefetch(&log_.Header(Place::Of(DecodeSlot(word))));
  }
  const Home upper{sibling, exact_.level + 1};
  Retired clear{now + delay_, Retired::Kind::kClear};
  clear.bucket = main;
  movers_.clear();
  for (std::uint64_t bucket = main; bucket != 0; bucket = Next(bucket)) {
    for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
      const SlotRef entry{bucket, i, SlotWord(bucket, i)};
      if (entry.word == 0) continue;
      const std::optional<std::uint64_t> key_hash = OwnerHash(entry);
      if (!key_hash) continue;  // no key's entry: the slot is retired already
      const std::uint32_t bit = bucket == main ? std::uint32_t{1} << i : 0;
      if (!Belongs(*key_hash, upper)) {
        // The entry stays, or its slot is retired already.
        if (LineOfSlot(i) != PreferredLine(*key_hash)) clear.away |= bit;
        continue;
      }
      if (bucket == main) {
        // If the entry moved to its line, the slot is retired already. Clearing twice could hit a new entry.
        if (!HasPreferredCopy(entry, *key_hash)) clear.mask |= bit;
      } else {
        clear.slots.push_back(entry);
      }
      const bool twice = std::any_of(movers_.begin(), movers_.end(),
                                     [&](const Mover& mover) { return mover.word == entry.word; });
      if (!twice) movers_.push_back({entry.word, PreferredLine(*key_hash)});
    }
  }
  if (!Fill(Main(sibling), upper.depth, movers_)) return false;
  StoreWord(At(main).control, EncodeControl(upper.depth, Next(main)), std::memory_order_release);
  exact_.Saw(number, upper.depth);
  PublishView();
  if (clear.mask != 0 || clear.away != 0 || Next(main) != 0) Retire(std::move(clear));
  return true;
}

void Index::PublishView() {
  view_.store(std::uint64_t{exact_.level} << 56 | exact_.split, std::memory_order_release);
  auto& superblock = *reinterpret_cast<Superblock*>(region_.data());
  StoreWord(superblock.level, exact_.level, std::memory_order_release);
}

// --- Retired slots and buckets --------------------------------------------------------------------------

void Index::Tick(TimePoint now) {
  for (const std::uint64_t main : to_compact_) Compact(main, now);
  to_compact_.clear();
  for (int i = 0; i < kMaxTick && !retired_.empty() && retired_.front().due <= now; ++i) {
    const Retired rested = std::move(retired_.front());
    retired_.pop_front();
    just_retired_ = std::min(just_retired_, retired_.size());
    if (rested.kind == Retired::Kind::kFree) {
      Free(rested);
      continue;
    }
    for (std::size_t slot = 0; slot < kSlotsPerBucket; ++slot) {
      if ((rested.mask >> slot & 1) != 0) StoreSlot(rested.bucket, slot, 0);
    }
    if (rested.slot.word != 0) Clear(rested.slot);
    for (const SlotRef& entry : rested.slots) Clear(entry);
    if (rested.away != 0) MoveToPreferredLine(rested.bucket, SlotSet(rested.away), now);
    Compact(rested.bucket, now);
  }
}

void Index::Clear(const SlotRef& rested) {
  if (SlotWord(rested.bucket, rested.slot) == rested.word) StoreSlot(rested.bucket, rested.slot, 0);
  if (SlotIsCold(rested.word)) retired_cold_.erase(IdOf(rested.bucket, rested.slot));
}

void Index::Retire(Retired&& what) {
  retired_.push_back(std::move(what));
  ++just_retired_;
}

void Index::StartGracePeriod(TimePoint now) {
  for (auto last = retired_.rbegin(); just_retired_ > 0; ++last, --just_retired_) last->due = now + delay_;
}

void Index::Free(const Retired& rested) {
  const auto found = unlinked_.find(rested.bucket);
  // AddOverflow may have linked the bucket again, and UnlinkEmpty may have unlinked it again since.
  if (found == unlinked_.end() || found->second.id != rested.unlinked) return;
  free_overflow_.push_back(found->second.overflow);
  --overflow_used_;
  unlinked_.erase(found);
}

std::optional<TimePoint> Index::next_tick() const {
  if (!to_compact_.empty()) return TimePoint();  // at once
  if (retired_.empty()) return std::nullopt;
  return retired_.front().due;
}

/// Returns whether `entry` has a copy in its key's line, and is not there itself.
bool Index::HasPreferredCopy(const SlotRef& entry, std::uint64_t key_hash) const {
  if (LineOfSlot(entry.slot) == PreferredLine(key_hash)) return false;
  for (SlotSet same = FindSlotsInLine(At(entry.bucket), key_hash); !same.empty();) {
    if (SlotWord(entry.bucket, static_cast<std::size_t>(same.Next())) == entry.word) return true;
  }
  return false;
}

/// Copies entries of a bucket to their keys' lines, where readers look first.
void Index::MoveToPreferredLine(std::uint64_t main, SlotSet away, TimePoint now) {
  // Each entry takes two slots until the old one is cleared: leave some to inserts.
  if (SlotsWith(At(main), 0).size() < kSlotsPerBucket / 4) return;
  Retired clear{now + delay_, Retired::Kind::kClear};
  clear.bucket = main;
  while (!away.empty()) {
    const auto i = static_cast<std::size_t>(away.Next());
    const SlotRef entry{main, i, SlotWord(main, i)};
    if (entry.word == 0 || SlotIsCold(entry.word)) continue;
    // The slot may have another key's entry by now.
    const std::optional<std::uint64_t> key_hash = OwnerHash(entry);
    if (!key_hash || Main(MainBucketOf(*key_hash)) != main) continue;
    const std::size_t line = PreferredLine(*key_hash);
    const std::optional<std::size_t> home = FreeSlotIn(main, line);
    if (!home || LineOfSlot(*home) != line || LineOfSlot(i) == line || HasPreferredCopy(entry, *key_hash))
      continue;
    StoreSlot(main, *home, entry.word);
    clear.slots.push_back(entry);
  }
  if (!clear.slots.empty()) Retire(std::move(clear));
}

/// Copies entries of a chain towards its start, as far as slots are free there, and unlinks its end.
void Index::Compact(std::uint64_t main, TimePoint now) {
  if (Next(main) == 0) return;
  Retired clear{now + delay_, Retired::Kind::kClear};
  clear.bucket = main;
  for (std::uint64_t bucket = Next(main); bucket != 0; bucket = Next(bucket)) {
    for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
      const SlotRef entry{bucket, i, SlotWord(bucket, i)};
      if (entry.word == 0) continue;
      // A retired slot has no owner, or one that belongs elsewhere, or it was copied already (see below).
      const std::optional<std::uint64_t> key_hash = OwnerHash(entry);
      if (!key_hash || Main(MainBucketOf(*key_hash)) != main) continue;
      std::optional<SlotRef> to;
      bool copied = false;
      for (std::uint64_t b = main; b != bucket && !copied; b = Next(b)) {
        for (std::size_t j = 0; j < kSlotsPerBucket; ++j) {
          copied = copied || (SlotWord(b, j) == entry.word && !ColdIsRetired(b, j));
        }
        if (const auto free = FreeSlotIn(b, PreferredLine(*key_hash)); free && !to) to = {b, *free, 0};
      }
      if (copied || !to) continue;
      StoreSlot(to->bucket, to->slot, entry.word);
      if (to->bucket == main && LineOfSlot(to->slot) != PreferredLine(*key_hash)) {
        clear.away |= std::uint32_t{1} << to->slot;
      }
      if (SlotIsCold(entry.word)) retired_cold_.insert(IdOf(entry.bucket, entry.slot));
      clear.slots.push_back(entry);
    }
  }
  if (!clear.slots.empty()) Retire(std::move(clear));
  UnlinkEmpty(main, now);
}

void Index::UnlinkEmpty(std::uint64_t main, TimePoint now) {
  std::uint64_t previous = main;
  std::uint64_t last = Next(main);
  while (Next(last) != 0) {
    previous = last;
    last = Next(last);
  }
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    if (SlotWord(last, i) != 0) return;
  }
  Link(previous, 0);
  Retired free{now + delay_, Retired::Kind::kFree};
  free.bucket = previous;
  free.unlinked = next_unlinked_++;
  unlinked_[previous] = {last, free.unlinked};
  Retire(std::move(free));
  if (previous == main) return;
  // The bucket before it may be empty, too.
  Retired again{now + delay_, Retired::Kind::kClear};
  again.bucket = main;
  Retire(std::move(again));
}

}  // namespace remora
