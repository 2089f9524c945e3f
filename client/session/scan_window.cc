#include "client/session/scan_window.h"

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/format/wire/scan_messages.h"

namespace remora {

absl::Status ScanWindow::Offer(rdma::ClientConnection& connection) {
  registration_.reset();
  if (!reply_.is_here()) {
    Reply gone;
    gone.status = ReplyStatus::kNotFound;  // its cursor ended with the connection
    reply_.Take({gone, {}});
  }
  abandoned_cursor_ = 0;
  if (owner_ != nullptr) owner_->GiveUpWindow();
  owner_ = nullptr;
  if (size_ == 0) return absl::OkStatus();
  if (size_ < 2 * kMinPageSize || size_ > rdma::kMaxOfferedSize) {
    return absl::InvalidArgumentError(absl::StrCat("scan window: ", size_, " bytes; allowed are 0 and ",
                                                   2 * kMinPageSize, " to ", rdma::kMaxOfferedSize));
  }
  if (memory_ == nullptr) {
    REMORA_ASSIGN_OR_RETURN(memory_, rdma::SharedMemory::Create("remora-scan-window", size_,
                                                                rdma::SharedMemory::Writers::kPeers));
  }
  return connection.OfferWrite(*memory_);
}

absl::StatusOr<ScanWindow::View> ScanWindow::Register(rdma::ClientConnection& connection) {
  if (memory_ == nullptr) {
    return absl::FailedPreconditionError(
        "scan: this client has no memory for scans; set ClientOptions::scan_window_bytes");
  }
  if (registration_ == nullptr) {
    REMORA_ASSIGN_OR_RETURN(registration_, connection.RegisterWrite(*memory_));
  }
  return View{memory_->bytes(), registration_->remote()};
}

}  // namespace remora
