#include "store/read/ring_change_feed.h"

#include <algorithm>

#include "store/base/status_macros.h"
#include "store/changes/change_ring.h"
#include "store/engine/writer_lock.h"

namespace remora {

absl::StatusOr<std::uint64_t> ContinueInRing(const StoreCore& core, const ChangePosition& position,
                                             std::uint64_t end) {
  const std::uint64_t incarnation = core.superblock.incarnation;
  if (position.incarnation != incarnation) {
    return NotKept("it is of another store, or the store was started anew and keeps nothing on disk");
  }
  return Continue({Opening{.incarnation = incarnation, .found = 0}}, position, end);
}

absl::StatusOr<ChangeLog::Step> RingChangeFeed::Next(std::uint64_t end, Change* change) {
  if (shown_ == copied_.size()) {
    if (position_ > end) return Step::kNone;
    REMORA_RETURN_IF_ERROR(CopySome(end));
  }
  *change = copied_[shown_++];
  position_ = change->sequence + 1;
  return Step::kChange;
}

absl::Status RingChangeFeed::CopySome(std::uint64_t end) {
  copied_.clear();
  shown_ = 0;
  if (buffer_size_ > kMostBytes) {  // for a large value, which was shown
    buffer_.reset();
    buffer_size_ = 0;
  }
  for (;;) {
    std::size_t needed = 0;
    REMORA_RETURN_IF_ERROR(CopyWhatFits(end, &needed));
    if (!copied_.empty()) return absl::OkStatus();
    // Without the lock. The ring may overwrite the change meanwhile.
    buffer_size_ = std::max(needed, kMostBytes);
    buffer_ = std::make_unique_for_overwrite<char[]>(buffer_size_);
  }
}

absl::Status RingChangeFeed::CopyWhatFits(std::uint64_t end, std::size_t* needed) {
  const WriterLock lock(core_.mutex);
  const ChangeRing& ring = *core_.changes;
  switch (ring.StateOf(position_)) {
    case ChangeRing::State::kKept:
      break;
    case ChangeRing::State::kOverwritten:
      return NotKept("its writes are not kept any more (--change_log)");
    case ChangeRing::State::kTooLarge:
      return NotKept("one of its writes is larger than the change log (--change_log)");
    case ChangeRing::State::kMark:
      return NotKept(kSlotsLeft);
  }
  *needed = ring.SizeOf(position_);
  std::size_t used = 0;
  for (std::uint64_t number = position_; number <= end && copied_.size() < kMostChanges; ++number) {
    if (ring.StateOf(number) != ChangeRing::State::kKept) break;
    const std::size_t size = ring.SizeOf(number);
    if (size > buffer_size_ - used) break;
    copied_.push_back(ring.Copy(number, {buffer_.get() + used, size}));
    used += size;
  }
  return absl::OkStatus();
}

}  // namespace remora
