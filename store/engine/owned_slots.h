// The slots of a cluster that a store has. It answers requests for the keys of all others with MovedError
// (store/base/moved.h), whatever data it has: their owner is another server.
//
// Its durable tier may have records of other slots, from a time when the store had these slots. They stay
// there, as they are, and nobody sees them:
//   O1 The index knows no key of another slot. A load, a promotion and a group of a primary add none.
//   O2 A scan, a count and a deletion of a range that read the durable tier pass over such keys.
//   O3 The expirers remove no record of such a key, which may have the hash of a cold key.
// A reader of the store's memory therefore misses such a key. The superblock's `slots_word` tells it to ask.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace remora {

class ClusterSlots;
class Metrics;

/// Knows the slots of a store. Counts requests for keys of others.
///
/// Thread safety: any thread may call all members.
class OwnedSlots {
 public:
  /// Sets the metrics that tell of the slots. `slots`: null for all. `metrics` live longer.
  OwnedSlots(const Metrics& metrics, std::shared_ptr<const ClusterSlots> slots);
  OwnedSlots(const OwnedSlots&) = delete;
  OwnedSlots& operator=(const OwnedSlots&) = delete;

  /// Returns whether the store has the key's slot. `key_hash` is the key's.
  [[gnu::always_inline]] bool Has(std::string_view key, std::uint64_t key_hash) const {
    return slots_ == nullptr || HasSlotOf(key, key_hash);
  }
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

 private:
  bool HasSlotOf(std::string_view key, std::uint64_t key_hash) const;
  absl::Status Moved(absl::string_view operation, std::string_view key, std::uint64_t key_hash) const;

  const Metrics& metrics_;
  const std::shared_ptr<const ClusterSlots> slots_;
};

}  // namespace remora
