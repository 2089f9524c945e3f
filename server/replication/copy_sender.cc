#include "server/replication/copy_sender.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "store/base/status_macros.h"

namespace remora {
namespace {

// The follower may wait for its disk.
constexpr std::chrono::seconds kCopySilence{30};
constexpr int kCopyLookMs = 100;
// A pause of the rate is no shorter than this, so that it costs no CPU.
constexpr std::chrono::milliseconds kShortestPause{5};

}  // namespace

std::optional<std::size_t> CopySender::FreeSlot() const {
  const auto free = std::ranges::find(in_slot_, std::uint64_t{0});
  if (free == in_slot_.end()) return std::nullopt;
  return static_cast<std::size_t>(free - in_slot_.begin());
}

absl::Status CopySender::TakeReplies() {
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const std::optional<FollowerConnection::Answer> answer, connection_.Poll());
    if (!answer) return absl::OkStatus();
    const auto slot = std::ranges::find(in_slot_, answer->reply.request_id);
    if (slot == in_slot_.end() || answer->reply.request_id == 0) continue;  // of a request before the copy
    *slot = 0;
    if (answer->reply.request_id == last_request_) result_ = answer->reply.result;
    if (answer->reply.status != ReplyStatus::kOk) return absl::FailedPreconditionError(answer->text);
  }
}

absl::Status CopySender::AwaitReply() {
  const auto before = std::ranges::count(in_slot_, std::uint64_t{0});
  const TimePoint deadline = clock_.Now() + kCopySilence;
  for (;;) {
    REMORA_RETURN_IF_ERROR(TakeReplies());
    if (std::ranges::count(in_slot_, std::uint64_t{0}) > before) return absl::OkStatus();
    if (!pause_(clock_.Now())) return absl::CancelledError("copy: the primary ends");
    if (clock_.Now() >= deadline) {
      return absl::DeadlineExceededError("it is connected, and does not answer while it gets a copy");
    }
    connection_.Sleep(-1, kCopyLookMs);
  }
}

absl::Status CopySender::Send(CopyStep step, std::uint64_t size, std::uint64_t checksum,
                              std::string_view value) {
  REMORA_RETURN_IF_ERROR(TakeReplies());
  while (!FreeSlot()) REMORA_RETURN_IF_ERROR(AwaitReply());
  const std::size_t slot = *FreeSlot();
  Request request;
  request.request_id = ++last_request_;
  request.operation = Operation::kCopy;
  request.condition = static_cast<std::uint64_t>(step);
  request.payload_offset = slot * connection_.slot_size();
  request.value_size = static_cast<std::uint32_t>(value.size());
  request.ttl_ms = static_cast<std::int64_t>(size);
  request.payload_checksum = checksum;
  in_slot_[slot] = last_request_;
  return connection_.Send(slot, request, value);
}

absl::Status CopySender::Flush() {
  REMORA_RETURN_IF_ERROR(TakeReplies());
  while (std::ranges::any_of(in_slot_, [](std::uint64_t id) { return id != 0; })) {
    REMORA_RETURN_IF_ERROR(AwaitReply());
  }
  return absl::OkStatus();
}

absl::Status CopySender::KeepRate(std::size_t bytes) {
  bytes_ += bytes;
  if (rate_ == 0) return absl::OkStatus();
  const TimePoint now = clock_.Now();
  due_ = std::max(due_, now) + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(
                                   static_cast<double>(bytes) / static_cast<double>(rate_)));
  if (due_ < now + kShortestPause) return absl::OkStatus();
  return pause_(due_) ? absl::OkStatus() : absl::CancelledError("copy: the primary ends");
}

absl::StatusOr<std::uint64_t> CopySender::SendFile(StoreCopy& copy, const StoreCopy::File& file,
                                                   const std::function<absl::Status()>& between) {
  REMORA_RETURN_IF_ERROR(Send(CopyStep::kFile, file.size, 0, file.name));
  std::string part;
  std::uint64_t checksum = 0;
  for (std::uint64_t at = 0; at < file.size; at += part.size()) {
    part.resize(std::min<std::uint64_t>(kCopyPart, file.size - at));
    REMORA_RETURN_IF_ERROR(copy.Read(file, at, part));
    checksum = NextCopyChecksum(checksum, std::as_bytes(std::span(part)));
    REMORA_RETURN_IF_ERROR(Send(CopyStep::kPart, 0, 0, part));
    REMORA_RETURN_IF_ERROR(KeepRate(part.size()));
    REMORA_RETURN_IF_ERROR(between());
  }
  REMORA_RETURN_IF_ERROR(Send(CopyStep::kFileEnds, 0, checksum, {}));
  return checksum;
}

absl::StatusOr<bool> CopySender::AskToKeep(const StoreCopy::File& file, std::uint64_t checksum) {
  REMORA_RETURN_IF_ERROR(Send(CopyStep::kKeep, file.size, checksum, file.name));
  REMORA_RETURN_IF_ERROR(Flush());
  return result_ == 1;
}

absl::Status CopySender::SendGroup(std::uint64_t number, std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += connection_.slot_size()) {
    const std::string_view part = bytes.substr(at, connection_.slot_size());
    REMORA_RETURN_IF_ERROR(Send(CopyStep::kGroup, bytes.size(), number, part));
    bytes_ += part.size();
  }
  return absl::OkStatus();
}

}  // namespace remora
