// What a store remembers of its clients' writes, so that one who lost an answer can be told later what became
// of the write (server/connection/client_table.h says who asks, and why that is enough).
//
// With a durable tier, that survives a restart. The claim is: of a client that is in the tier, every write
// that was done is remembered there, but for those whose place a later write of that client has taken.
//   R1 A client is written to the tier before its first write comes (Store::Remember). If that fails it may
//      not be there; its writes are remembered all the same, so that it may come later.
//   R2 A write's outcome is in the same atomic write to the tier as the write itself, or as the batch. So
//      after a crash, wherever it came, both are there or neither: no outcome of a write that was lost, no
//      write without its outcome. Whether its answer was ever sent makes no difference.
//   R3 A client is forgotten with all its outcomes in one atomic write, and never written again: whoever was
//      forgotten takes another name (server/connection/client_table.h). Should that write be lost, no harm is
//      done.
// So, of a client that is in the tier, a write that is not remembered, and whose place is not taken by a
// later one, is not in the store's data.
// A write that was not done (its condition did not hold, there was no room) leaves nothing, and needs
// nothing: nobody was told so, and to do it later is to do it for the first time.
// Should the tier fail in the middle (Write::status Unavailable), R2 holds for whatever it has kept. A
// machine that loses the end of the log, because Durability::kLogged does not wait for the disk, loses both
// together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace remora {

/// Whose write, and which. Numbers of one client go up; they are not 0.
struct RequestName {
  std::uint64_t client = 0;  // 0: nobody asks later, nothing is remembered
  std::uint64_t number = 0;
};

/// Of each client, the last write of those whose numbers are the same modulo this.
inline constexpr std::size_t kRememberedWrites = 16;

/// A write that was done.
struct RememberedWrite {
  std::uint64_t number = 0;   // 0: none
  std::uint64_t version = 0;  // Write::version; of a batch, the first one's
  std::int64_t result = 0;    // Write::result
};

struct RememberedClient {
  std::uint64_t client = 0;
  std::int64_t since_ms = 0;              // Clock::UnixMillis, when it was last remembered
  std::vector<RememberedWrite> writes{};  // in no order
};

}  // namespace remora
