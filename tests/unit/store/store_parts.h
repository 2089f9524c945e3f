// The inner parts of a store, assembled by hand, with a time that the test sets. The readers of these parts
// stop wherever the test wants.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/engine/metrics.h"
#include "store/engine/owned_slots.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/record.h"
#include "store/index/index.h"
#include "store/memory_plan.h"
#include "store/reclaim/access_frequency.h"
#include "store/reclaim/cleaner.h"
#include "store/reclaim/evictor.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

inline constexpr std::uint64_t kTestIncarnation = 42;
inline constexpr std::chrono::milliseconds kTestRest{200};
inline constexpr std::chrono::nanoseconds kInstant{1};

struct StoreParts {
  explicit StoreParts(std::size_t segment_count, Evictor::Mode eviction = Evictor::Mode::kOff)
      : memory(std::move(*AnonymousMemory::Map(segment_count * kSegmentSize))),
        evictor(eviction, segments, log, index, /*ordered=*/nullptr, cold_expirer, frequency,
                /*tier=*/nullptr, /*changes=*/nullptr, unsynced) {}

  // --- Writing, as the store does it.

  /// Inserts or replaces a key. Returns false, and changes nothing, if there is no space.
  bool Put(std::string_view key, std::string_view value) {
    if (!Publish(key, value, ++version)) return false;
    tier[std::string(key)] = value;
    return true;
  }
  bool Erase(std::string_view key) {
    const std::optional<Index::Entry> entry = index.Find(key, HashKey(key));
    const bool known = tier.erase(std::string(key)) > 0;
    if (entry) {
      log.Kill(entry->place);
      index.Erase(HashKey(key), *entry);
    } else if (known) {
      index.EraseCold(index.FindCold(HashKey(key)).value());
    }
    return known;
  }

  /// Makes a key cold whose record is in memory. Returns false if
  /// the index has no space, or has a cold entry of the same hash.
  bool MarkCold(std::string_view key) {
    const std::uint64_t key_hash = HashKey(key);
    if (index.FindCold(key_hash) || !index.Reserve(key_hash, 1)) return false;
    const Index::Entry entry = index.Find(key, key_hash).value();
    log.Kill(entry.place);
    index.MarkCold(key_hash, entry, now);
    return true;
  }
  /// Promotes a cold key. Returns false if there is no space.
  bool Fetch(const std::string& key) { return Publish(key, tier.at(key), version); }
  bool IsCold(const std::string& key) const {
    return tier.contains(key) && !index.Find(key, HashKey(key)).has_value();
  }

  bool Publish(std::string_view key, std::string_view value, std::uint64_t new_version) {
    const std::uint64_t key_hash = HashKey(key);
    const std::optional<Index::Entry> entry = index.Find(key, key_hash);
    const bool cold = !entry && tier.contains(std::string(key));
    const std::optional<Place> place = log.Append(ValueLog::Head::kWrites, key, value, now);
    if (!place) return false;
    if (!entry && !index.Reserve(key_hash, 1)) {
      log.Rollback(*place);
      return false;
    }
    log.Seal(*place, new_version, /*expiry_ms=*/0, key_hash, HashValue(value.data(), value.size()));
    if (entry) log.Kill(entry->place);
    log.MakeLive(*place);
    if (entry) {
      index.Replace(*entry, *place);
    } else if (cold) {
      index.MarkHot(key_hash, index.FindCold(key_hash).value(), *place, now);
    } else {
      index.Insert(key_hash, *place, now);
    }
    return true;
  }

  /// Returns the place of a key's live record. REQUIRES: there is one.
  Place PlaceOf(std::string_view key) const { return index.Find(key, HashKey(key)).value().place; }
  std::optional<std::string> ValueOf(std::string_view key) const {
    if (const auto entry = index.Find(key, HashKey(key))) return std::string(log.Value(entry->place));
    if (!index.FindCold(HashKey(key))) return std::nullopt;
    const auto found = tier.find(std::string(key));
    return found == tier.end() ? std::nullopt : std::optional(found->second);
  }

  // --- Time.

  /// Lets time pass, and does the work that is due.
  void Pass(Duration duration) {
    now += duration;
    index.Tick(now);
    // The index may still have to clear slots whose grace period is over. They may lead to memory that was
    // retired at the same moment, so that is not released yet.
    const std::optional<TimePoint> left = index.next_tick();
    segments.Release(left && *left <= now ? *left - kInstant : now);
  }
  /// Lets time pass until no grace period runs.
  void Settle() {
    for (Pass({}); index.next_tick() || segments.next_release();) Pass(kTestRest);
  }

