// The part of a store in a move of slots: how they leave it, and how they come to another one
// (docs/decisions/0098-moves-of-slots-on-one-host.md).
//
// The store that gives slots away, in this order:
//   BeginToGive   notes the keys of these slots that are written from now on. The caller copies all records
//                 meanwhile: a scan shows them, and ReadChanged those that were written behind it.
//   Close         takes no more writes of the slots
//   IsQuiet       once all writes from before are visible, ReadChanged shows the last of them
//   Give          raises the slots word, and takes the records out of memory: the slots are not its own
//   EndGiving     the next owner is known. Or the caller has it keep them:
//   KeepSlots     before Give: opens them. After Give, it takes them back as below
//
// The store that takes slots:
//   DropOthers    deletes what it has on the disk of slots that are not its own
//   Log           logs the records, and waits for the disk. If the store ships groups, they go to its
//   followers Take          does the same, unless Log did, and brings them into memory Own           the
//   slots are its own
//
//   X1  A record is in memory only while the slot is the store's, or while nobody else may have it.
//   X2  The word grows before the first record leaves memory (K2 of client/session/known_slots.h).
//   X3  Records that Give takes out stay on the disk, until Forget deletes them.
//   X4  A record keeps its version and its expiry. The next version is greater than those of both stores.
//   X5  RocksDB has each record that Take has logged before it is in memory. For an evictor takes a version
//       that is lower than others for one that RocksDB has (C6 of store/durable/tier_log/tier_log.h).
//   X6  A watch shows no deletion that DropOthers or Forget makes. One that has not shown all changes from
//       before Give ends with OutOfRange: those of the next owner may have been shown before.
//   X7  The word grows when slots come, too: one-sided scans notice it (S2 of client/scan/leaf_scan.h).
//   X8  A store that follows shows what it has of all slots, so a copy that came to nothing, too. Limit takes
//       the records of other slots out of its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

class ClusterSlots;
class StoreEngine;

/// A record that goes from store to store. Its bytes belong to whoever hands it over.
struct SlotRecord {
  std::string_view key;
  std::string_view value;
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // 0: never
};

/// Gives slots of a store away, or takes them. The class has more than 25 methods, because each step of a
/// move is one.
///
/// Thread safety: none. One thread at a time uses it, and it is the one that reads and scans for clients.
class SlotTransfer {
 public:
  /// The engine outlives it.
  explicit SlotTransfer(StoreEngine& engine);
  ~SlotTransfer();
  SlotTransfer(const SlotTransfer&) = delete;
  SlotTransfer& operator=(const SlotTransfer&) = delete;

  /// Returns whether the store can give slots away, or take them.
  ///   FailedPrecondition: it has all slots for good, follows a primary, or has a disk without a commit log.
  ///   Aborted: it loads; ask again later.
  ///   Unavailable: the disk fails.
  absl::Status Check() const;
  /// Returns whether all of these slots are the store's.
  bool HasAll(const ClusterSlots& slots) const;
  bool HasAny(const ClusterSlots& slots) const;

  /// Has the store own these slots alone, of those that it has. If slots ever moved to it or from it, it
  /// takes the records of others out of memory (X8), which takes a pass over all keys. Errors are those of
  /// the disk. REQUIRES: it serves nobody yet.
  absl::Status Limit(const ClusterSlots& own);

  // --- Giving

  void BeginToGive(const ClusterSlots& slots);
  /// Returns how many keys were written, and not shown by ReadChanged since.
  std::size_t changed() const;
  /// Shows up to `most` of these keys, each as it is now: `record` null: it does not exist. Returns what
  /// `show` returns unless that is OK, or DataLoss or Unavailable: the disk fails.
  using Show = absl::FunctionRef<absl::Status(std::string_view key, const SlotRecord* record)>;
  absl::Status ReadChanged(std::size_t most, Show show);
  /// REQUIRES: BeginToGive was called with these slots.
  void Close(const ClusterSlots& slots);
  /// Returns whether all writes from before Close have ended.
  bool IsQuiet() const;
  /// Returns a number that is greater than the versions of all writes so far.
  std::uint64_t versions_end() const;

  /// A key that exists, or existed when it was copied.
  struct GivenKey {
    std::string_view key;
    bool may_be_gone = false;  // it was to expire
  };
  /// REQUIRES: IsQuiet(), and `keys` has all keys of the slots.
  /// Unavailable: the disk fails, and nothing was done.
  absl::Status Give(const ClusterSlots& slots, std::span<const GivenKey> keys);
  /// Opens what is closed, and notes no more keys.
  void KeepSlots();
  void EndGiving() { KeepSlots(); }
  /// Deletes keys from the disk that are not in the store's slots, and passes over others. Errors are those
  /// of the disk.
  absl::Status Forget(std::span<const std::string> keys);

  // --- Taking

  /// Forgets all of a move before.
  void BeginToTake();
  /// Does a bounded step of the deletion of all records in these slots from the disk. Returns false when none
  /// is left. Aborted: ask again later. Others are errors of the disk. REQUIRES: no slot is the store's.
  absl::StatusOr<bool> DropOthers(const ClusterSlots& slots);
  /// Logs records, and returns the number of the last group that has some; 0: the store ships no groups. Take
  /// with the same records follows, or BeginToTake. Errors are those of the disk.
  absl::StatusOr<std::uint64_t> Log(std::span<const SlotRecord> records, std::uint64_t versions_end);
  /// Takes records, as the first call of several. Each key comes once. The bytes stay as they are until one
  /// of them returns OK. Aborted: there is no space right now; call it again with the same records.
  /// ResourceExhausted: the memory is full; likewise, once there is space. Others are errors of the disk.
  absl::Status Take(std::span<const SlotRecord> records, std::uint64_t versions_end);
  /// Has scans wait until the slots are the store's own, or are not to be.
  void SetSettled(bool settled);
  /// Makes the slots the store's own. REQUIRES: Take returned OK.
  void Own(const ClusterSlots& slots);

 private:
  struct Rep;
  /// Takes the records of keys out of memory, and leaves them on the disk.
  void TakeOut(std::span<const GivenKey> keys);
  absl::StatusOr<std::vector<std::string>> KeysOfOthers(const ClusterSlots& own) const;
  absl::Status LogAll(std::span<const SlotRecord> records, std::uint64_t versions_end);
  absl::Status ShowAll(std::span<const SlotRecord> records);
  bool ShowOne(const SlotRecord& record);

  const std::unique_ptr<Rep> rep_;
};

}  // namespace remora
