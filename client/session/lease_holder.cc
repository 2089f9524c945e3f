#include "client/session/lease_holder.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora {

absl::Status LeaseError(std::string_view why) {
  return absl::UnavailableError(absl::StrCat(
      "lease: the server does not show that it is still the primary (", AbslView(why),
      "): it may have been replaced, or a follower is away; use the promoted one, or see its log"));
}

absl::Status LeaseHolder::Begin(const std::optional<LeaseLine>& line, TimePoint before) {
  if (line && lease_.Begin(*line, before)) return absl::OkStatus();
  return absl::UnavailableError("connect: the server's lease line is not that of a primary; try again");
}

std::optional<LeaseLine> LeaseHolder::LineIn(std::span<const std::byte> bytes) const {
  LeaseLine line{};
  std::memcpy(&line, bytes.data(), sizeof(line));
  if (!ReadLease::IsWhole(line, server_.hello().incarnation)) return std::nullopt;
  return line;
}

absl::Status LeaseHolder::TakeLook(const LeaseLine& line, TimePoint before) {
  return lease_.Take(line, before) ? absl::OkStatus() : LeaseError("its lease line is another one");
}

absl::Status LeaseHolder::LookIfMapped(TimePoint now) {
  if (!region_.reads_now() || !IsLookOfUse(now)) return absl::OkStatus();
  std::array<std::byte, sizeof(LeaseLine)> bytes;
  if (!region_.ReadNow(bytes, kLeaseLineOffset)) return absl::OkStatus();
  const std::optional<LeaseLine> line = LineIn(bytes);
  return line ? TakeLook(*line, now) : absl::OkStatus();
}

Request LeaseHolder::MakeRequest() {
  Request request;
  request.operation = Operation::kPing;
  request.condition = kAsksLease;
  return request;
}

absl::Status LeaseHolder::TakeAnswer(const ServerReply& answer) {
  if (!asked_) return absl::OkStatus();
  if (answer.reply.status != ReplyStatus::kOk) return LeaseError(answer.behind);
  lease_.TakeAnswer(*asked_);
  asked_.reset();
  return absl::OkStatus();
}

}  // namespace remora
