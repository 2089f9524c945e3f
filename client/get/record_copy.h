// A record that a GET has read: its copy, the state that the copy verifies as, and the way of its value to
// the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "client/get/chunked_read.h"
#include "store/format/memory/record.h"

namespace remora {

/// Version and expiry of a record.
struct RecordFacts {
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // store/format/types/expiry.h
};

/// A copy of the bytes at a slot's place, verified.
struct RecordCopy {
  RecordHeader header{};
  const std::byte* body = nullptr;  // null: it was read in chunks, to where it was wanted
  RecordState state = RecordState::kTorn;
  bool proven = false;  // as PiecesRead

  std::string_view Value() const {
    return {reinterpret_cast<const char*>(body) + header.key_size, header.value_size};
  }
  RecordFacts facts() const { return {header.version_live >> 1, header.expiry_ms}; }
};

/// Verifies a whole record, as it was read from its place. Points into `bytes`.
[[gnu::always_inline]] inline void VerifyCopy(std::span<const std::byte> bytes, const WantedRecord& wanted,
                                              RecordCopy* record) {
  std::memcpy(&record->header, bytes.data(), sizeof(record->header));
  record->body = bytes.data() + sizeof(record->header);
  record->state = CheckRecord(record->header, record->body, wanted.key, wanted.key_hash, wanted.place);
  record->proven = false;
}

/// Copies as memcpy does, which it calls for others than small sizes only. REQUIRES: they do not overlap.
[[gnu::always_inline]] inline void CopySmall(char* to, const char* from, std::size_t size) {
  constexpr std::size_t kPart = 16;
  const auto copy = [&](std::size_t at) { std::memcpy(to + at, from + at, kPart); };
  if (size - 2 * kPart - 1 < 2 * kPart) {
    copy(0);
    copy(kPart);
    copy(size - 2 * kPart);
    copy(size - kPart);
  } else if (size - kPart <= kPart) {
    copy(0);
    copy(size - kPart);
  } else if (size > 0) {  // an empty view may have no address, which memcpy does not take
    std::memcpy(to, from, size);
  }
}

/// Copies to a string that often has the right size already: then half of assign's instructions.
[[gnu::always_inline]] inline void Assign(std::string_view value, std::string* to) {
  if (to->size() != value.size()) {
    to->assign(value);
  } else {
    CopySmall(to->data(), value.data(), value.size());
  }
}

}  // namespace remora
