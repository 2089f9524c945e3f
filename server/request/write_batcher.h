// Writes of all connections, committed as one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/connection/acceptor.h"
#include "server/connection/client_session.h"
#include "server/connection/session_observer.h"
#include "server/request/cold_reads.h"
#include "server/request/large_writes.h"
#include "server/request/parked_writes.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "store/base/timing_sample.h"
#include "store/server_store.h"
#include "store/write/write.h"

namespace remora {

/// Collects the writes of all sessions, commits them as groups, and answers them.
///
/// Thread safety: none; the server's one thread.
class WriteBatcher final : public SessionObserver {
 public:
  /// Maximum of requests in one group: bounds the time that the first of them waits for the last. A request
  /// may have several writes; kMaxGroup (store/write/staged_write.h) bounds those.
  static constexpr std::size_t kMaxRequests = 256;

  /// All outlive this.
  WriteBatcher(ServerStore& store, Acceptor& acceptor, LargeWrites& large_writes, ReplySender& replies,
               ColdReads& cold_reads)
      : store_(store),
        acceptor_(acceptor),
        large_writes_(large_writes),
        replies_(replies),
        parked_(store, cold_reads) {}

  /// Takes a write that the next Commit commits, or postpones. Returns false if it is out of
  /// bounds, or commits a large value where none is reserved.
  bool Add(const PendingRequest& pending);
  /// Returns whether the group has space for so many more requests.
  bool HasSpaceFor(std::size_t count) const { return requests_.size() + count <= kMaxRequests; }
  /// Returns whether no write waits for Commit, except for the pool that reads.
  bool empty() const { return requests_.empty() && !parked_.is_ready(); }

  /// Commits the waiting writes. Returns false if there were none, or all wait for space.
  bool Commit();
  /// Answers writes that waited for the disk, and whose outcome the store has by now.
  void AnswerSynced();

  void Forget(ClientSession& session) override;

 private:
  /// A write that waits for the disk.
  struct Unsynced {
    PendingRequest pending;
    std::size_t number = 0;  // of a multi-put, in it
  };

  /// Parks the new requests of sessions that are held, and takes back those whose reads are done.
  void TakeParked();
  void BeginGroup();
  /// Makes writes of the requests of the group.
  void AddWrites();
  /// Copies the writes of a request to the group. Errors are those of AddBatch.
  absl::Status AddRequest(PendingRequest& pending);
  /// Parks a request if some of its writes need a read, or if it came behind such a request. `undone`: its
  /// writes that were not done.
  bool Parks(PendingRequest& pending, std::span<const Write> undone);
  /// Adds a write that is neither of a batch nor of a multi-put to the group.
  void AddWrite(const PendingRequest& pending);
  /// Copies a batch, or a multi-put, out of the staging buffer and adds its writes to the group.
  /// InvalidArgument: it was none. DataLoss: it was not whole.
  absl::Status AddBatch(PendingRequest& pending);
  void AddUnsynced(std::uint64_t ticket, const PendingRequest& pending, std::size_t number);
  /// Rejects bytes that are no batch or multi-put.
  void RejectBatch(const PendingRequest& pending, const absl::Status& why);
  /// Ends, after the group, the commits of reserved records.
  void EndCommits();
  /// Answers a write. `outcome`: a Write, or a SyncedWrite.
  template <typename Outcome>
  void AnswerWrite(const PendingRequest& pending, const Outcome& outcome);
  /// Records the outcome of a put of a multi-put. `outcome`: a Write, or a SyncedWrite.
  template <typename Outcome>
  void RecordPut(const PendingRequest& pending, MultiPutState& list, std::size_t number,
                 const Outcome& outcome);
  /// Takes the results of a multi-put's writes in this group. Returns false if some have none, for
  /// lack of space.
  bool TakeMultiPut(PendingRequest& pending, std::span<const Write> writes);
  void AnswerMultiPut(const PendingRequest& pending, const MultiPutState& list);

  ServerStore& store_;
  Acceptor& acceptor_;
  LargeWrites& large_writes_;
  ReplySender& replies_;

  // One step's work; kept for their memory.
  std::vector<PendingRequest> requests_;
  bool some_gone_ = false;  // a session of requests_ may have ended
  std::vector<Write> writes_;
  bool is_any_reserved_ = false;        // writes_ has a commit of a reserved record
  std::vector<absl::Status> rejected_;  // the error of each rejected request in requests_, in their order
  std::vector<std::string> batches_;    // private copies of batches and multi-puts
  std::size_t batches_used_ = 0;        // the first so many of batches_ are in use

  TimingSample timed_;  // groups

  ParkedWrites parked_;

  // Writes that wait for the disk, by their tickets.
  absl::flat_hash_map<std::uint64_t, Unsynced> unsynced_;
  std::vector<SyncedWrite> synced_writes_;
};

}  // namespace remora
