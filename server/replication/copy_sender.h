// The primary's side of a copy: the messages of one copy, with a bounded number in flight and at a bounded
// rate.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/replication/follower_connection.h"
#include "server/replication/shipped_groups.h"
#include "store/base/clock.h"
#include "store/durable/store_copy.h"
#include "store/format/wire/replication_messages.h"

namespace remora {

/// Sends the steps of a copy (CopyStep).
///
/// Thread safety: none; the thread of the link. It waits.
class CopySender {
 public:
  /// Returns false if the link is to end. The time is at least this one when it returns true.
  using Pause = std::function<bool(TimePoint until)>;

  /// `rate`: bytes of files per second; 0: no limit. The references outlive this.
  CopySender(FollowerConnection& connection, const Clock& clock, std::uint64_t rate, Pause pause)
      : connection_(connection), clock_(clock), rate_(rate), pause_(std::move(pause)) {
    in_slot_.resize(connection.slots());
  }

  // Errors of all: FailedPrecondition: the follower does not take the copy; the message is its own.
  // Cancelled: the link is to end. DeadlineExceeded, Unavailable: the follower is away.

  /// Sends a step, and does not wait for the answer.
  absl::Status Send(CopyStep step, std::uint64_t size, std::uint64_t checksum, std::string_view value);
  /// Waits until all steps are answered.
  absl::Status Flush();
  /// Sends a file, and returns its checksum. `between` is called now and then, to send groups.
  absl::StatusOr<std::uint64_t> SendFile(StoreCopy& copy, const StoreCopy::File& file,
                                         const std::function<absl::Status()>& between);
  /// Returns whether the follower has this table from an earlier copy.
  absl::StatusOr<bool> AskToKeep(const StoreCopy::File& file, std::uint64_t checksum);
  absl::Status SendGroup(std::uint64_t number, std::string_view bytes);

  /// Returns the result of the reply to the last step. REQUIRES: Flush.
  std::int64_t result() const { return result_; }
  /// Returns the bytes of files and groups that were sent.
  std::uint64_t bytes() const { return bytes_; }

 private:
  absl::Status TakeReplies();
  absl::Status AwaitReply();
  /// Waits until the rate allows more.
  absl::Status KeepRate(std::size_t bytes);
  std::optional<std::size_t> FreeSlot() const;

  FollowerConnection& connection_;
  const Clock& clock_;
  const std::uint64_t rate_;
  const Pause pause_;
  std::vector<std::uint64_t> in_slot_{};  // request IDs of the unanswered messages; 0: the slot is free
  std::uint64_t last_request_ = 0;
  std::int64_t result_ = 0;  // of last_request_
  std::uint64_t bytes_ = 0;
  TimePoint due_{};  // when the rate allows the next bytes
};

}  // namespace remora
