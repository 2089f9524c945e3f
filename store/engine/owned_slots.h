// The slots of a cluster that a store has. It answers for the keys of all others with MovedError
// (store/base/moved.h), whatever data it has: their owner is another server.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace remora {

class ClusterSlots;
class Metrics;

/// Knows the slots of a store: all, until Set. Counts requests for keys of others.
///
/// Thread safety: Set is for one thread at a time; any thread may ask. A thread that asks while another one
/// sets gets either answer for each slot.
class OwnedSlots {
 public:
  /// `metrics` live longer.
  explicit OwnedSlots(const Metrics& metrics);
  ~OwnedSlots();
  OwnedSlots(const OwnedSlots&) = delete;
  OwnedSlots& operator=(const OwnedSlots&) = delete;

  /// Replaces the slots.
  void Set(const ClusterSlots& slots);

  /// Returns OK if the key's slot is one of them, else MovedError, and counts that. `operation` stands before
  /// the text, and `key_hash` is the key's.
  [[gnu::always_inline]] absl::Status Check(absl::string_view operation, std::string_view key,
                                            std::uint64_t key_hash) const {
    // Acquire: a thread that sees the limit sees the slots, too.
    if (!is_limited_.load(std::memory_order_acquire)) [[likely]]
      return absl::OkStatus();
    return CheckSlot(operation, key, key_hash);
  }

 private:
  struct Words;

  /// Sets the metrics that tell of the slots.
  void Export(const ClusterSlots& slots) const;
  absl::Status CheckSlot(absl::string_view operation, std::string_view key, std::uint64_t key_hash) const;

  const Metrics& metrics_;
  std::atomic<bool> is_limited_ = false;
  const std::unique_ptr<Words> words_;
};

}  // namespace remora
