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

absl::Status RequestChannel::Bind(rdma::ClientConnection& connection) {
  connection_ = &connection;
  for (std::uint64_t i = 0; i < SessionBuffers::kReplies; ++i) REMORA_RETURN_IF_ERROR(PostReceive(i));
  return absl::OkStatus();
}

void RequestChannel::Clear() {
  connection_ = nullptr;
  requests_.fill({});
  staging_.Clear();
  in_flight_ = 0;
}

absl::StatusOr<bool> RequestChannel::Send(const RequestSpec& asked, std::uint32_t owner) {
  if (!HasCredit()) return false;
  const bool is_question = asked.operation == Operation::kQueryCompletion;
  const std::size_t size = is_question ? 0 : asked.key.size() + asked.value.size() + hints_.bytes();
  // Without a staging buffer, the payload goes behind the request; or it stays here, if the server will
  // reject it.
  const bool is_inline = server_.is_read_only() && size > 0 && !NeedsWriter(asked.operation);
  const std::size_t header_size = is_inline ? sizeof(Request) : 0;
  std::optional<PieceRing::Piece> piece;
  if (size > 0) {
    piece = staging_.Take(header_size + size);
    if (!piece) return false;
  }
  Request request = NextRequest(asked.operation, asked.key.size(), asked.value.size());
  InFlightRequest& in_flight = Begin(request, owner, piece);

  if (piece) {
    const std::span<std::byte> payload = buffers_.payload().subspan(piece->offset + header_size, size);
    const SentValue value{asked.value, asked.local_key};
    const SgeList from = Fill(payload, asked.key, value);
    request.read_count =
        static_cast<std::uint8_t>(hints_.Take(payload.data() + asked.key.size() + asked.value.size()));
    request.payload_offset = piece->offset;
    const char* const text = reinterpret_cast<const char*>(payload.data());
    in_flight.key = {text, asked.key.size()};
    if (!value.is_gathered()) in_flight.value = {text + asked.key.size(), asked.value.size()};
    if (!server_.is_read_only()) {
      if (value.is_gathered()) in_flight.memory = owner;
      REMORA_RETURN_IF_ERROR(PostWrite(from, piece->offset));
    } else if (!is_inline) {
      request.read_count = 0;
    }
  }
  FillOptions(asked.options, &request);
  if (asked.operation == Operation::kLocate) request.condition = kTakesValue;
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
      Post(in_flight, request, buffers_.payload().subspan(piece->offset, header_size + size));
  if (absl::IsResourceExhausted(posted)) {  // a long request waits until the device took others
    in_flight.send_done = in_flight.reply_done = true;
    FreeIfDone(in_flight);
    return false;
  }
  REMORA_RETURN_IF_ERROR(posted);
  return true;
}

std::size_t RequestChannel::MaxListedPuts() const {
  if (!asks_later_) return kMaxPutsPerMessage;
  return std::clamp<std::size_t>(credits() / 2, 1, kMaxPutsPerMessage);
}

absl::StatusOr<bool> RequestChannel::SendList(const List& list, Listing listing) {
  const bool has_ids = listing == Listing::kWithIds && asks_later_;
  const std::size_t ids = has_ids ? list.size() : 1;
  if (!HasCredit(ids)) return false;
  const std::size_t size = list.bytes();
  const std::optional<PieceRing::Piece> piece = staging_.Take(size + hints_.bytes());
  if (!piece) return false;
  Request request = NextRequest(Operation::kMultiPut, 0, size, ids);
  InFlightRequest& in_flight = Begin(request, kNoOwner, piece);
  in_flight.first_id = request.request_id - (ids - 1);
  request.put_count = static_cast<std::uint8_t>(list.size());
  if (has_ids) request.put_ids = request.put_count;
  std::byte* const payload = buffers_.payload().data() + piece->offset;
  std::byte* end = payload;
  for (const List::Put& put : list.puts()) {
    end = AddMultiPutEntry(end, put.key, put.value, put.ttl);
    in_flight.owner[in_flight.put_count++] = put.owner;
  }
  in_flight.value = {reinterpret_cast<const char*>(payload), size};
  // Without a staging buffer, the server rejects the request whatever its contents.
  if (!server_.is_read_only()) {
    request.read_count = static_cast<std::uint8_t>(hints_.Take(end));
    end += request.read_count * sizeof(std::uint64_t);
    request.payload_offset = piece->offset;
    SgeList from;
    from.Add(buffers_.SgeOf(std::span(payload, end)));
    REMORA_RETURN_IF_ERROR(PostWrite(from, piece->offset));
    request.durability = EncodeDurability(list.durability());
    request.payload_checksum = PayloadChecksum(request, HashKey({}), HashValue(payload, size));
  }
  REMORA_RETURN_IF_ERROR(Post(in_flight, request));
  return true;
}

