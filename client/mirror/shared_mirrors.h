// The mirrors of the index that this process has. Clients that READ the same index have the same mirror.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "client/mirror/index_mirror.h"
#include "store/base/clock.h"
#include "store/format/memory/key_search.h"

namespace remora {

/// The facts that clients of one mirror have in common.
struct MirrorKey {
  std::string address;  // of the server, as it was dialled; empty: the caller's own dialer knows it
  std::uint64_t incarnation = 0;
  std::uint64_t memory_size = 0;
  std::uint32_t base_depth = 0;
  Duration grace{};
  std::size_t bytes = 0;         // of the mirror
  const Clock* clock = nullptr;  // the times at which generations were READ are this one's
  std::uint64_t forks = 0;       // Forks::Count()

  auto operator<=>(const MirrorKey&) const = default;
};

/// The mirrors that clients have, as long as they have them.
///
///   H1 Two clients have one mirror only if they READ the same index. Its incarnation is random, 64 bits, and
///      new at each start of the store. A server might tell that of another one. Then its clients would lead
///      those of the other one to places of its choice. So the address has to be the same, too.
///   H2 A forked child does not use a mirror of its parent. A thread of the parent may have held its mutex or
///      its frames, and the child lacks that thread. So the key has the count of forks. A thread that forks
///      waits until no other thread is in Join, so Join does not wait for ever in the child.
///
/// Thread safety: any threads may call it.
class SharedMirrors {
 public:
  /// Returns the mirror with this key, or makes one. `previous` is what the caller had before; if that is
  /// another one, it ends before the new one is made, unless others have it.
  static std::shared_ptr<IndexMirror> Join(const MirrorKey& key, std::shared_ptr<IndexMirror> previous);
};

}  // namespace remora
