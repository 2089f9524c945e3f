// A copy of the server's index in a client's process (ClientOptions::index_mirror_bytes). With it, a GET of
// any key is one READ of the record, also the first one. The first client READs the index in bulk when it
// connects. Later the clients keep the copy fresh by what their own GETs and PUTs show, and by the changes of
// all clients of the server. One of them READs these about once in a grace period.
//
// The mirror is a source of places, as the cache of locations is. It decides nothing: the client verifies the
// record at such a place, and searches the server's index if that is not the key's live record. A miss is
// never answered from the mirror. client/mirror/mirror_frames.h has the invariants M1 to M9.
//
//   SegmentGenerations  what the proofs of slots refer to    ChangeFollower   how far the changes were READ
//   MirrorFrames        the slots                            GroupQueue       which of them come next
//   RetiredSegments     for bulk READs                       UpkeepBudget     bytes for upkeep
//   IndexMirror         all of them; which READ is next
//   SharedMirrors       which clients have the same one
//
// A GET finds its place without a lock. The mutex is for upkeep, and a GET takes it only when a READ for that
// may be due. Nobody holds it while a READ is in flight. Instead, the client that makes a READ has a ticket.
// A READ that takes longer than a grace period loses its ticket to the next client that has time for one: its
// bytes are ignored when they come. So a client that stops, or whose connection breaks, holds nobody up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "client/cache/segment_generations.h"
#include "client/mirror/change_follower.h"
#include "client/mirror/group_queue.h"
#include "client/mirror/mirror_frames.h"
#include "client/mirror/retired_segments.h"
#include "client/mirror/upkeep_budget.h"
#include "client/region/region_reader.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/layout.h"

namespace remora {

/// The mirror of one incarnation of a server. It keeps no pointer to a session's parts.
///
/// The class has more than 15 fields, because READs of five kinds keep it fresh. One mutex guards the state
/// of all, as a session chooses the next READ among them.
///
/// Thread safety: any threads may call all functions at any time.
class IndexMirror {
 public:
  using Stamp = SegmentGenerations::Number;

  /// The part of one session in the upkeep.
  ///
  /// Thread safety: none.
  struct User {
    std::uint64_t ticket = 0;  // of its READ; 0: it has none
    std::uint64_t earned = 0;  // bytes of records that its GETs READ, and that no budget has
    std::uint64_t lacked = 0;  // how many of them it needs to ask again

    /// Notes that a GET has READ so many bytes of a record.
    void Earn(std::uint64_t bytes) { earned += bytes; }
  };

  IndexMirror(const StoreShape& shape, Duration grace, std::size_t bytes);
  const MirrorFrames& frames() const { return frames_; }
  SegmentGenerations& generations() { return generations_; }

  struct Range {
    std::uint64_t offset = 0;  // in the region
    std::size_t size = 0;
  };

  // --- The first READs in bulk (client/session/build_mirror.cc). Clients that connect meanwhile take part.

  /// Returns whether nobody has taken the first READs of the retired segments and of the count of changes.
  bool LacksBasis() const;
  std::size_t retired_chunk_count() const { return RetiredSegments::ChunkCount(shape_.memory_size); }
  Range RetiredRange(std::size_t chunk) const {
    return {RetiredSegments::OffsetOf(shape_.memory_size, chunk),
            RetiredSegments::SizeOf(shape_.memory_size, chunk)};
  }
  /// Takes the first count of changes, and a copy of the retired segments, if there are none yet. The upkeep
  /// begins. `refreshes`: the count before the READ of the word was posted.
  void TakeBasis(std::uint64_t word, Stamp refreshes, const RetiredSegments& retired, TimePoint now);

  /// Adjacent buckets.
  struct Buckets {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };
  /// Returns the next buckets that nobody has claimed, `most` of them or fewer, of an index of `end` buckets.
  /// Nothing: there are no more, or the mirror has no frames for more. REQUIRES: `most` is a multiple of
  /// MirrorFrames::kBuckets.
  std::optional<Buckets> Claim(std::uint64_t most, std::uint64_t end);
  /// Leaves buckets to others, from `first` on: the caller cannot READ those that it claimed.
  void GiveBack(std::uint64_t first);
  /// Takes adjacent buckets from `first` on. REQUIRES: `first` begins a group. Their READ was posted after
  /// those of `retired`: another client's copy may be later (M2).
  void TakeBuckets(std::uint64_t first, std::span<const Bucket> buckets, const RetiredSegments& retired);
  /// Returns how far the index had grown when its buckets were READ.
  IndexView view() const;

