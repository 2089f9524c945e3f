// Bytes in registered memory: the server writes them, and every reader, near or far, reads them in
// place.
//
//   ┌────────────┬───────────┬─────────────┬─────────┬────────────┬─────────┬───────────┬─────┐
//   │ superblock │ directory │ generations │ retired │ beginnings │ changes │ segment a │ ... │
//   └────────────┴───────────┴─────────────┴─────────┴────────────┴─────────┴───────────┴─────┘
//   one region; offsets count from its start, segment i covers the bytes from i * kSegmentSize on
//
//   A segment holds records (the log), or buckets (the index), or nothing. Large records have segments of
//   their own, in which each takes whole pages; it may begin in one segment and end in a later one. The
//   directory says which segments hold the index' main buckets. Generations: a byte for each segment of the
//   log, changed when it is emptied. Retired: a byte for each segment of the log, 1 from before it is emptied
//   until nothing leads there any more, else 0. Beginnings: a byte for each quarter of a segment, changed
//   when the large record that begins there is dead. Changes: the last slots that were stored (change_log.h).
//
//   bucket (256 bytes, one READ)                              record (extent of whole units)
//   ┌─────────┬────────┬────────┬─────┬─────────┐             ┌─────────────────────────┬─────┬───────┬─────┐
//   │ control │ slot 0 │ slot 1 │ ... │ slot 30 │             │ RecordHeader (32 bytes) │ key │ value │ pad │
//   └─────────┴────────┴────────┴─────┴─────────┘             └─────────────────────────┴─────┴───────┴─────┘
//
// The index is a linear hash table (W. Litwin, VLDB 1980). There are 2^level main buckets and the first
// `split` of the next 2^level: bucket b, b < split, was split into b and b + 2^level. A bucket states its
// depth, the number of hash bits in which its keys agree with its number. So a reader with an old view of
// level and split meets a bucket that is deeper than it thought, and knows where to continue
// (store/format/memory/index_view.h).
//
// Only the server writes any of it. Nothing wider than a byte is read whole, so a reader may see
// any mixture, byte by byte, of the old and the new state of a change. These invariants keep it
// from being misled:
//
//   I1 A slot changes by one aligned 8-byte store. An update keeps the slot and the fingerprint,
//      and fingerprints are never 0. So in any mixture, a slot that holds the key shows its
//      fingerprint, and the reader follows it. It leads to the old record, to the new one, or to a
//      place at which nothing verifies (RecordState::kTorn). A reader that met such a place reads
//      the bucket again, and in the end asks the server: it never takes the key for missing. A
//      mixture hides a key only while the key is being inserted or removed; either answer is then
//      right.
//   I2 While its key exists, an entry leaves a slot only when it has been in another one, where
//      readers look, for the grace period and longer (I6). Suppose that a reader saw, within the
//      grace period, each slot of the chain without the key. Then there was a moment in between
//      when the key was absent: a miss is proven.
//
//      The slot of a record in memory never becomes one of a cold key, nor the other way. Each
//      enters a slot of its own, and the old one is cleared later, by the same rule. So a mixture
//      of the two is never seen. At each moment there is a slot that shows the key and is not about
//      to change into anything else.
//   I3 A control word is read whole where it matters. The depth is one byte. The link to the bucket
//      that continues this one changes only from none to one or back, and carries a check that no
//      mixture of the two passes. The bucket that it names is there before: an overflow bucket is
//      empty and visible before it is linked. The upper half of a split bucket is filled and
//      visible before the lower half says that it was split.
//   I4 A published record never changes, except that its live bit is cleared, for ever. The bit is
//      one bit.
//   I5 The old record's live bit is cleared before the new slot is stored, and both before the
//      write is acknowledged. (The other order lets one reader see the new value, and a later one,
//      that remembers the old place, still see the old one.) A record that is moved is written
//      anew, and the same holds.
//   I6 The grace period is T (`grace_ms`). Memory that a reader may have been led to (a record's, a
//      bucket's) is used for something else no sooner than 2T after nothing leads there any more. A
//      reader discards everything that it read more than T after it learned the place, and begins
//      again. T is the same time on both sides as long as no clock runs at twice the speed of
//      another. A large record that takes longer than T to read is proven by the byte of its beginning
//      instead (client/get/chunked_read.h).
//
//      A reader that maps the region, and so reads it at once, needs no clock. It discards what it
//      read if memory of records has come to be used for something else since it began (`reuse_epoch`).
//      Memory that nothing ever led to, as that of a record that was reserved and given back, needs no
//      grace period. A client may write such memory until its grant is revoked, which is before anything
//      leads there (server/request/large_writes.h).
//
// All integers are little-endian. `LayoutSignature` covers every number here; peers that differ do not talk.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "store/format/memory/metric_registry.h"

