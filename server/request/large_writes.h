// Space that clients have reserved for large values, and their right to write it.
//
//   Reserve      the store gives up space; where the transport can take a grant back, the client may WRITE
//                it then; else it sends its bytes in parts, which are copied in
//   BeginCommit  the grant is revoked: from here on nobody can change the bytes
//   (the store verifies and publishes them, in place)
//   EndCommit    the space is the record's, or the store's again
//
// So no client can write a byte that a reader can reach through the index. A grant ends before the
// store even reads the written bytes, and covers key and value of that record and nothing else.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "rdma/transport.h"
#include "server/connection/client_session.h"
#include "server/connection/session_observer.h"
#include "server/memory/exported_memory.h"
#include "store/base/clock.h"
#include "store/format/memory/hash.h"
#include "store/format/wire/messages.h"
#include "store/server_store.h"
#include "store/write/write.h"

namespace remora {

/// Reserves space for large values, and grants and revokes the right to WRITE it.
///
/// Thread safety: none; the server's one thread.
class LargeWrites final : public SessionObserver {
 public:
  /// Both outlive this.
  LargeWrites(ServerStore& store, ExportedMemory& memory);
  /// Gives back all reservations.
  ~LargeWrites();

  /// Reserves space for a large value, for kReservationSeconds from `asked` on. REQUIRES: Release was OK
  /// since the session's last Reserve.
  ///
  /// - OK: the grant. If its size is 0, the client must send the value in parts.
  /// - Aborted: nothing was done, because there is no space yet; call it again later.
  /// - Other errors are the answer to the client.
  absl::StatusOr<Grant> Reserve(ClientSession& session, const Request& request, TimePoint asked);

  /// Copies a part out of the staging buffer. Not OK: there is nothing reserved any more.
  absl::Status TakePart(ClientSession& session, const Request& request);

  /// Revokes the grant. False: nothing is reserved with these sizes, or any more.
  bool BeginCommit(rdma::Connection& connection, const Request& request);
  /// Returns the reservation that is being committed. It is valid until the next EndCommit, Forget or Reserve
  /// of any client. REQUIRES: BeginCommit returned true.
  const Reservation* Committing(rdma::Connection& connection) const;
  /// Ends a commit whose reservation the store has used up.
  void EndCommit(rdma::Connection& connection);

  /// Gives back what the connection had reserved, if anything. InvalidArgument: it is being committed.
  absl::Status Release(rdma::Connection& connection);
  /// Gives back what the session had reserved, in any case.
  void Forget(ClientSession& session) override;
  /// Gives back all reservations that end by `now`.
  void Expire(TimePoint now);
  /// Returns whether nothing is reserved.
  bool empty() const { return held_.empty(); }
  /// Returns when the next reservation expires. Nothing: nothing is reserved.
  std::optional<TimePoint> next_expiry() const;

 private:
  struct Held {
    Reservation reservation;
    std::unique_ptr<rdma::Registration> grant;  // null: none, or revoked
    std::size_t filled = 0;                     // bytes that came in parts
    ValueHasher hasher{};                       // of the value's bytes among them
    TimePoint until;
    bool committing = false;
  };
  using Map = absl::flat_hash_map<rdma::Connection*, Held>;

  /// `used_up`: it is the store's already.
  void Remove(Map::iterator held, bool used_up);

  ServerStore& store_;
  ExportedMemory& memory_;
  Map held_;
  std::size_t bytes_ = 0;  // of all of them
};

}  // namespace remora
