// The size of a store's memory, and memory for a store that was not given any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "store/options.h"

namespace remora {

/// Returns the bytes that the index takes for so many keys, at most.
std::uint64_t IndexBytesNeeded(std::uint64_t key_count);

/// The least memory_size, about, with which a store can hold `key_count` records that take `record_bytes` of
/// log. More than kMaxMemorySize when none can.
std::size_t MemoryNeeded(std::uint64_t key_count, std::uint64_t record_bytes);

/// Zero-filled memory of this process alone, which it takes from the system as it is touched.
class AnonymousMemory {
 public:
  /// ResourceExhausted: no such address space.
  static absl::StatusOr<std::unique_ptr<AnonymousMemory>> Map(std::size_t size);
  ~AnonymousMemory();
  AnonymousMemory(const AnonymousMemory&) = delete;
  AnonymousMemory& operator=(const AnonymousMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit AnonymousMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  const std::span<std::byte> bytes_;
};

}  // namespace remora
