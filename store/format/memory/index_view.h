// From a key's hash to the slots that may hold it. Pure functions, used by both sides.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "store/format/memory/layout.h"

namespace remora {

/// The main bucket of a hash at a depth: its low bits. The fingerprint is its top bits, so the two tell
/// different things.
constexpr std::uint64_t BucketAtDepth(std::uint64_t key_hash, std::uint32_t depth) {
  return key_hash & ((std::uint64_t{1} << depth) - 1);
}

/// Deeper is no bucket: their numbers, times their size, fit into an offset.
inline constexpr std::uint32_t kMaxDepth = 36;

/// A main bucket, and the depth at which it is looked for.
struct Home {
  std::uint64_t bucket = 0;
  std::uint32_t depth = 0;
};

/// Returns whether the keys with this hash belong to a bucket of this number and depth.
constexpr bool Belongs(std::uint64_t key_hash, const Home& home) {
  return BucketAtDepth(key_hash, home.depth) == home.bucket;
}

/// A reader's view of how far the index has grown: never more than is true. It learns from each
/// bucket.
struct IndexView {
  std::uint32_t level = 0;
  std::uint64_t split = 0;  // less than 2^level

  constexpr Home HomeOf(std::uint64_t key_hash) const {
    const std::uint64_t bucket = BucketAtDepth(key_hash, level);
    if (bucket >= split) return {bucket, level};
    return {BucketAtDepth(key_hash, level + 1), level + 1};
  }

  /// A bucket of this depth was seen. Depth d comes of splitting a bucket of depth d - 1, and those before it
  /// were split before.
  constexpr void Saw(std::uint64_t bucket, std::uint32_t depth) {
    if (depth == 0 || depth - 1 < level) return;
    const std::uint64_t next = BucketAtDepth(bucket, depth - 1) + 1;
    if (depth - 1 > level) {
      level = depth - 1;
      split = next;
    } else {
      split = next > split ? next : split;
    }
    if (split >> level != 0) {
      ++level;
      split = 0;
    }
  }
};

/// Returns the home with which a search continues when the main bucket of `home` is deeper (`depth`) than
/// `home`, because it was split meanwhile. That bucket exists. It is the same bucket, with a larger depth, if
/// the key belongs to it. REQUIRES: depth > home.depth.
constexpr Home NextHome(std::uint64_t key_hash, const Home& home, std::uint32_t depth) {
  // Later halves may not exist yet. The half of the first split that separates the key from `home` does.
  for (std::uint32_t d = home.depth + 1; d <= depth; ++d) {
    if (BucketAtDepth(key_hash, d) != home.bucket) return {BucketAtDepth(key_hash, d), d};
  }
  return {home.bucket, depth};
}

/// 1 to 4095. Never 0, so that no mixture of two slots of one key reads as an empty slot.
constexpr std::uint32_t Fingerprint(std::uint64_t key_hash) {
  const auto top = static_cast<std::uint32_t>(key_hash >> 52);
  return top == 0 ? 1 : top;
}

/// The slot of a cold key: its fingerprint, no extent, and the low bits of its hash, by which a
/// bucket is split without knowing keys. Another cold key may have the same, so a client that wants
/// the record asks the server.
constexpr std::uint64_t EncodeColdSlot(std::uint64_t key_hash) {
  return EncodeSlot({Fingerprint(key_hash), 0, key_hash & kMaxOffsetUnits});
}
static_assert(kMaxDepth <= kOffsetBits);

/// Slots of one bucket, as a set; iterate with Next.
class SlotSet {
 public:
  constexpr explicit SlotSet(std::uint32_t bits) : bits_(bits) {}
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::size_t size() const { return static_cast<std::size_t>(std::popcount(bits_)); }
  /// Takes out the lowest. REQUIRES: !empty().
  constexpr int Next() {
    const int slot = std::countr_zero(bits_);
    bits_ &= bits_ - 1;
    return slot;
  }

 private:
  std::uint32_t bits_;
};

inline const std::uint64_t* WordsOf(const Bucket& bucket) {
  return reinterpret_cast<const std::uint64_t*>(&bucket);
}

/// Which of `kWords` words, from a bucket's beginning or of one of its lines, say this fingerprint, as bits;
/// the control word is taken for a slot.
template <std::size_t kWords>
inline std::uint32_t WordsWith(const std::uint64_t* words, std::uint32_t fingerprint) {
  std::uint32_t bits = 0;
#ifdef __SSE2__
  // Four words at a time: twice as fast as word by word (measured).
  static_assert(kWords % 4 == 0 && kWords <= 32);
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(fingerprint));
  for (std::size_t i = 0; i < kWords; i += 4) {
    const auto* four = reinterpret_cast<const __m128i*>(words + i);
    const __m128 low = _mm_castsi128_ps(_mm_loadu_si128(four));
    const __m128 high = _mm_castsi128_ps(_mm_loadu_si128(four + 1));
    const __m128i tops = _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
    const __m128i equal = _mm_cmpeq_epi32(_mm_srli_epi32(tops, 20), wanted);
    bits |= static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(equal))) << i;
  }
#else
  for (std::size_t i = 0; i < kWords; ++i) {
    bits |= static_cast<std::uint32_t>(words[i] >> 52 == fingerprint) << i;
  }
#endif
  return bits;
}

/// The slots of a bucket with this fingerprint; with 0, the empty ones.
inline SlotSet SlotsWith(const Bucket& bucket, std::uint32_t fingerprint) {
  static_assert(offsetof(Bucket, slots) == 8 && kSlotsPerBucket == 31);
  return SlotSet(WordsWith<kSlotsPerBucket + 1>(WordsOf(bucket), fingerprint) >> 1);
}

/// The line of its bucket where a key's slot is most likely. Of the hash's bits, neither those that choose
/// the bucket nor the fingerprint's.
constexpr std::size_t PreferredLine(std::uint64_t key_hash) { return (key_hash >> 50) % kLinesPerBucket; }

/// Returns the slots of a bucket, or of a private copy of it, that have the fingerprint of `key_hash`. None
/// of them is empty. One may be torn, and name no valid place: see SlotNamesPlace.
inline SlotSet FindSlots(const Bucket& bucket, std::uint64_t key_hash) {
  return SlotsWith(bucket, Fingerprint(key_hash));
}

/// Returns those of FindSlots that are in the key's line.
inline SlotSet FindSlotsInLine(const Bucket& bucket, std::uint64_t key_hash) {
  const std::size_t begin = PreferredLine(key_hash) * kWordsPerLine;
  const std::uint32_t bits = WordsWith<kWordsPerLine>(WordsOf(bucket) + begin, Fingerprint(key_hash));
  return SlotSet((bits << begin) >> 1);
}

/// Returns whether a record can be where `slot` says, in a region of `memory_size` bytes. False
/// only for a torn slot.
constexpr bool SlotNamesPlace(const Slot& slot, std::uint64_t memory_size) {
  return slot.offset_units != 0 && slot.extent_bytes() >= sizeof(RecordHeader) + kMinKeySize &&
         slot.extent_bytes() <= memory_size && slot.offset_bytes() <= memory_size - slot.extent_bytes();
}

/// Returns whether a bucket can be where a control word's link says.
constexpr bool LinkNamesPlace(std::uint64_t link, std::uint64_t memory_size) {
  return link < memory_size / sizeof(Bucket);
}

}  // namespace remora
