// The identity of a shard: its cluster, and its name there. A server has one from its start on (kvserver
// --shard), a topology gives one to each of its shards, and a data directory keeps one.
//
//   text:  CLUSTER/NAME, as in 9f86d081884c7d65/0
//   wire:  ShardIdentity, behind the proof in HelloReply (store/format/wire/messages.h)
//
// N1 A client that expects a shard closes each connection to a server with another identity. If the client
//    knows the cluster, it also closes one to a server without an identity. That holds for the first
//    connection, and for all that replace it.
// N2 A server with an identity sends it in the reply to each client that asks. If the client has a token, the
//    server's proof covers the identity.
// N3 No server opens a data directory that keeps another identity than its own. The directory keeps the
//    identity of the first server that opened it with one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace remora {

/// Longest name of a shard, in bytes, and the digits of a cluster's ID in text.
inline constexpr std::size_t kMaxShardNameSize = 32;
inline constexpr std::size_t kClusterDigits = 16;

/// An identity as it goes over the wire. All zeros: none. `cluster` 0 with a name: the shard of this name in
/// any cluster, which only a client may expect.
struct ShardIdentity {
  std::uint64_t cluster = 0;
  std::array<char, kMaxShardNameSize> shard{};  // zeros behind the name

  /// Returns whether it names nothing.
  bool is_none() const { return cluster == 0 && shard[0] == 0; }
  /// Returns the name, a view of this object.
  std::string_view name() const {
    return {shard.data(), static_cast<std::size_t>(std::ranges::find(shard, '\0') - shard.begin())};
  }
  friend bool operator==(const ShardIdentity&, const ShardIdentity&) = default;
};
static_assert(sizeof(ShardIdentity) == 40 && offsetof(ShardIdentity, shard) == 8);
static_assert(std::has_unique_object_representations_v<ShardIdentity>);

/// Returns whether the name has 1 to 32 letters, digits, dots, dashes and underscores.
inline bool IsShardName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxShardNameSize && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

/// Returns the identity. REQUIRES: IsShardName(name).
inline ShardIdentity IdentityOf(std::uint64_t cluster, std::string_view name) {
  ShardIdentity identity{.cluster = cluster};
  name.copy(identity.shard.data(), identity.shard.size());
  return identity;
}

/// Returns a cluster as 16 hexadecimal digits.
inline std::string ClusterText(std::uint64_t cluster) {
  std::string text(kClusterDigits, '0');
  for (std::size_t i = kClusterDigits; i-- > 0; cluster >>= 4) text[i] = "0123456789abcdef"[cluster & 15];
  return text;
}

/// Reads what ClusterText writes. Nullopt: it is something else, or 0.
inline std::optional<std::uint64_t> ClusterIn(std::string_view text) {
  if (text.size() != kClusterDigits) return std::nullopt;
  std::uint64_t cluster = 0;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'a' || c > 'f')) return std::nullopt;
    cluster = cluster << 4 | static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return cluster == 0 ? std::nullopt : std::optional(cluster);
}

/// Returns an identity as CLUSTER/NAME.
inline std::string IdentityText(const ShardIdentity& identity) {
  return ClusterText(identity.cluster).append("/").append(identity.name());
}

/// Reads what IdentityText writes. Nullopt: it is something else.
inline std::optional<ShardIdentity> IdentityIn(std::string_view text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::optional<std::uint64_t> cluster = ClusterIn(text.substr(0, slash));
  if (!cluster || slash == text.size() || !IsShardName(text.substr(slash + 1))) return std::nullopt;
  return IdentityOf(*cluster, text.substr(slash + 1));
}

/// Returns whether a server that greets with `found` may serve a client that expects `expected` (N1). A
/// client that does not know the cluster takes a server without an identity, too.
inline bool IsExpected(const ShardIdentity& expected, const ShardIdentity& found) {
  if (expected.is_none()) return true;
  if (expected.cluster == 0) return found.is_none() || found.shard == expected.shard;
  return found == expected;
}

}  // namespace remora
