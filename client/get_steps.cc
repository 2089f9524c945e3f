#include "client/get_steps.h"

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
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

Remembered Remember(Session& session, std::uint64_t key_hash, TimePoint start, KnownLocation* location) {
  *location = session.locations().Find(key_hash);
  if (location->slot == 0 || !session.allowance().has_some()) return Remembered::kNothing;
  if (!session.generations().IsFresh(SegmentOf(*location), start)) return Remembered::kNeedsLook;
  if (IsSameUse(session, *location)) return Remembered::kPlace;
  session.locations().Forget(key_hash);
  return Remembered::kNothing;
}

absl::StatusOr<std::optional<KnownLocation>> KnownPlace(Session& session, std::uint64_t key_hash,
                                                        TimePoint start) {
  KnownLocation location;
  Remembered remembered = Remember(session, key_hash, start, &location);
  if (remembered == Remembered::kNeedsLook) {
    REMORA_ASSIGN_OR_RETURN(const bool looked, Look(session, SegmentOf(location)));
    if (looked) remembered = Remember(session, key_hash, start, &location);
  }
  if (remembered != Remembered::kPlace) return std::nullopt;
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

absl::Status CheckFits(std::uint64_t size, const rdma::Sge& memory) {
  if (size <= memory.size) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("the value has ", size, " bytes, the buffer ", memory.size, "; register one that large"));
}

absl::StatusOr<Slot> LocatedSlot(const Session& session, const Session::Answer& answer) {
  if (answer.reply.status == ReplyStatus::kNotFound) return absl::NotFoundError("no such key");
  if (answer.reply.status == ReplyStatus::kFull) return absl::ResourceExhaustedError(AbslView(answer.behind));
  if (answer.reply.status == ReplyStatus::kCorrupt) return absl::DataLossError(AbslView(answer.behind));
  if (answer.reply.status == ReplyStatus::kDurableTier)
    return absl::UnavailableError(AbslView(answer.behind));
  if (answer.reply.status != ReplyStatus::kOk) {
    return absl::InternalError(
        absl::StrCat("the server could not locate a record: ", AbslView(answer.behind)));
  }
  const Slot slot = DecodeSlot(answer.reply.slot);
  if (!SlotNamesPlace(slot, session.shape().memory_size)) {
    return absl::InternalError("the server located a record outside its memory");
  }
  return slot;
}

}  // namespace remora
