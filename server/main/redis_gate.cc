#include "server/main/redis_gate.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "server/main/listen_checks.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {

absl::StatusOr<std::string> FindGate() {
  REMORA_ASSIGN_OR_RETURN(std::string path, ThisProgram());
  path.resize(path.rfind('/') + 1);
  path += "kvgate";
  if (::access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(
      absl::StrCat("--redis: ", path, ": ", std::strerror(errno), "; install kvgate beside kvserver"));
}

absl::Status CheckGateAddress(std::string_view address, bool is_open) {
  constexpr std::string_view kScheme = "redis://";
  constexpr absl::string_view kForms =
      "an address of the gate is redis://HOST:PORT, redis://[IPV6]:PORT or redis:///PATH";
  if (!address.starts_with(kScheme)) return absl::InvalidArgumentError(kForms);
  const std::string_view rest = address.substr(kScheme.size());
  const auto parsed =
      rdma::ParseAddress(absl::StrCat(rest.starts_with('/') ? "local://" : "tcp://", AbslView(rest)));
  if (!parsed.ok()) return absl::InvalidArgumentError(kForms);
  if (is_open || IsLoopback(*parsed)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("other machines reach ", AbslView(address),
                   ", and could read and change everything: name 127.0.0.1, ::1 or a Unix socket or, where "
                   "the network lets nobody else through, add --insecure_open"));
}

}  // namespace remora
