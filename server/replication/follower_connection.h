// The connection of a primary to a follower, in which the primary is the client. It does the handshake of
// messages.h. Then it sends messages with a payload in a slot of the follower's staging buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/cluster/shard_identity.h"
#include "store/format/wire/messages.h"

namespace remora {

/// How a primary reaches a follower.
struct FollowerAddress {
  rdma::Address address;
  std::string secret{};  // of the auth token; empty: none
  rdma::TlsFiles tls{};
  ShardIdentity shard{};  // that the server there must have; none: any
};

/// Sends requests to a follower, and takes its replies.
///
/// Thread safety: none; the thread of the link.
class FollowerConnection {
 public:
  /// Connects, and proves the token, if there is one. `clock` outlives the connection.
  ///
  /// - Unavailable, DeadlineExceeded: nobody answers.
  /// - PermissionDenied: the follower does not accept the token, or cannot prove that it has it.
  /// - FailedPrecondition: the follower rejects this client, or is of another shard.
  static absl::StatusOr<std::unique_ptr<FollowerConnection>> Connect(const FollowerAddress& to,
                                                                     const Clock& clock, TimePoint deadline);
  ~FollowerConnection();
  FollowerConnection(const FollowerConnection&) = delete;
  FollowerConnection& operator=(const FollowerConnection&) = delete;

  std::size_t slots() const { return slots_; }
  std::size_t slot_size() const { return slot_size_; }

  /// Sends a request whose payload of up to slot_size() bytes goes to its place in the staging buffer.
  /// REQUIRES: no message of this slot is unanswered. Errors are those of the connection.
  absl::Status Send(std::size_t slot, const Request& request, std::string_view payload);

  struct Answer {
    Reply reply;
    std::string text;  // behind the reply
  };
  /// Returns the next answer that has come. Nothing: none has. Errors are those of the connection.
  absl::StatusOr<std::optional<Answer>> Poll();

  /// Sleeps until an answer may have come, `other_fd` is readable, or the time is over.
  void Sleep(int other_fd, int timeout_ms);

 private:
  FollowerConnection() = default;
  absl::Status Join(const HelloRequest& hello, const FollowerAddress& to, TimePoint deadline);
  absl::Status Prepare();
  absl::Status TakeCompletions();
  absl::Status PostReceive(std::size_t index);
  std::size_t SlotOffset(std::size_t slot) const;

  std::size_t slots_ = 0;
  std::size_t slot_size_ = 0;
  RemoteRegion staging_{};
  std::vector<bool> is_sending_{};  // by slots: the bytes of the slot are the transport's
  std::deque<Answer> answers_{};
  std::vector<std::byte> bytes_{};  // replies, then for each slot a request and its payload

  // Destroyed in reverse: the registration goes before the connection.
  std::unique_ptr<rdma::ClientConnection> connection_;
  std::unique_ptr<rdma::Registration> messages_;
};

}  // namespace remora
