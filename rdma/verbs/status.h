// The foreign error conventions of verbs, translated into absl::Status: one translator for each.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace remora::rdma {

/// Why a request failed (ibv_poll_cq(3)). REQUIRES: `status` is not IBV_WC_SUCCESS.
/// IBV_WC_WR_FLUSH_ERR is taken as the first failure of its connection.
absl::Status StatusFromCompletion(ibv_wc_status status, std::uint32_t vendor_error);

/// Returns the meaning of an event (rdma_get_cm_event(3)) for a connection with `peer`.
/// `event_status` is the event's: a negative errno or, for RDMA_CM_EVENT_REJECTED, the reason. OK
/// for events that end nothing.
absl::Status StatusFromEvent(rdma_cm_event_type event, int event_status, absl::string_view peer);

/// Likewise, for a connection that this side has answered or that was established: a rejection then is the
/// other side's end.
absl::Status StatusFromLateEvent(rdma_cm_event_type event, int event_status, absl::string_view peer);

/// Why `call` failed with `error` (an errno) for `address` ("10.0.0.7:7471").
absl::Status StatusFromErrno(int error, absl::string_view call, absl::string_view address);

/// Why `size` bytes could not be registered. `memlock_limit`: RLIMIT_MEMLOCK of this process.
absl::Status StatusFromRegistration(int error, std::size_t size, std::uint64_t memlock_limit);

}  // namespace remora::rdma
