#include "rdma/verbs/status.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"

namespace remora::rdma {
namespace {

// Reasons of a rejection (InfiniBand specification, volume 1, "REJ message": reason codes).
constexpr int kRejectInvalidServiceId = 8;
constexpr int kRejectByConsumer = 28;

std::string NoDevice(absl::string_view address) {
  return absl::StrCat(
      "no RDMA device reaches ", address,
      ". `rdma link` lists the devices and `ls /dev/infiniband` their files (modules ib_uverbs and "
      "rdma_ucm); for soft-RoCE: rdma link add rxe0 type rxe netdev INTERFACE");
}

absl::Status Coded(absl::StatusCode code, int error, absl::string_view call, absl::string_view meaning) {
  return absl::Status(code, absl::StrCat(meaning, " (", call, ": ", std::strerror(error), ")"));
}

}  // namespace

absl::Status StatusFromCompletion(ibv_wc_status status, std::uint32_t vendor_error) {
  REMORA_CHECK(status != IBV_WC_SUCCESS);
  const auto words = [&](absl::string_view meaning) {
    return absl::StrCat("connection lost: ", meaning, " (", ibv_wc_status_str(status), ", vendor error ",
                        vendor_error, ")");
  };
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
      return absl::PermissionDeniedError(words(
          "the peer's device rejected an access: outside of the region, with a wrong or revoked key, or of a "
          "kind that the region does not allow"));
    case IBV_WC_WR_FLUSH_ERR:
      // A queue pair that goes to error by itself does so because it answered a request with a rejection.
      return absl::PermissionDeniedError(
          words("this side's device rejected an access of the peer and ended the connection"));
    case IBV_WC_RETRY_EXC_ERR:
      return absl::UnavailableError(words("the peer does not answer; its host or the network is down"));
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return absl::UnavailableError(words("the peer posted no receive for a message in time"));
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return absl::UnavailableError(words("the peer stopped answering"));
    case IBV_WC_LOC_LEN_ERR:
      return absl::InternalError(words("a message is longer than the receive buffer posted for it"));
    case IBV_WC_LOC_PROT_ERR:
      return absl::InternalError(words("a posted buffer lies outside of registered memory"));
    case IBV_WC_REM_INV_REQ_ERR:
      return absl::InternalError(words(
          "a request does not fit its receiver: a message longer than the receive buffer posted for it"));
    default:
      return absl::InternalError(words("the device failed a request"));
  }
}

absl::Status StatusFromEvent(rdma_cm_event_type event, int event_status, absl::string_view peer) {
  const auto words = [&](absl::string_view meaning) {
    return absl::StrCat(peer, ": ", meaning, " (", rdma_event_str(event), ", status ", event_status, ")");
  };
  switch (event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return StatusFromErrno(-event_status, rdma_event_str(event), peer);
    case RDMA_CM_EVENT_REJECTED:
      if (event_status == kRejectByConsumer) {
        return absl::FailedPreconditionError(words("rejected the connection"));
      }
      if (event_status == kRejectInvalidServiceId) {
        return absl::UnavailableError(words("no server listens there"));
      }
      return absl::UnavailableError(words("rejected or gave up the connection"));
    case RDMA_CM_EVENT_UNREACHABLE:
      return absl::UnavailableError(words("does not answer"));
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return absl::UnavailableError(words("the connection could not be established"));
    case RDMA_CM_EVENT_DISCONNECTED:
      return absl::UnavailableError(words("closed the connection, or its process ended"));
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return absl::UnavailableError(words("the RDMA device of this side was removed"));
    default:
      return absl::OkStatus();
  }
}

absl::Status StatusFromLateEvent(rdma_cm_event_type event, int event_status, absl::string_view peer) {
  // A peer that closes before it has seen the last message of the handshake says so with a rejection.
  if (event == RDMA_CM_EVENT_REJECTED) return StatusFromEvent(RDMA_CM_EVENT_DISCONNECTED, event_status, peer);
  return StatusFromEvent(event, event_status, peer);
}

absl::Status StatusFromErrno(int error, absl::string_view call, absl::string_view address) {
  switch (error) {
    case ENODEV:
    case ENOENT:
    case ENXIO:
    case ENOSYS:
    case EADDRNOTAVAIL:
    case EPERM:  // librdmacm's word for a kernel without rdma_cm, or with one it does not understand
      return Coded(absl::StatusCode::kFailedPrecondition, error, call, NoDevice(address));
    case EACCES:
      return Coded(
          absl::StatusCode::kPermissionDenied, error, call,
          absl::StrCat("may not use RDMA for ", address,
                       ": /dev/infiniband/rdma_cm and uverbs* must be readable and writable, and a port "
                       "below 1024 needs CAP_NET_BIND_SERVICE"));
    case EADDRINUSE:
      return Coded(absl::StatusCode::kAlreadyExists, error, call,
                   absl::StrCat("another server listens at ", address));
    case ECONNREFUSED:
      return Coded(absl::StatusCode::kUnavailable, error, call,
                   absl::StrCat("no server listens at ", address));
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ETIMEDOUT:
      return Coded(absl::StatusCode::kUnavailable, error, call,
                   absl::StrCat("no way to ", address, ": no route, or no host has this address"));
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
      return Coded(absl::StatusCode::kResourceExhausted, error, call,
                   absl::StrCat("no memory, descriptor or device resource for ", address,
                                "; see `ulimit -l`, `ulimit -n` and `rdma resource`"));
    default:
      return Coded(absl::StatusCode::kInternal, error, call, absl::StrCat("RDMA failed for ", address));
  }
}

absl::Status StatusFromRegistration(int error, std::size_t size, std::uint64_t memlock_limit) {
  const std::string what = absl::StrCat("registering ", size, " bytes with the RDMA device");
  switch (error) {
    case ENOMEM: {
      const std::string limit = memlock_limit == RLIM_INFINITY
                                    ? "unlimited, so the device or the host is out of memory"
                                    : absl::StrCat(memlock_limit, " bytes");
      return Coded(
          absl::StatusCode::kResourceExhausted, error, "ibv_reg_mr",
          absl::StrCat(
              what, " needs as much locked memory; RLIMIT_MEMLOCK is ", limit,
              ", of which this user's other registrations count. Raise it: `ulimit -l` in the shell, "
              "LimitMEMLOCK= in a systemd unit, memlock in /etc/security/limits.conf"));
    }
    case EFAULT:
      return Coded(absl::StatusCode::kInvalidArgument, error, "ibv_reg_mr",
                   absl::StrCat(what, ": the memory must be mapped, and writable in this process"));
    case EINVAL:
    case EOPNOTSUPP:
      return Coded(
          absl::StatusCode::kInvalidArgument, error, "ibv_reg_mr",
          absl::StrCat(what,
                       ": the device cannot pin such memory (a file that is neither tmpfs nor memfd), or "
                       "not as much at once (max_mr_size in `ibv_devinfo -v`)"));
    case EPERM:
    case EACCES:
      return Coded(absl::StatusCode::kPermissionDenied, error, "ibv_reg_mr",
                   absl::StrCat(what,
                                ": this process may not lock memory; it needs a higher RLIMIT_MEMLOCK "
                                "(`ulimit -l`) or CAP_IPC_LOCK"));
    default:
      return Coded(absl::StatusCode::kInternal, error, "ibv_reg_mr", what);
  }
}

}  // namespace remora::rdma
