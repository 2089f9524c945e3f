// The completion records that a store keeps of its clients' writes. A client that lost the reply to a
// write learns the outcome from them. server/connection/client_table.h says which clients ask, and
// why the records suffice.
//
// With a durable tier, the records survive a restart. For each client in the tier, the tier has the
// completion record of every write that was done, unless a later write of the client has replaced it
// (kCompletionsPerClient).
//
//   R1 The store writes a client to the tier before the client's first write
//      (ServerStore::RegisterClient). If that fails, the client may be missing there. The tier keeps the
//      completion records of its writes all the same, so that the client can be added later.
//   R2 The completion record of a write is in the same atomic write to the tier as the write itself, or
//      as its batch. So after a crash at any time, the tier has both or neither: no completion record of
//      a lost write, and no write without one. This does not depend on whether the reply was sent.
//   R3 One atomic write removes a client with all its completion records, and the client is never
//      written again: a forgotten client takes another client ID (server/connection/client_table.h). If
//      a crash loses that write, no harm is done.
//
// Hence, take a client that is in the tier, and one of its writes whose completion record no later
// write has replaced. If the tier does not have that record, the write is not in the store's data.
//
// A rejected write (its condition did not hold, or there was no space) leaves no completion record. It
// needs none: no client was told that it was done, and to do it later is to do it for the first time.
//
// If the tier fails during a write (Write::status is Unavailable), R2 holds for the part that the
// tier has kept. A machine failure may lose the end of the log, since Durability::kLogged does not
// wait for the disk. It then loses a write together with its completion record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace remora {

/// Client ID and request ID of a write. The request IDs of a client increase, and are not 0.
struct RequestId {
  std::uint64_t client = 0;  // 0: no client asks later, so there is no completion record
  std::uint64_t number = 0;
};

/// Number of completion records kept for each client: the last one of each residue of the request ID
/// modulo this.
inline constexpr std::size_t kCompletionsPerClient = 16;

/// The outcome of a write that was done.
struct CompletionRecord {
  std::uint64_t number = 0;   // request ID; 0: none
  std::uint64_t version = 0;  // Write::version; for a batch, that of its first write
  std::int64_t result = 0;    // Write::result
};

/// A client and the completion records of its last writes.
struct ClientCompletions {
  std::uint64_t client = 0;
  std::int64_t since_ms = 0;                    // Clock::UnixMillis of the last RegisterClient
  std::vector<CompletionRecord> completions{};  // in no order
};

}  // namespace remora
