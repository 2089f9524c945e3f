// The server's answer to a kLocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/get/record_copy.h"
#include "client/rpc/request_channel.h"
#include "client/session/session.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/moved.h"
#include "store/format/memory/layout.h"
#include "store/format/wire/located_value.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Returns the reason why the server's answer to a kLocate has neither place nor value.
inline absl::Status LocatedStatus(const ServerReply& answer) {
  const absl::string_view why = AbslView(answer.behind);
  switch (answer.reply.status) {
    case ReplyStatus::kOk:
      return absl::OkStatus();
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
}

/// Returns the place in an answer that is OK.
inline absl::StatusOr<Slot> LocatedSlot(const Session& session, const ServerReply& answer) {
  const Slot slot = DecodeSlot(answer.reply.slot);
  if (!SlotNamesPlace(slot, session.server().shape().memory_size)) {
    return absl::InternalError("protocol error: the server located a record outside its memory");
  }
  return slot;
}

/// Returns whether the record that was read is the one that the server located.
inline bool IsLocated(const RecordCopy& record, const Reply& reply) {
  return (record.state == RecordState::kLive || record.state == RecordState::kDead) &&
         record.header.version_live >> 1 == reply.version;
}

/// Copies the value in an answer that is OK to `memory`, which has kMaxValueBehind bytes, and has the record
/// point to it.
///   DataLoss: it does not match its checksum.
inline absl::Status TakeLocatedValue(const Session& session, const ServerReply& answer,
                                     std::uint64_t key_hash, std::span<std::byte> memory,
                                     RecordCopy* record) {
  const Reply& reply = answer.reply;
  const std::uint64_t incarnation = session.server().shape().incarnation;
  if (reply.slot != LocatedValueChecksum(reply, key_hash, answer.behind, incarnation)) {
    return absl::DataLossError(
        "get: the value in the server's reply does not match its checksum; it was damaged on the way: try "
        "again");
  }
  REMORA_CHECK(answer.behind.size() <= memory.size());
  std::memcpy(memory.data(), answer.behind.data(), answer.behind.size());
  *record = {};
  record->header.version_live = reply.version << 1;
  record->header.value_size = static_cast<std::uint32_t>(answer.behind.size());
  record->header.expiry_ms = static_cast<std::uint64_t>(reply.result);
  record->body = memory.data();
  record->proven = true;
  return absl::OkStatus();
}

}  // namespace remora
