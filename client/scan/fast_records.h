// The records of many keys one after the other, where a READ is a copy (client/get/fast_get.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "client/get/fast_get.h"
#include "client/session/leaf_scan_memory.h"
#include "client/session/session.h"

namespace remora {

/// Appends the entries of keys to *page, up to the first key that the fast path does not answer, or until the
/// page has `most_bytes`. Returns how many keys it has answered. `key_at` returns the key of a number below
/// `count`, and the same each time. `keys_only`: the values are verified, and not appended.
///
/// While it copies a record, it prefetches those of the keys behind, and the index' lines of the keys behind
/// these. So a CPU waits for few of them. REQUIRES: FastGet::IsFor the session; the keys are in bounds.
template <typename KeyAt>
std::size_t AppendFast(Session& session, std::size_t count, const KeyAt& key_at, bool keys_only,
                       std::size_t most_bytes, EntryPage* page) {
  constexpr std::size_t kLinesAhead = 12;   // keys whose line is prefetched
  constexpr std::size_t kRecordsAhead = 6;  // of them, those whose record is
  struct Glance {
    FastGet look;
    std::uint64_t key_hash;
    bool is_found;
  };
  std::array<Glance, 16> glances;  // of key i: i modulo their number
  static_assert(kLinesAhead < std::tuple_size_v<decltype(glances)>);
  const auto of = [&](std::size_t i) -> Glance& { return glances[i % glances.size()]; };
  const auto find_line = [&](std::size_t i) {
    Glance& glance = of(i);
    glance.key_hash = HashKey(key_at(i));
    glance.is_found = glance.look.FindLine(session, glance.key_hash);
    if (glance.is_found) glance.look.PrefetchLine(session);
  };
  const auto find_record = [&](std::size_t i) {
    Glance& glance = of(i);
    glance.is_found = glance.is_found && glance.look.FindRecord(session, glance.key_hash);
    if (glance.is_found) glance.look.PrefetchRecord(session);
  };
  for (std::size_t i = 0; i < count && i < kLinesAhead; ++i) find_line(i);
  for (std::size_t i = 0; i < count && i < kRecordsAhead; ++i) find_record(i);
  for (std::size_t i = 0; i < count; ++i) {
    if (page->size() >= most_bytes) return i;
    if (i + kLinesAhead < count) find_line(i + kLinesAhead);
    if (i + kRecordsAhead < count) find_record(i + kRecordsAhead);
    const Glance& glance = of(i);
    const std::string_view key = key_at(i);
    const std::size_t before = page->size();
    const bool is_done =
        glance.is_found &&
        TakeVerified(session, glance.look, key, glance.key_hash, [&](const LiveRecord& record) {
          page->Append(key, keys_only ? std::string_view() : record.value, record.version, record.expiry_ms);
        });
    if (is_done) continue;
    page->CutTo(before);
    return i;
  }
  return count;
}

}  // namespace remora
