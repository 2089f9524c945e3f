// Bytes of scans, between client and server (messages.h).
//
//   WRITE ScanStart, begin, end, after into the staging buffer
//   SEND Request (scan)             ->   the server opens a cursor: one moment of what is stored
//                                    <-  WRITE a page into the client's window, SEND Reply
//   SEND Request (scan_next)        ->
//                                    <-  WRITE the next page, SEND Reply
//   ... until a reply says that the cursor is no more: this was all of it
//
// Pages are pieces of one stream: for each key, a ScanEntry, the key, the value. A page may end
// anywhere in an entry that is larger than a page. It may also hold nothing, when the entries that
// the server met had expired: each request is answered after a bounded bit of work.
//
// A count and a deletion are asked for the same way. Instead of a page, each reply brings how many keys
// were counted, or deleted, for this request.
//
// Request (scan): key_size 0. value: ScanStart, begin, end; in any order, also the key to go on
// behind.
//
// Request (scan_next): key_size 0, nothing in the staging buffer. condition: the cursor.
// payload_offset and value_size: the place of the page in the window, and its size at the most.
// Both are 0 for a count and a deletion.
//
// Reply: version: the cursor, or 0 if there is none any more. result: bytes of the page, or keys.
// The slot of a reply that opens a scan may be kScanByHash. Then its keys come in the order of
// hash_order.h, as was allowed.
//
// A change feed (store/format/types/change.h) is a cursor that has no end: its entries are
// ChangeEntry, key, value. A page of it may be empty, where nothing was written, or nothing of the
// range. A waiting client READs the counter changes_end instead of asking. `limit` is 0, and
// ScanStart::from says where it begins. Reply: slot: the sequence behind the page's whole entries.
// Out of range: the changes from there on are not kept any more, or were taken back.
//
// A cursor belongs to its connection. A connection has kMaxCursors at most: the least recently used
// one gives way to another. One that is not used for kCursorSeconds ends. Not found: there is no
// such cursor, or not any more. Failed precondition has two cases. A store that is only in memory
// has no order of its keys, nor a log, unless its options ask for one. Any other store has no order by hashes
// to continue in. A count needs no order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>

#include "store/format/memory/layout.h"
#include "store/format/types/change.h"
#include "store/format/types/scan_range.h"
#include "store/format/wire/remote_region.h"

namespace remora {

enum class ScanKind : std::uint32_t {
  kEntries = 1,
  kKeys = 2,  // entries without values
  kCount = 3,
  kDelete = 4,
  kChanges = 5,
};

enum ScanFlag : std::uint32_t {
  kReverse = 1,
  kAnyOrder = 2,  // of entries and keys; not with kReverse
};

inline constexpr std::uint64_t kScanByHash = 1;

struct ScanStart {
  RemoteRegion window{};          // the client's, to WRITE pages into; of kCount and kDelete: none
  std::uint64_t page_offset = 0;  // in the window, of the first page
  std::uint32_t page_size = 0;    // at the most
  ScanKind kind{};
  std::uint64_t limit = 0;  // entries; 0: all
  std::uint64_t ends = 0;   // a cursor that the client needs no more; 0: none
  std::uint32_t flags = 0;  // ScanFlag
  std::uint16_t begin_size = 0;
  std::uint16_t end_size = 0;  // up to kMaxBoundSize
  ChangePosition from{};       // of changes; else zeros
};
static_assert(sizeof(ScanStart) == 80);  // messages.h: kMaxInlinePayload
static_assert(std::has_unique_object_representations_v<ScanStart>);

struct ScanEntry {
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // of the server's clock; 0: never
  std::uint32_t value_size = 0;
  std::uint16_t key_size = 0;
  std::uint16_t reserved = 0;
};
static_assert(sizeof(ScanEntry) == 24);
static_assert(std::has_unique_object_representations_v<ScanEntry>);

/// Size of the header of an entry of any kind, at the most.
inline constexpr std::size_t kMaxScanHeader = std::max(sizeof(ScanEntry), sizeof(ChangeEntry));

inline constexpr std::size_t kMinPageSize = 4096;
inline constexpr std::size_t kMaxPageSize = std::size_t{256} << 10;
inline constexpr std::size_t kMaxCursors = 4;
inline constexpr std::int64_t kCursorSeconds = 30;

/// Reads the start of a scan out of bytes that may be anything. Nothing: they are none.
inline std::optional<ScanStart> ReadScanStart(std::string_view bytes, ScanRange* range) {
  ScanStart start;
  if (bytes.size() < sizeof(start)) return std::nullopt;
  std::memcpy(&start, bytes.data(), sizeof(start));
  bytes.remove_prefix(sizeof(start));
  const std::size_t bounds_size = std::size_t{start.begin_size} + start.end_size;
  const bool any_order = start.flags == kAnyOrder;
  if (start.begin_size > kMaxBoundSize || start.end_size > kMaxBoundSize || bytes.size() < bounds_size ||
      bytes.size() - bounds_size > (any_order ? kMaxKeySize : 0) || start.flags > kAnyOrder) {
    return std::nullopt;
  }
  const bool is_feed = start.kind == ScanKind::kChanges;
  const bool has_pages = start.kind == ScanKind::kEntries || start.kind == ScanKind::kKeys || is_feed;
  if (any_order && (is_feed || !has_pages)) return std::nullopt;
  if (is_feed ? start.limit != 0 || start.flags != 0 : start.from != ChangePosition()) return std::nullopt;
  if (!has_pages && start.kind != ScanKind::kCount && start.kind != ScanKind::kDelete) return std::nullopt;
  if (!has_pages && (start.page_offset != 0 || start.page_size != 0 || start.limit != 0)) return std::nullopt;
  *range = {.begin = std::string(bytes.substr(0, start.begin_size)),
            .end = std::string(bytes.substr(start.begin_size, start.end_size)),
            .reverse = start.flags == kReverse,
            .by_hash = any_order,
            .after = std::string(bytes.substr(bounds_size))};
  return start;
}

/// Returns whether a page may go there.
inline bool IsPage(const RemoteRegion& window, std::uint64_t offset, std::uint64_t size) {
  return size >= kMinPageSize && size <= kMaxPageSize && window.Contains(offset, size);
}

}  // namespace remora
