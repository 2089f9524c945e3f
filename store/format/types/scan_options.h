// Options of scans. The store and its clients take the same.
#pragma once

#include <cstdint>
#include <string_view>

namespace remora {

/// Choice of keys. Keys are ordered by their bytes, as unsigned numbers; if one key begins with
/// another one, the shorter one comes first. The strings are copied.
struct RangeOptions {
  /// Bounds: keys that begin with `prefix`, and of them those of [begin, end). Empty: no such
  /// bound.
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
  /// Shows keys in whatever order the store has. A store with a durable tier or an ordered index
  /// (StoreOptions::ordered_index) shows them in the order of the keys, as of one moment.
  ///
  /// Another store, only in memory, has no other order, and no moment. It shows each key that is
  /// there from the scan's begin to its end exactly once. It shows a key that is written or removed
  /// meanwhile once or not at all, as it is at some moment in between. This holds whatever else
  /// happens: growth, cleaning, a resume token used later. Evicted or expired keys are gone. Each
  /// write of a batch is seen by itself. All keys are read, whatever the range.
  ///
  /// Not with reverse and one_moment.
  bool any_order = false;
  /// Entries that are shown, at most. 0: all.
  std::uint64_t limit = 0;
  /// Values are not read, and come empty.
  bool keys_only = false;
  /// Resume token of another scan. This scan continues behind where that one was when it gave the
  /// token, in its range and its order, as of now. Any limit may be given, but not prefix, begin,
  /// end, reverse and any_order.
  std::string_view resume_token{};
  /// A client's scan, which the server may have to give up (ClientScan): ends with Aborted then, instead of
  /// going on as of a later moment. A store's own scan (StoreScan) never goes on so.
  bool one_moment = false;
  /// A client reads the keys out of the server's memory, as GETs read records (ClientScan says what such a
  /// scan shows). The server needs an ordered index. A store's own scan ignores it. Not with any_order and
  /// one_moment.
  bool one_sided = false;
};

}  // namespace remora
