// A record as a writer leaves it in the log, made without the store's own code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"

namespace remora {

/// Depth of the buckets in which the records are looked up.
/// It is small, so that colliding keys are soon found.
inline constexpr std::uint32_t kTestDepth = 2;

inline Home TestHome(std::string_view key) { return {BucketAtDepth(HashKey(key), kTestDepth), kTestDepth}; }

/// The bytes of an extent, and their place.
struct RecordImage {
  std::vector<std::byte> bytes;
  RecordPlace place;

  /// Returns the result of a search for `key` that reads this record.
  RecordState Check(std::string_view key) const {
    RecordPlace at = place;
    at.home = TestHome(key);
    return Check(key, at);
  }
  RecordState Check(std::string_view key, const RecordPlace& at) const {
    RecordHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return CheckRecord(header, bytes.data() + sizeof(header), key, HashKey(key), at);
  }
  RecordHeader header() const {
    RecordHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return header;
  }
  void SetHeader(const RecordHeader& header) { std::memcpy(bytes.data(), &header, sizeof(header)); }
};

inline RecordImage MakeRecord(std::string_view key, std::string_view value, std::uint64_t version, bool live,
                              std::uint64_t offset_units = 77) {
  RecordImage image;
  image.place = {offset_units, ExtentUnits(RecordExtentCode(key.size(), value.size())) * kUnitSize,
                 TestHome(key), 0xfeed};
  image.bytes.resize(image.place.extent_bytes);
  RecordHeader header{};
  header.version_live = version << 1 | (live ? kLiveBit : 0);
  header.key_size = static_cast<std::uint16_t>(key.size());
  header.value_size = static_cast<std::uint32_t>(value.size());
  header.checksum = RecordChecksum(header, HashKey(key), HashValue(value.data(), value.size()), offset_units,
                                   image.place.incarnation);
  image.SetHeader(header);
  std::memcpy(image.bytes.data() + sizeof(header), key.data(), key.size());
  if (!value.empty()) {
    std::memcpy(image.bytes.data() + sizeof(header) + key.size(), value.data(), value.size());
  }
  return image;
}

/// Returns a key other than `key` that has the same fingerprint, and at `depth` the same main bucket. If
/// `parted`, the main buckets differ at one bit more.
inline std::string CollidingKey(std::string_view key, std::uint32_t depth = kTestDepth, bool parted = false) {
  const std::uint64_t wanted = HashKey(key);
  for (std::uint64_t i = 0;; ++i) {
    std::string candidate = "collides" + std::to_string(i);
    const std::uint64_t hash = HashKey(candidate);
    if (Fingerprint(hash) == Fingerprint(wanted) &&
        BucketAtDepth(hash, depth) == BucketAtDepth(wanted, depth) &&
        (!parted || BucketAtDepth(hash, depth + 1) != BucketAtDepth(wanted, depth + 1))) {
      return candidate;
    }
  }
}

/// Returns the mixture of two words that has the bytes of `two` where `mask` has ones, and those of `one`
/// elsewhere.
constexpr std::uint64_t MixBytes(std::uint64_t one, std::uint64_t two, unsigned mask) {
  std::uint64_t bits = 0;
  for (unsigned byte = 0; byte < 8; ++byte) {
    if ((mask >> byte & 1) != 0) bits |= std::uint64_t{0xff} << (8 * byte);
  }
  return (one & ~bits) | (two & bits);
}

}  // namespace remora
