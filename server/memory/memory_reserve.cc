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

void (*say_reserve_is_gone)() = nullptr;
std::atomic<void*> reserve = nullptr;

void* TakeAside() {
  // Private memory that is never touched: it counts against limits of address space, and takes none.
  void* const memory = ::mmap(nullptr, kReserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

/// Makes memory available, or does not return, as std::set_new_handler requires.
void GiveUpReserve() {
  if (void* const aside = reserve.exchange(nullptr)) {
    ::munmap(aside, kReserve);
    memory_reserve::is_spent.store(true, std::memory_order_relaxed);
    return;
  }
  say_reserve_is_gone();
  ::_exit(EX_OSERR);
}

}  // namespace

void HoldMemoryReserve(void (*say_last_words)()) {
  say_reserve_is_gone = say_last_words;
  reserve = TakeAside();
  std::set_new_handler(GiveUpReserve);
}

std::string_view LookAtMemoryReserve(TimePoint now) {
  constexpr std::chrono::milliseconds kPause{100};
  static bool told = false;  // that it is spent
  static TimePoint next;
  if (!IsShortOfMemory() || now < next) return {};
  next = now + kPause;
  if (void* const aside = TakeAside()) {
    reserve = aside;
    memory_reserve::is_spent.store(false, std::memory_order_relaxed);
    if (!told) return {};
    told = false;
    return "there is memory again: writes are taken";
  }
  if (told) return {};
  told = true;
  return "the system has no memory left for this process: writes are refused, reads go on; raise its limits "
         "(ulimit -v), or start it again with less (--memory)";
}

}  // namespace remora
