// The switch of a deliberate fault ("mutant"), for the copies of the sources that generate.py makes.
// README.md describes the mutants.
#pragma once

namespace remora::mutation {

/// One fault. `is_active` is set before any other code of the program runs, and never changes after that.
///
/// Thread safety: any number of threads may call IsActive.
struct Mutant {
  const char* name;
  bool is_active = false;

  bool IsActive() const {
    if (is_active) NoteReached();
    return is_active;
  }

  /// Creates the folder that REMORA_MUTANT_REACHED names. Keeps errno.
  static void NoteReached();
};

/// Waits for some 50 us. A fault that shows only if another thread acts between two steps of this one calls
/// it there, so that tests need no luck.
void LetOthersRun();

/// Those of the program, with a null at the end. generate.py defines it.
extern Mutant* const all[];

}  // namespace remora::mutation

/// Is true if REMORA_MUTANT names this fault. Then it also records that the fault was reached.
#define MUTANT(name) (::remora::mutation::name.IsActive())
