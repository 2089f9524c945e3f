// A record that a GET has read: its copy, the result of verifying the copy, and functions that copy the value
// to the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/get/chunked_read.h"
#include "store/format/memory/record.h"

namespace remora {

/// Version and expiry of a record.
struct RecordFacts {
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // store/format/types/expiry.h
};

/// Copy of the bytes at a slot's place, with the result of verifying them.
struct RecordCopy {
  RecordHeader header{};
  const std::byte* body = nullptr;  // null: the record was read in chunks, into its ValueTarget
  RecordState state = RecordState::kTorn;
  bool proven = false;  // the result holds however long the reading took

  std::string_view Value() const {
    return {reinterpret_cast<const char*>(body) + header.key_size, header.value_size};
  }
  RecordFacts facts() const { return {header.version_live >> 1, header.expiry_ms}; }
};

/// Verifies a whole record that was read from its place, and stores the result. *record points into `bytes`.
[[gnu::always_inline]] inline void VerifyCopy(std::span<const std::byte> bytes, const WantedRecord& wanted,
                                              RecordCopy* record) {
  std::memcpy(&record->header, bytes.data(), sizeof(record->header));
  record->body = bytes.data() + sizeof(record->header);
  record->state = CheckRecord(record->header, record->body, wanted.key, wanted.key_hash, wanted.place);
  record->proven = false;
}

/// Returns OutOfRange if a value of this size exceeds the memory that the caller provided for it.
inline absl::Status CheckFits(std::uint64_t size, const rdma::Sge& memory) {
  if (size <= memory.size) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("get: the value has ", size, " bytes, the buffer ", memory.size,
                                            "; register one that large"));
}

/// Copies as memcpy does, and calls memcpy only for sizes that are not small. REQUIRES: `from` and `to` do
/// not overlap.
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
  } else if (size > 0) {  // an empty view may have a null address, which memcpy does not accept
    std::memcpy(to, from, size);
  }
}

/// Copies to a string. If the string already has the right size, this is cheaper than assign.
[[gnu::always_inline]] inline void Assign(std::string_view value, std::string* to) {
  if (to->size() != value.size()) {
    to->assign(value);
  } else {
    CopySmall(to->data(), value.data(), value.size());
  }
}

}  // namespace remora
