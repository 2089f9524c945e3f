// A bucket is several cache lines: who adds an entry looks for room first in the one where its key is looked
// for first (LineOf), so that a load, which adds millions, touches one line for each.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "store/format/memory/layout.h"

namespace remora {

/// Which of a line's words are 0, as bits. All are looked at: there is no branch to predict wrongly. Nobody
/// else writes them meanwhile.
inline std::uint32_t ZeroWords(const std::uint64_t* line) {
  std::uint32_t bits = 0;
#ifdef __SSE2__
  const __m128i zero = _mm_setzero_si128();
  for (std::size_t i = 0; i < kWordsPerLine; i += 2) {
    // By halves of words: a word is 0 when both are.
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
