// The fields of what goes over the wire, and the values that each of them is tried with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "rdma/local/wire.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/scan_messages.h"
#include "store/format/wire/write_batch.h"

namespace remora {

struct Field {
  const char* name;
  std::size_t offset;
  std::size_t size;  // up to 8
};

#define REMORA_FIELD(type, member) \
  Field { #type "::" #member, offsetof(type, member), sizeof(type::member) }

inline constexpr Field kRequestFields[] = {
    REMORA_FIELD(Request, request_id),       REMORA_FIELD(Request, payload_offset),
    REMORA_FIELD(Request, payload_checksum), REMORA_FIELD(Request, ttl_ms),
    REMORA_FIELD(Request, condition),        REMORA_FIELD(Request, value_size),
    REMORA_FIELD(Request, key_size),         REMORA_FIELD(Request, operation),
    REMORA_FIELD(Request, read_count),       REMORA_FIELD(Request, durability),
    REMORA_FIELD(Request, put_count),        REMORA_FIELD(Request, put_ids),
    REMORA_FIELD(Request, reserved)};
inline constexpr Field kHelloFields[] = {REMORA_FIELD(HelloRequest, magic),
                                         REMORA_FIELD(HelloRequest, protocol_version),
                                         REMORA_FIELD(HelloRequest, format_version),
                                         REMORA_FIELD(HelloRequest, flags),
                                         REMORA_FIELD(HelloRequest, layout_signature),
                                         REMORA_FIELD(HelloRequest, client),
                                         REMORA_FIELD(HelloRequest, challenge)};
inline constexpr Field kBatchFields[] = {
    REMORA_FIELD(BatchEntry, condition),  REMORA_FIELD(BatchEntry, ttl_ms),
    REMORA_FIELD(BatchEntry, value_size), REMORA_FIELD(BatchEntry, key_size),
    REMORA_FIELD(BatchEntry, kind),       REMORA_FIELD(BatchEntry, reserved)};
inline constexpr Field kScanFields[] = {
    {"ScanStart::window.address", offsetof(ScanStart, window) + offsetof(RemoteRegion, address), 8},
    {"ScanStart::window.size", offsetof(ScanStart, window) + offsetof(RemoteRegion, size), 8},
    {"ScanStart::window.key", offsetof(ScanStart, window) + offsetof(RemoteRegion, key), 4},
    {"ScanStart::window.reserved", offsetof(ScanStart, window) + offsetof(RemoteRegion, reserved), 4},
    REMORA_FIELD(ScanStart, page_offset),
    REMORA_FIELD(ScanStart, page_size),
    REMORA_FIELD(ScanStart, kind),
    REMORA_FIELD(ScanStart, limit),
    REMORA_FIELD(ScanStart, ends),
    REMORA_FIELD(ScanStart, flags),
    REMORA_FIELD(ScanStart, begin_size),
    REMORA_FIELD(ScanStart, end_size)};
inline constexpr Field kLocalHelloFields[] = {REMORA_FIELD(rdma::LocalHello, magic),
                                              REMORA_FIELD(rdma::LocalHello, version),
                                              REMORA_FIELD(rdma::LocalHello, data_size)};
#undef REMORA_FIELD

// A field more in a struct must be one more here.
template <std::size_t N>
constexpr std::size_t SizeOf(const Field (&fields)[N]) {
  std::size_t size = 0;
  for (const Field& field : fields) size += field.size;
  return size;
}
static_assert(SizeOf(kRequestFields) == sizeof(Request));
static_assert(SizeOf(kHelloFields) == offsetof(HelloRequest, proof));
static_assert(SizeOf(kBatchFields) == sizeof(BatchEntry));
static_assert(sizeof(RemoteRegion) == 24 && SizeOf(kScanFields) == offsetof(ScanStart, from));
static_assert(SizeOf(kLocalHelloFields) == offsetof(rdma::LocalHello, data));

/// The bounds that somebody could think of, and some numbers that nobody did, as far as the field holds them.
/// `sparse`: the bounds of the field itself alone, for where each try is dear.
inline std::vector<std::uint64_t> ValuesFor(const Field& field, bool sparse, std::uint64_t seed) {
  const std::uint64_t most = field.size >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * field.size) - 1;
  std::vector<std::uint64_t> values = {0, 1, most, most - 1, most / 2, most / 2 + 1};
  if (!sparse) {
    for (const std::uint64_t bound :
         {std::uint64_t{kMaxKeySize}, std::uint64_t{kMaxSmallValueSize}, std::uint64_t{kMaxValueSize},
          std::uint64_t{kMaxPayloadSize}, kMaxVersion, std::uint64_t{kMaxBatchBytes},
          std::uint64_t{kMaxPageSize}, std::uint64_t{kMinPageSize}, std::uint64_t{kMaxReads},
          std::uint64_t{sizeof(Request)}, std::uint64_t{sizeof(ScanStart)}, std::uint64_t{1} << 12,
          std::uint64_t{1} << 16, std::uint64_t{1} << 31, std::uint64_t{1} << 32,
          static_cast<std::uint64_t>(kMaxTtl.count()), static_cast<std::uint64_t>(kNeverExpires.count())}) {
      values.insert(values.end(), {bound - 1, bound, bound + 1});
    }
    for (std::uint64_t small = 2; small < 24; ++small) values.push_back(small);
  }
  std::mt19937_64 random(seed);
  for (int i = 0; i < (sparse ? 2 : 8); ++i) values.push_back(random() & most);
  std::erase_if(values, [&](std::uint64_t value) { return value > most; });
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

inline void Set(const Field& field, std::uint64_t value, void* bytes) {
  std::memcpy(static_cast<char*>(bytes) + field.offset, &value,
              field.size);  // little endian, as the protocol
}

}  // namespace remora
