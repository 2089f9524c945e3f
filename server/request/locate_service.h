// Answers requests for the location of a record (kLocate). A record that is only in the durable tier is read
// by a pool, while the server thread goes on with other requests, also of the same connection.
//
// The invariants D1 to D10 are of such reads. D1 to D5, and D7, are in store/read/cold_read.h, D8 to D10 in
// parked_writes.h. Here:
//
//   D6 Each request is answered once, or its session is gone. A read that fails concerns its request alone.
//
// The pool has a copy of the key, and no pointer to the session. So a session may go at any time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/connection/client_session.h"
#include "server/request/cold_reads.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "store/read/cold_read.h"
#include "store/read/location.h"
#include "store/server_store.h"

namespace remora {

/// Answers kLocate requests, also those that need a read of the durable tier.
///
/// Thread safety: none; the server's one thread.
class LocateService {
 public:
  /// All outlive this.
  LocateService(ServerStore& store, ReplySender& replies, ColdReads& reads);
  LocateService(const LocateService&) = delete;
  LocateService& operator=(const LocateService&) = delete;

  /// Answers a request, or begins the read that it needs. Returns false if the record cannot be brought back
  /// to memory right now: the caller calls Take again later.
  bool Take(const PendingRequest& pending);
  /// Answers the requests whose reads are done. If a record cannot be brought back right now, a later call
  /// tries again, without another read, or the request goes to `postponed`, for Take to take it again later.
  /// Returns false if it did nothing.
  bool AnswerRead(std::vector<PendingRequest>* postponed);
  /// Returns whether AnswerRead has to be called.
  bool is_reading() const { return !in_flight_.empty(); }
  /// Returns whether AnswerRead has work before the pool has ended another read.
  bool is_waiting() const { return !kept_.empty(); }

  void Forget(ClientSession& session);

 private:
  /// Has the pool read for a request.
  void Begin(const PendingRequest& pending, std::unique_ptr<ColdRead> read);
  /// Answers the request of a read that is done, or keeps one of them for later.
  void Finish(std::unique_ptr<ColdRead> read, std::vector<PendingRequest>* postponed);
  /// Keep a read that is done until there is space for its record.
  bool MayKeep(const ColdRead& read) const;
  void Keep(std::unique_ptr<ColdRead> read);
  /// Ends the read of a request (ServerStore::FinishLocate).
  absl::StatusOr<std::optional<Location>> FinishLocate(const PendingRequest& pending, ColdRead* read);
  /// Answers a request, unless its outcome is Aborted: then it returns false. `read`: the read that has
  /// ended; null: the location has a slot.
  bool Answer(const PendingRequest& pending, const absl::StatusOr<std::optional<Location>>& location,
              const ColdRead* read = nullptr);

  ServerStore& store_;
  ReplySender& replies_;
  ColdReads& reads_;
  absl::flat_hash_map<const ColdRead*, PendingRequest> in_flight_;
  // Reads that are done, of records that could not be brought back yet.
  std::vector<std::unique_ptr<ColdRead>> kept_;
  std::size_t kept_bytes_ = 0;
  TimePoint next_try_{};            // of kept_
  std::unique_ptr<ColdRead> next_;  // Take: memory for the next read
};

}  // namespace remora
