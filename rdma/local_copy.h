// Copying out of memory that another process may be writing.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "store/base/tsan.h"

namespace remora::rdma {

/// Up to here copies go word by word. Beyond, memcpy's wide moves are worth more.
inline constexpr std::size_t kWordCopyLimit = 512;

/// Copies `size` bytes. Short copies (index buckets, small records, messages) load each aligned 8-byte word
/// once and whole, which spares readers most of the torn reads that they would have to repeat. It is no
/// promise: O3 of transport.h says that nothing wider than a byte is read whole, readers verify what they
/// read, and longer copies rely on that.
inline void CopyShared(std::byte* to, const std::byte* from, std::size_t size) {
  using Word __attribute__((may_alias)) = std::uint64_t;
  if (size > kWordCopyLimit) {
    std::memcpy(to, from, size);
    return;
  }
  for (; size > 0 && reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) != 0; --size) {
    *to++ = static_cast<std::byte>(
        __atomic_load_n(reinterpret_cast<const unsigned char*>(from++), __ATOMIC_RELAXED));
  }
#if defined(__SSE2__) && !defined(REMORA_TSAN)
  // Four at a time, by two loads. Where a processor splits those, it is between words. (ThreadSanitizer would
  // call them races; of the words it knows that they are meant.)
  for (constexpr std::size_t kStep = 2 * sizeof(__m128i); size >= kStep; size -= kStep) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), first);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + 1, second);
    from += kStep;
    to += kStep;
  }
#endif
  for (; size >= sizeof(Word); size -= sizeof(Word)) {
    const Word word = __atomic_load_n(reinterpret_cast<const Word*>(from), __ATOMIC_RELAXED);
    std::memcpy(to, &word, sizeof(word));
    from += sizeof(Word);
    to += sizeof(Word);
  }
  for (; size > 0; --size) {
    *to++ = static_cast<std::byte>(
        __atomic_load_n(reinterpret_cast<const unsigned char*>(from++), __ATOMIC_RELAXED));
  }
}

}  // namespace remora::rdma
