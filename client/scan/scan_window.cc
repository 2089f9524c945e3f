// What a session does for scans: the window, and the request aside.
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/scan/scan_impl.h"
#include "client/session/session.h"
#include "store/base/status_macros.h"
#include "store/format/wire/scan_messages.h"

namespace remora {

// For each connection anew. Over the local transport the server maps the memory when it accepts us; nobody
// touches a page of it before the first scan.
absl::Status Session::OfferScanWindow() {
  scan_window_registration_.reset();
  if (!aside_.done) {
    aside_.reply = {};
    aside_.reply.status = ReplyStatus::kNotFound;  // its cursor went with the connection
  }
  aside_.sent = aside_.done = true;
  abandoned_cursor_ = 0;
  if (scan_window_owner_ != nullptr) scan_window_owner_->GiveUpWindow();
  scan_window_owner_ = nullptr;
  const std::size_t size = options_.scan_window_bytes;
  if (size == 0) return absl::OkStatus();
  if (size < 2 * kMinPageSize || size > rdma::kMaxOfferedSize) {
    return absl::InvalidArgumentError(absl::StrCat("a scan window of ", size, " bytes; allowed are 0 and ",
                                                   2 * kMinPageSize, " to ", rdma::kMaxOfferedSize));
  }
  if (scan_window_ == nullptr) {
    REMORA_ASSIGN_OR_RETURN(scan_window_, rdma::SharedMemory::Create("remora-scan-window", size,
                                                                     rdma::SharedMemory::Writers::kPeers));
  }
  return connection_->OfferWrite(*scan_window_);
}

absl::StatusOr<Session::ScanWindow> Session::RegisterScanWindow() {
  if (scan_window_ == nullptr) {
    return absl::FailedPreconditionError(
        "this client has no memory for scans: ClientOptions::scan_window_bytes is 0");
  }
  if (scan_window_registration_ == nullptr) {
    REMORA_ASSIGN_OR_RETURN(scan_window_registration_, connection_->RegisterWrite(*scan_window_));
  }
  return ScanWindow{scan_window_->bytes(), scan_window_registration_->remote()};
}

bool Session::TakeAside(const Reply& reply, std::string_view behind) {
  if (aside_.done || reply.request_id != aside_.id) return false;
  aside_.reply = reply;
  behind.copy(aside_.text.data(), aside_.text.size());
  aside_.done = true;
  return true;
}

}  // namespace remora
