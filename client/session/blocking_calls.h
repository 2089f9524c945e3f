// The waits of a client whose calls block.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/counters.h"
#include "client/region/region_reader.h"
#include "client/region/session_buffers.h"
#include "client/rpc/request_channel.h"
#include "client/session/access_hints.h"
#include "client/session/call_deadline.h"
#include "client/session/endpoint.h"
#include "client/session/scan_window.h"
#include "rdma/adaptive_poll.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Drives the READs and requests of one call at a time: polls the connection, and waits for completions until
/// the call's deadline. An error of a wait is the connection's, which is broken then (Endpoint::status).
///
/// S3 The unacknowledged write is the request ID of a write of this call that was sent and not answered.
///    It is 0 once its outcome is known or the call abandons it.
///
/// Thread safety: none. Ownership: the parts outlive it.
class BlockingCalls {
 public:
  /// The parts of a session that it drives.
  struct Parts {
    Endpoint& endpoint;
    const SessionBuffers& buffers;
    RegionReader& region;
    RequestChannel& channel;
    ScanWindow& scan_window;
    AccessHints& hints;
    ClientCounters& counters;
  };

  BlockingCalls(const Parts& parts, const Clock& clock, std::chrono::milliseconds timeout)
      : parts_(parts), clock_(clock), deadline_(clock, timeout) {}

  CallDeadline& deadline() { return deadline_; }
  /// Takes the completions that have come, with events of the connection.
  absl::Status TakeEvents();

  // --- READs

  /// Waits until all READs that the region reader has posted are complete.
  absl::Status AwaitReads();
  /// READs bytes of the region into one of the session's own buffers.
  absl::Status Read(std::span<std::byte> to, std::uint64_t offset);
  /// READs the superblock into the session's own buffer, where it is valid until the next call.
  absl::StatusOr<const Superblock*> ReadSuperblock();

  // --- Requests

  /// Sends a request for RequestChannel::kCall as soon as there is a credit and space, and waits for its
  /// reply. The reply's text is valid until the next one. `send` sends the request, with the result of
  /// RequestChannel::Send. REQUIRES: no other request for kCall is in flight.
  using Send = absl::FunctionRef<absl::StatusOr<bool>(RequestChannel&)>;
  absl::StatusOr<ServerReply> Exchange(Operation operation, Send send);
  absl::StatusOr<ServerReply> Call(const RequestSpec& spec);
  absl::StatusOr<ServerReply> Call(Operation operation, std::string_view key, std::uint64_t key_hash,
                                   std::string_view value) {
    return Call({.operation = operation, .key = key, .key_hash = key_hash, .value = value});
  }
  /// Sends a request that consists of its header alone, and waits for its reply.
  absl::StatusOr<ServerReply> CallBare(const Request& request);
  /// Waits until no request in flight uses the staging memory or its buffer. Then both belong to the caller.
  absl::Status AwaitStaging();
  /// Waits for some completions and takes them. Passes replies to requests of other owners than this to
  /// `take`, with the owner's number.
  using TakeReply = absl::FunctionRef<void(std::uint32_t caller, const ServerReply& reply)>;
  absl::Status AwaitReplies(TakeReply take);
  /// Waits until no request of a call gathers memory of the caller, or the connection is broken. A SEND may
  /// complete after its reply came.
  void AwaitGathered();
  /// Sends a request that only reports reads, if one is due.
  void ReportReads();

  /// SENDs a request for a page. Its reply goes to the scan window, apart from the replies to calls.
  /// REQUIRES: AwaitScanPage has returned for the previous one.
  absl::Status PostScanPage(const Request& request);
  absl::Status AwaitScanPage();

  // --- Lost replies

  /// Begins a write: recovers the reply that it lost with an earlier connection, by asking the server.
  /// Nullopt: no reply was lost, or the write was not done, so the caller sends it.
  absl::StatusOr<std::optional<ServerReply>> RecoverLostReply() {
    if (unacknowledged_write_ == 0) return std::nullopt;
    return QueryCompletion();
  }
  /// Returns the unacknowledged write (S3); 0: none.
  std::uint64_t unacknowledged_write() const { return unacknowledged_write_; }
  /// Gives up the unacknowledged write: nobody asks for its outcome any more.
  void AbandonWrite() { unacknowledged_write_ = 0; }

 private:
  absl::StatusOr<std::optional<ServerReply>> QueryCompletion();
  /// Waits for some completions, and takes them.
  absl::Status TakeSome(const TakeReply* take = nullptr);
  absl::StatusOr<std::size_t> AwaitSome();
  absl::Status Take(const rdma::Completion& completion, const TakeReply* take);
  absl::Status TakeReceive(const rdma::Completion& completion, const TakeReply* take);

  const Parts parts_;
  const Clock& clock_;
  CallDeadline deadline_;
  StoredReply reply_;
  std::uint64_t unacknowledged_write_ = 0;  // S3; 0: none
  // The completions of a poll; a member, so that a poll does not begin by clearing them.
  std::array<rdma::Completion, 8> completions_;
  rdma::AdaptivePoller spinner_;
};

}  // namespace remora
