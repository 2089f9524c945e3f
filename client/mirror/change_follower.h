// Follows the server's log of changes (store/format/memory/change_log.h) by READs: the count of changes, then
// the changes up to it, then the count again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "client/cache/segment_generations.h"
#include "store/format/memory/change_log.h"
#include "store/format/memory/layout.h"

namespace remora {

/// How far a client has read the log. The owner does the READs, one after the other.
///
/// Thread safety: none.
class ChangeFollower {
 public:
  using Stamp = SegmentGenerations::Number;
  /// The largest size in bytes of a READ of changes.
  static constexpr std::size_t kMaxRead = 4096;

  /// Returns whether there are changes to READ before the next count.
  bool has_changes() const { return next_ < end_; }
  std::uint64_t next() const { return next_; }
  /// Returns how many changes the next READ of changes should bring: adjacent ones from next() on.
  std::size_t changes_in_read() const {
    const std::uint64_t to_wrap = kChangeCount - next_ % kChangeCount;
    return std::min({end_ - next_, to_wrap, std::uint64_t{kMaxRead / sizeof(IndexChange)}});
  }

  /// Takes the count, by a READ that was posted after the refresh of the count `refreshes`
  /// (client/cache/segment_generations.h). Returns false if changes were lost: more came than the log has.
  bool TakeCount(std::uint64_t word, Stamp refreshes) {
    if (!ChangeCountIsWhole(word)) return true;  // torn; the next one will do
    const std::uint64_t count = ChangeCountOf(word);
    const bool is_first = !has_count_;
    const bool is_whole = count >= next_ && count - next_ <= kChangeCount;
    if (is_first || !is_whole) next_ = count;
    end_ = count;
    has_count_ = true;
    stamp_ = last_refreshes_;
    last_refreshes_ = refreshes;
    return is_first || is_whole;
  }

  /// Takes changes from next() on. Calls `take(change, stamp)` for each, where `stamp` has the proof M3 of
  /// client/mirror/mirror_frames.h. Returns false if one was lost; then it goes on behind the last count.
  template <typename Taker>
  bool TakeChanges(std::span<const std::byte> bytes, const Taker& take) {
    for (; bytes.size() >= sizeof(IndexChange) && has_changes(); bytes = bytes.subspan(sizeof(IndexChange))) {
      IndexChange change;
      std::memcpy(&change, bytes.data(), sizeof(change));
      if (!ChangeIsWhole(change, next_)) {
        next_ = end_;
        return false;
      }
      ++next_;
      take(change, stamp_);
    }
    return true;
  }

 private:
  bool has_count_ = false;
  std::uint64_t next_ = 0;    // number of the next change to READ
  std::uint64_t end_ = 0;     // the last count
  Stamp stamp_ = 0;           // refreshes before the READ of the count before that, for changes before end_
  Stamp last_refreshes_ = 0;  // refreshes before the READ of the last count
};

}  // namespace remora
