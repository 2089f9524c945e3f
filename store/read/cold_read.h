// A read of a record that is only in the durable tier, for a caller that does not wait for the disk.
//
//   under the writers' lock    the key is looked for in memory; if it is not there, the read begins
//   without it, in any thread  the record is read from the durable tier, while writes go on
//   under the lock             if the record is still the key's, it is promoted, or the caller takes its
//   value
//                              and it stays where it is; else the read begins again
//
// The record that was read is the key's record in the end, because of these invariants:
//
//   D1 A read of a key begins, and its result is used, only while the key has no unsynced write. The durable
//      tier may show such a write before it is visible.
//   D2 The result is used only if the key has no record in memory. A write puts the key's record there, or
//      removes the key, in the same hold of the lock in which the tier gets it.
//   D3 A key that left memory since the read began has another mark (Index::ColdMarks), and the read begins
//      again. So the key was cold all the time, and D2 leaves no write of it.
//   D4 A key that the load has reached since the read began is read again. A key that the load has not
//      reached has had no write, because a write adds it to the coverage.
//   D5 The result is used only if its version is older than the start of the read. A newer one belongs to a
//      key that was written and deleted meanwhile, while another key has the same cold slot.
//
// A result "not found" is right for the same reasons: by D2 to D4, a key that exists in the end existed in
// the tier all the time.
//
// A write of such a key needs the record, too: its version, its expiry, or its value. The write is put off
// until the record was read (Write::may_read), and nothing of it is promoted.
//
//   D7 A record that was read decides a write only if D1 to D5 hold when the store stages the write. The
//      write becomes visible, or pending, in the same hold of the lock.
//
// server/request/parked_writes.h has the invariants of the requests that wait meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "store/base/clock.h"
#include "store/durable/format.h"

namespace remora {

/// Number of times that a read without the lock begins, before the key is read under the lock.
inline constexpr int kMaxColdReadBegins = 8;

/// State of a read. One thread at a time uses it.
struct ColdRead {
  std::string key{};
  std::uint64_t key_hash = 0;
  std::size_t most_value = ~std::size_t{0};  // a larger value is not needed: the header is enough
  bool is_for_write = false;

  // State of the store when the read began, under the lock.
  bool was_loaded = false;         // the index knew the key
  std::uint64_t marks = 0;         // Index::ColdMarks
  std::uint64_t versions_end = 0;  // greater than the versions of all writes until then
  int begins = 0;                  // number of times that it began

  // The result.
  absl::Status status{};  // NotFound: the tier has no record of the key
  StoredHeader header{};
  std::string value{};
  bool has_value = false;  // false: it has more than most_value bytes, and `value` is empty

  /// Takes the entry of the key as the result.
  void Take(const StoredEntry& entry) {
    header = entry.header;
    has_value = entry.value.size() <= most_value;
    value = has_value ? entry.value : std::string_view();
  }

  Duration took{};
};

}  // namespace remora
