// Copying out of memory that another process may be writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "store/base/tsan.h"

namespace remora::rdma {

/// Copies `size` bytes. By O3 of transport.h, nothing wider than a byte is read whole, and readers
/// verify the copy. The wide moves of memcpy hardly ever tear an aligned word, which spares readers
/// most repetitions.
///
/// ThreadSanitizer would call memcpy a race, so it sees short copies as copies of words.
inline void CopyShared(std::byte* to, const std::byte* from, std::size_t size) {
#ifdef REMORA_TSAN
  constexpr std::size_t kWordCopyLimit = 512;
  using Word __attribute__((may_alias)) = std::uint64_t;
  if (size > kWordCopyLimit) {
    std::memcpy(to, from, size);
    return;
  }
  for (; size > 0 && reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) != 0; --size) {
    *to++ = static_cast<std::byte>(
        __atomic_load_n(reinterpret_cast<const unsigned char*>(from++), __ATOMIC_RELAXED));
  }
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
#else
  if (size > 0) std::memcpy(to, from, size);
  // The copy is private: a check of it must not load from the source once more.
  __asm__ volatile("" : : "r"(to) : "memory");
#endif
}

}  // namespace remora::rdma
