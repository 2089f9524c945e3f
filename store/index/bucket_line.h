// The search for empty words in one cache line of a bucket. All words are slots but the first of line 0, the
// control word, which the caller leaves out. An insert searches first in the line of the bucket that readers
// search first for the key (PreferredLine). So a load, which inserts millions of keys, touches one line for
// each.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "store/format/memory/layout.h"

namespace remora {

/// Returns a bit for each word of a line that is 0, the control word included. It looks at all words, so that
/// no branch can be predicted wrongly. REQUIRES: no other thread writes the line meanwhile.
inline std::uint32_t ZeroWords(const std::uint64_t* line) {
  std::uint32_t bits = 0;
#ifdef __SSE2__
  const __m128i zero = _mm_setzero_si128();
  for (std::size_t i = 0; i < kWordsPerLine; i += 2) {
    // Compares halves of words: a word is 0 if both halves are.
    const __m128i halves = _mm_cmpeq_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(line + i)), zero);
    const __m128i both = _mm_and_si128(halves, _mm_shuffle_epi32(halves, _MM_SHUFFLE(2, 3, 0, 1)));
    bits |= static_cast<std::uint32_t>(_mm_movemask_pd(_mm_castsi128_pd(both))) << i;
  }
#else
  for (std::size_t i = 0; i < kWordsPerLine; ++i) bits |= static_cast<std::uint32_t>(line[i] == 0) << i;
#endif
  return bits;
}

}  // namespace remora
