// The use of each segment of a store's region, for programs that show it (ServerStore::SegmentMap).
#pragma once

#include <cstdint>

namespace remora {

enum class SegmentUse : std::uint8_t {
  kNone = 0,  // before the first segment: superblock, directory, generations
  kFree = 1,
  kIndex = 2,
  kLogHead = 3,  // records are being appended
  kLog = 4,
  kRetired = 5,  // nothing leads here any more, but readers may still use a place that they learned before
  kRun = 6,      // part of a run; its first segment has the bytes and the expiry of the large record
  kClaimed = 7,  // free, and kept for the run that is being made
};

struct MappedSegment {
  SegmentUse use = SegmentUse::kNone;
  /// kLog: the share of the segment that dead records take, in 1/32, rounded down; 31 at most.
  std::uint8_t dead_32nds = 0;
};

}  // namespace remora
