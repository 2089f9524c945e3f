// A client's copy of the server's index (ClientOptions::index_mirror_bytes). With it, a GET of any key is one
// READ of the record, also the first one. The client READs the index in bulk when it connects. Later it keeps
// the copy fresh by what its own GETs and PUTs show, and by the changes of all clients, which it READs about
// once in a grace period.
//
// The mirror is a source of places, as the cache of locations is. It decides nothing: the client verifies the
// record at such a place, and searches the server's index if that is not the key's live record. A miss is
// never answered from the mirror. client/mirror/mirror_frames.h has the invariants M1 to M6.
//
//   MirrorFrames     the slots               ChangeFollower   how far the changes were READ
//   RetiredSegments  for bulk READs          GroupQueue       which of them come next
//   UpkeepBudget     bytes for upkeep
//   IndexMirror      all of them; which READ is next
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/cache/segment_generations.h"
#include "client/mirror/change_follower.h"
#include "client/mirror/group_queue.h"
#include "client/mirror/mirror_frames.h"
#include "client/mirror/retired_segments.h"
#include "client/mirror/upkeep_budget.h"
#include "client/region/region_reader.h"
#include "store/base/clock.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"

namespace remora {

/// The mirror of one session. It keeps no pointer to the session's parts, so that several sessions with one
/// server may share one later.
///
/// Thread safety: none.
class IndexMirror {
 public:
  using Stamp = SegmentGenerations::Number;

  explicit IndexMirror(std::size_t bytes) : frames_(bytes) {}
  const MirrorFrames& frames() const { return frames_; }

  /// Begins with a server whose shape and grace period these are, and forgets all of an earlier one.
  void Begin(const StoreShape& shape, Duration grace);

  // --- The first READs in bulk (client/session/build_mirror.cc)

  RetiredSegments& retired() { return retired_; }
  void TakeFirstCount(std::uint64_t word, Stamp refreshes) { changes_.TakeCount(word, refreshes); }
  /// Takes adjacent buckets from `first` on, by a READ that was posted after those of `retired()`. Returns
  /// false if no frame is free for some of them. REQUIRES: `first` begins a group.
  bool TakeBuckets(std::uint64_t first, std::span<const Bucket> buckets,
                   const SegmentGenerations& generations);
  bool is_full() const { return frames_.is_full(); }
  /// Begins the upkeep.
  void EndBuild(TimePoint now) {
    is_built_ = true;
    next_count_ = now + interval_;
    next_retired_ = now + kRetiredInterval;
  }

  // --- Places

  /// Returns the slot that probably is the key's; 0: there is none. Its segment has a number. `bucket` is the
  /// home of the hash.
  std::uint64_t Find(std::uint64_t key_hash, std::uint64_t bucket, const SegmentGenerations& generations);
  /// Adds a slot. REQUIRES: as for ReadCache::Learn; SlotNamesPlace.
  void Learn(std::uint64_t bucket, std::uint64_t word, MirrorFrames::Same same,
             const SegmentGenerations& generations) {
    Add(bucket, word, same, generations.count(), generations);
  }
  /// Drops a slot that led to no live record.
  void Drop(std::uint64_t bucket, std::uint64_t word) { frames_.Drop(bucket, word); }

  // --- Upkeep. The caller makes one such READ at a time, and no refresh meanwhile.

  /// The largest size in bytes of such a READ.
  static constexpr std::size_t kMaxRead = MirrorFrames::kBuckets * sizeof(Bucket);
  static_assert(kMaxRead >= ChangeFollower::kMaxRead);
  struct Range {
    std::uint64_t offset = 0;  // in the region
    std::size_t size = 0;
  };
  /// Returns the READ that is due, if there is one, and notes that it is posted.
  std::optional<Range> NextRead(TimePoint now, const RegionReader& region,
                                const SegmentGenerations& generations);
  void Take(std::span<const std::byte> bytes, TimePoint now, const RegionReader& region,
            const SegmentGenerations& generations);
  /// Notes that a GET has READ so many bytes of a record.
  void Earn(std::uint64_t bytes) {
    for_changes_.Earn(bytes);
    for_groups_.Earn(bytes);
  }

 private:
  enum class Reading : std::uint8_t { kNothing = 1, kCount, kChanges, kRetired, kGroup };
  // 1 % of the bytes that GETs READ.
  static constexpr UpkeepBudget kForChanges{100, std::int64_t{64} << 10};
  // 10 %: only after the index has grown, or if changes were lost.
  static constexpr UpkeepBudget kForGroups{10, std::int64_t{1} << 20};
  // Time between two READs of all chunks of `retired`, if there are groups to READ.
  static constexpr std::chrono::seconds kRetiredInterval{1};

  void Add(std::uint64_t bucket, std::uint64_t word, MirrorFrames::Same same, Stamp stamp,
           const SegmentGenerations& generations) {
    if (!frames_.Add(bucket, word, same, stamp, generations)) groups_.NoteFull(MirrorFrames::GroupOf(bucket));
  }
  std::optional<Range> NextBulkRead(TimePoint now, const RegionReader& region);
  std::optional<Range> Post(UpkeepBudget& budget, Reading reading, std::uint64_t offset, std::size_t size);
  void TakeChanges(std::span<const std::byte> bytes, const RegionReader& region,
                   const SegmentGenerations& generations);

  StoreShape shape_;
  Duration interval_{};
  MirrorFrames frames_;
  RetiredSegments retired_;
  ChangeFollower changes_;
  UpkeepBudget for_changes_ = kForChanges;
  UpkeepBudget for_groups_ = kForGroups;

  bool is_built_ = false;  // the first READs were made
  Reading reading_ = Reading::kNothing;
  Stamp posted_with_ = 0;  // count of refreshes when the READ was posted
  TimePoint next_count_ = TimePoint::min();
  TimePoint next_retired_ = TimePoint::min();
  std::size_t retired_chunk_ = 0;  // the next one to READ
  GroupQueue groups_;
  std::uint64_t group_ = 0;  // of the READ of a group
};

}  // namespace remora
