// What a scan may ask for. The store and its clients take the same.
#pragma once

#include <cstdint>
#include <string_view>

namespace remora {

/// Which keys. Keys are ordered by their bytes, as unsigned numbers; of two of which one begins with the
/// other, the shorter one comes first. What it points to is copied.
struct RangeOptions {
  /// Those that begin with this, and of them those of [begin, end). Empty: no such bound.
  std::string_view prefix{};
  std::string_view begin{};
  std::string_view end{};
};

/// Which keys, in which order, and what of them. The first three as RangeOptions.
struct ScanOptions {
  std::string_view prefix{};
  std::string_view begin{};
  std::string_view end{};
  bool reverse = false;  // from the last key to the first
  /// In whatever order the store has: of a store with a durable tier, that of the keys, as of one moment. One
  /// that is only in memory has no other, and no moment: it shows each key that is there from the scan's
  /// begin to its end exactly once, and one that is written or goes meanwhile once or not at all, as it is
  /// at some moment in between. So it does whatever else happens: growth, cleaning, a token used later.
  /// Evicted or expired is gone. The writes of a batch are seen each by itself. All keys are looked at,
  /// whatever the range. Not with reverse and one_moment.
  bool any_order = false;
  /// Entries that are shown, at most. 0: all.
  std::uint64_t limit = 0;
  /// Values are not read, and come empty.
  bool keys_only = false;
  /// Instead of prefix, begin, end, reverse and any_order, which must not be given: goes on behind where
  /// another scan was when it gave this token, in its range and its order, as of now. With any limit.
  std::string_view token{};
  /// A client's scan, which the server may have to give up (ClientScan): ends with Aborted then, instead of
  /// going on as of a later moment. A store's never has to.
  bool one_moment = false;
};

}  // namespace remora
