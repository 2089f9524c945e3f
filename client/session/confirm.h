// Confirmation of results that count under a lease alone (Q7 of store/format/memory/lease_line.h), for calls
// that block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/session.h"

namespace remora {

/// Results of a call that count under a lease alone.
enum class LeaseNeed : std::uint8_t {
  kNone = 1,    // none
  kIfRejected,  // of a write: an error that shows stored data
  kNeeded,      // all but errors that show none
};

/// Returns whether an error follows from stored data, as of a rejected write. Others, as a lack of memory,
/// need no lease.
inline bool ShowsStoredData(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return true;
    default:
      return false;
  }
}
/// Returns whether a result with this status counts under a lease alone. REQUIRES: `need` is not kNone.
inline bool NeedsLease(const absl::Status& status, LeaseNeed need) {
  return status.ok() ? need == LeaseNeed::kNeeded : ShowsStoredData(status);
}

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

/// Looks at the lease line of a server to which the session has just connected. Results need a lease from
/// then on, if the server has followers. Unavailable: it is no primary, or its connection broke.
absl::Status TakeFirstLease(Session& session);

/// Returns OK if results that have come so far count. Takes a lease for that if need be, unless the
/// connection is broken. With an error, the connection is broken afterwards. Outcomes:
///   Unavailable: the server does not show that it is still the primary.
///   Cancelled: the call was interrupted.
/// REQUIRES: no request for kCall is in flight, no READ, and no FIND.
absl::Status Confirm(Session& session);

/// Returns the result of a call if it counts, else the error of Confirm.
template <typename Result>
Result Confirmed(Session& session, Result result, LeaseNeed need) {
  if (session.lease().IsCovered() || need == LeaseNeed::kNone) [[likely]]
    return result;
  if (!NeedsLease(StatusOf(result), need)) return result;
  if (absl::Status confirmed = Confirm(session); !confirmed.ok()) return confirmed;
  return result;
}

/// Returns `status`, that of a call with several results, if all of them count. Else the results that do not
/// count get the call's error, or that of Confirm, which it returns.
template <typename Result>
absl::Status ConfirmedEach(Session& session, absl::Status status, std::span<Result> results, LeaseNeed need) {
  if (session.lease().IsCovered()) [[likely]]
    return status;
  const auto needs = [&](const Result& result) { return NeedsLease(result.status, need); };
  if (std::ranges::none_of(results, needs)) return status;
  absl::Status confirmed = Confirm(session);
  if (confirmed.ok()) return status;
  if (status.ok()) status = std::move(confirmed);
  for (Result& result : results) {
    if (needs(result)) result.status = status;
  }
  return status;
}

}  // namespace remora
