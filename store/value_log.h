// The value log: records, one behind the other in segments, in memory that others read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "store/base/clock.h"
#include "store/format/layout.h"
#include "store/format/record.h"
#include "store/segments.h"

namespace remora {

/// A record's place in the log: a Slot without the fingerprint.
struct Place {
  std::uint64_t offset_units = 0;
  std::uint32_t extent_code = 0;

  constexpr std::uint64_t offset_bytes() const { return offset_units * kUnitSize; }
  constexpr std::uint64_t extent_bytes() const { return ExtentUnits(extent_code) * kUnitSize; }
  static constexpr Place Of(const Slot& slot) { return {slot.offset_units, slot.extent_code}; }
  friend constexpr bool operator==(const Place&, const Place&) = default;
};

/// A record is appended (copied in, not live), sealed (its header completed), published (made live, then
/// stored into a slot), and once its slot leads elsewhere, killed. One that is not published can be taken
/// back.
///
/// Thread Safety: Header, Key, Value and Body of published records from any thread, and Lay; all else by one
/// writer at a time.
class ValueLog {
 public:
  /// Where a record goes: those just written apart from those that were moved, which have shown to live long.
  enum class Head : std::uint8_t { kWrites = 0, kMoves = 1 };

  /// No record crosses the end of a segment.
  static_assert(kSegmentSize >= ExtentUnits(RecordExtentCode(kMaxKeySize, kMaxValueSize)) * kUnitSize);

  /// `region` and `segments` outlive the log. `incarnation` goes into every checksum.
  ValueLog(std::span<std::byte> region, Segments& segments, std::uint64_t incarnation);
  ValueLog(const ValueLog&) = delete;
  ValueLog& operator=(const ValueLog&) = delete;

  /// Takes an extent and copies key and value into it. Nothing: no segment is free, beyond Segments::kReserve
  /// for writes. What the two point to is read once. REQUIRES: sizes in bounds.
  std::optional<Place> Append(Head head, std::string_view key, std::string_view value, TimePoint now);

  /// Gives back a record that was not made live. Its place is used again if it was the last one appended.
  void TakeBack(const Place& place);

  /// Completes the header of an appended record, which has the key and the value of these hashes.
  void Seal(const Place& place, std::uint64_t version, std::uint64_t expiry_ms, std::uint64_t key_hash,
            std::uint64_t value_hash);

  /// Appends and seals a record at a place that nobody else uses: for who has taken a segment for himself,
  /// and tells of it with Segments::Extend. Any thread.
  void Lay(const Place& place, std::string_view key, std::string_view value, std::uint64_t version,
           std::uint64_t expiry_ms, std::uint64_t key_hash);

  /// Goes on with such a segment behind its last record, if there is no head of writes yet; else seals it.
  /// REQUIRES: Extend told of all that is in there.
  void Adopt(SegmentNumber segment, TimePoint now);

  /// Sets the live bit of a sealed record, which is to be stored into a slot next.
  void MakeLive(const Place& place);

  /// Clears the live bit of a published record, for ever, and counts its extent as dead.
  void Kill(const Place& place);

  const RecordHeader& Header(const Place& place) const;
  /// Behind the header: key, value.
  const std::byte* Body(const Place& place) const;
  /// Of an appended record.
  std::string_view Key(const Place& place) const;
  std::string_view Value(const Place& place) const;
  bool IsLive(const Place& place) const;
  /// What the checksum of this record should be.
  std::uint64_t Checksum(const Place& place, std::uint64_t key_hash, std::uint64_t value_hash) const {
    return RecordChecksum(Header(place), key_hash, value_hash, place.offset_units, incarnation_);
  }

  /// The record at this offset of a segment of the log, which begins with one, and each ends where the next
  /// begins.
  Place At(std::uint64_t offset) const;

  /// Where the records of a segment of the log, or of a head, end.
  std::uint64_t EndOf(SegmentNumber segment) const;

  /// Bytes of records, and of those, the ones in dead records.
  std::uint64_t bytes_used() const;
  std::uint64_t bytes_dead() const { return bytes_used() - segments_.live_bytes(); }
  /// Bytes appended since the start.
  std::uint64_t bytes_appended(Head head) const { return appended_[static_cast<std::size_t>(head)]; }

 private:
  // The part of a head's segment that is not used yet.
  struct Open {
    bool there = false;
    SegmentNumber segment = 0;
    std::uint64_t next = 0;
    std::uint64_t end = 0;
  };

  std::byte* Memory(const Place& place) const { return region_.data() + place.offset_bytes(); }
  RecordHeader& MutableHeader(const Place& place) const {
    return *reinterpret_cast<RecordHeader*>(Memory(place));
  }

  const std::span<std::byte> region_;
  Segments& segments_;
  const std::uint64_t incarnation_;
  std::array<Open, 2> heads_;
  std::array<std::uint64_t, 2> appended_{};
};

}  // namespace remora
