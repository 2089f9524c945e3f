#include "tools/kvgate/cluster/redis_slot.h"

#include <array>
#include <cstddef>

#include "client/cluster/slots.h"

namespace remora::kvgate {
namespace {

/// Returns the checksums of all single bytes.
constexpr std::array<std::uint16_t, 256> ChecksumsOfBytes() {
  constexpr unsigned kPolynomial = 0x1021;
  std::array<std::uint16_t, 256> checksums{};
  for (unsigned byte = 0; byte < checksums.size(); ++byte) {
    unsigned checksum = byte << 8;
    for (int bit = 0; bit < 8; ++bit) checksum = checksum << 1 ^ ((checksum & 0x8000) != 0 ? kPolynomial : 0);
    checksums[byte] = static_cast<std::uint16_t>(checksum);
  }
  return checksums;
}

constexpr std::array<std::uint16_t, 256> kChecksums = ChecksumsOfBytes();

/// Returns the CRC-16/XMODEM of the bytes.
std::uint16_t Checksum(std::string_view bytes) {
  unsigned checksum = 0;
  for (const char c : bytes) {
    const std::size_t byte = (checksum >> 8 ^ static_cast<unsigned char>(c)) & 0xff;
    checksum = (checksum << 8 ^ kChecksums[byte]) & 0xffff;
  }
  return static_cast<std::uint16_t>(checksum);
}

}  // namespace

std::uint32_t RedisSlotOf(std::string_view key) { return Checksum(TagOfKey(key)) % kRedisSlots; }

}  // namespace remora::kvgate
