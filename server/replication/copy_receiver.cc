#include "server/replication/copy_receiver.h"

#include <string_view>
#include <utility>

#include "store/base/status_macros.h"

namespace remora {

void CopyReceiver::Begin(const void* primary, History history) {
  Stop();
  if (is_whole_) return;
  primary_ = primary;
  history_ = std::move(history);
  history_.is_primary = false;
}

absl::StatusOr<std::int64_t> CopyReceiver::Take(const Request& request, std::span<const std::byte> bytes) {
  absl::StatusOr<std::int64_t> taken = TakeStep(request, bytes);
  if (!taken.ok()) Drop();
  return taken;
}

absl::StatusOr<std::int64_t> CopyReceiver::TakeStep(const Request& request,
                                                    std::span<const std::byte> bytes) {
  const auto step = static_cast<CopyStep>(request.condition);
  const auto size = static_cast<std::uint64_t>(request.ttl_ms);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto done = [](absl::Status status) -> absl::StatusOr<std::int64_t> {
    if (!status.ok()) return status;
    return 0;
  };
  if (step == CopyStep::kFiles) {
    copy_.reset();
    has_part_ = true;
    REMORA_ASSIGN_OR_RETURN(copy_, IncomingCopy::Begin(data_dir_, size));
    bytes_ = group_ = group_at_ = 0;
    return static_cast<std::int64_t>(copy_->earlier());
  }
  if (copy_ == nullptr) {
    return absl::FailedPreconditionError("copy: this follower takes no copy from this connection; begin one");
  }
  switch (step) {
    case CopyStep::kKeep: {
      REMORA_ASSIGN_OR_RETURN(const bool is_there, copy_->Keep(text, size, request.payload_checksum));
      return is_there ? 1 : 0;
    }
    case CopyStep::kFile:
      return done(copy_->BeginFile(text, size));
    case CopyStep::kPart:
      bytes_ += bytes.size();
      return done(copy_->Write(bytes));
    case CopyStep::kFileEnds:
      return done(copy_->EndFile(request.payload_checksum));
    case CopyStep::kGroup: {
      bytes_ += bytes.size();
      const bool goes_on = group_ == request.payload_checksum;
      const std::uint64_t at = goes_on ? group_at_ : 0;
      group_ = request.payload_checksum;
      group_at_ = at + bytes.size();
      return done(copy_->AddGroup(request.payload_checksum, size, at, bytes));
    }
    case CopyStep::kEnds:
      REMORA_RETURN_IF_ERROR(copy_->End(request.payload_checksum, kHistoryFile, FormatHistory(history_)));
      is_whole_ = true;
      copy_.reset();
      return 0;
    default:
      return absl::InvalidArgumentError(
          "copy: a message has an unknown step; use one release on both servers");
  }
}

void CopyReceiver::Stop() {
  if (is_whole_) return;
  primary_ = nullptr;
  copy_.reset();
}

void CopyReceiver::Drop() {
  Stop();
  if (!is_whole_ && std::exchange(has_part_, false)) RemoveIncomingCopy(data_dir_);
}

}  // namespace remora
