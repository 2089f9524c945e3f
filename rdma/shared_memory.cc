#include "rdma/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/memory_pool.h"
#include "store/base/check.h"

namespace remora::rdma {
namespace {

// Asks for huge pages, which the system may give shared memory (kvserver(8)). Most accesses are to
// a random place, and finding its page costs about as much as they do. A failure changes nothing.
void AskForLargePages(void* address, std::size_t size) {
  const int before = errno;
  if (madvise(address, size, MADV_HUGEPAGE) != 0) errno = before;
}

absl::Status Exhausted(const std::string& name, std::size_t size, const char* call, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no shared memory of ", size, " bytes for ", name, ": ", call, ": ", std::strerror(error),
                   " (see ulimit -v, -n and -f, and the memory limit of the group)"));
}

}  // namespace

bool ProvideHugePage(std::byte* at) {
  // Of the kernel's interface; the C library's headers may be older than the kernel.
  constexpr int kPopulateRead = 22;
  constexpr int kCollapse = 25;
  const int before = errno;
  // Where there is nothing at all, there is nothing to be made large: one small page of it first.
  bool done = madvise(at, 1, kPopulateRead) == 0 && madvise(at, kHugePage, kCollapse) == 0;
  // One of its pages was just being used; the next moment it is not.
  for (int tries = 1; !done && (errno == EAGAIN || errno == EBUSY) && tries < 8; ++tries) {
    done = madvise(at, kHugePage, kCollapse) == 0;
  }
  errno = before;
  return done;
}

void* MapShared(int fd, std::size_t size, int protection) {
  if (size < kHugePage) {
    return mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  }
  // Space for it wherever the first multiple is, and then what is too much of that.
  const std::size_t rounded = SharedMemory::RoundUp(size);
  void* const space =
      mmap(nullptr, rounded + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return MAP_FAILED;
  auto* const start = static_cast<std::byte*>(space);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(space) % kHugePage) % kHugePage;
  void* const address = mmap(start + before, size, protection, MAP_SHARED | MAP_FIXED, fd, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    munmap(space, rounded + kHugePage);
    errno = error;
    return MAP_FAILED;
  }
  if (before > 0) munmap(space, before);
  if (before < kHugePage) munmap(start + before + rounded, kHugePage - before);
  AskForLargePages(address, size);
  return address;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Create(std::string_view name_view,
                                                                   std::size_t size, Writers writers) {
  const std::string name(name_view);
  if (size == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory for ", name, ": it has 0 bytes; give it a size"));
  // off_t is signed: a larger size would become negative.
  if (size > static_cast<std::size_t>(std::numeric_limits<off_t>::max()) - RoundUp(1)) {
    return Exhausted(name, size, "ftruncate", EFBIG);
  }
  const std::size_t rounded = RoundUp(size);
  // The system would end the process for it: it counts as a file.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && rounded > limit.rlim_cur) {
    return Exhausted(name, size, "ulimit -f", EFBIG);
  }

  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Exhausted(name, size, "memfd_create", errno);
  const auto fail = [&](const char* call) {
    const absl::Status status = Exhausted(name, size, call, errno);
    close(fd);
    return status;
  };
  if (ftruncate(fd, static_cast<off_t>(rounded)) != 0) return fail("ftruncate");
  void* address = MapShared(fd, rounded, PROT_READ | PROT_WRITE);
  if (address == MAP_FAILED) return fail("mmap");
  // F_SEAL_FUTURE_WRITE spares the mapping just made: it stays the only writable one there will ever be.
  const int seals =
      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (writers == Writers::kOwnerOnly ? F_SEAL_FUTURE_WRITE : 0);
  REMORA_CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
  return std::unique_ptr<SharedMemory>(
      new SharedMemory(fd, std::span(static_cast<std::byte*>(address), rounded), writers));
}

std::size_t SharedMemory::RoundUp(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

SharedMemory::~SharedMemory() {
  if (pool_ != nullptr) {
    pool_->Deregister({.fd = fd_, .bytes = bytes_});
  } else {
    Release(fd_, bytes_);
  }
}

void SharedMemory::CloseDescriptor() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void SharedMemory::Release(int fd, std::span<std::byte> bytes) {
  if (fd >= 0) close(fd);
  munmap(bytes.data(), bytes.size());  // last: where nothing is mapped any more, nothing is open either
}

}  // namespace remora::rdma
