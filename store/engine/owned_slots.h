// The slots of a cluster that a store has. It answers requests for the keys of all others with MovedError
// (store/base/moved.h), whatever data it has: their owner is another server.
//
// Its durable tier may have records of other slots, from a time when the store had these slots, or of a copy
// that it gets. They stay there, as they are, and nobody sees them:
//   O1 The index knows no key of another slot. A load, a promotion and a group of a primary add none.
//   O2 A scan, a count and a deletion of a range that read the durable tier pass over such keys.
//   O3 The expirers remove no record of such a key, which may have the hash of a cold key.
// A reader of the store's memory therefore misses such a key. The superblock's `slots_word` tells it to ask.
//
// Slots come and go while the store serves (store/write/slot_transfer.h):
//   O4 A scan or a deletion of a range that began before slots came or went ends with MovedError. So none
//      ends as if it were whole, and lacks keys.
//   O5 A slot that is closed takes no writes, and its records are read.
//   O6 While slots are tracked, the key of each write of theirs that becomes visible is noted.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "store/engine/writer_lock.h"

namespace remora {

class ClusterSlots;
class Metrics;

/// Knows the slots of a store. Counts requests for keys of others. The class has more than 25 methods,
/// because each step of a move changes or asks one thing.
///
/// Thread safety: any thread may call the const members. Only the writer calls the others.
class OwnedSlots {
 public:
  /// Sets the metrics that tell of the slots. `slots`: null for all, for good. `metrics` live longer.
  OwnedSlots(const Metrics& metrics, const std::shared_ptr<const ClusterSlots>& slots);
  ~OwnedSlots();
  OwnedSlots(const OwnedSlots&) = delete;
  OwnedSlots& operator=(const OwnedSlots&) = delete;

  /// Returns whether the store may have a part of the slots. If not, it has all, as long as it lives.
  bool is_part() const { return is_part_; }
  /// Returns whether the store has the key's slot. `key_hash` is the key's.
  [[gnu::always_inline]] bool Has(std::string_view key, std::uint64_t key_hash) const {
    return !is_part_ || HasSlotOf(key, key_hash);
  }
  bool HasSlot(std::uint32_t slot) const { return !is_part_ || IsIn(own_, slot); }
  /// Returns the same. Hashes the key only if the store has a part of the slots.
  bool Has(std::string_view key) const;
  /// Returns OK if the store has the key's slot, else MovedError, and counts that. `operation` stands before
  /// the text.
  [[gnu::always_inline]] absl::Status Check(absl::string_view operation, std::string_view key,
                                            std::uint64_t key_hash) const {
    if (Has(key, key_hash)) [[likely]]
      return absl::OkStatus();
    return Moved(operation, key, key_hash);
  }
  /// Does the same for a write: MovedError, too, if the slot is closed (O5).
  [[gnu::always_inline]] absl::Status CheckWrite(absl::string_view operation, std::string_view key,
                                                 std::uint64_t key_hash) const {
    if (!is_part_ || TakesWriteOf(key, key_hash)) [[likely]]
      return absl::OkStatus();
    return Moved(operation, key, key_hash);
  }
  /// Returns how often slots came or went (O4).
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  /// Returns OK if slots neither came nor went since changes() was `before`; else the error of O4.
  absl::Status CheckChanges(absl::string_view operation, std::uint64_t before) const;

  /// Returns OK, or Aborted: slots are about to come to the store, or nobody knows whose they are. A scan
  /// that began now would lack their keys.
  absl::Status CheckSettled(absl::string_view operation) const;
  void SetSettled(bool settled) { is_settled_.store(settled, std::memory_order_release); }

  /// Add slots, or remove them. They are open then, or not the store's. REQUIRES: is_part().
  void Add(const ClusterSlots& slots) REMORA_WRITER;
  void Remove(const ClusterSlots& slots) REMORA_WRITER;
  /// Closes slots of the store, or opens all that are closed.
  void Close(const ClusterSlots& slots) REMORA_WRITER;
  void OpenAll() REMORA_WRITER;

  /// Notes the keys of these slots from now on (O6), in place of those before. Null: of none.
  void Track(const ClusterSlots* slots) REMORA_WRITER;
  /// Notes a write that becomes visible.
  [[gnu::always_inline]] void NoteWrite(std::string_view key, std::uint64_t key_hash) REMORA_WRITER {
    if (tracked_ != nullptr) [[unlikely]]
      NoteTracked(key, key_hash);
  }
  /// Returns the number of noted keys, or moves up to `most` of them to the end of `keys`.
  std::size_t noted() const REMORA_WRITER { return noted_.size(); }
  void TakeNoted(std::size_t most, std::vector<std::string>* keys) REMORA_WRITER;

 private:
  static constexpr std::uint32_t kBits = 64;
  static constexpr std::uint32_t kWords = 256;
  using Words = std::array<std::atomic<std::uint64_t>, kWords>;

  static bool IsIn(const Words& words, std::uint32_t slot) {
    // Relaxed: the thread that serves changes them. A thread that sees a change late looks again, as O4 says.
    return (words[slot / kBits].load(std::memory_order_relaxed) >> (slot % kBits) & 1) != 0;
  }
  bool HasSlotOf(std::string_view key, std::uint64_t key_hash) const;
  bool TakesWriteOf(std::string_view key, std::uint64_t key_hash) const;
  absl::Status Moved(absl::string_view operation, std::string_view key, std::uint64_t key_hash) const;
  void NoteTracked(std::string_view key, std::uint64_t key_hash) REMORA_WRITER;
  void Set(const ClusterSlots& slots, bool is_own, bool is_open);
  void ShowMetrics() const;

  const Metrics& metrics_;
  const bool is_part_;
  Words own_{};
  Words open_{};  // those of own_ that take writes
  std::atomic<std::uint64_t> changes_ = 0;
  std::atomic<bool> is_settled_ = true;
  std::unique_ptr<const ClusterSlots> tracked_ REMORA_WRITERS;  // null: none
  absl::flat_hash_set<std::string> noted_ REMORA_WRITERS;
};

}  // namespace remora
