// How a store's memory is divided, and memory for a store that was not given any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "store/store.h"

namespace remora {

/// Buckets of the index: what PlanMemory's index_size holds.
struct IndexShape {
  std::uint64_t bucket_count = 0;
  std::uint64_t overflow_count = 0;
};

/// REQUIRES: memory_size within [kMinMemorySize, kMaxMemorySize].
IndexShape PlanIndex(std::size_t memory_size);

/// The least memory_size, about, with which a store can hold `key_count` records that take `record_bytes` of
/// log. More than kMaxMemorySize when none can.
std::size_t MemoryNeeded(std::uint64_t key_count, std::uint64_t record_bytes);

/// Zero-filled memory of this process alone, which it takes from the system as it is touched.
class AnonymousMemory {
 public:
  /// ResourceExhausted: no such address space.
  static absl::StatusOr<std::unique_ptr<AnonymousMemory>> Map(const StoreLayout& layout);
  ~AnonymousMemory();
  AnonymousMemory(const AnonymousMemory&) = delete;
  AnonymousMemory& operator=(const AnonymousMemory&) = delete;

  const StoreMemory& parts() const { return parts_; }

 private:
  AnonymousMemory(std::span<std::byte> all, const StoreLayout& layout);

  std::span<std::byte> all_;
  StoreMemory parts_;
};

}  // namespace remora
