// A multi-put: puts that share a message, and the outcome of each, as bytes.
//
//   the list:   for each put, in their order:   BatchEntry (kPut) | key | value
//   its reply:  slots, 8 bytes each | laters, 4 each | statuses, 1 each | text
//
// A reader of such bytes checks everything: they may come from anybody.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "store/format/types/expiry.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/write_batch.h"

namespace remora {

inline constexpr std::size_t kMaxPutsPerMessage = 16;
/// Bound of all entries, keys and values together. Larger values fill a message by themselves.
inline constexpr std::size_t kMaxMultiPutBytes = std::size_t{16} << 10;

constexpr std::size_t MultiPutEntrySize(std::string_view key, std::string_view value) {
  return sizeof(BatchEntry) + key.size() + value.size();
}

/// Puts it at `to`; returns where the next one goes. REQUIRES: key, value and ttl in bounds.
inline std::byte* AddMultiPutEntry(std::byte* to, std::string_view key, std::string_view value,
                                   std::optional<std::chrono::milliseconds> ttl) {
  BatchEntry entry;
  entry.ttl_ms = EncodeTtl(ttl);
  entry.value_size = static_cast<std::uint32_t>(value.size());
  entry.key_size = static_cast<std::uint16_t>(key.size());
  std::memcpy(to, &entry, sizeof(entry));
  to += sizeof(entry);
  std::memcpy(to, key.data(), key.size());
  to += key.size();
  // An empty view may have no address, which memcpy does not take.
  if (!value.empty()) std::memcpy(to, value.data(), value.size());
  return to + value.size();
}

/// Outcomes of the puts of a multi-put, in their order.
class MultiPutOutcomes {
 public:
  struct Outcome {
    ReplyStatus status = ReplyStatus::kOk;
    std::uint32_t later = 0;  // kOk: its version, minus that of the first put that succeeded
    std::uint64_t slot = 0;   // kOk: where the record is, as in the reply to a single put
  };

  std::size_t size() const { return size_; }
  const Outcome& operator[](std::size_t number) const { return outcomes_[number]; }
  /// REQUIRES: there are less than kMaxPutsPerMessage.
  void Add(const Outcome& outcome) { outcomes_[size_++] = outcome; }
  /// REQUIRES: number < size().
  void Set(std::size_t number, const Outcome& outcome) { outcomes_[number] = outcome; }

  static constexpr std::size_t BytesFor(std::size_t count) { return count * (kSlot + kLater + 1); }

  /// Writes BytesFor(size()) bytes to the beginning of `to`.
  void Encode(char* to) const {
    for (std::size_t i = 0; i < size_; ++i) {
      std::memcpy(to + i * kSlot, &outcomes_[i].slot, kSlot);
      std::memcpy(to + size_ * kSlot + i * kLater, &outcomes_[i].later, kLater);
      to[size_ * (kSlot + kLater) + i] = static_cast<char>(outcomes_[i].status);
    }
  }
  /// Takes the outcomes of `count` puts off `bytes`; the rest is text. Returns false if these are
  /// none.
  bool Decode(std::size_t count, std::string_view* bytes) {
    if (count > kMaxPutsPerMessage || bytes->size() < BytesFor(count)) return false;
    const char* const from = bytes->data();
    for (size_ = 0; size_ < count; ++size_) {
      Outcome& outcome = outcomes_[size_];
      std::memcpy(&outcome.slot, from + size_ * kSlot, kSlot);
      std::memcpy(&outcome.later, from + count * kSlot + size_ * kLater, kLater);
      outcome.status = static_cast<ReplyStatus>(from[count * (kSlot + kLater) + size_]);
    }
    bytes->remove_prefix(BytesFor(count));
    return true;
  }

 private:
  static constexpr std::size_t kSlot = sizeof(Outcome::slot);
  static constexpr std::size_t kLater = sizeof(Outcome::later);

  std::array<Outcome, kMaxPutsPerMessage> outcomes_{};
  std::size_t size_ = 0;
};
static_assert(MultiPutOutcomes::BytesFor(kMaxPutsPerMessage) + 160 == kMaxReplyBehind);
static_assert(sizeof(Reply) + MultiPutOutcomes::BytesFor(kMaxPutsPerMessage) <= 256);

}  // namespace remora
