// Reader of the writes of a durable tier in their order (store/format/types/change.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/format.h"
#include "store/format/types/change.h"

namespace remora {

/// A cursor over the changes of keys. REQUIRES: the tier outlives it.
///
/// Thread safety: none; other threads may write to the tier meanwhile.
class ChangeLog {
 public:
  ChangeLog() = default;
  virtual ~ChangeLog() = default;
  ChangeLog(const ChangeLog&) = delete;
  ChangeLog& operator=(const ChangeLog&) = delete;

  /// Moves to the next change up to sequence `end`.
  ///
  /// - kChange: *change is the next change, valid until the next call.
  /// - kNone: there is no further change up to `end`.
  /// - kLost: a log file was moved or removed; continue with a new ChangeLog opened at position().
  /// - OutOfRange: the tier no longer keeps the next change.
  /// - DataLoss: the log holds data that no store writes.
  /// - Unavailable: the log cannot be read.
  enum class Step : std::uint8_t { kChange = 1, kNone = 2, kLost = 3 };
  virtual absl::StatusOr<Step> Next(std::uint64_t end, Change* change) = 0;

  /// Returns the sequence from which on changes may still come. Every earlier change of a key was
  /// returned by Next.
  virtual std::uint64_t position() const = 0;
};

/// Returns the OutOfRange error for a feed whose next change is not kept. The text says `why`, and how
/// the caller can continue.
absl::Status NotKept(const char* why);
/// The reason of a feed that slots have left (X6 of store/slot_transfer.h).
inline constexpr char kSlotsLeft[] = "some of its slots are another server's now";

/// Returns the sequence at which a feed continues that was at `position`. `end` is the sequence of the
/// last write.
///
/// - OutOfRange: the changes that the feed has shown are not those before that sequence, or the
///   openings do not tell.
/// - InvalidArgument: no feed can have been at `position`.
absl::StatusOr<std::uint64_t> Continue(const std::vector<Opening>& openings, const ChangePosition& position,
                                       std::uint64_t end);

}  // namespace remora
