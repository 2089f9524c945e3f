// State of an AsyncClient that recovers from the end of a connection (client/async/reconnect.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "client/async/operation.h"
#include "client/session/session.h"
#include "store/base/clock.h"

namespace remora {

/// Attempts to make another connection.
struct ReconnectAttempts {
  TimePoint next;            // when the next attempt is due
  int count = 0;             // attempts since the connection broke
  bool aside = false;        // the caller makes them (BeginAttempt), and Poll makes none
  bool in_progress = false;  // from BeginAttempt to EndAttempt
  TimePoint ends;            // deadline of the attempt in progress
  Session::Attempt result;   // result of the last attempt
  absl::Status trouble;      // why the last attempt failed
};

/// Writes whose replies were lost with a connection.
struct LostWrites {
  std::size_t count = 0;         // operations with a lost_id
  std::size_t undone_count = 0;  // those of them that the server has not done
  OperationList undone;          // the latter
  // Greatest ID of a write that was done, or may have been done because its operation has ended without
  // asking.
  std::uint64_t last_done = 0;
};

}  // namespace remora