namespace remora {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

inline constexpr std::uint32_t kFormatVersion = 10;

// --- Bounds of keys and values, checked wherever one comes in ------------------------------------------

inline constexpr std::size_t kMinKeySize = 1;
inline constexpr std::size_t kMaxKeySize = 4096;
inline constexpr std::size_t kMaxValueSize = std::size_t{64} << 20;

// --- Segments -----------------------------------------------------------------------------------------

inline constexpr std::size_t kSegmentSize = std::size_t{1} << 20;

/// Largest value of a small record. Such records stand side by side in the log's segments, and no record
/// crosses the end of one. A larger one is a large record.
///
/// The limit is a quarter of a segment. The end of a segment, too small for the next record, stays
/// unused: at most a quarter. Moving a record when its segment is cleaned costs no more than that.
/// A connection's staging buffer is as large.
inline constexpr std::size_t kMaxSmallValueSize = kSegmentSize / 4;

// --- Record -------------------------------------------------------------------------------------------

/// Sizes and offsets of records are counted in units.
inline constexpr std::size_t kUnitSize = 16;

/// Stands at the start of a record, followed by `key_size` bytes of key and `value_size` bytes of value.
///
/// The checksum (record.h) covers the record's place, key, value, version and expiry. It does not cover the
/// live bit, nor the flags, which are 0. So a copied or torn record does not verify, nor do bytes of two
/// records that stood at the same place.
struct RecordHeader {
  std::uint64_t version_live;  // version << 1 | live
  std::uint64_t checksum;
  std::uint32_t value_size;
  std::uint16_t key_size;
  std::uint16_t flags;      // 0
  std::uint64_t expiry_ms;  // expiry.h
};
static_assert(sizeof(RecordHeader) == 32 && alignof(RecordHeader) == 8);
static_assert(offsetof(RecordHeader, checksum) == 8 && offsetof(RecordHeader, value_size) == 16);
static_assert(offsetof(RecordHeader, key_size) == 20 && offsetof(RecordHeader, expiry_ms) == 24);
static_assert(std::has_unique_object_representations_v<RecordHeader>);

inline constexpr std::uint64_t kLiveBit = 1;
inline constexpr std::uint64_t kMaxVersion = ~std::uint64_t{0} >> 1;

// --- Extent: the size of a record's place, as a slot can express it -------------------------------------

/// 12 bits: 8 of mantissa, 4 of exponent; `mantissa << exponent` units. Exact up to kMaxExactExtent bytes,
/// rounded up by less than 1/128 beyond. Code 0 is no extent.
inline constexpr int kExtentMantissaBits = 8;
inline constexpr int kExtentCodeBits = 12;

/// Returns the units of an extent. 0: the code is none.
constexpr std::uint64_t ExtentUnits(std::uint32_t code) {
  return std::uint64_t{code & 0xff} << (code >> kExtentMantissaBits);
}

inline constexpr std::size_t kMaxExactExtent = ((1 << kExtentMantissaBits) - 1) * kUnitSize;

/// Returns the code of the smallest extent that holds `units` (1 to 255 << 15).
constexpr std::uint32_t ExtentCode(std::uint64_t units) {
  std::uint32_t exponent = 0;
  std::uint64_t mantissa = units;
  while (mantissa > 0xff) {
    ++exponent;
    mantissa = (units + (std::uint64_t{1} << exponent) - 1) >> exponent;
  }
  return exponent << kExtentMantissaBits | static_cast<std::uint32_t>(mantissa);
}

/// Returns the units of a record's header, key and value.
constexpr std::uint64_t RecordUnits(std::size_t key_size, std::size_t value_size) {
  return (sizeof(RecordHeader) + key_size + value_size + kUnitSize - 1) / kUnitSize;
}

/// The largest extent of a small record. Extents up to here are READ at once, larger ones in pieces.
inline constexpr std::size_t kMaxSmallExtent =
    ExtentUnits(ExtentCode(RecordUnits(kMaxKeySize, kMaxSmallValueSize))) * kUnitSize;
static_assert(kMaxSmallExtent <= kSegmentSize);

/// Returns the code of the extent that a record with these sizes takes. That of a large record is above
/// kMaxSmallExtent, so a reader tells from a slot which of the two it names.
constexpr std::uint32_t RecordExtentCode(std::size_t key_size, std::size_t value_size) {
  std::uint64_t units = RecordUnits(key_size, value_size);
  if (value_size > kMaxSmallValueSize)
    units = std::max<std::uint64_t>(units, kMaxSmallExtent / kUnitSize + 1);
  return ExtentCode(units);
}

/// Large records begin and end at whole pages. This is the granularity of their memory.
inline constexpr std::size_t kPageSize = 4096;

/// Returns how many bytes of memory a large record with these sizes takes. 0: it is small.
constexpr std::uint64_t LargeBytes(std::size_t key_size, std::size_t value_size) {
  if (value_size <= kMaxSmallValueSize) return 0;
  const std::uint64_t extent = ExtentUnits(RecordExtentCode(key_size, value_size)) * kUnitSize;
  return (extent + kPageSize - 1) / kPageSize * kPageSize;
}
/// Returns how many adjacent free segments suffice for a large record with these sizes. 0: it is small.
constexpr std::size_t RunLength(std::size_t key_size, std::size_t value_size) {
  return (LargeBytes(key_size, value_size) + kSegmentSize - 1) / kSegmentSize;
}
inline constexpr std::uint64_t kMaxLargeBytes = LargeBytes(kMaxKeySize, kMaxValueSize);

/// A byte of `beginnings` is for so many bytes of the region. No two large records begin in them.
inline constexpr std::size_t kBeginningSize = kSegmentSize / 4;
static_assert(LargeBytes(kMinKeySize, kMaxSmallValueSize + 1) > kBeginningSize);

// --- Slot ---------------------------------------------------------------------------------------------

/// Content of an index slot: bits 63..52 fingerprint, 51..40 extent code, 39..0 offset in units.
/// Word 0 is an empty slot.
struct Slot {
  std::uint32_t fingerprint = 0;   // 12 bits of the key's hash
  std::uint32_t extent_code = 0;   // never 0 in a slot in use
  std::uint64_t offset_units = 0;  // 40 bits: 16 TiB; never 0 in a slot in use

