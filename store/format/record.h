// Hashes, and the check that a record is what its reader looks for. Pure functions, used by both sides.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/format/layout.h"
#include "store/format/lookup.h"

#ifdef __x86_64__
/// Of xxh_x86dispatch.h, which would take the place of the inlined ones.
extern "C" std::uint64_t XXH3_64bits_dispatch(const void* data, std::size_t size);
#endif

namespace remora {

/// Hash of a key: where it lives in the index, and its part of every checksum. XXH3, seed 0: part of the
/// format.
inline std::uint64_t HashKey(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

/// Of more bytes than this, XXH3 uses vectors.
inline constexpr std::size_t kLongValue = 240;

/// Of those, by the widest instructions that the processor has.
[[gnu::noinline]] inline std::uint64_t HashLongValue(const void* data, std::size_t size) {
#ifdef __x86_64__
  const std::uint64_t hash = XXH3_64bits_dispatch(data, size);
  // It leaves the vectors' upper halves in use; our own instructions on vectors then take ten times as long
  // (seen on Zen 5).
  if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroupper");
  return hash;
#else
  return XXH3_64bits(data, size);
#endif
}

/// Hash of a value's bytes, its part of every checksum: XXH3, seed 0.
[[gnu::always_inline]] inline std::uint64_t HashValue(const void* data, std::size_t size) {
  return size > kLongValue ? HashLongValue(data, size) : XXH3_64bits(data, size);
}

/// The same of bytes that come in pieces.
class ValueHasher {
 public:
  ValueHasher() { XXH3_64bits_reset(&state_); }
  void Add(const void* data, std::size_t size) { XXH3_64bits_update(&state_, data, size); }
  std::uint64_t Hash() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

/// The record's checksum. The hashes of key and value go in, not their bytes: a reader has the key's hash
/// at hand and may hold key and value in two places; the server that verified a value's hash once need not
/// run over the value again. `offset_units` and `incarnation` tie the record to its place. The sizes are not
/// in it, for each hash is one of so many bytes; nor are the flags, which SizesMatch knows.
///
/// It is the two halves of one product, one upon the other, as in XXH3: both factors are as good as random,
/// and whichever of the numbers is another one, its factor is another one, and so is the product.
[[gnu::always_inline]] inline std::uint64_t RecordChecksum(const RecordHeader& header, std::uint64_t key_hash,
                                                           std::uint64_t value_hash,
                                                           std::uint64_t offset_units,
                                                           std::uint64_t incarnation) {
  // Odd, so that they are multiplied without loss; large, so that small numbers do not add up to another's.
  constexpr std::uint64_t kOfVersion = 0x9e3779b97f4a7c15;
  constexpr std::uint64_t kOfExpiry = 0xc2b2ae3d27d4eb4f;
  const std::uint64_t key = key_hash + incarnation + header.expiry_ms * kOfExpiry;
  const std::uint64_t value = value_hash + offset_units + (header.version_live >> 1) * kOfVersion;
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(key) * value;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// What became of a record that a slot (or a memory of one) led to.
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

/// Whether the header's sizes are in bounds, and such that a record with them has this extent: that, and not
/// only fits into it. A torn slot with a right offset and a wrong extent must not pass for the slot of whose
/// record it found.
[[gnu::always_inline]] inline bool SizesMatch(const RecordHeader& header, std::uint64_t extent_bytes) {
  return header.key_size >= kMinKeySize && header.key_size <= kMaxKeySize &&
         header.value_size <= kMaxValueSize && header.flags == 0 &&
         ExtentUnits(RecordExtentCode(header.key_size, header.value_size)) * kUnitSize == extent_bytes;
}

/// Whether two keys are the same; those of usual sizes without a call.
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

/// As CheckRecord, of a record that was read in parts: its sizes match, and its key and the hash of its value
/// are these.
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

/// Judges a record against the key that was looked up. `header` is a private copy; `body` are the bytes
/// behind the header in the record's extent, place.extent_bytes - sizeof(RecordHeader) of them, of which only
/// those are looked at that the header's sizes, checked first, cover. When the answer is kLive or kDead, the
/// value is the header.value_size bytes at body + key.size().
inline RecordState CheckRecord(const RecordHeader& header, const std::byte* body, std::string_view key,
                               std::uint64_t key_hash, const RecordPlace& place) {
  if (!SizesMatch(header, place.extent_bytes)) return RecordState::kTorn;
  const std::string_view stored_key(reinterpret_cast<const char*>(body), header.key_size);
  const std::uint64_t value_hash = HashValue(body + header.key_size, header.value_size);
  return JudgeRecord(header, stored_key, value_hash, key, key_hash, place);
}

/// Whether that would be kLive, for who does not ask what it is else: in so few steps that depend on what was
/// read, above all so few branches, that a processor which waits for that gets to what comes behind
/// (client/first_look.h).
[[gnu::always_inline]] inline bool IsLiveRecordOf(std::string_view key, std::uint64_t key_hash,
                                                  const RecordHeader& header, const std::byte* body,
                                                  const RecordPlace& place) {
  const std::uint64_t size = sizeof(header) + key.size() + header.value_size;
  // An exact extent has fewer bytes to spare than a unit. Others are looked at as a whole, and must have this
  // key's size, as the value is looked for behind it.
  const bool fits = place.extent_bytes <= kMaxExactExtent
                        ? place.extent_bytes - size < kUnitSize
                        : header.key_size == key.size() && SizesMatch(header, place.extent_bytes);
  if (!fits) return false;
  const std::uint64_t value_hash = HashValue(body + key.size(), header.value_size);
  std::uint64_t wrong =
      header.checksum ^ RecordChecksum(header, key_hash, value_hash, place.offset_units, place.incarnation);
  wrong |= (header.key_size ^ key.size()) | header.flags;
  wrong |= (header.version_live & kLiveBit) ^ kLiveBit;
  return wrong == 0 && IsSame({reinterpret_cast<const char*>(body), key.size()}, key);
}

}  // namespace remora
