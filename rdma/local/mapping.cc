#include "rdma/local/mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"
#include "store/base/mutex.h"

namespace remora::rdma {
namespace {

absl::Status Unusable(const char* why) {
  return absl::InternalError(absl::StrCat("map: the peer's memory is not usable: ", why));
}

/// Addresses whose mappings do not leave them to others when they end. Mostly there are none.
class KeptAddresses {
 public:
  void Add(const void* at) {
    const MutexLock lock(mutex_);
    kept_.push_back(static_cast<const std::byte*>(at));
    has_some_.store(true, std::memory_order_release);
  }
  /// Returns whether some are inside, and forgets them.
  bool Take(std::span<const std::byte> bytes) {
    if (!has_some_.load(std::memory_order_acquire)) return false;
    const MutexLock lock(mutex_);
    const std::less<> is_before;
    return std::erase_if(kept_, [&](const std::byte* at) {
             return !is_before(at, bytes.data()) && is_before(at, bytes.data() + bytes.size());
           }) > 0;
  }

 private:
  std::atomic<bool> has_some_ = false;
  Mutex mutex_;
  std::vector<const std::byte*> kept_ ABSL_GUARDED_BY(mutex_);
};

KeptAddresses& Kept() {
  static auto* const kept = new KeptAddresses;  // never destroyed: mappings may end after it would be
  return *kept;
}

}  // namespace

void LocalMapping::KeepAddresses(const void* at) { Kept().Add(at); }

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
  if (bytes_.empty()) return;
  if (!Kept().Take(bytes_)) {
    munmap(bytes_.data(), bytes_.size());
    return;
  }
  // In one step, so that no other thread gets the addresses meanwhile.
  mmap(bytes_.data(), bytes_.size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
       0);
}

}  // namespace remora::rdma