  constexpr std::uint64_t offset_bytes() const { return offset_units * kUnitSize; }
  constexpr std::uint64_t extent_bytes() const { return ExtentUnits(extent_code) * kUnitSize; }
  friend constexpr bool operator==(const Slot&, const Slot&) = default;
};

inline constexpr int kOffsetBits = 40;
inline constexpr std::uint64_t kMaxOffsetUnits = (std::uint64_t{1} << kOffsetBits) - 1;

/// Returns the word of a slot, and back. The word of a slot that was READ may be anything.
constexpr std::uint64_t EncodeSlot(const Slot& slot) {
  return std::uint64_t{slot.fingerprint} << 52 | std::uint64_t{slot.extent_code} << kOffsetBits |
         slot.offset_units;
}
constexpr Slot DecodeSlot(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> 52), static_cast<std::uint32_t>(word >> kOffsetBits & 0xfff),
          word & kMaxOffsetUnits};
}

/// Returns whether a slot is that of a cold key, whose record is only in the durable tier. Such a
/// slot has no extent, and in place of the offset 40 bits of the key's hash (EncodeColdSlot). One
/// byte tells: no extent in use has mantissa 0. A torn slot may look like it, too, but not the only
/// one of a key that exists (I2).
constexpr bool SlotIsCold(std::uint64_t word) { return (word >> kOffsetBits & 0xff) == 0; }

// --- Bucket -------------------------------------------------------------------------------------------

inline constexpr int kSlotsPerBucket = 31;

/// Zero-filled is an empty bucket; a main one then has the depth that all had at the start (Superblock's
/// base_depth). So an index of any size exists at once, in memory that was never written.
struct alignas(64) Bucket {
  std::uint64_t control;
  std::array<std::uint64_t, kSlotsPerBucket> slots;
};
/// Words of a cache line of a bucket. A key's slot is in the line that its hash says (PreferredLine), if
/// there was space when it came there. A reader that need not READ a whole bucket tries that line
/// first.
inline constexpr std::size_t kWordsPerLine = 8;
inline constexpr std::size_t kLinesPerBucket = sizeof(Bucket) / sizeof(std::uint64_t) / kWordsPerLine;
static_assert(sizeof(Bucket) == 256 && offsetof(Bucket, slots) == 8);
static_assert(std::has_unique_object_representations_v<Bucket>);

