#include "client/put/large_put.h"

#include <optional>
#include <span>

#include "client/put/put.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"
#include "store/format/wire/messages.h"

namespace remora {
namespace {

/// While one half of the buffer is under way, the other is filled.
absl::Status WriteToGrant(Session& session, PayloadStream& stream, const RemoteRegion& region) {
  const std::span<std::byte> buffer = session.payload_buffer();
  const std::size_t half = buffer.size() / 2;
  std::uint64_t offset = 0;
  for (std::size_t turn = 0; !stream.empty(); ++turn) {
    session.RestartDeadline();
    const SgeList piece = stream.Take(session.SgeOf(buffer.subspan(turn % 2 * half, half)));
    REMORA_RETURN_IF_ERROR(session.AwaitRead());
    REMORA_RETURN_IF_ERROR(session.PostWrite(piece, region, offset));
    REMORA_RETURN_IF_ERROR(session.PostFence());
    offset += piece.size();
  }
  return session.AwaitRead();
}

absl::Status SendParts(Session& session, PayloadStream& stream) {
  while (!stream.empty()) {
    session.RestartDeadline();
    const SgeList part = stream.Take(session.SgeOf(session.payload_buffer()));
    REMORA_RETURN_IF_ERROR(session.PostWrite(part, session.slice(), 0));
    REMORA_ASSIGN_OR_RETURN(const Session::Answer answer,
                            session.Exchange(session.NextRequest(Operation::kPart, 0, part.size())));
    REMORA_RETURN_IF_ERROR(ToStatus(answer));
  }
  return absl::OkStatus();
}

/// The answer to the commit, or to what came before it, if that failed.
absl::StatusOr<Session::Answer> Send(Session& session, std::string_view key, const SentValue& value,
                                     std::uint64_t key_hash, const PutOptions& options) {
  const std::size_t size = value.bytes.size();
  Session::Answer reserved;
  do {
    REMORA_ASSIGN_OR_RETURN(reserved,
                            session.Exchange(session.NextRequest(Operation::kReserve, key.size(), size)));
  } while (reserved.reply.status == ReplyStatus::kAskAgain && session.clock().Now() < session.deadline());
  if (reserved.reply.status != ReplyStatus::kOk) return reserved;
  Grant grant;
  const bool granted = FromBytes(std::as_bytes(std::span(reserved.behind)), &grant);
  if (granted && grant.region.size != key.size() + size) {
    return absl::InternalError("the server granted another size than was asked for");
  }
  PayloadStream stream(key, value);
  REMORA_RETURN_IF_ERROR(granted ? WriteToGrant(session, stream, grant.region) : SendParts(session, stream));

  session.RestartDeadline();
  Request commit = session.NextRequest(Operation::kCommit, key.size(), size);
  commit.ttl_ms = EncodeTtl(options.ttl);
  commit.condition = options.condition.Encode();
  commit.durability = EncodeDurability(options.durability);
  commit.payload_checksum = PayloadChecksum(commit, key_hash, stream.value_hash());
  return session.Exchange(commit);
}

}  // namespace

absl::Status PutLarge(Session& session, std::string_view key, const SentValue& value,
                      const PutOptions& options) {
  const std::uint64_t key_hash = HashKey(key);
  session.locations().Forget(key_hash);
  REMORA_ASSIGN_OR_RETURN(std::optional<Session::Answer> answered, session.RecoverLostReply());
  if (!answered) {
    REMORA_ASSIGN_OR_RETURN(answered, Send(session, key, value, key_hash, options));
  }
  const Session::Answer& answer = *answered;
  if (answer.reply.status == ReplyStatus::kOk && options.version != nullptr) {
    *options.version = answer.reply.version;
  }
  return ToStatus(answer);
}

}  // namespace remora
