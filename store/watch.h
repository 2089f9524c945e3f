// A watch of a store: the writes, in their order, from a moment on.
//
//   auto watch = store->Watch({.prefix = "user/"});
//   const std::string from = (*watch)->resume_token();         // kept, to continue from here another time
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

class StoreEngine;
struct ScanRange;

/// A watch of a store's writes (Store::Watch).
///
/// A watch shows each write in the store's log once it is visible, in the order in which the writes became
/// visible. The writes of a batch come one after the other. It shows the values that were written, even if
/// they have expired or were overwritten since.
///
/// An expiry shows up as a deletion within two seconds, even if nobody writes or calls Store::RunMaintenance.
/// Two cases take longer. If records that will expire fill more than 1 GiB of memory, it takes some seconds
/// for each GiB. For records that are not in memory, it takes up to four times as long as reading all stored
/// data.
///
/// The commit log of a store has writes of every level, so a watch shows all of them. Without a commit log
/// (StoreOptions::commit_log_bytes), a watch shows a write of Durability::kMemory only if the write shares a
/// group with a logged one. So do not rely on either case. RocksDB's log lacks the other ones. A restart may
/// keep their effects, but cannot distinguish that gap from a lost part of the log. So after it the store no
/// longer keeps positions before the gap (OutOfRange).
///
/// A store that is only in memory has its last changes in a change log (StoreOptions::change_log_bytes); it
/// cannot be watched without one. A watch that falls behind by more than that, and one that meets a write
/// which is larger than the change log, end with OutOfRange. So does a resume token after the store was
/// opened anew. A record that is evicted is lost, and shows up as a deletion.
///
/// To keep a copy up to date: begin a watch, scan all keys, then continue the watch. Changes during the scan
/// come twice. So apply a change of a key only if its version is greater, or if it is a deletion. The copy is
/// right once the watch has reached the position where the store was at the end of the scan.
///
/// Thread safety: none, but other threads may use the store meanwhile. The caller owns the watch, and must
/// destroy it before the store.
class StoreWatch {
 public:
  ~StoreWatch();
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;

  /// Goes to the next change, and waits for it up to `wait`. Returns false if no change came in this time.
  /// Outcomes:
  ///   OutOfRange: the watch fell too far behind, so the store no longer keeps the changes that come next.
  ///     This is final: each later call ends so, too.
  ///   DataLoss, Unavailable: the log cannot be read.
  ///   ResourceExhausted: the system has no thread for the watch.
  /// After the last three, the caller may call Next again, and the watch continues after the change that it
  /// showed last.
  absl::StatusOr<bool> Next(std::chrono::milliseconds wait);

  // The change's parts, valid until the next call of Next or Advance. REQUIRES: Next returned true.
  ChangeKind kind() const { return change_.kind; }
  std::string_view key() const { return change_.key; }
  std::string_view value() const { return change_.value; }   // empty for a deletion
  std::uint64_t version() const { return change_.version; }  // 0 for a deletion
  /// Returns when the value expires, by the store's clock (Clock::UnixMillis). 0: never.
  std::uint64_t expiry_ms() const { return change_.expiry_ms; }
  /// Returns the change's number, which increases from one change to the next.
  std::uint64_t sequence() const { return change_.sequence; }

  /// Returns a resume token for WatchOptions::resume_token, with which a watch of this store continues after
  /// the change that was shown last. It also works for a store that is later opened on the same data_dir.
  std::string resume_token() const;

  /// Makes one step of Next, for a caller that must not wait for long. Failures as for Next. Returns:
  ///   kChange: the watch is at the next change.
  ///   kNotYet: the step came to no change; call again.
  ///   kNone: there is no next change yet.
  ///   kOpening: a thread of the watch is finding its position in the log.
  enum class Step : std::uint8_t { kChange = 1, kNotYet = 2, kNone = 3, kOpening = 4 };
  absl::StatusOr<Step> Advance();
  /// Returns the position behind the change that was shown last, at which a watch would continue.
  ChangePosition position() const { return position_; }

 private:
  friend class ServerStore;
  friend class Store;
  struct Rep;
  static absl::StatusOr<std::unique_ptr<StoreWatch>> Begin(StoreEngine& engine, const ScanRange& range,
                                                           const ChangePosition& position);
  StoreWatch(std::unique_ptr<Rep> rep, const ChangePosition& position);
  absl::StatusOr<Step> Try();

  const std::unique_ptr<Rep> rep_;
  ChangePosition position_;
  Change change_;
};

}  // namespace remora
