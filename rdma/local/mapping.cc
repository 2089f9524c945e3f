#include "rdma/local/mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"
#include "store/base/hold_over_forks.h"
#include "store/base/mutex.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

absl::Status Unusable(const char* why) {
  return absl::InternalError(absl::StrCat("map: the peer's memory is not usable: ", why));
}

Mutex remembered_mutex;  // guards what this process remembers of its mappings

/// Addresses whose mappings do not leave them to others when they end. Mostly there are none.
class KeptAddresses {
 public:
  void Add(const void* at) {
    const MutexLock lock(remembered_mutex);
    kept_.push_back(static_cast<const std::byte*>(at));
    has_some_.store(true, std::memory_order_release);
  }
  /// Returns whether some are inside, and forgets them.
  bool Take(std::span<const std::byte> bytes) {
    if (!has_some_.load(std::memory_order_acquire)) return false;
    const MutexLock lock(remembered_mutex);
    const std::less<> is_before;
    return std::erase_if(kept_, [&](const std::byte* at) {
             return !is_before(at, bytes.data()) && is_before(at, bytes.data() + bytes.size());
           }) > 0;
  }

 private:
  std::atomic<bool> has_some_ = false;
  std::vector<const std::byte*> kept_ ABSL_GUARDED_BY(remembered_mutex);
};

KeptAddresses& Kept() {
  static auto* const kept = new KeptAddresses;  // never destroyed: mappings may end after it would be
  return *kept;
}

/// Checks that the file has `size` bytes, and keeps them.
absl::Status CheckFile(int fd, std::uint64_t size) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat file;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return Unusable("it may shrink");
  if (fstat(fd, &file) != 0 || size == 0 || static_cast<std::uint64_t>(file.st_size) < size) {
    return Unusable("it is smaller than was said");
  }
  return absl::OkStatus();
}

}  // namespace

/// The mappings of this process that Share returned, as long as they live.
///
/// P1 Two mappings are one only if they are of the same file. While one lives, its file does, and no other
///    one has its number. A file system may count its numbers round, so the time at which the system made the
///    file must be the same, too. Where a file system does not tell that time, nothing is shared.
class SharedMappings {
 public:
  static SharedMappings& Get() {
    static auto* const mappings = new SharedMappings;  // never destroyed, as Kept
    return *mappings;
  }

  void Stop() { stopped_.store(true, std::memory_order_relaxed); }

  absl::StatusOr<LocalMapping> Share(int fd, std::uint64_t size) {
    struct statx file;
    constexpr unsigned kWanted = STATX_INO | STATX_BTIME;
    const bool is_known =
        statx(fd, "", AT_EMPTY_PATH, kWanted, &file) == 0 && (file.stx_mask & kWanted) == kWanted;
    if (!is_known || stopped_.load(std::memory_order_relaxed)) return LocalMapping::Map(fd, size, false);
    const FileSpan span(file.stx_dev_major, file.stx_dev_minor, file.stx_ino, file.stx_btime.tv_sec,
                        file.stx_btime.tv_nsec, size);
    const MutexLock lock(remembered_mutex);
    if (const auto found = living_.find(span); found != living_.end()) {
      if (auto memory = found->second.lock()) return LocalMapping(std::move(memory));
    }
    absl::StatusOr<LocalMapping> mapping = LocalMapping::Map(fd, size, false);
    if (!mapping.ok()) return mapping;
    std::erase_if(living_, [](const auto& entry) { return entry.second.expired(); });
    living_[span] = mapping->memory_;
    return mapping;
  }

 private:
  // Device, inode, seconds and nanoseconds at which it was made, bytes that are mapped.
  using FileSpan =
      std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::int64_t, std::uint32_t, std::uint64_t>;

  std::atomic<bool> stopped_ = false;
  std::map<FileSpan, std::weak_ptr<const LocalMapping::Memory>> living_ ABSL_GUARDED_BY(remembered_mutex);
};

namespace {

// Both of its classes exist before there are threads. So nobody else is in their functions at a fork, and a
// child, which has none of the other threads, may map memory.
[[maybe_unused]] const int holds_over_forks = [] {
  Kept();
  SharedMappings::Get();
  return HoldOverForks<remembered_mutex>();
}();

}  // namespace

void LocalMapping::KeepAddresses(const void* at) { Kept().Add(at); }
void LocalMapping::ShareNothing() { SharedMappings::Get().Stop(); }

absl::StatusOr<LocalMapping> LocalMapping::Map(int fd, std::uint64_t size, bool writable) {
  REMORA_RETURN_IF_ERROR(CheckFile(fd, size));
  void* address = MapShared(fd, size, writable ? PROT_READ | PROT_WRITE : PROT_READ);
  if (address == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", size, " bytes of the peer (ulimit -v?)"));
  }
  return LocalMapping(std::make_shared<const Memory>(std::span(static_cast<std::byte*>(address), size)));
}

absl::StatusOr<LocalMapping> LocalMapping::Share(int fd, std::uint64_t size) {
  REMORA_RETURN_IF_ERROR(CheckFile(fd, size));
  return SharedMappings::Get().Share(fd, size);
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

LocalMapping::Memory::~Memory() {
  if (!Kept().Take(bytes)) {
    munmap(bytes.data(), bytes.size());
    return;
  }
  // In one step, so that no other thread gets the addresses meanwhile.
  mmap(bytes.data(), bytes.size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

}  // namespace remora::rdma
