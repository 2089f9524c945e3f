// Memory that peers may be given access to, whichever transport they come over.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

namespace remora::rdma {

/// Size of a huge page on x86-64, and on other CPUs with pages of 4 KiB.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Provides the bytes from here on with one huge page (madvise(2)), even while they are in use. Returns false
/// if the system has none now, or was told to have none at all (shmem_enabled: deny), or does not know how
/// (before Linux 6.1).
///
/// REQUIRES: `at` is a multiple of kHugePage in a SharedMemory, which has as much from there on.
bool ProvideHugePage(std::byte* at);

/// Maps the first `size` bytes of a memfd, shared, with huge pages if the system gives them on
/// request. If a huge page fits in, the mapping begins at a multiple of its size: no other place
/// can have it in one piece. MAP_FAILED, and errno, as mmap(2). The caller unmaps it.
void* MapShared(int fd, std::size_t size, int protection);

class SharedMemoryPool;

/// Zero-filled memory backed by a memfd (memfd_create(2)), so that one and the same bytes can be registered
/// with an RDMA device and mapped by another process of this host. Neither copied nor moved: its address
/// stays for its life. Page-aligned.
///
/// Thread safety: const members may be called from many threads; the bytes are the caller's to guard.
class SharedMemory {
 public:
  /// Processes, beside the maker, that may write the bytes.
  enum class Writers {
    kOwnerOnly,  // sealed: no other process can ever map it writable, whatever descriptor it holds
    kPeers,
  };

  /// Makes memory of `size` bytes, rounded up to whole pages. `name` shows up in /proc/PID/maps. Neither side
  /// can resize the memory afterwards (F_ADD_SEALS, fcntl(2)), so a mapped byte never turns into SIGBUS by
  /// truncation.
  /// InvalidArgument: size 0. ResourceExhausted: the kernel has no memory, address space or
  /// descriptor for it.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Create(std::string_view name, std::size_t size,
                                                              Writers writers);
  /// Returns the size that Create gives memory of `size` bytes.
  static std::size_t RoundUp(std::size_t size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Returns the bytes, valid as long as this object.
  std::span<std::byte> bytes() const { return bytes_; }
  /// Returns the memfd, owned by this object. -1 after CloseDescriptor.
  int fd() const { return fd_; }
  /// Closes the descriptor, so that no other process gets it any more. Existing mappings stay, here
  /// and elsewhere.
  void CloseDescriptor();
  /// Returns the choice that Create was given.
  Writers writers() const { return writers_; }

 private:
  friend class SharedMemoryPool;

  SharedMemory(int fd, std::span<std::byte> bytes, Writers writers)
      : fd_(fd), bytes_(bytes), writers_(writers) {}
  static void Release(int fd, std::span<std::byte> bytes);

  int fd_;
  std::span<std::byte> bytes_;
  Writers writers_;
  SharedMemoryPool* pool_ = nullptr;  // which takes apart what is left of it; null: this does
};

}  // namespace remora::rdma
