#include "server/replication/copy_receiver.h"

#include <string_view>
#include <utility>

namespace remora {

void CopyReceiver::Begin(const void* primary, History history) {
  Drop();
  primary_ = primary;
  history_ = std::move(history);
  history_.is_primary = false;
}

absl::Status CopyReceiver::Take(const Request& request, std::span<const std::byte> bytes) {
  absl::Status taken = TakeStep(request, bytes);
  if (!taken.ok()) Drop();
  return taken;
}

absl::Status CopyReceiver::TakeStep(const Request& request, std::span<const std::byte> bytes) {
  const auto step = static_cast<CopyStep>(request.condition);
  const auto size = static_cast<std::uint64_t>(request.ttl_ms);
  if (step == CopyStep::kFiles) {
    copy_.reset();
    absl::StatusOr<std::unique_ptr<IncomingCopy>> begun = IncomingCopy::Begin(data_dir_, size);
    if (!begun.ok()) return begun.status();
    copy_ = *std::move(begun);
    bytes_ = group_ = group_at_ = 0;
    return absl::OkStatus();
  }
  if (copy_ == nullptr) {
    return absl::FailedPreconditionError("copy: this follower takes no copy from this connection; begin one");
  }
  switch (step) {
    case CopyStep::kFile:
      return copy_->BeginFile({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, size);
    case CopyStep::kPart:
      bytes_ += bytes.size();
      return copy_->Write(bytes);
    case CopyStep::kFileEnds:
      return copy_->EndFile(request.payload_checksum);
    case CopyStep::kGroup: {
      bytes_ += bytes.size();
      const bool goes_on = group_ == request.payload_checksum;
      const std::uint64_t at = goes_on ? group_at_ : 0;
      group_ = request.payload_checksum;
      group_at_ = at + bytes.size();
      return copy_->AddGroup(request.payload_checksum, size, at, bytes);
    }
    case CopyStep::kEnds:
      if (absl::Status ended = copy_->End(request.payload_checksum, kHistoryFile, FormatHistory(history_));
          !ended.ok()) {
        return ended;
      }
      is_whole_ = true;
      copy_.reset();
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          "copy: a message has an unknown step; use one release on both servers");
  }
}

void CopyReceiver::Drop() {
  if (is_whole_ || primary_ == nullptr) return;
  primary_ = nullptr;
  if (copy_ == nullptr) return;
  copy_.reset();
  RemoveIncomingCopy(data_dir_);
}

}  // namespace remora
