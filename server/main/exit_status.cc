#include "server/main/exit_status.h"

#include <sysexits.h>

#include "store/base/shortage.h"

namespace remora {

int StoreExitStatus(const absl::Status& status) {
  if (IsShortage(status)) return EX_OSERR;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return EX_USAGE;
    case absl::StatusCode::kNotFound:
      return EX_CANTCREAT;
    case absl::StatusCode::kPermissionDenied:
      return EX_NOPERM;
    case absl::StatusCode::kAlreadyExists:
      return EX_TEMPFAIL;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return EX_CONFIG;
    case absl::StatusCode::kResourceExhausted:
      return EX_OSERR;
    default:
      return EX_IOERR;
  }
}

int TokensExitStatus(const absl::Status& status) {
  if (absl::IsPermissionDenied(status)) return EX_NOPERM;
  return absl::IsResourceExhausted(status) ? EX_OSERR : EX_USAGE;
}

int ListenExitStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return EX_USAGE;
    case absl::StatusCode::kAlreadyExists:
      return EX_TEMPFAIL;
    case absl::StatusCode::kNotFound:
      return EX_CANTCREAT;
    case absl::StatusCode::kPermissionDenied:
      return EX_NOPERM;
    case absl::StatusCode::kResourceExhausted:
      return EX_OSERR;
    default:
      return EX_UNAVAILABLE;
  }
}

}  // namespace remora
