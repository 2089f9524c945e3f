#include "tests/mutation/mutant.h"

#include <sys/stat.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace remora::mutation {
namespace {

const char* reached_path = nullptr;
std::atomic<bool> is_reached = false;

// Constructors with this priority run before all static initialisation: no thread exists yet.
[[gnu::constructor(101)]] void Activate() {
  const char* const name = std::getenv("REMORA_MUTANT");
  if (name == nullptr || *name == '\0') return;
  reached_path = std::getenv("REMORA_MUTANT_REACHED");
  for (Mutant* const* mutant = all; *mutant != nullptr; ++mutant) {
    if (std::strcmp((*mutant)->name, name) != 0) continue;
    (*mutant)->is_active = true;
    return;
  }
  std::fprintf(stderr, "REMORA_MUTANT: there is no mutant %s; tests/mutation/mutants has all names\n", name);
  std::abort();
}

}  // namespace

void Mutant::NoteReached() {
  if (reached_path == nullptr || is_reached.exchange(true, std::memory_order_relaxed)) return;
  const int error = errno;
  mkdir(reached_path, 0777);  // needs no descriptor: a test may have used up all of them
  errno = error;
}

void LetOthersRun() {
  constexpr timespec kWhile = {.tv_sec = 0, .tv_nsec = 50'000};
  nanosleep(&kWhile, nullptr);
}

}  // namespace remora::mutation
