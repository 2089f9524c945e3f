// A power cut, applied to a folder whose server was killed: takes from it what the disk was not asked to
// keep.
//
// The model, by the journal of disk.h:
//   - Of a file, the disk has the bytes up to the last fsync or fdatasync, and any part of those behind it.
//     The file ends anywhere there, and pages of 4096 bytes behind the synced part may be zeros, in any
//     pattern, as the system writes pages in no order.
//   - Of a file that is written in place, or through a mapping, each page of 4096 bytes may be as it was at
//     the last fsync, in any pattern, too.
//   - Of changes of names (files made, renamed, removed), the disk has all up to the last fsync of their
//     folder. It has any number of those after it, in their order, as journalling file systems do. A file
//     that was made may be gone although its own bytes were synced; one that was removed may be there again,
//     with all its bytes. One that was renamed is in one folder or in the other.
//
// Not modelled:
//   - bytes that were synced and come back otherwise (a disk that fails; see faults_test.py);
//   - sectors of a page apart from each other;
//   - stale bytes of other files (no file system of today shows them);
//   - a page between two syncs that is neither as at the first nor as it was last;
//   - files that are shortened (the journal says so, and the cut fails);
//   - sync_file_range (it counts for nothing).
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "absl/status/statusor.h"

namespace remora {

struct CutReport {
  std::uint64_t files = 0;  // that lost bytes
  std::uint64_t bytes = 0;  // that were lost, or are zeros
  std::uint64_t names = 0;  // changes of names undone
};

/// Takes a random choice of the bytes and names that may be lost. The journal is empty then: the rest is on
/// the disk. FailedPrecondition: the journal has operations that are not modelled. Internal: the files are
/// not as it says.
absl::StatusOr<CutReport> CutPower(const std::string& journal, std::mt19937_64& random);

}  // namespace remora
