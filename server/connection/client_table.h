// The clients, by their client IDs, and the completion records of their last writes. A client that
// lost an answer, with its connection, can ask (Operation::kQueryCompletion) before it sends the write
// again. So a write is done once, or its client is told that the outcome is unknown.
//
//   O1 The earlier connection of a client ID is dropped before the next one is accepted
//      (Acceptor::AcceptClients), with all that came over it and is not done. So when a client asks,
//      none of its earlier writes is in flight any more. A write that waits for the disk is the
//      exception, and the question is put off for it (ClientEntry::unsynced). Nor is a write of an
//      operation in flight that the client gave up: a later write of its own comes after it.
//   O2 A client ID is here from its first connection on, until it is forgotten. Meanwhile, each of
//      its writes that was done, or may have been, is noted before the answer is sent, by its
//      request ID. With a durable tier that holds across restarts
//      (store/durable/completion_records.h). Without one, a restart forgets all client IDs, and all
//      that was written. (Puts of a multi-put without IDs are not noted: nobody can ask for them.)
//   O3 Request IDs of a client ID increase. So only a later write takes the place of a write.
//
// Hence, of a client ID that is here: a write that is noted was done. A write that is not noted,
// and whose place no later one has taken, was not done and never will be. Of the others, nothing is
// known.
//
//   O4 A client ID that was forgotten is not believed when it returns: it is rejected, and its
//      client takes another. Otherwise it would be here without all that it wrote before.
//
// A write that was not done is noted nowhere. Its client may send it again, and then learns its
// outcome.
//
// A request that is sent again gets another ID, so two requests in flight never have the same ID. A
// client whose question, or its answer, was lost, asks again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rdma/transport.h"
#include "store/durable/completion_records.h"
#include "store/format/wire/messages.h"

namespace remora {

/// A client ID, and the completion records of its last writes. Stays where it is.
struct ClientEntry {
  struct Completion {
    CompletionRecord record;
    ReplyStatus status = ReplyStatus::kOk;  // or kDurableTier: whether it was done is unknown
  };

  std::uint64_t id = 0;
  std::string token{};  // the name of the one that was proven with it; empty: none, since the server's start
  rdma::Connection* connection = nullptr;  // null: it is gone
  std::size_t unsynced = 0;                // its writes that wait for the disk (Write::ticket)
  std::uint64_t last_request_id = 0;   // greatest request ID received; after a restart, the greatest recorded
  std::uint64_t first_request_id = 0;  // first request ID received over this connection; 0: none
  std::array<Completion, kCompletionsPerClient> completions{};

  /// Takes `count` request IDs, the last of which is `last`. Returns false if they are not greater than all
  /// earlier ones (O3).
  bool TakeRequestIds(std::uint64_t last, unsigned count) {
    if (last < count || last - count < last_request_id) return false;
    last_request_id = last;
    if (first_request_id == 0) first_request_id = last - count + 1;
    return true;
  }
  /// Keeps the completion record of a write that was done, or may have been. This is the PUT path: a store
  /// to memory.
  void Record(ReplyStatus status, const CompletionRecord& record) {
    if (status != ReplyStatus::kOk && status != ReplyStatus::kDurableTier) return;
    completions[record.number % kCompletionsPerClient] = {record, status};
  }
  /// Returns the reply to kQueryCompletion for a write that was sent over an earlier connection. The caller
  /// sets the reply's request ID. Status kInvalid: the write was not sent over an earlier connection.
  Reply Find(std::uint64_t request_id) const;
};

/// The client IDs that the server knows, with their completion records.
///
/// Thread safety: none; the server's one thread.
class ClientTable {
 public:
  /// Keeps at most `max_gone` IDs of disconnected clients, and forgets first the client that
  /// disconnected first. `remembered` are disconnected, too.
  ClientTable(std::size_t max_gone, std::vector<ClientCompletions> remembered);
  ClientTable(const ClientTable&) = delete;
  ClientTable& operator=(const ClientTable&) = delete;

  /// Replaces all clients by these, which are disconnected. REQUIRES: none is connected.
  void Remember(std::vector<ClientCompletions> remembered);

  /// Finds a client. Null: it is not here.
  ClientEntry* Find(std::uint64_t id);
  /// The client has come: until End, it is not forgotten. The ID may be here or not. REQUIRES: it has no
  /// connection.
  ClientEntry& Begin(std::uint64_t id, rdma::Connection* connection);
  /// Notes that its connection has ended.
  void End(ClientEntry& client);

  /// Forgets the clients for which there is no space, and returns their IDs. Keeps those whose
  /// writes wait for the disk.
  std::vector<std::uint64_t> Forget();
  std::size_t size() const { return clients_.size(); }

 private:
  struct Entry {
    ClientEntry client;
    std::list<std::uint64_t>::iterator gone;  // of those without a connection
  };

  const std::size_t max_gone_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Entry>> clients_;
  std::list<std::uint64_t> gone_;  // IDs, the first that disconnected in front
};

}  // namespace remora
