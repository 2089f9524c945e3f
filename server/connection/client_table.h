// Which clients there are, by their names, and what became of their last writes: so that a client which lost
// an answer, with its connection, can ask (Operation::kOutcome) before it sends the write again. So a write
// is done once, or its client is told that nobody knows.
//
//   O1 The name's connection before is dropped, with all that came over it and is not done, before the next
//      one is accepted (Server::AcceptClients). So when a client asks, no write that it sent earlier is under
//      way any more, but what waits for the disk, and for that the question is put off
//      (NamedClient::unsynced); nor is one of an operation that it gave up: a later one of its own comes
//      after it.
//   O2 A name is here from its first connection on, until it is forgotten. Meanwhile, whatever it wrote that
//      was done, or may have been, is noted before the answer is sent, by its request id. With a durable tier
//      that holds across restarts (store/durable/completion_records.h); without one, a restart forgets all
//      names, and all that was written. (Not the puts of a list without ids: nobody can ask for them.)
//   O3 Request ids of a name go up. So a write's place is taken by later ones only.
// Hence, of a name that is here: a write that is noted was done. One that is not, and whose place no later
// one has taken, was not and never will be. Of the others, nothing is known.
//   O4 A name that was forgotten is not believed when it returns: it is refused, and its client takes
//   another.
//      Otherwise it would be here without all that it wrote before.
// A write that was not done is noted nowhere; its client may send it again, and is told what becomes of it
// then.
//
// A request that is sent again gets another id, so at no time may two of one id be under way; and a client
// whose question, or its answer, was lost, asks again.
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

/// A name, and what became of its writes. Stays where it is.
struct NamedClient {
  struct Outcome {
    RememberedWrite write;
    ReplyStatus status = ReplyStatus::kOk;  // or kDurableTier: whether it was done is unknown
  };

  std::uint64_t name = 0;
  std::string token{};  // the name of the one that was proven with it; empty: none, since the server's start
  rdma::Connection* connection = nullptr;  // null: it is gone
  std::size_t unsynced = 0;                // its writes that wait for the disk (Write::ticket)
  // That came: the greatest (after a restart, of those that are noted), and the first over this connection.
  std::uint64_t last_request_id = 0;
  std::uint64_t first_request_id = 0;  // 0: none came yet
  std::array<Outcome, kRememberedWrites> outcomes{};

  /// So many, up to `last`. False: they are none, for ids go up (O3).
  bool TakeRequestIds(std::uint64_t last, unsigned count) {
    if (last < count || last - count < last_request_id) return false;
    last_request_id = last;
    if (first_request_id == 0) first_request_id = last - count + 1;
    return true;
  }
  /// A write's outcome, if it is one that must be known later. This is the PUT path: a store to memory.
  void Note(ReplyStatus status, const RememberedWrite& write) {
    if (status != ReplyStatus::kOk && status != ReplyStatus::kDurableTier) return;
    outcomes[write.number % kRememberedWrites] = {write, status};
  }
  /// What is known of a write that was sent over an earlier connection: the answer to kOutcome, but for the
  /// request id of that. kInvalid: it was not.
  Reply Recall(std::uint64_t request_id) const;
};

/// Thread Safety: none; the server's one thread.
class Outcomes {
 public:
  /// Keeps at most so many names of clients that are gone; who went first is forgotten first. `remembered`
  /// are gone, too.
  Outcomes(std::size_t max_gone, std::vector<RememberedClient> remembered);
  Outcomes(const Outcomes&) = delete;
  Outcomes& operator=(const Outcomes&) = delete;

  /// Null: it is not here.
  NamedClient* Find(std::uint64_t name);
  /// The client has come: until End, it is not forgotten. The name may be here or not. REQUIRES: it has no
  /// connection.
  NamedClient& Begin(std::uint64_t name, rdma::Connection* connection);
  /// Its connection has ended.
  void End(NamedClient& client);

  /// Forgets whom there is no room for, and returns their names. Not yet whose writes wait for the disk.
  std::vector<std::uint64_t> Forget();
  std::size_t size() const { return clients_.size(); }

 private:
  struct Entry {
    NamedClient client;
    std::list<std::uint64_t>::iterator gone;  // of those without a connection
  };

  const std::size_t max_gone_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Entry>> clients_;
  std::list<std::uint64_t> gone_;  // names, who went first in front
};

}  // namespace remora
