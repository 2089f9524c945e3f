// The value log: records, one behind the other, in memory that others read. It only fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "store/format/layout.h"

namespace remora {

/// A record's place in the log: a Slot without the fingerprint.
struct Place {
  std::uint64_t offset_units = 0;
  std::uint32_t extent_code = 0;

  constexpr std::uint64_t extent_bytes() const { return ExtentUnits(extent_code) * kUnitSize; }
  static constexpr Place Of(const Slot& slot) { return {slot.offset_units, slot.extent_code}; }
};

/// A record is appended (copied in, not live), sealed (its header written), published (made live, then stored
/// into a slot), and once its slot leads elsewhere, killed. One that is not published can be given back.
///
/// Thread Safety: Header, Key, Value and Body of published records from any thread; all else by one writer at
/// a time.
class ValueLog {
 public:
  /// No record crosses the boundary of a segment: what a later cleaner empties, it can then use as a whole.
  static constexpr std::size_t kSegmentSize = std::size_t{1} << 20;
  static_assert(kSegmentSize >= ExtentUnits(RecordExtentCode(kMaxKeySize, kMaxValueSize)) * kUnitSize);

  /// `memory` is zero-filled and outlives the log. `incarnation` goes into every checksum.
  ValueLog(std::span<std::byte> memory, std::uint64_t incarnation);
  ValueLog(const ValueLog&) = delete;
  ValueLog& operator=(const ValueLog&) = delete;

  /// Takes an extent and copies key and value into it. Nothing: no room. What the two point to is read once.
  /// REQUIRES: sizes in bounds.
  std::optional<Place> Append(std::string_view key, std::string_view value);

  /// Writes the header of an appended record.
  void Seal(const Place& place, std::size_t key_size, std::size_t value_size, std::uint64_t version,
            std::uint64_t key_hash, std::uint64_t value_hash);

  /// Sets the live bit of a sealed record, which is to be stored into a slot next.
  void MakeLive(const Place& place);

  /// Clears the live bit of a published record, for ever, and counts its extent as dead.
  void Kill(const Place& place);

  /// Everything appended since the log was `mark` full is given back. REQUIRES: none of it was made live.
  struct Mark {
    std::uint64_t used = 0;
    std::uint64_t dead = 0;
  };
  Mark mark() const { return mark_; }
  void GiveBack(const Mark& mark) { mark_ = mark; }

  const RecordHeader& Header(const Place& place) const;
  /// Behind the header: key, value.
  const std::byte* Body(const Place& place) const;
  /// The key of an appended record whose key has this size.
  std::string_view Key(const Place& place, std::size_t key_size) const;
  std::string_view Value(const Place& place, std::size_t key_size, std::size_t value_size) const;

  std::uint64_t bytes() const { return memory_.size(); }
  /// Bytes that no record will be appended to, and of those, the ones that hold no live record.
  std::uint64_t bytes_used() const { return mark_.used; }
  std::uint64_t bytes_dead() const { return mark_.dead; }

 private:
  std::byte* At(const Place& place) const { return memory_.data() + place.offset_units * kUnitSize; }

  const std::span<std::byte> memory_;
  const std::uint64_t incarnation_;
  Mark mark_;
};

}  // namespace remora
