// A watch of a logged store: what is written, in its order, from a moment on.
//
//   auto watch = store->Watch({.prefix = "user/"});
//   const std::string from = (*watch)->token();         // kept, to go on from here another time
//   for (;;) {
//     absl::StatusOr<bool> came = (*watch)->Next(std::chrono::seconds(1));
//     if (!came.ok()) ...
//     if (*came) Show((*watch)->kind(), (*watch)->key(), (*watch)->value());
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/format/types/change.h"

namespace remora {

/// Shows each write that is in the log, once it is visible, in the order in which they became so; of a batch,
/// one after the other. Values are as they were written, even if they have expired or were written over
/// since. What expires shows up as a deletion, within two seconds of that, also where nothing is written and
/// nobody calls Work. (Where more than 1 GiB of memory holds records that will expire, within some seconds
/// for each GiB; of records that are not in memory, within four times as long as it takes to read all that is
/// stored.)
///
/// A write of Durability::kMemory is shown only where it shares a group with one that is logged: do not count
/// on either. The log does not have the others. A restart may keep what they wrote, but cannot tell that gap
/// from a log that was lost: a place before it is not kept any more then (OutOfRange).
///
/// To have a copy that follows: begin a watch, then scan all, then go on with the watch. What is written in
/// between comes twice, so take of a key only what has a greater version, and deletions; the copy is right
/// when it has come to where the store was at the end of the scan.
///
/// Thread Safety: none; the store may be used by others meanwhile. It must be destroyed before the store.
class StoreWatch {
 public:
  ~StoreWatch();
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;

  /// Goes to the next change. False: none came in this time. OutOfRange: it fell too far behind, and what
  /// comes next is not kept any more; then once and for all. DataLoss, Unavailable: the log cannot be read.
  /// ResourceExhausted: the system has no thread for it. After these three it may be called again, and goes
  /// on behind the change that was shown last.
  absl::StatusOr<bool> Next(std::chrono::milliseconds wait);

  // The change. Until Next. REQUIRES: Next was true.
  ChangeKind kind() const { return change_.kind; }
  std::string_view key() const { return change_.key; }
  std::string_view value() const { return change_.value; }   // of a deletion: empty
  std::uint64_t version() const { return change_.version; }  // of a deletion: 0
  /// The moment of the store's clock (Clock::UnixMillis) at which it expires. 0: never.
  std::uint64_t expiry_ms() const { return change_.expiry_ms; }
  /// Goes up from one change to the next.
  std::uint64_t sequence() const { return change_.sequence; }

  /// For WatchOptions::token, of this store or the one that is opened on this data later: goes on behind the
  /// change that was shown last.
  std::string token() const;

  /// As Next, but for who must not be long about it: one step of the way, to a change or not. kNone: there is
  /// no change yet. kOpening: a thread of its own finds the place.
  enum class Step : std::uint8_t { kChange = 1, kNotYet = 2, kNone = 3, kOpening = 4 };
  absl::StatusOr<Step> Advance();
  ChangePlace place() const { return place_; }

 private:
  friend class Store;
  struct Rep;
  StoreWatch(std::unique_ptr<Rep> rep, const ChangePlace& place);
  absl::StatusOr<Step> Try();

  const std::unique_ptr<Rep> rep_;
  ChangePlace place_;
  Change change_;
};

}  // namespace remora
