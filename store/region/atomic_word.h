// Words of the shared memory, as the process that writes them accesses them. Plain integers to everybody
// else: readers elsewhere have no atomics, only copies.
#pragma once

#include <atomic>
#include <cstdint>

namespace remora {

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic_ref<std::uint64_t>::required_alignment == alignof(std::uint64_t));

inline std::uint64_t LoadWord(const std::uint64_t& word, std::memory_order order) {
  // std::atomic_ref<const T> comes only with a later C++; a load does not write.
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(order);
}

inline void StoreWord(std::uint64_t& word, std::uint64_t value, std::memory_order order) {
  std::atomic_ref<std::uint64_t>(word).store(value, order);
}

}  // namespace remora
