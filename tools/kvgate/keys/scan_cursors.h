// The cursors of SCAN: numbers, each for a resume token of the client's scan.
//
// A cursor names a scan and one of its last steps, so that a client whose call was lost may make it again. A
// number is 52 bits, which clients that keep numbers as doubles can hold:
//
//   scan 36 (random)   step 16
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"

namespace remora::kvgate {

/// Keeps the positions of scans. The one that was used longest ago goes when there are too many, or too many
/// bytes.
///
/// Thread safety: all methods may be called from any thread.
class ScanCursors {
 public:
  static constexpr std::size_t kMaxScans = 1024;
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
  static constexpr std::size_t kSteps = 4;

  /// Returns the resume token of a cursor. Nothing: it is not known, or not any more.
  std::optional<std::string> Find(std::uint64_t cursor);
  /// Returns a cursor for the next step of the scan that `cursor` is of. 0: of a new scan.
  std::uint64_t Keep(std::uint64_t cursor, std::string token);
  /// Notes that the scan has come to its end: its cursors go before all others.
  void End(std::uint64_t cursor);

 private:
  struct Step {
    std::uint16_t number = 0;  // 0: none
    std::string token{};
  };
  struct Scan {
    std::uint64_t id = 0;
    std::uint16_t last_step = 0;
    std::array<Step, kSteps> steps{};
  };
  using Scans = std::list<Scan>;

  Scans::iterator FindScan(std::uint64_t cursor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_){std::random_device()()};
  Scans scans_ ABSL_GUARDED_BY(mutex_);  // the last one that was used first
  std::unordered_map<std::uint64_t, Scans::iterator> by_id_ ABSL_GUARDED_BY(mutex_);
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the tokens
};

}  // namespace remora::kvgate
