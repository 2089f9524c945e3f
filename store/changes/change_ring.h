// The change log of a store that is only in memory: its last changes, for watches. A store with a durable
// tier has them in its log on disk instead.
//
//   ┌──────────┬──────────┬─────┬───────────────────────────────────────┐  entry: sizes, version, expiry, and
//   │ entry 0  │ entry 1  │ ... │ bytes: key, value, key, value, ...    │  where its bytes begin
//   └──────────┴──────────┴─────┴───────────────────────────────────────┘
//
// The entry of change i is at i % (number of entries). The bytes are a ring, too: those of a change may begin
// at its end and continue at its start. So a change is found by its number, without a search.
//
//   R1  Changes have the numbers 1, 2, 3 and so on, in the order in which they became visible.
//   R2  A change is kept exactly if neither its entry nor one of its bytes was overwritten. Entries and bytes
//       are overwritten in the order of the numbers. So if a change is kept, all later ones are.
//   R3  A change with more bytes than the ring has an entry, and no bytes. A watch cannot pass it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/format/types/change.h"
#include "store/memory_plan.h"

namespace remora {

/// Ring of the last changes.
///
/// Ownership: it has copies of all bytes.
///
/// Thread safety: none; the caller holds the store's lock.
class ChangeRing {
 public:
  /// Makes an empty ring that takes so many bytes, as it fills. ResourceExhausted: no such address space.
  /// REQUIRES: it is at least kMinChangeLogBytes.
  static absl::StatusOr<std::unique_ptr<ChangeRing>> Create(std::uint64_t size);
  ChangeRing(const ChangeRing&) = delete;
  ChangeRing& operator=(const ChangeRing&) = delete;

  /// Appends a change that has become visible, and gives it the next number (R1).
  void Append(const Change& change);

  /// Appends a mark, with a number as a change has: slots left the store. No watch reads beyond it.
  void AppendMark();

  /// Returns the number of the last change; 0: there was none.
  std::uint64_t last() const { return last_; }

  enum class State : std::uint8_t {
    kKept = 1,
    kOverwritten = 2,
    kTooLarge = 3,  // R3
    kMark = 4,
  };
  /// REQUIRES: 0 < number <= last(), here and below.
  State StateOf(std::uint64_t number) const;
  /// Returns the bytes of a change's key and value. REQUIRES: its state is kKept, here and below.
  std::size_t SizeOf(std::uint64_t number) const;
  struct Kept {
    std::uint64_t begin = 0;  // number of the oldest change that is not overwritten; 0: there is none
    std::uint64_t bytes = 0;  // of the entries, keys and values from there on
  };
  /// Returns what the ring has. Cost: a look at each change that was overwritten since the last call.
  Kept FindKept();
  /// Copies key and value to `to`, and returns the change, whose views lead there. REQUIRES: `to` has as many
  /// bytes as SizeOf says, or more.
  Change Copy(std::uint64_t number, std::span<char> to) const;

 private:
  struct Entry {
    std::uint64_t begin = 0;  // bytes that were appended before it
    std::uint64_t version = 0;
    std::uint64_t expiry_ms = 0;
    std::uint32_t value_size = 0;
    std::uint16_t key_size = 0;
    ChangeKind kind{};
    bool has_bytes = false;  // R3
  };
  static_assert(sizeof(Entry) == 32);

  /// The ring has one entry for so many of its bytes.
  static constexpr std::size_t kBytesPerEntry = 128;

  explicit ChangeRing(std::unique_ptr<AnonymousMemory> memory);
  const Entry& EntryOf(std::uint64_t number) const { return entries_[number % entries_.size()]; }
  void AppendBytes(std::string_view bytes);

  const std::unique_ptr<AnonymousMemory> memory_;
  const std::span<Entry> entries_;
  const std::span<char> bytes_;
  std::uint64_t last_ = 0;
  std::uint64_t appended_ = 0;  // bytes, since the ring was made
  std::uint64_t oldest_ = 1;    // FindKept found all before it overwritten
  // Where the next change goes: the remainders of last_ + 1 and appended_, without a division.
  std::size_t next_entry_ = 1;
  std::size_t next_byte_ = 0;
};

}  // namespace remora
