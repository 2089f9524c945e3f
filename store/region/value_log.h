// The value log: records, one behind the other in segments, in memory that others read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "store/base/clock.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"
#include "store/region/segments.h"

namespace remora {

/// A record's place in the log: a Slot without the fingerprint.
struct Place {
  std::uint64_t offset_units = 0;
  std::uint32_t extent_code = 0;

  constexpr std::uint64_t offset_bytes() const { return offset_units * kUnitSize; }
  constexpr std::uint64_t extent_bytes() const { return ExtentUnits(extent_code) * kUnitSize; }
  constexpr SegmentNumber segment() const {
    return static_cast<SegmentNumber>(offset_bytes() / kSegmentSize);
  }
  static constexpr Place Of(const Slot& slot) { return {slot.offset_units, slot.extent_code}; }
  friend constexpr bool operator==(const Place&, const Place&) = default;
};

/// The bytes of segments that a record with these sizes takes.
constexpr std::uint64_t LogBytes(std::size_t key_size, std::size_t value_size) {
  const std::size_t run = RunLength(key_size, value_size);
  return run > 0 ? run * kSegmentSize : ExtentUnits(RecordExtentCode(key_size, value_size)) * kUnitSize;
}

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

  /// `region` and `segments` outlive the log. `incarnation` goes into every checksum.
  ValueLog(std::span<std::byte> region, Segments& segments, std::uint64_t incarnation);
  ValueLog(const ValueLog&) = delete;
  ValueLog& operator=(const ValueLog&) = delete;

  /// Takes an extent, or for a large record a run, and copies key and value into it. Nothing: no segment is
  /// free, beyond Segments::kReserve for writes, or no run. What the two point to is read once. REQUIRES:
  /// sizes in bounds; large records are not moved.
  std::optional<Place> Append(Head head, std::string_view key, std::string_view value, TimePoint now);

  /// As Append of a large record, whose key and value somebody else puts behind the header. REQUIRES:
  /// RunLength(key_size, value_size) > 0.
  std::optional<Place> Reserve(std::size_t key_size, std::size_t value_size);
  /// The room for key and value of a reserved record.
  std::span<std::byte> MutableBody(const Place& place) const {
    const RecordHeader& header = Header(place);
    return {Memory(place) + sizeof(RecordHeader), std::size_t{header.key_size} + header.value_size};
  }

  /// Gives back a record that was not made live. Its place is used again if it was the last one appended, or
  /// a large one.
  void Rollback(const Place& place);

  /// The record, appended and not live, stays where it is until it is unpinned: its segment is not cleaned.
  /// Large ones are not anyway.
  void Pin(const Place& place);
  void Unpin(const Place& place, TimePoint now);

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

  /// Clears the live bit of a published record, for ever, and counts its extent as dead. A large one's run
  /// is retired, from Segments::StartGracePeriod on.
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
  /// Bytes appended since the start; large records are apart.
  std::uint64_t bytes_appended(Head head) const { return appended_[static_cast<std::size_t>(head)]; }
  std::uint64_t large_bytes_appended() const { return large_appended_; }

 private:
  // The part of a head's segment that is not used yet.
  struct Open {
    bool there = false;
    SegmentNumber segment = 0;
    std::uint64_t next = 0;
    std::uint64_t end = 0;
  };

  /// A head's segment that is full, or as good as.
  struct Full {
    SegmentNumber segment = 0;
    std::uint64_t end = 0;
    Head head = Head::kWrites;
  };

  /// Of a head's segment, in which nothing is pinned.
  void Seal(const Full& full, TimePoint now);
  std::optional<Place> TakeFromHead(Head head, std::uint32_t extent_code, TimePoint now);
  void WriteSizes(const Place& place, std::size_t key_size, std::size_t value_size);
  void WriteBody(const Place& place, std::string_view key, std::string_view value);
  std::byte* Memory(const Place& place) const { return region_.data() + place.offset_bytes(); }
  RecordHeader& MutableHeader(const Place& place) const {
    return *reinterpret_cast<RecordHeader*>(Memory(place));
  }

  const std::span<std::byte> region_;
  Segments& segments_;
  const std::uint64_t incarnation_;
  std::array<Open, 2> heads_;
  // Pinned records, by segment; and the segments that would be sealed by now if nothing in them was pinned.
  absl::flat_hash_map<SegmentNumber, std::uint32_t> pinned_;
  std::vector<Full> full_;
  std::array<std::uint64_t, 2> appended_{};
  std::uint64_t large_appended_ = 0;
};

}  // namespace remora
