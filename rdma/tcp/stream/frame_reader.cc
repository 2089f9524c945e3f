#include "rdma/tcp/stream/frame_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/stream/outbox.h"
#include "store/base/absl_view.h"

namespace remora::rdma {

TcpFrameReader::TcpFrameReader(std::uint32_t receives, std::string_view peer)
    : peer_(peer), receives_(receives) {}

TcpFrameReader::Step TcpFrameReader::Advance() {
  if (!is_within_) {
    const FrameHeader* const next = inbox_.Next();
    if (next == nullptr) return Step::kNothing;
    header_ = *next;
    if (const Step step = Begin(); step != Step::kNothing) return step;
  }
  if (!inbox_.TakePayload()) return Step::kNothing;
  is_within_ = false;
  if (header_.kind == FrameKind::kMessage) return Step::kMessage;
  if (header_.kind != FrameKind::kEnd) return Step::kWhole;
  error_ = StatusOfEnd(header_.key, {reason_.data(), header_.size}, peer_);
  return Step::kEnded;
}

TcpFrameReader::Step TcpFrameReader::Begin() {
  if (!header_.reserved_are_zero()) {
    return RejectFrame(absl::InternalError("frame: bytes that must be zero are not"));
  }
  if (header_.kind == FrameKind::kEnd) {
    if (header_.size > kTcpMaxReason) return RejectFrame(UnknownFrame());
    const Sge to = {reinterpret_cast<std::byte*>(reason_.data()), header_.size, 0};
    Expect({&to, 1});
    return Step::kNothing;
  }
  if (header_.kind != FrameKind::kMessage) return Step::kFrame;
  if (header_.size > kMaxMessageSize) {
    return RejectFrame(absl::InternalError(
        absl::StrCat("frame: a message of ", header_.size, " bytes; the longest is ", kMaxMessageSize)));
  }
  if (receives_.empty()) return Step::kParked;
  const Sge& into = receives_.front().into;
  if (header_.size > into.size) {
    return RejectFrame(absl::InternalError(
        absl::StrCat("frame: a message of ", header_.size, " bytes came for a receive of ", into.size)));
  }
  const Sge to = {into.data, header_.size, 0};
  Expect({&to, 1});
  return Step::kNothing;
}

void TcpFrameReader::Expect(std::span<const Sge> to) {
  inbox_.Expect(to);
  is_within_ = true;
}

TcpFrameReader::Step TcpFrameReader::RejectFrame(absl::Status why) {
  error_ = std::move(why);
  return Step::kRejected;
}

absl::Status TcpFrameReader::UnknownFrame() const {
  const std::string_view sender = peer_ == "the server" ? "server" : "client";
  return absl::InternalError(absl::StrCat("frame: kind ", static_cast<unsigned>(header_.kind), " and size ",
                                          header_.size, ", which no ", AbslView(sender), " sends"));
}

Completion TcpFrameReader::TakeMessage(Connection* connection) {
  const Completion completion{.connection = connection,
                              .context = receives_.front().context,
                              .byte_count = header_.size,
                              .kind = CompletionKind::kReceive,
                              .ok = true};
  receives_.pop();
  return completion;
}

bool TcpFrameReader::DropReceive(std::uint64_t* context) {
  if (receives_.empty()) return false;
  *context = receives_.front().context;
  receives_.pop();
  return true;
}

}  // namespace remora::rdma
