#include "client/rpc/request_channel.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

void FillOptions(const PutOptions& options, Request* request) {
  request->ttl_ms = EncodeTtl(options.ttl);
  request->condition = options.condition.Encode();
  request->durability = EncodeDurability(options.durability);
}

}  // namespace

RequestChannel::RequestChannel(Session& session)
    : session_(session), slice_(session.payload_buffer().size()) {}

absl::StatusOr<bool> RequestChannel::Send(const RequestSpec& asked, std::uint32_t owner) {
  if (!HasCredit()) return false;
  const bool is_question = asked.operation == Operation::kOutcome;
  const std::size_t size =
      is_question ? 0 : asked.key.size() + asked.value.size() + session_.access_hints().bytes();
  // Without a slice it goes along, behind the request; or not at all, where that will be refused.
  const bool is_inline = session_.is_read_only() && size > 0 && !NeedsWriter(asked.operation);
  const std::size_t header_size = is_inline ? sizeof(Request) : 0;
  std::optional<StagingRing::Piece> piece;
  if (size > 0) {
    piece = slice_.Take(header_size + size);
    if (!piece) return false;
  }
  Request request = session_.NextRequest(asked.operation, asked.key.size(), asked.value.size());
  InFlightRequest& in_flight = Begin(request, owner, piece);

  if (piece) {
    const std::span<std::byte> payload = session_.payload_buffer().subspan(piece->offset + header_size, size);
    const SentValue value{asked.value, asked.local_key};
    const SgeList from = session_.Fill(payload, asked.key, value);
    request.read_count = static_cast<std::uint8_t>(
        session_.access_hints().Take(payload.data() + asked.key.size() + asked.value.size()));
    request.payload_offset = piece->offset;
    const char* const text = reinterpret_cast<const char*>(payload.data());
    in_flight.key = {text, asked.key.size()};
    if (!value.is_gathered()) in_flight.value = {text + asked.key.size(), asked.value.size()};
    if (!session_.is_read_only()) {
      if (value.is_gathered()) in_flight.memory = owner;
      REMORA_RETURN_IF_ERROR(session_.PostWrite(from, session_.slice(), piece->offset));
    } else if (!is_inline) {
      request.read_count = 0;
    }
  }
  FillOptions(asked.options, &request);
  if (is_question) {
    request.payload_offset = asked.about;
  } else {
    request.payload_checksum =
        PayloadChecksum(request, asked.key_hash, HashValue(asked.value.data(), asked.value.size()));
  }
  if (!is_inline) {
    REMORA_RETURN_IF_ERROR(Post(in_flight, request));
    return true;
  }
  const absl::Status posted =
      Post(in_flight, request, session_.payload_buffer().subspan(piece->offset, header_size + size));
  if (absl::IsResourceExhausted(posted)) {  // long ones: when others have been taken
    in_flight.send_done = in_flight.reply_done = true;
    FreeIfDone(in_flight);
    return false;
  }
  REMORA_RETURN_IF_ERROR(posted);
  return true;
}

std::size_t RequestChannel::MostListed() const {
  if (!session_.reconnects()) return kMaxListedPuts;
  return std::clamp<std::size_t>(session_.credits() / 2, 1, kMaxListedPuts);
}

absl::StatusOr<bool> RequestChannel::SendList(const List& list, Listing listing) {
  const bool has_ids = listing == Listing::kWithIds && session_.reconnects();
  const std::size_t ids = has_ids ? list.size() : 1;
  if (!HasCredit(ids)) return false;
  const std::size_t size = list.bytes();
  const std::optional<StagingRing::Piece> piece = slice_.Take(size + session_.access_hints().bytes());
  if (!piece) return false;
  Request request = session_.NextRequest(Operation::kPutList, 0, size, ids);
  InFlightRequest& in_flight = Begin(request, kNobody, piece);
  in_flight.first_id = request.request_id - (ids - 1);
  request.put_count = static_cast<std::uint8_t>(list.size());
  if (has_ids) request.put_ids = request.put_count;
  std::byte* const payload = session_.payload_buffer().data() + piece->offset;
  std::byte* end = payload;
  for (const List::Put& put : list.puts()) {
    end = AddListedPut(end, put.key, put.value, put.ttl);
    in_flight.owner[in_flight.listed++] = put.owner;
  }
  in_flight.value = {reinterpret_cast<const char*>(payload), size};
  // Without a slice, it is refused whatever it says.
  if (!session_.is_read_only()) {
    request.read_count = static_cast<std::uint8_t>(session_.access_hints().Take(end));
    end += request.read_count * sizeof(std::uint64_t);
    request.payload_offset = piece->offset;
    SgeList from;
    from.Add(session_.SgeOf(std::span(payload, end)));
    REMORA_RETURN_IF_ERROR(session_.PostWrite(from, session_.slice(), piece->offset));
    request.durability = EncodeDurability(list.durability());
    request.payload_checksum = PayloadChecksum(request, HashKey({}), HashValue(payload, size));
  }
  REMORA_RETURN_IF_ERROR(Post(in_flight, request));
  return true;
}

absl::StatusOr<bool> RequestChannel::SendSizes(const RequestSpec& asked, std::uint64_t value_hash,
                                               std::uint32_t owner) {
  if (!HasCredit()) return false;
  Request request = session_.NextRequest(asked.operation, asked.key.size(), asked.value.size());
  FillOptions(asked.options, &request);
  request.payload_checksum = PayloadChecksum(request, asked.key_hash, value_hash);
  REMORA_RETURN_IF_ERROR(Post(Begin(request, owner, std::nullopt), request));
  return true;
}

