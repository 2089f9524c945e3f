// How one process names memory of another in a message.
#pragma once

#include <cstdint>
#include <type_traits>

namespace remora {

/// A range of the peer's registered memory: address, length and rkey of an ibv_mr. The meaning of
/// `address` and `key` belongs to the transport that registered it; readers use offsets from its
/// start. A default-made one (size 0) names nothing.
struct RemoteRegion {
  std::uint64_t address = 0;
  std::uint64_t size = 0;  // bytes
  std::uint32_t key = 0;
  std::uint32_t reserved = 0;

  /// Returns whether bytes [offset, offset + byte_count) lie inside.
  constexpr bool Contains(std::uint64_t offset, std::uint64_t byte_count) const {
    return offset <= size && byte_count <= size - offset;
  }
  friend constexpr bool operator==(const RemoteRegion&, const RemoteRegion&) = default;
};
static_assert(sizeof(RemoteRegion) == 24);
static_assert(std::has_unique_object_representations_v<RemoteRegion>);

}  // namespace remora
