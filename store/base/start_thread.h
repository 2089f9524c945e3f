// Starts threads. The standard library throws where the system has none to give; this is its one translator.
#pragma once

#include <system_error>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace remora {

/// Returns what `start` returns: a std::thread, std::jthread or std::future, or what a library says that
/// starts some. ResourceExhausted: the system does not start a thread.
template <typename Start>
absl::StatusOr<std::invoke_result_t<Start>> StartThread(Start start) {
  try {
    return start();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a thread cannot be started: ", error.code().message(),
        "; raise the limits on processes (ulimit -u, pids.max of the group) and on memory (ulimit -v)"));
  }
}

}  // namespace remora
