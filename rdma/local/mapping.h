// Memory of the other process, mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/statusor.h"

namespace remora::rdma {

/// A mapping of another process's memory.
class LocalMapping {
 public:
  LocalMapping() = default;
  /// Maps the first `size` bytes of the memfd `fd`, after seeing that nobody can shrink it below them, which
  /// would turn a load into SIGBUS. Internal: the peer sent something else. ResourceExhausted: no address
  /// space.
  static absl::StatusOr<LocalMapping> Map(int fd, std::uint64_t size, bool writable);
  /// Maps all memory that a client offers its server to WRITE. It first checks that the memory is
  /// of this kind, that its size may be offered, and that its pages come as they are touched. Has
  /// the errors of Map.
  static absl::StatusOr<LocalMapping> MapOffered(int fd);
  LocalMapping(LocalMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  LocalMapping& operator=(LocalMapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~LocalMapping();
  std::span<std::byte> bytes() const { return bytes_; }

  /// Keeps the addresses of the mapping that has the byte `at`: when it ends, they read as zeros, and nothing
  /// else in this process gets them. For a program that may access the bytes in spite of the end. Any thread
  /// may call it while the mapping exists.
  static void KeepAddresses(const void* at);

 private:
  explicit LocalMapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace remora::rdma
