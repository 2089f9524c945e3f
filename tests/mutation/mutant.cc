#include "tests/mutation/mutant.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace remora::mutation {
namespace {

const char* reached_file = nullptr;
std::atomic<bool> is_reached = false;

// Constructors with this priority run before all static initialisation: no thread exists yet.
[[gnu::constructor(101)]] void Activate() {
  const char* const name = std::getenv("REMORA_MUTANT");
  if (name == nullptr || *name == '\0') return;
  reached_file = std::getenv("REMORA_MUTANT_REACHED");
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
  if (reached_file == nullptr || is_reached.exchange(true, std::memory_order_relaxed)) return;
  const int error = errno;
  const int file = open(reached_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file >= 0) close(file);
  errno = error;
}

}  // namespace remora::mutation
