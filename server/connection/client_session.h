// The server's side of one client: its staging buffer, its message buffers, its place in the
// protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"
#include "server/memory/memory_budget.h"
#include "server/monitoring/client_activity.h"
#include "store/base/piece_ring.h"
#include "store/format/wire/messages.h"
#include "store/server_store.h"

namespace remora {

struct ClientEntry;
struct TokenUse;

/// Requests that a client may have unanswered.
inline constexpr std::uint32_t kCredits = 16;

/// A reply's buffer is the server's again at its SEND's completion, which can trail the client's next
/// request.
inline constexpr std::size_t kMaxRepliesInFlight = 2 * kCredits;
/// Bytes of long replies in flight: 15 with values of 1 KiB, or 3 with 4 KiB.
inline constexpr std::size_t kLongReplyBytes = std::size_t{16} << 10;

/// The class has more than 25 methods and 15 fields: nine of them are accessors of what the server counts and
/// looks up for a client.
///
/// Thread safety: none; the server's one thread.
class ClientSession {
 public:
  /// Returns what sessions register for their clients: staging buffer and message buffers.
  static SessionBytes MaxRegisteredBytes();
  std::size_t registered_bytes() const;

  /// Gives the client message buffers and, unless the flags say kReadOnly, a staging buffer, and accepts it
  /// with `reply`, once `seal` has done the last to it. On failure nothing was answered yet.
  static absl::StatusOr<std::unique_ptr<ClientSession>> Accept(
      std::unique_ptr<rdma::ServerConnection>& connection, HelloReply reply,
      const std::function<void(HelloReply*)>& seal);
  /// Disconnects its client before anything goes.
  ~ClientSession();

  /// Copies a request out of a receive's completion, and posts its receive buffer again. Bytes
  /// behind the request go to the place of its payload in the staging buffer, if they fit there. On
  /// any error the client must go.
  ///
  /// - InvalidArgument: it is no request at all.
  /// - ResourceExhausted: the client exceeds its credits, which bound the requests that wait for an
  ///   answer.
  /// - Other errors are the connection's.
  absl::Status TakeRequest(const rdma::Completion& completion, Request* request);

  /// The request's key and value in the staging buffer, which its client may still be writing: copy, then
  /// verify. Null key data when they do not lie inside the staging buffer or their sizes are out of bounds.
  struct Payload {
    std::string_view key;
    std::string_view value;
  };
  Payload DecodePayload(const Request& request) const;
  /// Returns a part of a large value in the staging buffer. Empty: out of bounds, or no part.
  std::span<const std::byte> DecodePart(const Request& request) const;

  /// Copies the hashes of the reads that a client reports with a request, behind its key and value, and
  /// returns their number. Copies no more than the staging buffer has.
  using Reads = std::array<std::uint64_t, kMaxReads>;
  std::size_t TakeReads(const Request& request, Reads* reads) const;

  /// Sends the reply to a request. `behind` follows the Reply, cut to kMaxReplyBehind bytes, and the Reply
  /// gets its size. After an error, the caller ends the session: the client is gone, or exceeds its credits.
  absl::Status SendReply(Reply& reply, std::string_view behind);
  /// Returns whether a reply with `size` bytes behind it, up to kMaxValueBehind, may be sent now.
  bool TakesLongReply(std::size_t size) const;
  /// Sends such a reply, as SendReply does. REQUIRES: TakesLongReply(value.size()).
  absl::Status SendLongReply(Reply& reply, std::string_view value);
  void TakeSendCompletion();
  std::uint64_t replies_sent() const { return replies_sent_; }
  /// Returns how many replies, from the first on, have left. Bytes that were WRITTEN before them
  /// may be overwritten here.
  std::uint64_t replies_done() const { return replies_sent_ - replies_in_flight_; }

  rdma::ServerConnection& connection() { return *connection_; }
  /// Returns whether nothing that it sends may change stored data (NeedsWriter).
  bool is_read_only() const { return read_only_; }
  /// Returns the use of the auth token that it has proven (server/connection/authenticator.h);
  /// null: none was required.
  TokenUse* token_use() const { return token_use_; }
  void set_token_use(TokenUse* use) { token_use_ = use; }
  /// Returns the client's entry; null: it has no client ID (server/connection/client_table.h).
  ClientEntry* client() const { return client_; }
  void set_client(ClientEntry* client) { client_ = client; }
  /// Returns the client's share of the counted memory: ClientBytes of its listener.
  std::size_t bytes() const { return bytes_; }
  void set_bytes(std::size_t bytes) { bytes_ = bytes; }
  /// Returns what others see of it; null before the acceptor has added it.
  ClientActivities::Place* activity() const { return activity_; }
  void set_activity(ClientActivities::Place* place) { activity_ = place; }
  /// Returns the counter of its staging buffer, if it has one.
  Metric staging_counter() const { return staging_counter_; }
  /// Returns the counter of the clients of its transport.
  Metric transport_counter() const { return transport_counter_; }
  void set_counters(Metric staging, Metric transport) {
    staging_counter_ = staging;
    transport_counter_ = transport;
  }

 private:
  ClientSession(std::unique_ptr<rdma::ServerConnection> connection, bool read_only)
      : read_only_(read_only), connection_(std::move(connection)) {}
  absl::Status Prepare();
  /// Sends the reply from the place of `messages_` at this offset.
  absl::Status Post(std::size_t offset, Reply& reply, std::string_view behind);
  absl::Status PostReceive(std::uint64_t index);
  rdma::Sge ReceiveBuffer(std::uint64_t index) const;

  const bool read_only_;
  std::size_t bytes_ = 0;
  Metric staging_counter_ = Metric::kStagingBuffersBound;
  Metric transport_counter_ = Metric::kConnectionsLocal;
  TokenUse* token_use_ = nullptr;
  ClientEntry* client_ = nullptr;
  ClientActivities::Place* activity_ = nullptr;
  std::uint32_t unanswered_ = 0;  // kCredits at most
  std::uint64_t replies_sent_ = 0;
  std::uint64_t replies_in_flight_ = 0;
  PieceRing long_replies_{kLongReplyBytes};
  std::array<std::optional<std::uint32_t>, kMaxRepliesInFlight> pieces_;  // in long_replies_, of each reply

  // Destroyed in reverse: registrations go before the connection.
  std::unique_ptr<rdma::ServerConnection> connection_;
  std::unique_ptr<rdma::Registration> shared_staging_;  // null: the client only reads
  std::vector<std::byte> own_staging_;                  // else: the server's alone
  std::span<std::byte> staging_;                        // either
  std::unique_ptr<rdma::Registration> messages_;
};

/// Returns the flag of replies to clients as of now.
inline std::uint16_t LoadingFlag(const ServerStore& store) {
  return store.loading() ? ReplyFlag::kLoading : 0;
}

}  // namespace remora