absl::StatusOr<bool> RequestChannel::SendSizes(const RequestSpec& asked, std::uint64_t value_hash,
                                               std::uint32_t owner) {
  if (!HasCredit()) return false;
  Request request = NextRequest(asked.operation, asked.key.size(), asked.value.size());
  FillOptions(asked.options, &request);
  request.payload_checksum = PayloadChecksum(request, asked.key_hash, value_hash);
  REMORA_RETURN_IF_ERROR(Post(Begin(request, owner, std::nullopt), request));
  return true;
}

absl::StatusOr<bool> RequestChannel::SendPart(PayloadStream& stream, std::uint32_t owner,
                                              std::uint32_t memory) {
  if (!HasCredit()) return false;
  const std::size_t size = std::min(stream.left(), kPartBytes);
  const std::optional<PieceRing::Piece> piece = staging_.Take(size);
  if (!piece) return false;
  Request request = NextRequest(Operation::kPart, 0, size);
  request.payload_offset = piece->offset;
  InFlightRequest& in_flight = Begin(request, owner, piece);
  in_flight.memory = memory;
  const SgeList part = stream.Take(buffers_.SgeOf(buffers_.payload().subspan(piece->offset, size)));
  REMORA_RETURN_IF_ERROR(PostWrite(part, piece->offset));
  REMORA_RETURN_IF_ERROR(Post(in_flight, request));
  return true;
}

absl::StatusOr<bool> RequestChannel::SendBare(Request request, std::uint32_t owner) {
  if (!HasCredit()) return false;
  request.request_id = ++last_request_id_;
  REMORA_RETURN_IF_ERROR(Post(Begin(request, owner, std::nullopt), request));
  return true;
}

Request RequestChannel::NextRequest(Operation operation, std::size_t key_size, std::size_t value_size,
                                    std::size_t ids) {
  last_request_id_ += ids;
  Request request;
  request.request_id = last_request_id_;
  request.value_size = static_cast<std::uint32_t>(value_size);
  request.key_size = static_cast<std::uint16_t>(key_size);
  request.operation = operation;
  return request;
}

SgeList RequestChannel::Fill(std::span<std::byte> payload, std::string_view key,
                             const SentValue& value) const {
  // The bytes that go along with a request are in one piece.
  const bool gathers = value.is_gathered() && !server_.is_read_only();
  if (!key.empty()) std::memcpy(payload.data(), key.data(), key.size());
  SgeList list;
  if (gathers) {
    list.Add(buffers_.SgeOf(payload.first(key.size())));
    list.Add(value.sge());
    list.Add(buffers_.SgeOf(payload.subspan(key.size() + value.bytes.size())));
    return list;
  }
  if (!value.bytes.empty()) {
    std::memcpy(payload.data() + key.size(), value.bytes.data(), value.bytes.size());
  }
  list.Add(buffers_.SgeOf(payload));
  return list;
}

absl::Status RequestChannel::PostWrite(const SgeList& from, std::size_t offset) {
  return connection_->PostWritev(from.entries(), server_.staging(), offset);
}

bool RequestChannel::HasCredit(std::size_t ids) const {
  return !(in_flight_ == credits() || (asks_later_ && MayBeForgotten(ids)));
}

RequestChannel::InFlightRequest& RequestChannel::Begin(const Request& request, std::uint32_t owner,
                                                       const std::optional<PieceRing::Piece>& piece) {
  InFlightRequest& in_flight = *std::find_if(requests_.begin(), requests_.end(),
                                             [](const InFlightRequest& one) { return one.request_id == 0; });
  in_flight = {.request_id = request.request_id,
               .first_id = request.request_id,
               .owner = {owner},
               .memory = kNoOwner,
               .piece = piece ? piece->number : 0,
               .put_count = 0,
               .has_piece = piece.has_value(),
               .is_write = IsWrite(request.operation),
               .send_done = false,
               .reply_done = false,
               .refreshes = cache_.refreshes(),
               .key = {},
               .value = {}};
  ++in_flight_;
  return in_flight;
}

