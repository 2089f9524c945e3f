// Lines for a descriptor that may not take them: a pipe whose reader does not read, a terminal that is
// stopped.
//
//   Write puts a line into a queue of kMaxLines, from where a thread writes it. A line that comes when the
//   queue is full is dropped, and so is each one behind it until the thread has written what is queued; then
//   a line says how many were.
//
// So every line is written or counted, in order, and no caller waits for a reader.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remora {

/// Queues lines, and writes them to a descriptor from a thread of its own.
///
/// Thread safety: Write may be called from any thread.
class LogWriter {
 public:
  static constexpr std::size_t kMaxLines = 1024;
  /// Longest time for which the end waits for the reader.
  static constexpr std::chrono::seconds kPatience{2};

  /// `fd` stays the caller's, and open until the process ends. `describe_drops` makes the line, without its
  /// end, that says how many were dropped; the thread calls it, until the process ends.
  /// ResourceExhausted: there is no thread.
  static absl::StatusOr<std::unique_ptr<LogWriter>> Start(
      int fd, std::function<std::string(std::uint64_t)> describe_drops);
  /// Returns when all is written, or after kPatience.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// `line`: without its end.
  void Write(std::string_view line);

 private:
  struct Queue;
  explicit LogWriter(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  const std::shared_ptr<Queue> queue_;  // its thread may be in the middle of a write when this ends
};

}  // namespace remora
