#include "bench/kvbench/load/shared.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>

#include "absl/status/status.h"

namespace remora::bench {

absl::StatusOr<std::unique_ptr<Shared>> Shared::Make(std::size_t workers, std::uint64_t records) {
  static_assert(sizeof(Head) % alignof(Progress) == 0);
  const std::size_t size = sizeof(Head) + workers * sizeof(Progress);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map memory for what threads share");
  auto* const head = new (memory) Head(records);
  auto* const first = reinterpret_cast<Progress*>(static_cast<std::byte*>(memory) + sizeof(Head));
  for (std::size_t i = 0; i < workers; ++i) new (first + i) Progress;
  return std::unique_ptr<Shared>(new Shared(head, {first, workers}, size));
}

// Nothing in there has a destructor that does anything.
Shared::~Shared() { munmap(head_, size_); }

}  // namespace remora::bench
