// Reader of the numbered groups of a replicated store, out of its commit log (store/durable/group_sink.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/commit_log/commit_log.h"
#include "store/durable/commit_log/log_reader.h"

namespace remora {

/// A cursor over the groups of the current history, with the bytes that a sink would get.
///
/// Thread safety: none; but any thread may use one while others write to the log, which outlives it.
class GroupHistory {
 public:
  /// Opens a cursor that begins with group `from`. Cost: a read of the whole log.
  ///
  /// - OutOfRange: the log does not have the group, or not any more.
  /// - Unavailable: the log cannot be read.
  static absl::StatusOr<std::unique_ptr<GroupHistory>> Open(const CommitLog& log, std::uint64_t from);

  /// Moves to the next group. Returns false if none has been written yet. Errors are those of Open.
  absl::StatusOr<bool> Next();
  /// Returns the number of the group that Next moved to.
  std::uint64_t number() const { return next_ - 1; }
  /// Returns its bytes. They are valid until the next call of Next.
  std::string_view bytes() const;

 private:
  GroupHistory(const CommitLog& log, std::uint64_t from) : log_(log), next_(from) {}
  void Encode(const LogGroup& group);

  const CommitLog& log_;
  std::unique_ptr<CommitLogReader> reader_;
  std::uint64_t next_;
  std::vector<LogEntry> entries_{};
  std::vector<std::uint64_t> encoded_{};  // aligned to 8
};

}  // namespace remora
