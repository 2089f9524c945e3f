// PUT of a value that does not go through the slice (store/format/protocol.h): reserve room, fill it, commit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "client/session.h"
#include "store/format/record.h"
#include "store/format/write_options.h"

namespace remora {

/// Key and value, one behind the other, as they are sent; hashes the value as it goes by. Both outlive this.
///
/// Thread Safety: none.
class LargeStream {
 public:
  LargeStream(std::string_view key, std::string_view value) : key_(key), value_(value) {}

  bool empty() const { return left() == 0; }
  std::size_t left() const { return key_.size() + value_.size(); }
  /// Copies the next bytes into `into`; returns what of it was filled.
  std::span<std::byte> Take(std::span<std::byte> into) {
    const std::size_t key_bytes = std::min(key_.size(), into.size());
    std::memcpy(into.data(), key_.data(), key_bytes);
    const std::size_t value_bytes = std::min(value_.size(), into.size() - key_bytes);
    std::memcpy(into.data() + key_bytes, value_.data(), value_bytes);
    // What was copied, and not the original: that is not in the cache by now, and may have changed.
    hasher_.Add(into.data() + key_bytes, value_bytes);
    key_.remove_prefix(key_bytes);
    value_.remove_prefix(value_bytes);
    return into.first(key_bytes + value_bytes);
  }
  /// REQUIRES: all was taken.
  std::uint64_t value_hash() const { return hasher_.Hash(); }

 private:
  std::string_view key_;
  std::string_view value_;
  ValueHasher hasher_;
};

/// As Put, for values of more than kMaxSmallValueSize. The value passes through the session's own buffer in
/// pieces: nothing is allocated or registered for it, and its bytes need not be memory that can be.
absl::Status PutLarge(Session& session, std::string_view key, std::string_view value,
                      const PutOptions& options);

}  // namespace remora
