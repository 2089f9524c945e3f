// Bytes at rest in registered memory: what the server writes and every reader, near or far, reads in place.
//
//   superblock (one page)      what is where, fixed from start to stop; and counters
//   index                      `bucket_count` main buckets, then `overflow_count` overflow buckets
//   log                        records, each starting at a multiple of 16 bytes ("units"); unit 0 is never
//   used
//
//   bucket (128 bytes, one READ)                              record (extent of whole units)
//   ┌─────────┬────────┬────────┬─────┬─────────┐             ┌─────────────────────────┬─────┬───────┬─────┐
//   │ control │ slot 0 │ slot 1 │ ... │ slot 14 │             │ RecordHeader (32 bytes) │ key │ value │ pad │
//   └─────────┴────────┴────────┴─────┴─────────┘             └─────────────────────────┴─────┴───────┴─────┘
//
// Only the server writes any of it. A reader may see any mixture, byte by byte, of the old and the new state
// of what is being changed (nothing wider than a byte is read whole), and must not be misled. Why it is not:
//
//   I1 A slot changes by one aligned 8-byte store. An update keeps the slot and the fingerprint, and
//      fingerprints are never 0: whatever the mixture, a slot that holds the key shows its fingerprint, so it
//      is followed, and then leads to the old record, to the new one, or to a place at which nothing verifies
//      (RecordState::kTorn). A reader that met such a place reads the bucket again, and in the end asks the
//      server: it never takes the key for missing. A mixture hides a key only while the key is being
//      inserted or removed; either answer is then right.
//   I2 An entry never moves inside the table. If a reader saw each slot of the chain without the key at some
//      moment of its READs, then there was a moment in between when the key was absent: a miss is proven.
//   I3 A control word carries a check of its own; a torn one fails it and is read again. It changes once,
//      when an overflow bucket is linked, which is empty and visible before.
//   I4 A published record never changes, except that its live bit is cleared, for ever. The bit is one bit.
//   I5 The old record's live bit is cleared before the new slot is stored, and both before the write is
//      acknowledged. (The other order lets one reader see the new value, and a later one, that remembers
//      the old place, still see the old one.)
//
// All integers are little-endian. `LayoutSignature` covers every number here; peers that differ do not talk.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace remora {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

inline constexpr std::uint32_t kFormatVersion = 1;

// --- Bounds of keys and values, checked wherever one comes in ------------------------------------------

inline constexpr std::size_t kMinKeySize = 1;
inline constexpr std::size_t kMaxKeySize = 4096;
inline constexpr std::size_t kMaxValueSize = std::size_t{256} << 10;

// --- Record -------------------------------------------------------------------------------------------

/// Sizes and offsets in the log are counted in units.
inline constexpr std::size_t kUnitSize = 16;

/// Stands at the start of a record, followed by `key_size` bytes of key and `value_size` bytes of value.
///
/// The checksum (record.h) covers everything but the live bit, and the record's own place: a record copied
/// or torn, or one whose bytes come from two records that stood at the same place, does not verify.
struct RecordHeader {
  std::uint64_t version_live;  // version << 1 | live
  std::uint64_t checksum;
  std::uint32_t value_size;
  std::uint16_t key_size;
  std::uint16_t flags;      // 0
  std::uint64_t expiry_ms;  // 0: never
};
static_assert(sizeof(RecordHeader) == 32 && alignof(RecordHeader) == 8);
static_assert(offsetof(RecordHeader, checksum) == 8 && offsetof(RecordHeader, value_size) == 16);
static_assert(offsetof(RecordHeader, key_size) == 20 && offsetof(RecordHeader, expiry_ms) == 24);
static_assert(std::has_unique_object_representations_v<RecordHeader>);

inline constexpr std::uint64_t kLiveBit = 1;
inline constexpr std::uint64_t kMaxVersion = ~std::uint64_t{0} >> 1;

inline constexpr std::size_t kMaxRecordSize = sizeof(RecordHeader) + kMaxKeySize + kMaxValueSize;

// --- Extent: the size of a record's place, as a slot can express it -------------------------------------

/// 12 bits: 8 of mantissa, 4 of exponent; `mantissa << exponent` units. Exact up to 255 units (4080 bytes),
/// rounded up by less than 1/128 beyond. Code 0 is no extent.
inline constexpr int kExtentMantissaBits = 8;
inline constexpr int kExtentCodeBits = 12;

constexpr std::uint64_t ExtentUnits(std::uint32_t code) {
  return std::uint64_t{code & 0xff} << (code >> kExtentMantissaBits);
}

/// The code of the smallest extent that holds `units` (1 to 255 << 15).
constexpr std::uint32_t ExtentCode(std::uint64_t units) {
  std::uint32_t exponent = 0;
  std::uint64_t mantissa = units;
  while (mantissa > 0xff) {
    ++exponent;
    mantissa = (units + (std::uint64_t{1} << exponent) - 1) >> exponent;
  }
  return exponent << kExtentMantissaBits | static_cast<std::uint32_t>(mantissa);
}

/// The code of the extent that a record with these sizes takes.
constexpr std::uint32_t RecordExtentCode(std::size_t key_size, std::size_t value_size) {
  return ExtentCode((sizeof(RecordHeader) + key_size + value_size + kUnitSize - 1) / kUnitSize);
}

// --- Slot ---------------------------------------------------------------------------------------------

/// What an index slot says: bits 63..52 fingerprint, 51..40 extent code, 39..0 offset in units.
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

