// Atomic access to words of the region for the process that writes them. The layout declares them as plain
// integers, because a READ copies them without atomics.
#pragma once

#include <atomic>
#include <cstdint>

namespace remora {

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic_ref<std::uint64_t>::required_alignment == alignof(std::uint64_t));

inline std::uint64_t LoadWord(const std::uint64_t& word, std::memory_order order) {
  // std::atomic_ref<const T> needs a later C++. The cast is safe, because a load does not write.
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(order);
}

inline void StoreWord(std::uint64_t& word, std::uint64_t value, std::memory_order order) {
  std::atomic_ref<std::uint64_t>(word).store(value, order);
}

}  // namespace remora
