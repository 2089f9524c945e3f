// The server's answer to a kLocate.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/rpc/request_channel.h"
#include "client/session/session.h"
#include "store/base/absl_view.h"
#include "store/base/moved.h"
#include "store/format/memory/layout.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Returns the place in the server's answer to a kLocate, or the reason why there is none.
inline absl::StatusOr<Slot> LocatedSlot(const Session& session, const ServerReply& answer) {
  const absl::string_view why = AbslView(answer.behind);
  switch (answer.reply.status) {
    case ReplyStatus::kOk:
      break;
    case ReplyStatus::kNotFound:
      return absl::NotFoundError("no such key");
    case ReplyStatus::kFull:
      return absl::ResourceExhaustedError(why);
    case ReplyStatus::kCorrupt:
      return absl::DataLossError(why);
    case ReplyStatus::kDurableTier:
      return DurableTierError(answer);
    case ReplyStatus::kMoved:
      return MovedError(why);
    default:
      return absl::InternalError(absl::StrCat("get: the server could not locate a record: ", why));
  }
  const Slot slot = DecodeSlot(answer.reply.slot);
  if (!SlotNamesPlace(slot, session.server().shape().memory_size)) {
    return absl::InternalError("protocol error: the server located a record outside its memory");
  }
  return slot;
}

}  // namespace remora
