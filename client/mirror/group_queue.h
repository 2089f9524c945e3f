// The groups of buckets that a client READs anew for its mirror of the index, one after the other.
#pragma once

#include <cstdint>

#include "client/mirror/mirror_frames.h"
#include "store/base/clock.h"

namespace remora {

/// Chooses the next group. A group that a GET asked for comes first, then one whose frame is full, then those
/// that lack changes.
///
/// Thread safety: none.
class GroupQueue {
 public:
  static constexpr std::uint64_t kNone = MirrorFrames::kNoGroup;

  /// A GET asked for a group that has no frame.
  void Want(std::uint64_t group) {
    if (next_ == kNone) next_ = group;
  }
  /// A group's frame lacked space for a slot. It may be full of slots that have gone from the index, or that
  /// belong to buckets which were split from its own.
  void NoteFull(std::uint64_t group) { full_ = group; }
  /// Changes were lost, so all frames may be outdated.
  void NoteLost() { outdated_ = 0; }

  /// Returns the group that comes next; kNone: there is none. READs groups whose frames are full once in
  /// `interval` at most, because such a frame may be full again at once.
  std::uint64_t Next(TimePoint now, Duration interval, const MirrorFrames& frames) {
    if (next_ == kNone && full_ != kNone && now >= next_full_) {
      next_ = full_;
      full_ = kNone;
      next_full_ = now + interval;
    }
    for (; next_ == kNone && outdated_ < frames.frame_count(); ++outdated_) next_ = frames.GroupAt(outdated_);
    return next_;
  }
  /// The group that Next returned was READ, or cannot be.
  void Pop() { next_ = kNone; }

 private:
  std::uint64_t next_ = kNone;
  std::uint64_t full_ = kNone;
  TimePoint next_full_ = TimePoint::min();
  std::uint64_t outdated_ = kNone;  // the frames from this one on lack changes that were lost
};

}  // namespace remora
