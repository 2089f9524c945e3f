// Reading a record in pieces: one that is too large for a READ into the session's buffer, or one whose value
// is to land in memory of the caller.
//
//   READ  generations of the record's segments   (a large one)
//   READ  header and key                         (into the caller's memory, and as much of the value)
//   READ  the value, a piece at a time, while the piece before is hashed
//   READ  the generations again                  (if all that took longer than the grace period)
//
// Time. What was read more than T after its place was learned is to be thrown away (layout.h, I6), for the
// memory might have been used anew. A READ of 64 MiB may take longer than T each time. So for large records
// there is a second way to show that it was not:
//
//   P1 The header was read within T after the place was learned, by I6 in time, and showed the live bit and
//      sizes that match the slot's. So the record was live at a moment h of that READ.
//   P2 A segment's generation changes only when the segment is emptied, when all its records are dead, for
//      ever (I4). The run of this record was so at no moment before h.
//   P3 Its generations were read before the header, at g < h, and again behind the value, at k, and were the
//      same. A change before g says nothing about this record (P2), one between h and k would show: unless
//      there were 256 of one byte, or a multiple, which takes 255 * 2T (client/generations.h, G1), and from
//      before g to after k no more than 256T went by on this clock.
//   P4 So the run was emptied at no moment before k, and nothing was written there anew before k + 2T (I6).
//      What was read are the record's own bytes, which never change (I4).
//   P5 The value was the key's at h, which is inside the GET: the bit is cleared before any change is
//      acknowledged, or visible in the index (I5).
//
// The record's checksum is verified all the same: it tells whether the slot that led here was whole. When
// neither T nor P3 holds, nothing is known, and the GET begins again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/session.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/record.h"

namespace remora {

/// Where a value is to go: one of the two, or nowhere.
struct ValueTarget {
  std::string* text = nullptr;
  const rdma::Registration* buffer = nullptr;  // as much of the value as it holds

  bool is_nowhere() const { return text == nullptr && buffer == nullptr; }
};

struct WantedRecord {
  std::string_view key;
  std::uint64_t key_hash = 0;
  Slot slot;
  RecordPlace place;  // of the slot
  TimePoint learned;  // a time before that, of Session::Coarse
};

struct PiecesRead {
  RecordHeader header{};
  RecordState state = RecordState::kTorn;
  bool proven = false;  // P1 to P5: it does not matter how long it took
};

/// Whether a record must be read in pieces.
inline bool NeedsPieces(const Slot& slot, const ValueTarget& target) {
  return slot.extent_bytes() > kMaxSmallExtent || target.buffer != nullptr;
}

/// The state is as of CheckRecord; or kTorn where a large record took too long and is not proven. The
/// target's content is the value if the state is kLive or kDead, and else of no use. What exceeds a buffer is
/// read, and verified, and dropped. REQUIRES: SlotNamesPlace, NeedsPieces; a target. Errors are the
/// connection's.
absl::StatusOr<PiecesRead> ReadInPieces(Session& session, const WantedRecord& wanted,
                                        const ValueTarget& target);

}  // namespace remora
