#include "rdma/local/mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"

namespace remora::rdma {
namespace {

absl::Status Unusable(const char* why) {
  return absl::InternalError(absl::StrCat("map: the peer's memory is not usable: ", why));
}

}  // namespace

absl::StatusOr<LocalMapping> LocalMapping::Map(int fd, std::uint64_t size, bool writable) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat status;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return Unusable("it may shrink");
  if (fstat(fd, &status) != 0 || size == 0 || static_cast<std::uint64_t>(status.st_size) < size) {
    return Unusable("it is smaller than was said");
  }
  void* address = MapShared(fd, size, writable ? PROT_READ | PROT_WRITE : PROT_READ);
  if (address == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", size, " bytes of the peer (ulimit -v?)"));
  }
  return LocalMapping(std::span(static_cast<std::byte*>(address), size));
}

absl::StatusOr<LocalMapping> LocalMapping::MapOffered(int fd) {
  // First, for it asks no file system: anything else that the peer might send fails it.
  if (fcntl(fd, F_GET_SEALS) < 0) return Unusable("it is no memfd");
  struct stat status;
  struct statfs system;
  // Huge pages may run out while a process touches them; these pages run out only with all memory.
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
    return Unusable("it has pages of its own kind");
  if (fstat(fd, &status) != 0 || status.st_size <= 0 ||
      static_cast<std::uint64_t>(status.st_size) > kMaxOfferedSize) {
    return Unusable("it is empty or larger than may be offered");
  }
  return Map(fd, static_cast<std::uint64_t>(status.st_size), true);
}

LocalMapping::~LocalMapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace remora::rdma