inline constexpr std::size_t kBucketsPerSegment = kSegmentSize / sizeof(Bucket);

/// Control word: bits 63..56 check, 55..48 depth, 47..40 zero, 39..0 link: the place, counted in buckets from
/// the region's start, of the overflow bucket that continues this one (0: none).
///
/// The check counts the link's zero bits (a Berger code: J. M. Berger, 1961). The link changes only between
/// 0, with check 0, and one other. A mixture of the two lacks some of the ones of link and check, and has no
/// others. A link that lacks ones has more zeros than its check, itself whole or lacking, can count. So each
/// mixture is 0, or the whole link, or fails the check.
inline constexpr int kLinkBits = 40;

constexpr std::uint64_t EncodeControl(std::uint32_t depth, std::uint64_t link) {
  const auto zeros = static_cast<std::uint64_t>(kLinkBits - std::popcount(link));
  return (link == 0 ? 0 : zeros << 56) | std::uint64_t{depth} << 48 | link;
}
constexpr std::uint32_t ControlDepth(std::uint64_t control) {
  return static_cast<std::uint32_t>(control >> 48 & 0xff);
}
constexpr std::uint64_t ControlLink(std::uint64_t control) {
  return control & ((std::uint64_t{1} << kLinkBits) - 1);
}
constexpr bool ControlIsWhole(std::uint64_t control) {
  return control == EncodeControl(ControlDepth(control), ControlLink(control));
}

// --- Directory ----------------------------------------------------------------------------------------

/// Entry i names the segment of main buckets [i * kBucketsPerSegment, (i + 1) *
/// kBucketsPerSegment): its number in the low half, the complement of that in the high half. 0: not
/// there yet. An entry changes once, from 0, so in a mixture each byte is 0 or final. For a low
/// byte and its counterpart to agree, both must be final. So each mixture is 0, or the whole entry,
/// or not whole.
constexpr std::uint64_t EncodeDirectoryEntry(std::uint32_t segment) {
  return std::uint64_t{~segment} << 32 | segment;
}
constexpr bool DirectoryEntryIsWhole(std::uint64_t entry) {
  return entry != 0 && entry == EncodeDirectoryEntry(static_cast<std::uint32_t>(entry));
}
constexpr std::uint32_t DirectoryEntrySegment(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry);
}
/// Returns the place, counted in buckets from the region's start, of main bucket `number`, whose whole entry
/// this is.
constexpr std::uint64_t MainBucketPlace(std::uint64_t entry, std::uint64_t number) {
  return DirectoryEntrySegment(entry) * std::uint64_t{kBucketsPerSegment} + number % kBucketsPerSegment;
}

// --- Changes ------------------------------------------------------------------------------------------

/// A slot that was stored: change_log.h.
struct IndexChange {
  std::uint64_t word;   // content of the slot
  std::uint64_t place;  // of its bucket, and a check
};
static_assert(sizeof(IndexChange) == 16 && std::has_unique_object_representations_v<IndexChange>);

/// Change i is at i % kChangeCount. Their number so far is in front of them, in a cache line of its own.
inline constexpr std::uint64_t kChangeCount = 8192;
inline constexpr std::size_t kChangesHead = 64;
inline constexpr std::size_t kChangesSize = kChangesHead + kChangeCount * sizeof(IndexChange);

// --- Superblock ---------------------------------------------------------------------------------------

/// The shortest grace period. A look at a coarse clock may err by 20 ms, so a reader's T may last that much
/// longer; it must end well before the server's 2T.
inline constexpr std::uint32_t kMinGraceMs = 50;

inline constexpr std::uint64_t kSuperblockMagic = 0x30425341524f4d52;  // "RMORASB0"
inline constexpr std::size_t kSuperblockSize = 4096;

/// The `slots_word` of a store that begins with a part of the slots.
inline constexpr std::uint64_t kFirstSlotsWord = 1;

