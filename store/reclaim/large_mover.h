// Moves of large records, in steps: a client that waits for the server thread waits for a step, not for
// 64 MiB.
//
//   Begin    takes memory for a copy elsewhere. It is reserved: nothing leads there.
//   Copy     copies some bytes of the record, which stays live. Readers and writers use it meanwhile.
//   at the end, the copy takes the place of the record, as each moved record does (I5 of layout.h)
//
// Between two steps the record may be replaced, deleted or evicted. Then the copy is given back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "store/format/memory/hash.h"
#include "store/index/index.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// Mover of one large record at a time.
///
/// Thread safety: none; used by the writer, and not while it commits a group.
class LargeMover {
 public:
  /// Bytes that the cleaner copies in one step at most: about a millisecond of work.
  static constexpr std::uint64_t kStep = std::uint64_t{2} << 20;

  LargeMover(Segments& segments, ValueLog& log, Index& index)
      : segments_(segments), log_(log), index_(index) {}
  LargeMover(const LargeMover&) = delete;
  LargeMover& operator=(const LargeMover&) = delete;

  /// Returns whether a move has begun, and not ended.
  bool is_busy() const { return move_.has_value(); }
  /// Begins to move a live record. False: there is no memory for it elsewhere. REQUIRES: no move has begun.
  bool Begin(const Place& from);
  /// Copies at most `*left` bytes for the move that has begun, if there is one, and subtracts them. Returns
  /// whether no move is left to do.
  bool Copy(std::uint64_t* left);

 private:
  struct Move {
    Place from;
    std::uint64_t number;  // LargeSpace::Place::number of `from`
    Place to;
    std::size_t copied;  // bytes of key and value
    ValueHasher hasher;  // of the bytes of the value up to there
  };

  /// Returns whether the record is where it was when its move began.
  bool IsStillThere() const;
  /// Publishes the copy in place of the record.
  void Finish();

  Segments& segments_;
  ValueLog& log_;
  Index& index_;
  std::optional<Move> move_;
};

}  // namespace remora