absl::Status RequestChannel::Post(const InFlightRequest& in_flight, const Request& request) {
  const auto number = static_cast<std::size_t>(&in_flight - requests_.data());
  return Post(in_flight, request, buffers_.request(number));
}

absl::Status RequestChannel::Post(const InFlightRequest& in_flight, const Request& request,
                                  std::span<std::byte> buffer) {
  const auto number = static_cast<std::size_t>(&in_flight - requests_.data());
  std::memcpy(buffer.data(), &request, sizeof(request));
  REMORA_RETURN_IF_ERROR(connection_->PostSend(number, buffers_.SgeOf(buffer)));
  ++counters_.requests;
  return absl::OkStatus();
}

bool RequestChannel::MayBeForgotten(std::size_t ids) const {
  const std::uint64_t last = last_request_id() + ids;
  return std::any_of(requests_.begin(), requests_.end(), [&](const InFlightRequest& in_flight) {
    return in_flight.request_id != 0 && !in_flight.reply_done && last - in_flight.first_id >= credits();
  });
}

void RequestChannel::Abandon(std::uint32_t owner) {
  for (InFlightRequest& in_flight : requests_) {
    for (std::uint32_t& one : std::span(in_flight.owner).first(in_flight.callers())) {
      if (one == owner) one = kNoOwner;
    }
  }
}

std::uint64_t RequestChannel::LastAbandonedWrite() const {
  std::uint64_t last = 0;
  for (const InFlightRequest& in_flight : requests_) {
    if (!in_flight.is_write || in_flight.reply_done) continue;
    for (std::size_t i = 0; i < in_flight.callers(); ++i) {
      if (in_flight.owner[i] == kNoOwner) last = std::max(last, in_flight.first_id + i);
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
  const std::uint32_t memory = std::exchange(in_flight.memory, kNoOwner);
  FreeIfDone(in_flight);
  return memory;
}

absl::StatusOr<RequestChannel::Ended> RequestChannel::TakeReply(const rdma::Completion& completion) {
  const std::optional<ServerReply> answer = Decode(completion);
  if (!answer || answer->reply.request_id == 0) return absl::UnavailableError(AbslView(kStrayReply));
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const InFlightRequest& in_flight) {
    return in_flight.request_id == answer->reply.request_id;
  });
  if (found == requests_.end() || found->reply_done) {
    return absl::UnavailableError(AbslView(kStrayReply));
  }
  Ended ended{.owner = found->owner,
              .answer = *answer,
              .is_write = found->is_write,
              .put_count = found->put_count,
              .first_id = found->first_id};
  ended.answer.refreshes = found->refreshes;
  found->reply_done = true;
  found->owner.fill(kNoOwner);
  FreeIfDone(*found);
  return ended;
}

std::optional<ServerReply> RequestChannel::Decode(const rdma::Completion& completion) {
  const std::span<const std::byte> message = buffers_.reply(completion.context);
  ServerReply reply;
  if (!FromBytes(message.first(completion.byte_count), &reply.reply) ||
      reply.reply.behind_size > kMaxValueBehind ||
      sizeof(Reply) + reply.reply.behind_size > completion.byte_count) {
    return std::nullopt;
  }
  reply.behind = {reinterpret_cast<const char*>(message.data()) + sizeof(Reply), reply.reply.behind_size};
  server_.TakeLoading((reply.reply.flags & kLoading) != 0);
  hints_.set_wanted((reply.reply.flags & ReplyFlag::kWantsReads) != 0);
  return reply;
}

absl::Status RequestChannel::PostReceive(std::uint64_t index) {
  return connection_->PostRecv(index, buffers_.SgeOf(buffers_.reply(index)));
}

void RequestChannel::FreeIfDone(InFlightRequest& in_flight) {
  if (!in_flight.send_done || !in_flight.reply_done) return;
  if (in_flight.has_piece) staging_.Release(in_flight.piece);
  in_flight = {};
  --in_flight_;
}

}  // namespace remora
