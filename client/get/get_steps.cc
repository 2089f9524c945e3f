#include "client/get/get_steps.h"

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {

absl::StatusOr<bool> Look(Session& session, std::uint64_t segment) {
  if (!session.budget().has_some()) return false;
  session.budget().Spend();
  REMORA_RETURN_IF_ERROR(session.RefreshGenerations(segment));
  return true;
}

absl::StatusOr<bool> KnowsAfterLook(Session& session, std::uint64_t key_hash, TimePoint start,
                                    KnownLocation* location) {
  REMORA_ASSIGN_OR_RETURN(const bool looked, Look(session, SegmentOf(*location)));
  return looked && FindCachedLocation(session, key_hash, start, location) == Remembered::kPlace;
}

GetOutcome InvalidateLocation(Session& session, std::uint64_t key_hash) {
  ++session.counters().location_wasted;
  session.budget().Spend();
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
