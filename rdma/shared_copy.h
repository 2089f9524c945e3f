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
/// ThreadSanitizer would report a race with the writer, so it does not see what is read here.
#ifdef REMORA_TSAN
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) inline void CopyShared(std::byte* to,
                                                                                const std::byte* from,
                                                                                std::size_t size) {
  using Word __attribute__((may_alias, aligned(1))) = std::uint64_t;
  // Volatile: the compiler makes no call of memcpy out of the loops, which ThreadSanitizer would see.
  for (; size >= sizeof(Word); size -= sizeof(Word), from += sizeof(Word), to += sizeof(Word)) {
    *reinterpret_cast<volatile Word*>(to) = *reinterpret_cast<const volatile Word*>(from);
  }
  for (; size > 0; --size) {
    *reinterpret_cast<volatile std::byte*>(to++) = *reinterpret_cast<const volatile std::byte*>(from++);
  }
}
#else
inline void CopyShared(std::byte* to, const std::byte* from, std::size_t size) {
  if (size > 0) std::memcpy(to, from, size);
  // The copy is private: a check of it must not load from the source once more.
  __asm__ volatile("" : : "r"(to) : "memory");
}
#endif

}  // namespace remora::rdma