/// First bytes of the region. All fields before the counters, except `level`, `reuse_epoch` and `slots_word`,
/// are written before the first client connects, and never again.
struct Superblock {
  std::uint64_t magic;
  std::uint32_t format_version;
  std::uint32_t grace_ms;  // T of I6
  std::uint64_t layout_signature;
  std::uint64_t incarnation;   // random at each start of a store, never 0; part of every record's checksum
  std::uint64_t memory_size;   // bytes of the region, whole segments
  std::uint64_t level;         // at least 2^level main buckets exist; below 64, so one byte of it suffices
  std::uint64_t base_depth;    // of a main bucket that says 0, as it was never written; at most 255
  std::uint64_t metric_count;  // places of `counters` that this server has (metric_registry.h)
  /// Grows before memory of records that readers may have been led to is used for something else (I6). A
  /// cache line to itself, which is hardly ever written.
  std::uint64_t reuse_epoch;
  /// 0: the store has all slots of a cluster (store/format/cluster/slot.h), for its whole life. Otherwise it
  /// has a part, and a key that is not in the index may be another server's. Before a slot leaves the store,
  /// the word grows. So a miss is proven if the word, loaded behind the READs of the search, is one with
  /// which the server has said that the key's slot is its own.
  std::uint64_t slots_word;
  std::uint64_t more_padding[6];
  /// The metrics, by Metric. Each word changes alone, and a READ may tear one: read twice until equal.
  std::array<std::uint64_t, kMetricCapacity> counters;
};
static_assert(offsetof(Superblock, reuse_epoch) == 64 && offsetof(Superblock, slots_word) == 72);
static_assert(offsetof(Superblock, counters) == 128);
static_assert(sizeof(Superblock) <= kSuperblockSize);
static_assert(std::has_unique_object_representations_v<Superblock>);

/// Returns how many segments a region of `memory_size` bytes has.
constexpr std::uint64_t SegmentCount(std::uint64_t memory_size) { return memory_size / kSegmentSize; }
// Each of these returns the offset of a part from the region's start, in bytes.
constexpr std::uint64_t DirectoryOffset() { return kSuperblockSize; }
constexpr std::uint64_t GenerationsOffset(std::uint64_t memory_size) {
  return DirectoryOffset() + SegmentCount(memory_size) * sizeof(std::uint64_t);
}
constexpr std::uint64_t RetiredOffset(std::uint64_t memory_size) {
  return GenerationsOffset(memory_size) + SegmentCount(memory_size);
}
constexpr std::uint64_t BeginningsOffset(std::uint64_t memory_size) {
  return RetiredOffset(memory_size) + SegmentCount(memory_size);
}
/// Returns the offset of the byte of the large record that begins at `offset`.
constexpr std::uint64_t BeginningOffset(std::uint64_t memory_size, std::uint64_t offset) {
  return BeginningsOffset(memory_size) + offset / kBeginningSize;
}
/// Begins a cache line.
constexpr std::uint64_t ChangesOffset(std::uint64_t memory_size) {
  constexpr std::uint64_t kLine = 64;
  const std::uint64_t end =
      BeginningsOffset(memory_size) + SegmentCount(memory_size) * (kSegmentSize / kBeginningSize);
  return (end + kLine - 1) / kLine * kLine;
}
/// Returns the number of the first segment behind all of these.
constexpr std::uint64_t FirstSegment(std::uint64_t memory_size) {
  const std::uint64_t end = ChangesOffset(memory_size) + kChangesSize;
  return (end + kSegmentSize - 1) / kSegmentSize;
}

// --- Signature ----------------------------------------------------------------------------------------

/// Returns one number for everything above (and the hash of record.h): different layouts, different numbers.
/// The number of metrics is no part of it: a client of fewer, or of more, may read this server's (R2 of
/// metric_registry.h).
constexpr std::uint64_t LayoutSignature() {
  std::uint64_t signature = 0xcbf29ce484222325;  // FNV-1a (Fowler, Noll, Vo), over whole numbers
  for (std::uint64_t number : {std::uint64_t{kFormatVersion},
                               std::uint64_t{kMaxKeySize},
                               std::uint64_t{kMaxValueSize},
                               std::uint64_t{kMaxSmallValueSize},
                               std::uint64_t{kPageSize},
                               std::uint64_t{kUnitSize},
                               std::uint64_t{sizeof(RecordHeader)},
                               std::uint64_t{sizeof(Bucket)},
                               std::uint64_t{kSlotsPerBucket},
                               std::uint64_t{kSegmentSize},
                               std::uint64_t{kSuperblockSize},
                               std::uint64_t{kOffsetBits},
                               std::uint64_t{kLinkBits},
                               std::uint64_t{kExtentCodeBits},
                               std::uint64_t{kExtentMantissaBits},
                               std::uint64_t{offsetof(Superblock, reuse_epoch)},
                               std::uint64_t{offsetof(Superblock, counters)},
                               kSuperblockMagic,
                               std::uint64_t{kMetricCapacity},
                               kChangeCount}) {
    signature = (signature ^ number) * 0x100000001b3;
  }
  return signature;
}

}  // namespace remora
