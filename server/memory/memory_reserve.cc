#include "server/memory/memory_reserve.h"

#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <new>
#include <string_view>

namespace remora {
namespace {

// Memory that a group of writes, and the reply to it, may take before the server rejects the next one.
constexpr std::size_t kReserve = std::size_t{32} << 20;

/// Private memory that is never touched: it counts against limits of address space, and takes none.
struct Part {
  std::atomic<void*> memory = nullptr;
  std::size_t size = 0;  // set before the first allocation that may find no memory; 0: there is no such part

  /// Returns whether the memory is set aside.
  bool Take() {
    void* const made = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return false;
    memory = made;
    return true;
  }
  /// Returns whether there was memory to give up.
  bool GiveUp() {
    void* const aside = memory.exchange(nullptr);
    return aside != nullptr && ::munmap(aside, size) == 0;
  }
};

void (*say_reserve_is_gone)() = nullptr;
Part for_groups;
Part for_applier;  // see EnlargeMemoryReserve

/// Makes memory available, or does not return, as std::set_new_handler requires.
void GiveUpReserve() {
  const bool has_one = for_groups.GiveUp();
  if (for_applier.GiveUp() || has_one) {
    memory_reserve::is_spent.store(true, std::memory_order_relaxed);
    return;
  }
  say_reserve_is_gone();
  ::_exit(EX_OSERR);
}

bool TakeReserve() {
  if (!for_groups.Take()) return false;
  if (for_applier.size == 0 || for_applier.Take()) return true;
  for_groups.GiveUp();
  return false;
}

}  // namespace

void HoldMemoryReserve(void (*log_last_lines)()) {
  say_reserve_is_gone = log_last_lines;
  for_groups.size = kReserve;
  for_groups.Take();
  std::set_new_handler(GiveUpReserve);
}

void EnlargeMemoryReserve(std::size_t bytes) {
  for_applier.size = bytes;
  if (!for_applier.Take()) for_applier.size = 0;
}

std::string_view CheckMemoryReserve(TimePoint now) {
  constexpr std::chrono::milliseconds kPause{100};
  static bool told = false;  // that it is spent
  static TimePoint next;
  if (!IsShortOfMemory() || now < next) return {};
  next = now + kPause;
  if (TakeReserve()) {
    memory_reserve::is_spent.store(false, std::memory_order_relaxed);
    if (!told) return {};
    told = false;
    return "there is memory again: writes are taken";
  }
  if (told) return {};
  told = true;
  return "the system has no memory left for this process: writes are rejected, reads go on; raise its limits "
         "(ulimit -v), or start it again with less (--memory)";
}

}  // namespace remora
