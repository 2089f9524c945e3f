#include "client/get_steps.h"

#include "store/base/status_macros.h"

namespace remora {
namespace {

std::uint64_t SegmentOf(const KnownLocation& location) {
  return Generations::SegmentOf(DecodeSlot(location.slot));
}

/// Whether the last look saw no use of the memory but the one that the place was learned in.
bool IsSameUse(const Session& session, const KnownLocation& location) {
  return session.generations().NumberOf(SegmentOf(location)) == location.number;
}

}  // namespace

absl::StatusOr<bool> Look(Session& session, std::uint64_t segment) {
  if (!session.allowance().has_some()) return false;
  session.allowance().Spend();
  REMORA_RETURN_IF_ERROR(session.LookAtGenerations(segment));
  return true;
}

absl::StatusOr<std::optional<KnownLocation>> KnownPlace(Session& session, std::uint64_t key_hash,
                                                        TimePoint start) {
  const KnownLocation location = session.locations().Find(key_hash);
  if (location.slot == 0 || !session.allowance().has_some()) return std::nullopt;
  const std::uint64_t segment = SegmentOf(location);
  if (!session.generations().IsFresh(segment, start)) {
    REMORA_ASSIGN_OR_RETURN(const bool looked, Look(session, segment));
    if (!looked) return std::nullopt;
  }
  if (!IsSameUse(session, location)) {
    session.locations().Forget(key_hash);
    return std::nullopt;
  }
  return location;
}

GetOutcome JudgeKnown(Session& session, std::uint64_t key_hash, const KnownLocation& location,
                      const RecordCopy& record, TimePoint start, Found* found) {
  // G5: only what was read in time is the record's. If we were held up, nothing is known of the location.
  const bool in_time = session.generations().IsFresh(SegmentOf(location), session.Coarse());
  // A look for another key may have come in between (client/multi_get.cc).
  if (in_time && IsSameUse(session, location) && record.state == RecordState::kLive) {
    ++session.counters().location_hits;
    session.allowance().Earn(1);
    return Judge(session, record, start, found);
  }
  ++session.counters().location_wasted;
  session.allowance().Spend();
  session.locations().Forget(key_hash);
  return GetOutcome::kUnsure;
}

}  // namespace remora