absl::StatusOr<bool> RequestChannel::SendPart(PayloadStream& stream, std::uint32_t owner,
                                              std::uint32_t memory) {
  if (!HasCredit()) return false;
  const std::size_t size = std::min(stream.left(), kPartBytes);
  const std::optional<StagingRing::Piece> piece = slice_.Take(size);
  if (!piece) return false;
  Request request = session_.NextRequest(Operation::kPart, 0, size);
  request.payload_offset = piece->offset;
  InFlightRequest& in_flight = Begin(request, owner, piece);
  in_flight.memory = memory;
  const SgeList part = stream.Take(session_.SgeOf(session_.payload_buffer().subspan(piece->offset, size)));
  REMORA_RETURN_IF_ERROR(session_.PostWrite(part, session_.slice(), piece->offset));
  REMORA_RETURN_IF_ERROR(Post(in_flight, request));
  return true;
}

bool RequestChannel::HasCredit(std::size_t ids) const {
  return !(in_flight_ == session_.credits() || (session_.reconnects() && MayBeLostSightOf(ids)));
}

RequestChannel::InFlightRequest& RequestChannel::Begin(const Request& request, std::uint32_t owner,
                                                       const std::optional<StagingRing::Piece>& piece) {
  InFlightRequest& in_flight = *std::find_if(requests_.begin(), requests_.end(),
                                             [](const InFlightRequest& one) { return one.request_id == 0; });
  in_flight = {.request_id = request.request_id,
               .first_id = request.request_id,
               .owner = {owner},
               .memory = kNobody,
               .piece = piece ? piece->number : 0,
               .listed = 0,
               .has_piece = piece.has_value(),
               .is_write = IsWrite(request.operation),
               .send_done = false,
               .reply_done = false,
               .looks = session_.counters().location_looks,
               .key = {},
               .value = {}};
  ++in_flight_;
  return in_flight;
}

absl::Status RequestChannel::Post(const InFlightRequest& in_flight, const Request& request) {
  const auto number = static_cast<std::size_t>(&in_flight - requests_.data());
  return Post(in_flight, request, session_.request_buffer(number));
}

absl::Status RequestChannel::Post(const InFlightRequest& in_flight, const Request& request,
                                  std::span<std::byte> buffer) {
  const auto number = static_cast<std::size_t>(&in_flight - requests_.data());
  std::memcpy(buffer.data(), &request, sizeof(request));
  REMORA_RETURN_IF_ERROR(session_.connection().PostSend(number, session_.SgeOf(buffer)));
  ++session_.counters().requests;
  return absl::OkStatus();
}

bool RequestChannel::MayBeLostSightOf(std::size_t ids) const {
  const std::uint64_t last = session_.last_request_id() + ids;
  return std::any_of(requests_.begin(), requests_.end(), [&](const InFlightRequest& in_flight) {
    return in_flight.request_id != 0 && !in_flight.reply_done &&
           last - in_flight.first_id >= session_.credits();
  });
}

void RequestChannel::Abandon(std::uint32_t owner) {
  for (InFlightRequest& in_flight : requests_) {
    for (std::uint32_t& one : std::span(in_flight.owner).first(in_flight.callers())) {
      if (one == owner) one = kNobody;
    }
  }
}

std::uint64_t RequestChannel::LastAbandonedWrite() const {
  std::uint64_t last = 0;
  for (const InFlightRequest& in_flight : requests_) {
    if (!in_flight.is_write || in_flight.reply_done) continue;
    for (std::size_t i = 0; i < in_flight.callers(); ++i) {
      if (in_flight.owner[i] == kNobody) last = std::max(last, in_flight.first_id + i);
    }
  }
  return last;
}

bool RequestChannel::IsGathering(std::uint32_t owner) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const InFlightRequest& in_flight) {
    return in_flight.request_id != 0 && in_flight.memory == owner;
  });
}

std::uint32_t RequestChannel::TakeSend(const rdma::Completion& completion) {
  InFlightRequest& in_flight = requests_[completion.context];
  in_flight.send_done = true;
  const std::uint32_t memory = std::exchange(in_flight.memory, kNobody);
  FreeIfDone(in_flight);
  return memory;
}

absl::StatusOr<RequestChannel::Ended> RequestChannel::TakeReply(const rdma::Completion& completion) {
  const std::optional<Session::Answer> answer = session_.ReplyIn(completion);
  if (!answer || answer->reply.request_id == 0) return absl::UnavailableError(AbslView(kStrayReply));
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const InFlightRequest& in_flight) {
    return in_flight.request_id == answer->reply.request_id;
  });
  if (found == requests_.end() || found->reply_done) {
    return absl::UnavailableError(AbslView(kStrayReply));
  }
  const Ended ended{.owner = found->owner,
                    .answer = *answer,
                    .may_learn = found->looks == session_.counters().location_looks,
                    .is_write = found->is_write,
                    .listed = found->listed,
                    .first_id = found->first_id};
  found->reply_done = true;
  found->owner.fill(kNobody);
  FreeIfDone(*found);
  return ended;
}

void RequestChannel::FreeIfDone(InFlightRequest& in_flight) {
  if (!in_flight.send_done || !in_flight.reply_done) return;
  if (in_flight.has_piece) slice_.Release(in_flight.piece);
  in_flight = {};
  --in_flight_;
}

}  // namespace remora