constexpr std::uint64_t EncodeSlot(const Slot& slot) {
  return std::uint64_t{slot.fingerprint} << 52 | std::uint64_t{slot.extent_code} << kOffsetBits |
         slot.offset_units;
}
constexpr Slot DecodeSlot(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> 52), static_cast<std::uint32_t>(word >> kOffsetBits & 0xfff),
          word & kMaxOffsetUnits};
}

// --- Bucket -------------------------------------------------------------------------------------------

inline constexpr int kSlotsPerBucket = 15;

/// Zero-filled is an empty bucket.
struct alignas(128) Bucket {
  std::uint64_t control;
  std::array<std::uint64_t, kSlotsPerBucket> slots;
};
static_assert(sizeof(Bucket) == 128 && offsetof(Bucket, slots) == 8);
static_assert(std::has_unique_object_representations_v<Bucket>);

/// Control word: bits 63..48 check, 47..32 zero, 31..0 number of the bucket that continues this one
/// (0: none; overflow buckets are numbered after the main ones, so never 0).
///
/// The check counts the link's zero bits (a Berger code). The word changes once, from 0, so a mixture lacks
/// some of its ones and has no others: a link that lacks ones has more zeros than its check, itself whole or
/// lacking, can count. So each mixture is either 0, or the whole word, or fails the check.
constexpr std::uint64_t EncodeControl(std::uint32_t overflow) {
  if (overflow == 0) return 0;
  return std::uint64_t{static_cast<unsigned>(std::popcount(~overflow))} << 48 | overflow;
}
constexpr bool ControlIsWhole(std::uint64_t control) {
  return control == EncodeControl(static_cast<std::uint32_t>(control));
}
constexpr std::uint32_t ControlOverflow(std::uint64_t control) { return static_cast<std::uint32_t>(control); }

// --- Superblock ---------------------------------------------------------------------------------------

inline constexpr std::uint64_t kSuperblockMagic = 0x30425341524f4d52;  // "RMORASB0"
inline constexpr std::size_t kSuperblockSize = 4096;

/// Counters that anybody may READ. Each changes alone, and a READ may tear one: read twice until equal.
/// A list in one place: enumerator, and the name under which it is shown.
#define REMORA_COUNTERS(X)                         \
  X(kKeys, "keys")                                 \
  X(kPuts, "puts")                                 \
  X(kDeletes, "deletes")                           \
  X(kLocates, "locates")                           \
  X(kPings, "pings")                               \
  X(kCommitGroups, "commit_groups")                \
  X(kRejectedRequests, "rejected_requests")        \
  X(kIndexBytes, "index_bytes")                    \
  X(kIndexSlots, "index_slots")                    \
  X(kOverflowBuckets, "overflow_buckets")          \
  X(kOverflowBucketsUsed, "overflow_buckets_used") \
  X(kLogBytes, "log_bytes")                        \
  X(kLogBytesUsed, "log_bytes_used")               \
  X(kLogBytesDead, "log_bytes_dead")               \
  X(kLastVersion, "last_version")                  \
  X(kConnections, "connections")                   \
  X(kConnectionsAccepted, "connections_accepted")  \
  X(kConnectionsRefused, "connections_refused")    \
  X(kReceiveCompletions, "receive_completions")    \
  X(kWakeups, "wakeups")

enum class Counter : std::uint32_t {
#define REMORA_COUNTER_ENUMERATOR(name, text) name,
  REMORA_COUNTERS(REMORA_COUNTER_ENUMERATOR)
#undef REMORA_COUNTER_ENUMERATOR
};

inline constexpr const char* kCounterNames[] = {
#define REMORA_COUNTER_NAME(name, text) text,
    REMORA_COUNTERS(REMORA_COUNTER_NAME)
#undef REMORA_COUNTER_NAME
};
inline constexpr std::size_t kCounterCount = std::size(kCounterNames);
inline constexpr std::size_t kCounterCapacity = 128;
static_assert(kCounterCount <= kCounterCapacity);

/// Everything above `counters` is written before the first client connects, and never again.
struct Superblock {
  std::uint64_t magic;
  std::uint32_t format_version;
  std::uint32_t reserved;
  std::uint64_t layout_signature;
  std::uint64_t incarnation;     // random at each start of a store, never 0; part of every record's checksum
  std::uint64_t bucket_count;    // main buckets, a power of two
  std::uint64_t overflow_count;  // overflow buckets, which follow them
  std::uint64_t log_size;        // bytes
  std::uint64_t padding[9];
  std::array<std::uint64_t, kCounterCapacity> counters;  // by Counter
};
static_assert(offsetof(Superblock, counters) == 128 && sizeof(Superblock) <= kSuperblockSize);
static_assert(std::has_unique_object_representations_v<Superblock>);

// --- Signature ----------------------------------------------------------------------------------------

/// One number for everything above (and the hash of record.h): different layouts, different numbers.
constexpr std::uint64_t LayoutSignature() {
  std::uint64_t signature = 0xcbf29ce484222325;  // FNV-1a, over whole numbers
  for (std::uint64_t number :
       {std::uint64_t{kFormatVersion}, std::uint64_t{kMaxKeySize}, std::uint64_t{kMaxValueSize},
        std::uint64_t{kUnitSize}, std::uint64_t{sizeof(RecordHeader)}, std::uint64_t{sizeof(Bucket)},
        std::uint64_t{kSlotsPerBucket}, std::uint64_t{kOffsetBits}, std::uint64_t{kExtentCodeBits},
        std::uint64_t{kExtentMantissaBits}, std::uint64_t{offsetof(Superblock, counters)}, kSuperblockMagic,
        std::uint64_t{kCounterCount}}) {
    signature = (signature ^ number) * 0x100000001b3;
  }
  return signature;
}

}  // namespace remora
