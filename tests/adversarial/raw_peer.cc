#include "tests/adversarial/raw_peer.h"

#include <cstring>

#include "store/format/memory/record.h"

namespace remora {

std::unique_ptr<RawPeer> RawPeer::At(const rdma::Address& where, bool takes_replies) {
  switch (where.kind) {
    case rdma::TransportKind::kLocal:
      return MakeRawLocal(where, takes_replies);
    case rdma::TransportKind::kTcp:
      return MakeRawTcp(where, takes_replies);
    case rdma::TransportKind::kVerbs:
      break;
  }
  return MakeRawVerbs(where, takes_replies);
}

bool RawPeer::Join(const HelloRequest& hello) {
  return Join(AsBytes(hello)) == Answer::kAccepted && FromBytes(said(), &hello_);
}

std::optional<RawPeer::Answered> RawPeer::Ask(const Request& request) {
  if (!Send(AsBytes(request))) return std::nullopt;
  const std::optional<std::string> message = Receive();
  Answered answered;
  if (!message || !FromBytes(std::as_bytes(std::span(*message)), &answered.reply)) return std::nullopt;
  answered.behind = message->substr(sizeof(Reply));
  const bool is_whole = answered.behind.size() == answered.reply.behind_size;
  if (!is_whole || answered.reply.request_id != request.request_id) return std::nullopt;
  return answered;
}

void RawPeer::Seal(Request* request, std::string_view key, std::string_view value) {
  request->payload_checksum = PayloadChecksum(*request, HashKey(key), HashValue(value.data(), value.size()));
}

std::optional<RawPeer::Answered> RawPeer::Put(std::uint64_t id, std::string_view key,
                                              std::string_view value) {
  Request request;
  request.request_id = id;
  request.operation = Operation::kPut;
  request.key_size = static_cast<std::uint16_t>(key.size());
  request.value_size = static_cast<std::uint32_t>(value.size());
  Seal(&request, key, value);
  Write(0, std::string(key) + std::string(value));
  return Ask(request);
}

}  // namespace remora
