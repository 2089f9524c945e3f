// Requests to write that wait for reads of the durable tier (Write::needs_read), and those behind them.
//
//   WriteBatcher::Commit   commits a group; a write of a cold key needs a read, and nothing of it was done
//   Park                   begins the reads of all keys of the request, and keeps it
//   (the pool reads, while the server thread serves others)
//   Release                gives the request back to the batcher, which commits it with the results
//
// The invariants of the reads are in store/read/cold_read.h. Here:
//
//   D8  The requests of a session are executed in the order in which they came. While one is parked, the
//       session is held: all its later writes are parked behind it. In the group in which the first one is
//       put off, the store puts off the others of its sender. The reads of all of them overlap.
//   D9  A parked request ends. When it has been put off kMaxColdReadBegins times, the server thread reads
//       for it. No request waits for one of another session, even if both write one key.
//   D10 No more than kMaxKeptBytes of values wait here for an earlier request or for space. Beyond it, a
//       value is dropped, and its request has it read again. A session has kCredits requests at most.
//
// A session that goes takes its parked requests along: they are not done, and never will be (client_table.h,
// O1). Its reads in flight end, and are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/connection/client_session.h"
#include "server/request/cold_reads.h"
#include "server/request/pending_request.h"
#include "store/read/cold_read.h"
#include "store/server_store.h"
#include "store/write/write.h"

namespace remora {

/// Keeps write requests until the records that they need have been read.
///
/// Thread safety: none; the server's one thread.
class ParkedWrites {
 public:
  /// Both outlive this.
  ParkedWrites(ServerStore& store, ColdReads& reads) : store_(store), reads_(reads) {}
  ParkedWrites(const ParkedWrites&) = delete;
  ParkedWrites& operator=(const ParkedWrites&) = delete;

  /// Returns whether a request is parked, or a read is in flight.
  bool is_active() const { return !queues_.empty() || !awaited_.empty(); }
  /// Returns whether Release has work before the pool has ended another read.
  bool is_ready() const { return !ready_.empty(); }
  /// Returns whether writes of this session have to wait behind a parked one.
  bool Holds(ClientSession* session) const { return !queues_.empty() && queues_.contains(session); }

  /// Sets how a write of a request is to get a record that is only on disk. `number`: its place in the
  /// request.
  void SetRead(const PendingRequest& pending, std::size_t number, Write* write) const {
    write->sender = pending.session;
    if (!reads_.has_pool()) return;
    const WriteReads* const reads = pending.reads.get();
    write->may_read = reads != nullptr && reads->times_put_off >= kMaxColdReadBegins;  // D9
    if (reads != nullptr && number < reads->results.size()) write->read = reads->results[number].get();
  }

  /// Parks a request that came behind a parked one of its session. `writes`: its writes, if they are known;
  /// the reads that they need begin. REQUIRES: Holds(pending.session).
  void ParkBehind(PendingRequest& pending, std::span<const Write> writes);
  /// Parks a request that was put off in the group that is being committed, before those that are parked
  /// already. `writes`: those of its writes that were not done, from the place `first` in the request on.
  void Park(PendingRequest& pending, std::size_t first, std::span<const Write> writes);

  /// Begins a group: appends requests to `requests` whose reads are done, until it has `most`.
  void Release(std::size_t most, std::vector<PendingRequest>* requests);

  void Forget(ClientSession& session);

 private:
  struct Queue {
    std::deque<PendingRequest> requests;
    std::uint64_t group = 0;   // in which a request was last put in front,
    std::size_t in_front = 0;  // and the number of those of that group
    bool is_listed = false;    // in ready_
  };
  struct Awaited {
    std::shared_ptr<WriteReads> of;
    std::size_t number = 0;
  };

  void BeginReads(PendingRequest& pending, std::size_t first, std::span<const Write> writes);
  void TakeDone();
  /// Notes that the first request of a queue may have all that it waits for.
  void List(ClientSession* session, Queue* queue);
  static bool IsReady(const PendingRequest& pending) { return pending.reads->in_flight == 0; }
  static std::size_t BytesOf(const WriteReads& reads);
  /// Returns whether a request is the first of its queue, and has all that it waits for.
  bool IsNext(const WriteReads& reads) const;

  ServerStore& store_;
  ColdReads& reads_;
  absl::flat_hash_map<ClientSession*, Queue> queues_;
  std::vector<ClientSession*> ready_;                      // whose first requests may be ready
  absl::flat_hash_map<const ColdRead*, Awaited> awaited_;  // reads in flight
  std::size_t kept_bytes_ = 0;                             // of the values of parked requests
  std::uint64_t group_ = 0;
  // Kept for their memory.
  ColdReads::List begun_;
  ColdReads::List done_;
};

}  // namespace remora
