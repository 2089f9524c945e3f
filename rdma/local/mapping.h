// Memory of the other process, mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"

namespace remora::rdma {

/// A mapping of another process's memory.
///
/// Thread safety: that of a value; any threads may map and end mappings, also shared ones.
class LocalMapping {
 public:
  LocalMapping() = default;
  /// Maps the first `size` bytes of the memfd `fd`, after seeing that nobody can shrink it below them, which
  /// would turn a load into SIGBUS. Internal: the peer sent something else. ResourceExhausted: no address
  /// space.
  static absl::StatusOr<LocalMapping> Map(int fd, std::uint64_t size, bool writable);
  /// Maps memory as Map does, read-only. Where this process has shared the same memory and size already, it
  /// returns that mapping, which ends with the last that has it. So many clients of a server need the page
  /// tables and the TLB entries of one.
  static absl::StatusOr<LocalMapping> Share(int fd, std::uint64_t size);
  /// Has Share map as Map does from now on. For a program whose kept addresses (below) shall read as zeros as
  /// soon as one client ends, whatever others there are.
  static void ShareNothing();
  /// Maps all memory that a client offers its server to WRITE. It first checks that the memory is
  /// of this kind, that its size may be offered, and that its pages come as they are touched. Has
  /// the errors of Map.
  static absl::StatusOr<LocalMapping> MapOffered(int fd);
  std::span<std::byte> bytes() const { return memory_ == nullptr ? std::span<std::byte>() : memory_->bytes; }

  /// Keeps the addresses of the mapping that has the byte `at`: when it ends, they read as zeros, and nothing
  /// else in this process gets them. For a program that may access the bytes in spite of the end. Any thread
  /// may call it while the mapping exists.
  static void KeepAddresses(const void* at);

 private:
  friend class SharedMappings;

  /// Addresses at which something is mapped, and which leave it as they end.
  struct Memory {
    explicit Memory(std::span<std::byte> mapped) : bytes(mapped) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();
    const std::span<std::byte> bytes;
  };

  explicit LocalMapping(std::shared_ptr<const Memory> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<const Memory> memory_;  // null: nothing
};

}  // namespace remora::rdma
