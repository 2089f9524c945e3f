// Where the metrics are served: --http=HOST:PORT.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/unique_fd.h"

namespace remora {

/// A socket that listens, and does not block.
struct HttpListener {
  rdma::UniqueFd socket;
  std::string address;  // for log lines
  std::string host;     // of the address
};

/// Listens at `HOST:PORT` or `[IPV6]:PORT`. With `others_may_reach` false, only at an address that this
/// machine alone reaches. Errors name the address and the remedy:
///
/// - InvalidArgument: the text is no such address, or other machines reach it.
/// - AlreadyExists: the port is in use.
/// - Unavailable: there is no such host, or this machine does not have the address.
/// - PermissionDenied: this user may not listen at that port.
/// - ResourceExhausted: there are no descriptors.
absl::StatusOr<HttpListener> ListenForHttp(std::string_view text, bool others_may_reach);

/// Returns the failure that ListenForHttp would have. The port stays free, and no program notices.
absl::Status CheckHttpAddress(std::string_view text, bool others_may_reach);

}  // namespace remora