  // --- Places

  /// Returns the slot that probably is the key's. `bucket` is the home of the hash.
  MirrorFrames::Found Find(std::uint64_t key_hash, std::uint64_t bucket);
  /// Prefetch what Find reads, as MirrorFrames does.
  void PrefetchHead(std::uint64_t bucket) const { frames_.PrefetchHead(bucket); }
  void PrefetchSlots(std::uint64_t bucket) const { frames_.PrefetchSlots(bucket); }
  /// Adds a slot. REQUIRES: a proof with the count `stamp` (M4); SlotNamesPlace.
  void Add(std::uint64_t bucket, std::uint64_t word, MirrorFrames::Same same, Stamp stamp);
  /// Drops a slot that led to no live record.
  void Drop(std::uint64_t bucket, std::uint64_t word) { frames_.Drop(bucket, word); }

  // --- Upkeep. A session makes one such READ at a time.

  /// The largest size in bytes of such a READ.
  static constexpr std::size_t kMaxRead = MirrorFrames::kBuckets * sizeof(Bucket);
  static_assert(kMaxRead >= ChangeFollower::kMaxRead);
  /// Returns the READ that is due, if there is one that no other session makes. `user` has its ticket then. A
  /// ticket that it had before is void.
  std::optional<Range> NextRead(User& user, TimePoint now, const RegionReader& region);
  /// Takes the bytes of the READ, if the ticket is still valid.
  void Take(User& user, std::span<const std::byte> bytes, TimePoint now, const RegionReader& region);

 private:
  enum class Reading : std::uint8_t { kNothing = 1, kCount, kChanges, kRetired, kGroup };
  // 1 % of the bytes that GETs READ.
  static constexpr UpkeepBudget kForChanges{100, std::int64_t{64} << 10};
  // 10 %: only after the index has grown, or if changes were lost.
  static constexpr UpkeepBudget kForGroups{10, std::int64_t{1} << 20};
  // A session that found a budget too small asks again with so many bytes, however many are lacking: others
  // earn, too.
  static constexpr std::uint64_t kMostLacked = 4096;
  // Time between two READs of all chunks of `retired`, if there are groups to READ.
  static constexpr std::chrono::seconds kRetiredInterval{1};

  std::optional<Range> Choose(User& user, TimePoint now, const RegionReader& region)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Range> ChooseGroup(User& user, TimePoint now, const RegionReader& region)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Range> Post(User& user, UpkeepBudget& budget, Reading reading, const Range& range)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeChanges(std::span<const std::byte> bytes, const RegionReader& region)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fill(std::uint64_t first, std::span<const Bucket> buckets, const RetiredSegments& retired)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StoreShape shape_;
  const Duration interval_;
  SegmentGenerations generations_;
  MirrorFrames frames_;
  std::atomic<TimePoint> due_ = TimePoint::max();          // nothing is due before
  std::atomic<std::uint64_t> wanted_ = GroupQueue::kNone;  // group that a GET asked for
  std::atomic<std::uint64_t> full_ = GroupQueue::kNone;    // group whose frame lacked space for a slot

  mutable Mutex mutex_;
  RetiredSegments retired_ ABSL_GUARDED_BY(mutex_);  // for groups of the upkeep
  ChangeFollower changes_ ABSL_GUARDED_BY(mutex_);
  UpkeepBudget for_changes_ ABSL_GUARDED_BY(mutex_) = kForChanges;
  UpkeepBudget for_groups_ ABSL_GUARDED_BY(mutex_) = kForGroups;
  GroupQueue groups_ ABSL_GUARDED_BY(mutex_);
  IndexView view_ ABSL_GUARDED_BY(mutex_);
  bool has_basis_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t unread_ ABSL_GUARDED_BY(mutex_) = 0;  // first bucket that nobody has claimed

  /// The READ of the ticket that is valid.
  struct Posted {
    std::uint64_t ticket = 0;
    Reading reading = Reading::kNothing;
    TimePoint lost_after;     // from then on another session may have a ticket
    Stamp refreshes = 0;      // count when it was posted
    std::uint64_t group = 0;  // that it is of
  };
  Posted posted_ ABSL_GUARDED_BY(mutex_);

  std::size_t retired_chunk_ ABSL_GUARDED_BY(mutex_) = 0;  // the next one to READ
  TimePoint next_count_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();
  TimePoint next_retired_ ABSL_GUARDED_BY(mutex_) = TimePoint::min();
};

}  // namespace remora