  // --- The bytes, as they are.

  StoreShape Shape() const {
    const StoreShape of_bytes = ShapeOf(*reinterpret_cast<const Superblock*>(region.data()));
    return {region.size(), kTestIncarnation, of_bytes.base_depth};
  }

  const Bucket& BucketAt(std::uint64_t place) const {
    return reinterpret_cast<const Bucket*>(region.data())[place];
  }
  std::uint64_t DirectoryEntry(std::uint64_t number) const {
    return reinterpret_cast<const std::uint64_t*>(region.data() +
                                                  DirectoryOffset())[number / kBucketsPerSegment];
  }
  const Bucket& Main(std::uint64_t number) const {
    return BucketAt(DirectoryEntrySegment(DirectoryEntry(number)) * std::uint64_t{kBucketsPerSegment} +
                    number % kBucketsPerSegment);
  }

  const std::unique_ptr<AnonymousMemory> memory;
  const std::span<std::byte> region = memory->bytes();
  TimePoint now{std::chrono::hours(1)};
  std::uint64_t version = 0;
  std::map<std::string, std::string> tier;  // stands for the durable tier
  Segments segments{region, kTestRest};
  ValueLog log{region, segments, kTestIncarnation};
  Index index{region, segments, log, kTestRest};
  StoreShape shape = Shape();
  UnsyncedKeys unsynced;
  const std::atomic<bool> follows = false;
  Expirer expirer{segments,
                  log,
                  index,
                  /*ordered=*/nullptr,
                  /*tier=*/nullptr,
                  /*changes=*/nullptr,
                  unsynced,
                  follows};
  LoadCoverage known_keys;
  const Metrics metrics{*reinterpret_cast<Superblock*>(region.data())};
  const OwnedSlots all_slots{metrics, nullptr};
  ColdExpirer cold_expirer{nullptr, index, expirer, all_slots, known_keys, unsynced};
  AccessFrequency frequency{region.size()};
  Evictor evictor;
  Cleaner cleaner{segments, log, index, expirer, evictor};
};

/// The view of a new index.
inline constexpr IndexView kFirstView{Index::kFirstLevel, 0};

/// One search, which the test lets read step by step.
class Reader {
 public:
  Reader(const StoreParts& parts, std::string key, const IndexView& view)
      : parts_(parts), key_(std::move(key)), view_(view) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const std::string& key() const { return key_; }
  const IndexView& view() const { return view_; }
  const KeySearch& search() const { return search_; }
  /// Returns the value, after kFound.
  const std::string& value() const { return value_; }

  /// Reads once. Returns false if the search has ended.
  bool Read() {
    if (search_.step() == KeySearch::Step::kReadBucket) {
      parts_.index.Copy(search_.bucket(), &copy_);
      search_.TakeBucket(copy_);
      return true;
    }
    if (search_.step() != KeySearch::Step::kReadRecord) return false;
    const Place place = Place::Of(search_.slot());
    const RecordHeader header = parts_.log.Header(place);
    search_.TakeRecord(header, parts_.log.Body(place));
    if (search_.step() == KeySearch::Step::kFound) value_ = parts_.log.Value(place);
    return true;
  }
  /// Reads until the search has ended. Returns its last step.
  KeySearch::Step Run() {
    while (Read()) {
    }
    return search_.step();
  }
  /// Reads a bucket torn: it had read the control word a while ago, and reads the slots now.
  void ReadTorn(std::uint64_t old_control) {
    parts_.index.Copy(search_.bucket(), &copy_);
    copy_.control = old_control;
    search_.TakeBucket(copy_);
  }

 private:
  const StoreParts& parts_;
  const std::string key_;
  IndexView view_;
  KeySearch search_{key_, HashKey(key_), parts_.shape, &view_};
  Bucket copy_{};
  std::string value_;
};

inline KeySearch::Step Search(const StoreParts& parts, const std::string& key, const IndexView& view) {
  return Reader(parts, key, view).Run();
}

/// Returns keys that share main bucket `bucket` of the new index.
inline std::vector<std::string> KeysOf(std::uint64_t bucket, std::size_t count) {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < count; ++i) {
    std::string key = "key" + std::to_string(i);
    if (BucketAtDepth(HashKey(key), Index::kFirstLevel) == bucket) keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace remora
