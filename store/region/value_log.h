// The value log: records, one behind the other in segments of the region, which clients read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "store/base/check.h"
#include "store/base/clock.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"
#include "store/region/segments.h"

namespace remora {

/// The place of a record in the log: a Slot without the fingerprint.
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

/// Returns how many bytes of the region a record with these sizes takes.
constexpr std::uint64_t LogBytes(std::size_t key_size, std::size_t value_size) {
  const std::uint64_t large = LargeBytes(key_size, value_size);
  return large > 0 ? large : ExtentUnits(RecordExtentCode(key_size, value_size)) * kUnitSize;
}

/// Log of records. The writer appends a record (copies it in, not live) and seals it (completes its header).
/// It publishes the record (makes it live, then stores its place into a slot). When the slot leads elsewhere,
/// it kills the record. A record that is not published can be rolled back.
///
/// The class has more than 25 methods: those of the writer, which append, publish and kill records, and those
/// of readers.
///
/// Thread safety: any thread may call WriteSealed, and Header, Key, Value and Body of published records. One
/// writer at a time calls the other functions.
class ValueLog {
 public:
  /// Head to which a record is appended. Moved records have proven to live long, so they have their own head.
  enum class Head : std::uint8_t { kWrites = 0, kMoves = 1 };

  /// Makes an empty log. `region` and `segments` must outlive it. `incarnation` is part of every checksum.
  ValueLog(std::span<std::byte> region, Segments& segments, std::uint64_t incarnation);
  ValueLog(const ValueLog&) = delete;
  ValueLog& operator=(const ValueLog&) = delete;

  /// Takes an extent, and copies key and value into it. It reads each byte of `key` and `value` once. A write
  /// leaves Segments::kReserve segments to the cleaner. Nothing: there is no memory. REQUIRES: sizes in
  /// bounds; a large record is not appended to kMoves, but moved in steps (ReserveMove).
  std::optional<Place> Append(Head head, std::string_view key, std::string_view value, TimePoint now);

  /// Takes memory for a large record, whose key and value the caller puts into MutableBody. Nothing: there is
  /// none. REQUIRES: RunLength(key_size, value_size) > 0.
  std::optional<Place> Reserve(std::size_t key_size, std::size_t value_size);
  /// Takes memory to which a large record is moved: a hole between others, or, while a run is being made,
  /// free segments. Nothing: there is none.
  std::optional<Place> ReserveMove(std::size_t key_size, std::size_t value_size);
  /// Returns the space for key and value of a reserved record.
  std::span<std::byte> MutableBody(const Place& place) const {
    const RecordHeader& header = Header(place);
    return {Memory(place) + sizeof(RecordHeader), std::size_t{header.key_size} + header.value_size};
  }

  /// Gives back a record that was not made live. The log reuses its place at once if it was the last record
  /// appended, or a large one.
  void Rollback(const Place& place);

  /// Keeps the segment of an appended record from being cleaned until Unpin, so that the record stays where
  /// it is although it is not live. Without effect for a large record, which is moved only if it is live.
  void Pin(const Place& place);
  void Unpin(const Place& place, TimePoint now);

  /// Completes the header of an appended record, whose key and value have these hashes.
  void Seal(const Place& place, std::uint64_t version, std::uint64_t expiry_ms, std::uint64_t key_hash,
            std::uint64_t value_hash);

  /// Writes a sealed record to a place in a segment that the caller has taken for itself. The caller counts
  /// such records with Segments::Extend. Thread safety: any thread.
  void WriteSealed(const Place& place, std::string_view key, std::string_view value, std::uint64_t version,
                   std::uint64_t expiry_ms, std::uint64_t key_hash);

  /// Takes over a segment that was filled with WriteSealed. If there is no head of writes yet, the log goes
  /// on behind the segment's last record; else it seals the segment. REQUIRES: Extend has counted all its
  /// records.
  void Adopt(SegmentNumber segment, TimePoint now);

  /// Sets the live bit of a sealed record, and notes its expiry. The caller then stores its place into a
  /// slot.
  void MakeLive(const Place& place);

  /// Makes the copy of a record live in its place, and kills the record (I5). The copy has its key and value,
  /// which have these hashes. The caller then stores the place of the copy into the slot.
  void PublishMoved(const Place& from, const Place& to, std::uint64_t key_hash, std::uint64_t value_hash);

  /// Clears the live bit of a published record, for ever, and counts its extent as dead. If the record is
  /// large, retires its memory; the grace period begins with Segments::StartGracePeriod.
  void Kill(const Place& place);

  const RecordHeader& Header(const Place& place) const;
  /// Returns the bytes behind the header: key, then value.
  const std::byte* Body(const Place& place) const;
  /// Return key and value. REQUIRES: the record is appended.
  std::string_view Key(const Place& place) const;
  std::string_view Value(const Place& place) const;
  bool IsLive(const Place& place) const;
  /// Returns the checksum that this record should have.
  std::uint64_t Checksum(const Place& place, std::uint64_t key_hash, std::uint64_t value_hash) const {
    return RecordChecksum(Header(place), key_hash, value_hash, place.offset_units, incarnation_);
  }
  /// Ends the process if a sealed record does not have the checksum that it should have. A caller that copies
  /// the record calls this first: corrupt bytes must not get a checksum that matches them.
  void CheckIntact(const Place& place, std::uint64_t key_hash, std::uint64_t value_hash) const {
    REMORA_CHECK(Header(place).checksum == Checksum(place, key_hash, value_hash));
  }

  /// Returns the place of the record at this offset. A segment of the log begins with a record, and each
  /// record ends where the next one begins. REQUIRES: a record begins at `offset`.
  Place At(std::uint64_t offset) const;

  /// Returns the offset at which the records of a segment of the log, or of a head, end.
  std::uint64_t EndOf(SegmentNumber segment) const;

  /// Returns the place of the first record of a segment that begins at `offset` or behind it. Nothing: there
  /// is none. REQUIRES: `offset` is where a record of a segment of the log begins or ends.
  std::optional<Place> FirstFrom(SegmentNumber segment, std::uint64_t offset) const;

  /// Returns the bytes of all records, live and dead, and the bytes of dead records.
  std::uint64_t bytes_used() const;
  std::uint64_t bytes_dead() const { return bytes_used() - segments_.live_bytes(); }
  /// Returns the bytes appended since the start, for each head, and for large records.
  std::uint64_t bytes_appended(Head head) const { return appended_[static_cast<std::size_t>(head)]; }
  std::uint64_t large_bytes_appended() const { return large_appended_; }

 private:
  // The unused part of a head's segment.
  struct Open {
    bool there = false;
    SegmentNumber segment = 0;
    std::uint64_t next = 0;
    std::uint64_t end = 0;
  };

  /// A head's segment that has no space for the next record, and is not sealed yet.
  struct Full {
    SegmentNumber segment = 0;
    std::uint64_t end = 0;
    Head head = Head::kWrites;
  };

  static bool IsLarge(const Place& place) { return place.extent_bytes() > kMaxSmallExtent; }
  /// Seals a head's segment. REQUIRES: no record in it is pinned.
  void SealSegment(const Full& full, TimePoint now);
  std::optional<Place> TakeLarge(std::size_t key_size, std::size_t value_size, Segments::Growth growth);
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
  // The number of pinned records in each segment, and the full segments that wait for an Unpin.
  absl::flat_hash_map<SegmentNumber, std::uint32_t> pinned_;
  std::vector<Full> full_;
  std::array<std::uint64_t, 2> appended_{};
  std::uint64_t large_appended_ = 0;
};

}  // namespace remora
