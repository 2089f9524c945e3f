// The change feed: all writes, in their order, from a position in that order on.
//
// All writes of a durable tier have numbers, which increase: its sequence, across restarts. Each
// time that a store is opened is an incarnation. A power cut takes writes back, and a data
// directory may be restored from a copy. In both cases the sequence continues with other writes under
// the same numbers. So a data directory keeps a list of its incarnations, and the sequence with which
// each began. A reader's position is valid if the list has its incarnation, and the next incarnation did
// not begin before that position. Else the directory has other writes under the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace remora {

/// Kind of a change, also in a page. 0 is none.
enum class ChangeKind : std::uint8_t {
  kPut = 1,     // the key has this value: by any write that stores one
  kDelete = 2,  // the key is gone: deleted, or expired and removed
};

/// One change. Its bytes belong to the object that shows it.
struct Change {
  ChangeKind kind{};
  std::uint64_t sequence = 0;   // the write's number, which grows from one to the next
  std::uint64_t version = 0;    // of a deletion: 0
  std::uint64_t expiry_ms = 0;  // in ms since 1970 by the server's clock; 0: never
  std::string_view key{};
  std::string_view value{};
};

/// The position in the order of writes at which a feed continues.
struct ChangePosition {
  std::uint64_t incarnation = 0;  // in which `sequence` was shown, or might have been; 0: from now on
  std::uint64_t sequence = 0;     // of the next change to be shown
  friend bool operator==(const ChangePosition&, const ChangePosition&) = default;
};
static_assert(std::has_unique_object_representations_v<ChangePosition>);

/// Says which changes a watch shows, and where it begins. The watch copies the strings.
struct WatchOptions {
  /// Shows changes of keys that begin with this. Empty: of all.
  std::string_view prefix{};
  /// Resume token of a StoreWatch or ClientWatch: continues behind the change that was shown last
  /// when it was given. Empty: shows writes from now on.
  std::string_view resume_token{};
};

/// Header of each change in a page (store/format/wire/scan_messages.h).
struct ChangeEntry {
  std::uint64_t sequence = 0;
  std::uint64_t version = 0;    // of a deletion: 0
  std::uint64_t expiry_ms = 0;  // of the server's clock; 0: never
  std::uint32_t value_size = 0;
  std::uint16_t key_size = 0;
  ChangeKind kind{};
  std::uint8_t reserved = 0;
};
static_assert(sizeof(ChangeEntry) == 32 && offsetof(ChangeEntry, sequence) == 0);
static_assert(std::has_unique_object_representations_v<ChangeEntry>);

}  // namespace remora
