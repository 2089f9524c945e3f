// Format of the commit log: one endless sequence of groups, in files of a fixed size.
//
// The LSN of a byte is its offset in the sequence. A file is named by the LSN of its first byte, and
// the next file begins where it ends. So the name of a file is known before it has any content.
//
//   0000000004000000.log                                0000000008000000.log
//   ┌───────────────┬───────┬───────┬─────┬───────────┐ ┌───────────────┬───────┬─────
//   │ LogFileHeader │ group │ group │ ... │ left over │ │ LogFileHeader │ group │ ...
//   └───────────────┴───────┴───────┴─────┴───────────┘ └───────────────┴───────┴─────
//     64 bytes
//
//   A group lies within one file. A group that does not fit behind the last group of a file begins
//   the next file. The bytes left over are zeros, or old content from before the file was recycled.
//
//   group, a multiple of 8 bytes              entry, a multiple of 8 bytes
//   ┌────────────────┬───────┬───────┬─────┐  ┌────────────────┬────────────┬─────┬───────┬─────┐
//   │ LogGroupHeader │ entry │ entry │ ... │  │ LogEntryHeader │ LogRequest │ key │ value │ pad │
//   └────────────────┴───────┴───────┴─────┘  └────────────────┴────────────┴─────┴───────┴─────┘
//     64 bytes                                  24 bytes         0 or 24
//
//   LogRequest is present if the flag kHasRequest is set. The pad is zeros.
//
// A group *verifies* at an LSN if its magic, LSN and checksum are right and its entries fill it.
// Group B *follows* group A if B's field `previous` is the checksum of A. The log is the chain of
// groups that begins in the first file. It ends before the first group that does not verify or does
// not follow.
//
//   L1 An old group of a recycled file never verifies: its LSN differs, and the checksum covers the
//      LSN.
//   L2 An earlier writer may leave a group behind the end of the log. That group never follows a
//      group that was written later. The checksum of the later group covers the incarnation of its
//      writer, which no other writer has.
//   L3 The first group of a file follows the last group of the file before. So if the end of a file
//      is lost, the log ends there, regardless of the content of the next file.
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

/// Offset of a byte in the log. LSN 0 is before the first byte of any group.
struct Lsn {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(const Lsn&, const Lsn&) = default;
};
constexpr Lsn operator+(Lsn lsn, std::uint64_t bytes) { return {lsn.value + bytes}; }
/// Returns the number of bytes between two LSNs. REQUIRES: `from` <= `to`.
constexpr std::uint64_t operator-(Lsn to, Lsn from) { return to.value - from.value; }

inline constexpr Lsn kMaxLsn{~std::uint64_t{0}};

inline constexpr std::uint32_t kCommitLogFormat = 1;

/// Groups and entries begin at multiples of this.
inline constexpr std::size_t kLogAlignment = 8;

inline constexpr std::uint64_t kMinLogFileSize = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kMaxLogFileSize = std::uint64_t{1} << 30;
/// The size of a file is a multiple of this.
inline constexpr std::uint64_t kLogFileUnit = 4096;

/// The first bytes of a file. The writer stores it before the first group of the file.
struct LogFileHeader {
  std::uint64_t checksum;     // XXH3 of all later bytes of the header
  std::uint32_t magic;        // kLogFileMagic
  std::uint32_t format;       // kCommitLogFormat
  std::uint64_t first;        // LSN of the file's first byte, which is the header's first byte
  std::uint64_t size;         // bytes of the file
  std::uint64_t incarnation;  // of the writer that began the file
  std::uint64_t previous;     // checksum of the last group before the file; 0 in the first file
  std::uint64_t reserved[2];  // 0
};
static_assert(sizeof(LogFileHeader) == 64 && alignof(LogFileHeader) == 8);
static_assert(offsetof(LogFileHeader, magic) == 8 && offsetof(LogFileHeader, format) == 12);
static_assert(offsetof(LogFileHeader, first) == 16 && offsetof(LogFileHeader, size) == 24);
static_assert(offsetof(LogFileHeader, incarnation) == 32 && offsetof(LogFileHeader, previous) == 40);
static_assert(std::has_unique_object_representations_v<LogFileHeader>);

inline constexpr std::uint32_t kLogFileMagic = 0x474f4c52;   // "RLOG"
inline constexpr std::uint32_t kLogGroupMagic = 0x50524752;  // "RGRP"

/// The first bytes of a group.
struct LogGroupHeader {
  std::uint64_t checksum;       // XXH3 of all later bytes of the group
  std::uint32_t magic;          // kLogGroupMagic
  std::uint32_t size;           // bytes of the group, including this header
  std::uint64_t lsn;            // of the group's first byte
  std::uint64_t incarnation;    // of its writer; not 0
  std::uint64_t previous;       // checksum of the group before
  std::uint64_t first_version;  // of the first entry
  std::uint64_t synced_to;      // LSN up to which the log was on the disk when the group was written
  std::uint32_t count;          // number of entries; not 0
  std::uint32_t reserved;       // 0
};
static_assert(sizeof(LogGroupHeader) == 64 && alignof(LogGroupHeader) == 8);
static_assert(offsetof(LogGroupHeader, magic) == 8 && offsetof(LogGroupHeader, size) == 12);
static_assert(offsetof(LogGroupHeader, lsn) == 16 && offsetof(LogGroupHeader, incarnation) == 24);
static_assert(offsetof(LogGroupHeader, previous) == 32 && offsetof(LogGroupHeader, first_version) == 40);
static_assert(offsetof(LogGroupHeader, synced_to) == 48 && offsetof(LogGroupHeader, count) == 56);
static_assert(std::has_unique_object_representations_v<LogGroupHeader>);

enum class LogEntryKind : std::uint8_t {
  kPut = 1,     // gives the key this value
  kDelete = 2,  // deletes the key; the value is empty
  kMeta = 3,    // the store's own data: the key says what the value means; an empty value removes the key
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

/// The request that caused an entry. With the entry's version, it makes the completion record
/// (store/durable/completion_records.h).
struct LogRequest {
  std::uint64_t client;  // not 0
  std::uint64_t number;
  std::int64_t result;
};
static_assert(sizeof(LogRequest) == 24 && std::has_unique_object_representations_v<LogRequest>);

/// An entry, decoded. The writer or reader that hands it over owns the bytes of `key` and `value`.
struct LogEntry {
  LogEntryKind kind = LogEntryKind::kPut;
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;
  std::string_view key{};
  std::string_view value{};
  RequestId request{};  // client 0: no request caused the entry
  std::int64_t result = 0;
};

}  // namespace remora
