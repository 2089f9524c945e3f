// When a remembered place still is what it was. Content cannot tell: memory that was used again may hold any
// bytes, also a value that spells a record of the key that once stood there, checksum and live bit and all.
// So the server counts how often it emptied each segment, in a byte (layout.h, GenerationsOffset), and a
// client looks at that byte, not for each GET, but at least once in about T (I6's grace period).
//
// A look is a READ of a chunk of those bytes. The client numbers what it sees: a segment's number changes
// with each look that shows another byte than the look before. A location is remembered with the number that
// its segment has just then, and is good as long as the number is the same. Why a location that is good leads
// to nothing but the record that it was learned of:
//
//   G1 The server changes a segment's byte when it empties it; all its records are dead then, for ever (I4),
//      and not before 2T later does it write there anew (I6). So between two changes of one byte lie 2T.
//   G2 A byte seen at t that was not changed between t and u says: nothing was written anew before u + 2T.
//   G3 Two looks in a row that show the same byte: it was not changed in between, or 256 times or a multiple,
//      which takes 255 * 2T (G1). A look that ends more than 256T after the one before begins numbers all
//      anew. So as long as a number stays, the byte was not changed between the first and the last look that
//      gave it. (Numbers have 32 bits. They do not come back in what is left of the machine's life.)
//   G4 Learning. A record was live at a moment m, and the last look that ended before the GET's READ of the
//      record (or the PUT's message) was posted showed the byte at t, before m. It is remembered with that
//      look's number, however old the look. If the segment was emptied between t and m, and the record came
//      later, the next look shows another byte, and the location is dropped for no reason: that is all. As
//      long as the number stays, the byte did not change from t on (G3), nor from m on, and so the segment is
//      in the same use as at m. A look that ended after m would not do: it may show the change that came
//      when the record was dead.
//   G5 Using. The number of a location is that of its segment's last look, at u, so between m and u the byte
//      did not change, whichever came first (G4). The READ of the record was complete before u + 2T, so
//      nothing was written anew before it was (G2): what it read are the record's own bytes, with the live
//      bit set until the record is overwritten, deleted or moved. If it reads as live, it was the key's value
//      at a moment of the READ, because the bit is cleared before any such change is acknowledged, or visible
//      in the index (I5). So a warm GET is as linearizable as a cold one.
//
// What times stand for u: u is after the look was posted. So from what the clock said before that, to what it
// says when the record has been read, must be less than 2T. Both clocks are coarse, the first may be early,
// which errs on the right side; the second may be early by Clock::kCoarseness, so we stop that much before T,
// or at T/2 where T is short. Either way the sum is at most 3/4 of 2T: the clocks' speeds may differ by a
// third.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "store/base/clock.h"
#include "store/format/memory/layout.h"

namespace remora {

/// The memory of looks. Whoever has it does the READs.
///
/// Thread Safety: none.
class SegmentGenerations {
 public:
  using Number = std::uint32_t;

  /// Bytes of a look at most, one for each segment.
  static constexpr std::size_t kChunkSize = 4096;

  SegmentGenerations(std::uint64_t memory_size, Duration grace);

  static std::uint64_t SegmentOf(const Slot& slot) { return slot.offset_bytes() / kSegmentSize; }

  /// Whether the segment's last look is recent enough for a READ that is complete `now` (G5).
  bool IsFresh(std::uint64_t segment, TimePoint now) const {
    return now <= chunks_[segment / kChunkSize].fresh_until;
  }
  /// Whether it is time for a look although nothing is to be used: for want of a number, or because after
  /// much longer the next look would have to number all anew (G3).
  bool RefreshIsDue(std::uint64_t segment, TimePoint now) const {
    return now > chunks_[segment / kChunkSize].due;
  }
  bool HasNumber(std::uint64_t segment) const { return !chunks_[segment / kChunkSize].numbers.empty(); }
  /// As of its last look. REQUIRES: HasNumber.
  Number NumberOf(std::uint64_t segment) const {
    return chunks_[segment / kChunkSize].numbers[segment % kChunkSize];
  }

  /// What to READ for a look at a segment.
  struct Range {
    std::uint64_t offset = 0;  // in the region
    std::size_t size = 0;
  };
  Range RangeOf(std::uint64_t segment) const;
  /// A look's outcome: a copy of RangeOf(segment), posted and completed between the two times.
  void Take(std::uint64_t segment, std::span<const std::byte> bytes, TimePoint posted, TimePoint completed);

 private:
  struct Chunk {
    TimePoint fresh_until = TimePoint::min();
    TimePoint due = TimePoint::min();
    TimePoint comparable_until = TimePoint::min();  // G3
    // Of as many segments as there are; empty before the first look.
    std::vector<std::byte> bytes;
    std::vector<Number> numbers;
  };

  const std::uint64_t memory_size_;
  const Duration fresh_for_;
  const Duration comparable_for_;
  std::vector<Chunk> chunks_;
};

}  // namespace remora
