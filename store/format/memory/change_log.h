// The last changes of the index, for readers that keep a copy of it (client/mirror). The server appends a
// change when it has stored a slot of a record in memory. It appends none when it clears a slot, or stores
// that of a cold key.
//
//   ┌────────────┬──────────┬──────────┬─────┬──────────────────┐   change i is at i % kChangeCount, so the
//   │ count (64) │ change 0 │ change 1 │ ... │ change 8191 (16) │   oldest one is overwritten
//   └────────────┴──────────┴──────────┴─────┴──────────────────┘
//
//   count:  bits 63..40 check, 39..0 changes so far, modulo 2^40
//   change: the slot's word; bits 63..36 check, 35..0 place of its bucket, counted in buckets from the
//           region's start
//
//   L1 A READ may see any mixture of an old and a new state. So both have checks: the one of a change
//      covers its number. A change that was overwritten, or is not there yet, fails the check; so does a
//      torn one, but for one mixture in 2^28. It leads at most to a place where no record of the key is, as
//      a torn slot does.
//   L2 When the server appends a change, the record that the slot names is live, because one thread
//      publishes the record, stores the slot and appends the change.
//   L3 A change whose number is not less than a count that was READ was appended after that READ began.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/format/memory/hash.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"

namespace remora {

inline constexpr int kChangePlaceBits = kMaxDepth;
inline constexpr int kChangeNumberBits = 40;

/// Returns the place of change `number`, in bytes from the region's start.
constexpr std::uint64_t ChangeOffset(std::uint64_t memory_size, std::uint64_t number) {
  return ChangesOffset(memory_size) + kChangesHead + number % kChangeCount * sizeof(IndexChange);
}

/// Returns as good as random bits of two numbers.
inline std::uint64_t MixOfChange(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kOfFirst = 0x9e3779b97f4a7c15;
  constexpr std::uint64_t kOfSecond = 0xc2b2ae3d27d4eb4f;
  return AddProduct(0, a + kOfFirst, b * kOfFirst + kOfSecond);
}

inline std::uint64_t EncodeChangeCount(std::uint64_t count) {
  constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << kChangeNumberBits) - 1;
  return MixOfChange(count & kNumberMask, 0) << kChangeNumberBits | (count & kNumberMask);
}
constexpr std::uint64_t ChangeCountOf(std::uint64_t word) {
  return word & ((std::uint64_t{1} << kChangeNumberBits) - 1);
}
/// Returns whether a count that was READ is whole. All zeros: there was no change yet.
inline bool ChangeCountIsWhole(std::uint64_t word) {
  return word == 0 || word == EncodeChangeCount(ChangeCountOf(word));
}

/// Returns change `number`. `place`: that of the slot's bucket, counted in buckets.
inline IndexChange EncodeChange(std::uint64_t number, std::uint64_t word, std::uint64_t place) {
  const std::uint64_t check = MixOfChange(MixOfChange(number, word), place);
  return {word, check << kChangePlaceBits | place};
}
constexpr std::uint64_t ChangePlaceOf(const IndexChange& change) {
  return change.place & ((std::uint64_t{1} << kChangePlaceBits) - 1);
}
/// Returns whether this is change `number`, whole.
inline bool ChangeIsWhole(const IndexChange& change, std::uint64_t number) {
  return change.place == EncodeChange(number, change.word, ChangePlaceOf(change)).place;
}

}  // namespace remora
