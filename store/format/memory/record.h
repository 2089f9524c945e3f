// The check that a record is what its reader looks for. Pure functions, used by both sides.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/format/memory/hash.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"

namespace remora {

/// The two factors of a record's checksum; the value's hash is added to the second. The multipliers
/// are odd, so that nothing is lost, and large, so that small numbers do not add up to another's.
[[gnu::always_inline]] inline std::uint64_t KeyFactor(std::uint64_t expiry_ms, std::uint64_t key_hash,
                                                      std::uint64_t incarnation) {
  constexpr std::uint64_t kOfExpiry = 0xc2b2ae3d27d4eb4f;
  return key_hash + incarnation + expiry_ms * kOfExpiry;
}
[[gnu::always_inline]] inline std::uint64_t ValueFactor(std::uint64_t version, std::uint64_t offset_units) {
  constexpr std::uint64_t kOfVersion = 0x9e3779b97f4a7c15;
  return offset_units + version * kOfVersion;
}

/// Returns the record's checksum. It covers the hashes of key and value, not their bytes. A reader
/// has the key's hash at hand and may hold key and value in two places. A server that verified a
/// value's hash once need not run over the value again. `offset_units` and `incarnation` tie the
/// record to its place. The checksum omits the sizes, since XXH3 includes the length in each hash, and
/// the flags, which SizesMatch checks.
///
/// It is the two halves of one product, one upon the other, as in XXH3. Both factors are as good as
/// random. If one of the numbers is another one, its factor is another one, and so is the product.
inline std::uint64_t RecordChecksum(const RecordHeader& header, std::uint64_t key_hash,
                                    std::uint64_t value_hash, std::uint64_t offset_units,
                                    std::uint64_t incarnation) {
  return AddProduct(0, KeyFactor(header.expiry_ms, key_hash, incarnation),
                    ValueFactor(header.version_live >> 1, offset_units) + value_hash);
}

/// Result of the check of a record that a slot, or a remembered slot, led to.
enum class RecordState : std::uint8_t {
  kLive = 1,     // verified: this key's value at some moment of the READ
  kDead = 2,     // verified: this key's value once, overwritten or deleted since
  kForeign = 3,  // verified: the live record of another key with the same bucket and fingerprint
  kTorn = 4,     // none of these: record or slot was torn, or the place is another's by now
};

/// The place that a slot named, the chain that the slot was in, and the store.
struct RecordPlace {
  std::uint64_t offset_units = 0;
  std::uint64_t extent_bytes = 0;
  Home home;
  std::uint64_t incarnation = 0;
};

/// Returns whether the sizes are in bounds, and a record with them has exactly this extent. It is
/// not enough that it fits into it. A torn slot with a right offset and a wrong extent must not
/// pass for the slot of the record that it found.
inline bool IsExtentOf(std::size_t key_size, std::size_t value_size, std::uint64_t extent_bytes) {
  return key_size >= kMinKeySize && key_size <= kMaxKeySize && value_size <= kMaxValueSize &&
         ExtentUnits(RecordExtentCode(key_size, value_size)) * kUnitSize == extent_bytes;
}
/// Returns whether a header's sizes have this extent, and its flags are valid.
inline bool SizesMatch(const RecordHeader& header, std::uint64_t extent_bytes) {
  return header.flags == 0 && IsExtentOf(header.key_size, header.value_size, extent_bytes);
}

/// Returns whether two keys are the same. Keys of usual sizes take no call.
[[gnu::always_inline]] inline bool IsSame(std::string_view a, std::string_view b) {
#ifdef __SSE2__
  if (a.size() == b.size() && a.size() - 16 <= 16) {
    const auto equal = [&](std::size_t at) {
      return _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a.data() + at)),
                            _mm_loadu_si128(reinterpret_cast<const __m128i*>(b.data() + at)));
    };
    return _mm_movemask_epi8(_mm_and_si128(equal(0), equal(a.size() - 16))) == 0xffff;
  }
#endif
  return a == b;
}

/// The words of a header that say whether a record is live, and which bytes are read of it.
struct HeaderWords {
  std::uint64_t version_live;
  std::uint64_t sizes;  // value_size, key_size, flags
};

/// Loads these words of a header in place, each once. A live bit seen here was set when the reading of all
/// other fields, of key and value began; they never change while it is (I4).
[[gnu::always_inline]] inline HeaderWords LoadHeader(const RecordHeader& shared) {
  using Word __attribute__((may_alias)) = std::uint64_t;
  static_assert(offsetof(RecordHeader, value_size) % sizeof(Word) == 0);
  // Acquire: the live bit comes first.
  const std::uint64_t version_live = __atomic_load_n(&shared.version_live, __ATOMIC_ACQUIRE);
  // Atomic, so that the compiler loads it once: it bounds what is read.
  const Word sizes = __atomic_load_n(reinterpret_cast<const Word*>(&shared.value_size), __ATOMIC_RELAXED);
  return {version_live, sizes};
}

/// The facts of a live record.
struct LiveRecord {
  std::uint64_t version;
  std::uint64_t expiry_ms;
  std::string_view value;  // where it is
};

/// Checks that VerifyLive makes.
enum class RecordChecks : std::uint8_t {
  kAll = 1,           // header, key and checksum
  kHeaderAndKey = 2,  // no checksum: for a caller that proves in another way that nothing is torn
};

