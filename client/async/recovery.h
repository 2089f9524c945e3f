// State of an AsyncClient that recovers from the end of a connection (client/async/reconnect.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "client/async/operation.h"
#include "client/session/session.h"
#include "store/base/clock.h"

namespace remora {

/// Attempts at another connection.
struct ReconnectAttempts {
  TimePoint next;            // when the next one is due
  int count = 0;             // since the connection broke
  bool aside = false;        // Poll makes none
  bool in_progress = false;  // from BeginAttempt to EndAttempt
  TimePoint ends;            // of the one in progress
  Session::Attempt result;   // and of the last one
  absl::Status trouble;      // why that failed
};

/// Writes whose replies were lost with a connection.
struct LostWrites {
  std::size_t count = 0;         // operations with a lost_id
  std::size_t undone_count = 0;  // and those of them that are undone
  OperationList undone;          // these
  // Of all writes: the greatest id of one that was done, or may have been, for nobody asks of it any more.
  std::uint64_t last_done = 0;
};

}  // namespace remora
