// The completion records that a store keeps of its clients' writes. A client that lost the reply to a
// write learns its outcome from them. server/connection/client_table.h says which clients ask, and
// why the records suffice.
//
// With a durable tier, the records survive a restart. For each client in the tier, the tier has the
// outcome of every write that was done, unless a later write of the client has replaced it
// (kRememberedWrites).
//
//   R1 The store writes a client to the tier before the client's first write (ServerStore::Remember). If
//      that fails, the client may be missing there. The tier keeps the outcomes of its writes all the
//      same, so that the client can be added later.
//   R2 The outcome of a write is in the same atomic write to the tier as the write itself, or as its
//      batch. So after a crash at any time, the tier has both or neither: no outcome of a lost write,
//      and no write without its outcome. This does not depend on whether the reply was sent.
//   R3 One atomic write removes a client with all its outcomes, and the client is never written
//      again: a forgotten client takes another client ID (server/connection/client_table.h). If a
//      crash loses that write, no harm is done.
//
// Hence, take a client that is in the tier, and one of its writes whose outcome no later write has
// replaced. If the tier does not have that outcome, the write is not in the store's data.
//
// A rejected write (its condition did not hold, or there was no space) leaves no outcome. It needs
// none: no client was told that it was done, and to do it later is to do it for the first time.
//
// If the tier fails during a write (Write::status is Unavailable), R2 holds for the part that the
// tier has kept. A machine failure may lose the end of the log, since Durability::kLogged does not
// wait for the disk. It then loses a write together with its outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace remora {

/// Client ID and request ID of a write. The request IDs of a client increase, and are not 0.
struct RequestName {
  std::uint64_t client = 0;  // 0: no client asks later, so no outcome is kept
  std::uint64_t number = 0;
};

/// Number of outcomes kept for each client: the last one of each residue of the request ID modulo
/// this.
inline constexpr std::size_t kRememberedWrites = 16;

/// Outcome of a write that was done.
struct RememberedWrite {
  std::uint64_t number = 0;   // request ID; 0: none
  std::uint64_t version = 0;  // Write::version; for a batch, that of its first write
  std::int64_t result = 0;    // Write::result
};

struct RememberedClient {
  std::uint64_t client = 0;
  std::int64_t since_ms = 0;              // Clock::UnixMillis of the last Remember
  std::vector<RememberedWrite> writes{};  // in no order
};

}  // namespace remora