/// Returns whether a record is the key's live one: the one verification of a record in one piece, for
/// CheckRecord and ReadLiveRecord. It has few dependent branches, so that a waiting CPU can begin the next
/// GET (client/get/fast_get.h). It reads no byte beyond the extent.
///
/// `words` are those of the header, loaded once; of the header itself, expiry and checksum are read.
template <RecordChecks checks = RecordChecks::kAll>
[[gnu::always_inline]] inline bool VerifyLive(const RecordHeader& header, const HeaderWords& words,
                                              const char* body, std::string_view key, std::uint64_t key_hash,
                                              const RecordPlace& place, LiveRecord* record) {
  const auto [version_live, sizes] = words;
  const std::uint64_t value_size = static_cast<std::uint32_t>(sizes);
  // An exact extent has less than one unit of unused bytes. A larger one is rounded, so IsExtentOf checks it.
  const bool fits = place.extent_bytes <= kMaxExactExtent
                        ? place.extent_bytes - (sizeof(header) + key.size() + value_size) < kUnitSize
                        : IsExtentOf(key.size(), value_size, place.extent_bytes);
  if (!fits) return false;
  record->version = version_live >> 1;
  record->expiry_ms = header.expiry_ms;
  record->value = {body + key.size(), value_size};
  // Key size and flags.
  std::uint64_t wrong = (sizes >> 32) ^ key.size();
  wrong |= ~version_live & kLiveBit;
  if constexpr (checks == RecordChecks::kAll) {
    // Hashes the value last, so that few variables are live during the long computation.
    const std::uint64_t key_factor = KeyFactor(record->expiry_ms, key_hash, place.incarnation);
    const std::uint64_t value_factor = ValueFactor(record->version, place.offset_units);
    const std::uint64_t value_hash = HashBytes(record->value.data(), value_size);
    wrong |= header.checksum - AddProduct(0, key_factor, value_factor + value_hash);
  }
  return wrong == 0 && IsSame({body, key.size()}, key);
}

/// Judges a record like CheckRecord, when it was read in parts. `stored_key` and `value_hash` are its key and
/// the hash of its value. REQUIRES: SizesMatch.
inline RecordState JudgeRecord(const RecordHeader& header, std::string_view stored_key,
                               std::uint64_t value_hash, std::string_view key, std::uint64_t key_hash,
                               const RecordPlace& place) {
  const bool same_key = IsSame(stored_key, key);
  const std::uint64_t stored_hash = same_key ? key_hash : HashKey(stored_key);
  if (header.checksum !=
      RecordChecksum(header, stored_hash, value_hash, place.offset_units, place.incarnation)) {
    return RecordState::kTorn;
  }
  const bool live = (header.version_live & kLiveBit) != 0;
  if (!same_key) {
    // A torn slot may spell the place of any record. One that does not belong where we looked, or that no
    // slot names any more, does not show that ours was whole.
    const bool belongs =
        Fingerprint(stored_hash) == Fingerprint(key_hash) && Belongs(stored_hash, place.home);
    return belongs && live ? RecordState::kForeign : RecordState::kTorn;
  }
  return live ? RecordState::kLive : RecordState::kDead;
}

/// Judges a record that VerifyLive has rejected, and whose sizes match.
[[gnu::noinline]] inline RecordState JudgeRejected(const RecordHeader& header, const char* body,
                                                   std::string_view key, std::uint64_t key_hash,
                                                   const RecordPlace& place) {
  const std::uint64_t value_hash = HashValue(body + header.key_size, header.value_size);
  return JudgeRecord(header, {body, header.key_size}, value_hash, key, key_hash, place);
}

/// Judges a record against the key that was looked up. `header` is a private copy. `body` has the
/// bytes behind the header in the record's extent, place.extent_bytes - sizeof(RecordHeader) of
/// them. Only those are read that the header's sizes, checked first, cover. If the result is kLive
/// or kDead, the value is the header.value_size bytes at body + key.size().
inline RecordState CheckRecord(const RecordHeader& header, const std::byte* body, std::string_view key,
                               std::uint64_t key_hash, const RecordPlace& place) {
  if (!SizesMatch(header, place.extent_bytes)) return RecordState::kTorn;
  const auto* const bytes = reinterpret_cast<const char*>(body);
  const std::uint64_t sizes = std::uint64_t{header.key_size} << 32 | header.value_size;
  LiveRecord record;
  if (VerifyLive(header, {header.version_live, sizes}, bytes, key, key_hash, place, &record)) {
    return RecordState::kLive;
  }
  return JudgeRejected(header, bytes, key, key_hash, place);
}

/// Returns whether CheckRecord would return kLive for the record at `at`, in place, where it may
/// end meanwhile. With kHeaderAndKey, the checksum is not compared, and `key_hash` and the offset and
/// incarnation of `place` are unused. REQUIRES: the extent's bytes can be read.
template <RecordChecks checks = RecordChecks::kAll>
[[gnu::always_inline]] inline bool ReadLiveRecord(std::string_view key, std::uint64_t key_hash,
                                                  const std::byte* at, const RecordPlace& place,
                                                  LiveRecord* record) {
  const auto& header = *reinterpret_cast<const RecordHeader*>(at);
  const HeaderWords words = LoadHeader(header);
  const char* const body = reinterpret_cast<const char*>(at) + sizeof(header);
  return VerifyLive<checks>(header, words, body, key, key_hash, place, record);
}

}  // namespace remora
