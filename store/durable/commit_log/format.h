// The bytes of the commit log: one endless sequence of groups, in files of a fixed size.
//
// The LSN of a byte is its offset in the sequence. A file holds the bytes from its first LSN on,
// which is its name; the next file begins where it ends. So the name of a file is known before
// anything is written to it.
//
//   0000000004000000.log                                0000000008000000.log
//   ┌───────────────┬───────┬───────┬─────┬───────────┐ ┌───────────────┬───────┬─────
//   │ LogFileHeader │ group │ group │ ... │ left over │ │ LogFileHeader │ group │ ...
//   └───────────────┴───────┴───────┴─────┴───────────┘ └───────────────┴───────┴─────
//     64 bytes
//
//   A group stands in one file. One that does not fit behind the last group of a file begins the
//   next file. What is left over holds zeros, or what the file held before it was recycled.
//
//   group, a multiple of 8 bytes              entry, a multiple of 8 bytes
//   ┌────────────────┬───────┬───────┬─────┐  ┌────────────────┬────────────┬─────┬───────┬─────┐
//   │ LogGroupHeader │ entry │ entry │ ... │  │ LogEntryHeader │ LogRequest │ key │ value │ pad │
//   └────────────────┴───────┴───────┴─────┘  └────────────────┴────────────┴─────┴───────┴─────┘
//     64 bytes                                  24 bytes         0 or 24
//
//   LogRequest is there if the flag kHasRequest is set. The pad is zeros.
//
// A group *verifies* at an LSN if its magic, LSN and checksum are right and its entries fill it. It
// *follows* another one if it names the checksum of that one as its previous. The log is the chain
// of groups that begins at the first file; it ends before the first group that does not verify or
// does not follow.
//
//   L1 An old group of a recycled file never verifies: its LSN differs, and the checksum covers it.
//   L2 A group that an earlier writer left behind the end of the log never follows a group that was
//      written later: the checksum of that one covers the incarnation of its writer, which no other
//      writer has.
//   L3 The first group of a file follows the last group of the file before. So a file whose end was
//      lost ends the log, whatever the next file holds.
//
// All integers are little-endian.
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "store/durable/completion_records.h"
#include "store/format/memory/layout.h"

namespace remora {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

/// Offset of a byte in the log. 0 stands before everything.
struct Lsn {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(const Lsn&, const Lsn&) = default;
};
constexpr Lsn operator+(Lsn lsn, std::uint64_t bytes) { return {lsn.value + bytes}; }
/// REQUIRES: `from` does not stand behind `to`.
constexpr std::uint64_t operator-(Lsn to, Lsn from) { return to.value - from.value; }

inline constexpr Lsn kMaxLsn{~std::uint64_t{0}};

inline constexpr std::uint32_t kCommitLogFormat = 1;

/// Groups and entries begin at multiples of this.
inline constexpr std::size_t kLogAlignment = 8;

inline constexpr std::uint64_t kMinLogFileSize = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kMaxLogFileSize = std::uint64_t{1} << 30;
/// The size of a file is a multiple of this.
inline constexpr std::uint64_t kLogFileUnit = 4096;

/// Begins a file. Written when the file is begun, before its first group.
struct LogFileHeader {
  std::uint64_t checksum;     // XXH3 of all that follows in the header
  std::uint32_t magic;        // kLogFileMagic
  std::uint32_t format;       // kCommitLogFormat
  std::uint64_t first;        // LSN of the file's first byte: the header's
  std::uint64_t size;         // of the file
  std::uint64_t incarnation;  // of the writer that began the file
  std::uint64_t previous;     // checksum of the last group before the file; of the first file: 0
  std::uint64_t reserved[2];  // 0
};
static_assert(sizeof(LogFileHeader) == 64 && alignof(LogFileHeader) == 8);
static_assert(offsetof(LogFileHeader, magic) == 8 && offsetof(LogFileHeader, format) == 12);
static_assert(offsetof(LogFileHeader, first) == 16 && offsetof(LogFileHeader, size) == 24);
static_assert(offsetof(LogFileHeader, incarnation) == 32 && offsetof(LogFileHeader, previous) == 40);
static_assert(std::has_unique_object_representations_v<LogFileHeader>);

inline constexpr std::uint32_t kLogFileMagic = 0x474f4c52;   // "RLOG"
inline constexpr std::uint32_t kLogGroupMagic = 0x50524752;  // "RGRP"

/// Begins a group.
struct LogGroupHeader {
  std::uint64_t checksum;       // XXH3 of all that follows in the group
  std::uint32_t magic;          // kLogGroupMagic
  std::uint32_t size;           // of the group, header included
  std::uint64_t lsn;            // of the group's first byte
  std::uint64_t incarnation;    // of its writer; not 0
  std::uint64_t previous;       // checksum of the group before
  std::uint64_t first_version;  // of the first entry
  std::uint64_t synced_to;      // LSN up to which the log was on the disk when this group was written
  std::uint32_t count;          // of entries; not 0
  std::uint32_t reserved;       // 0
};
static_assert(sizeof(LogGroupHeader) == 64 && alignof(LogGroupHeader) == 8);
static_assert(offsetof(LogGroupHeader, magic) == 8 && offsetof(LogGroupHeader, size) == 12);
static_assert(offsetof(LogGroupHeader, lsn) == 16 && offsetof(LogGroupHeader, incarnation) == 24);
static_assert(offsetof(LogGroupHeader, previous) == 32 && offsetof(LogGroupHeader, first_version) == 40);
static_assert(offsetof(LogGroupHeader, synced_to) == 48 && offsetof(LogGroupHeader, count) == 56);
static_assert(std::has_unique_object_representations_v<LogGroupHeader>);

enum class LogEntryKind : std::uint8_t {
  kPut = 1,     // the key has this value
  kDelete = 2,  // the key is gone; the value is empty
  kMeta = 3,    // of the store itself: what the value means, the key says; an empty one removes the key
};

/// LogEntryHeader::flags.
inline constexpr std::uint8_t kHasRequest = 1;

struct LogEntryHeader {
  std::uint64_t version;
  std::uint64_t expiry_ms;  // Unix time; 0: never
  std::uint32_t value_size;
  std::uint16_t key_size;
  LogEntryKind kind;
  std::uint8_t flags;
};
static_assert(sizeof(LogEntryHeader) == 24 && alignof(LogEntryHeader) == 8);
static_assert(offsetof(LogEntryHeader, value_size) == 16 && offsetof(LogEntryHeader, key_size) == 20);
static_assert(offsetof(LogEntryHeader, kind) == 22 && offsetof(LogEntryHeader, flags) == 23);
static_assert(std::has_unique_object_representations_v<LogEntryHeader>);

/// The request that an entry comes from, and its outcome (store/durable/completion_records.h).
struct LogRequest {
  std::uint64_t client;  // not 0
  std::uint64_t number;
  std::int64_t result;
};
static_assert(sizeof(LogRequest) == 24 && std::has_unique_object_representations_v<LogRequest>);

/// An entry as a writer gives it, and a reader shows it. Whoever shows it owns the bytes.
struct LogEntry {
  LogEntryKind kind = LogEntryKind::kPut;
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;
  std::string_view key{};
  std::string_view value{};
  RequestName request{};  // of nobody: client 0
  std::int64_t result = 0;
};

}  // namespace remora
