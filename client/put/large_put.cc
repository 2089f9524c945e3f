#include "client/put/large_put.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/put/put.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"
#include "store/format/wire/messages.h"

namespace remora {
namespace {

/// While one half of the buffer is in flight, the other is filled.
absl::Status WriteToGrant(Session& session, PayloadStream& stream, const RemoteRegion& region) {
  REMORA_RETURN_IF_ERROR(session.calls().AwaitStaging());
  const std::span<std::byte> buffer = session.buffers().payload();
  const std::size_t half = buffer.size() / 2;
  std::uint64_t offset = 0;
  for (std::size_t turn = 0; !stream.empty(); ++turn) {
    session.calls().deadline().Restart();
    const SgeList piece = stream.Take(session.buffers().SgeOf(buffer.subspan(turn % 2 * half, half)));
    REMORA_RETURN_IF_ERROR(session.calls().AwaitReads());
    REMORA_RETURN_IF_ERROR(session.endpoint().connection().PostWritev(piece.entries(), region, offset));
    REMORA_RETURN_IF_ERROR(session.region().PostFence());
    offset += piece.size();
  }
  return session.calls().AwaitReads();
}

/// Sends the value in parts. While the server copies one, the client fills the next one.
absl::Status SendParts(Session& session, PayloadStream& stream) {
  constexpr std::uint32_t kPart = 0;  // their owner: no other request with a number is in flight
  std::size_t in_flight = 0;
  absl::Status rejected;
  const auto take = [&](std::uint32_t, const ServerReply& reply) {
    --in_flight;
    rejected.Update(ToStatus(reply));
  };
  while (in_flight > 0 || (!stream.empty() && rejected.ok())) {
    session.calls().deadline().Restart();
    while (!stream.empty() && rejected.ok()) {
      const absl::StatusOr<bool> sent = session.channel().SendPart(stream, kPart, RequestChannel::kCall);
      if (!sent.ok()) return session.endpoint().Break(sent.status());
      if (!*sent) break;
      ++in_flight;
    }
    REMORA_RETURN_IF_ERROR(session.calls().AwaitReplies(take));
  }
  return rejected;
}

absl::StatusOr<ServerReply> SendSizes(Session& session, const RequestSpec& spec, std::uint64_t value_hash) {
  return session.calls().Exchange(spec.operation, [&](RequestChannel& channel) {
    return channel.SendSizes(spec, value_hash, RequestChannel::kCall);
  });
}

/// The reply to the commit, or to what came before it, if that failed.
absl::StatusOr<ServerReply> Send(Session& session, std::string_view key, const SentValue& value,
                                 std::uint64_t key_hash, const PutOptions& options) {
  ServerReply reserved;
  do {
    REMORA_ASSIGN_OR_RETURN(
        reserved,
        SendSizes(session, {.operation = Operation::kReserve, .key = key, .value = value.bytes}, 0));
  } while (reserved.reply.status == ReplyStatus::kAskAgain &&
           session.clock().Now() < session.calls().deadline().Get());
  if (reserved.reply.status != ReplyStatus::kOk) return reserved;
  Grant grant;
  const bool granted = FromBytes(std::as_bytes(std::span(reserved.behind)), &grant);
  if (granted && grant.region.size != key.size() + value.bytes.size()) {
    return absl::InternalError("protocol error: the server granted another size than the client asked for");
  }
  PayloadStream stream(key, value);
  REMORA_RETURN_IF_ERROR(granted ? WriteToGrant(session, stream, grant.region) : SendParts(session, stream));

  session.calls().deadline().Restart();
  return SendSizes(session,
                   {.operation = Operation::kFinishLargePut,
                    .key = key,
                    .key_hash = key_hash,
                    .value = value.bytes,
                    .options = options},
                   stream.value_hash());
}

}  // namespace

absl::Status PutLarge(Session& session, std::string_view key, const SentValue& value,
                      const PutOptions& options) {
  const std::uint64_t key_hash = HashKey(key);
  session.cache().locations().Forget(key_hash);
  REMORA_ASSIGN_OR_RETURN(std::optional<ServerReply> answered, session.calls().RecoverLostReply());
  if (!answered) {
    REMORA_ASSIGN_OR_RETURN(answered, Send(session, key, value, key_hash, options));
  }
  const ServerReply& answer = *answered;
  if (answer.reply.status == ReplyStatus::kOk && options.version != nullptr) {
    *options.version = answer.reply.version;
  }
  return ToStatus(answer);
}

}  // namespace remora
