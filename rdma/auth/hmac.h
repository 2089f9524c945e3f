// HMAC-SHA256 (RFC 2104) for proofs of a secret in the handshake; tcp/tls_stream.h is the other user of
// OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "absl/strings/string_view.h"

namespace remora::rdma {

inline constexpr std::size_t kMacSize = 32;
using Mac = std::array<std::byte, kMacSize>;

/// Returns the MAC of `parts`, one behind the other.
///
/// Cost: some 2 us, and an allocation; for handshakes, not for the data path.
Mac HmacSha256(absl::string_view secret, std::span<const std::span<const std::byte>> parts);

/// Takes as long whether they differ early, late or not at all. Of different sizes: false.
bool AreSameBytes(std::span<const std::byte> a, std::span<const std::byte> b);

/// Fills `bytes` from the system's generator, fit for secrets. Crashes if the system has none.
void FillRandom(std::span<std::byte> bytes);

}  // namespace remora::rdma
