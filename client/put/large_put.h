// PUT of a value that does not go through the slice (store/format/wire/messages.h): reserve room, fill it,
// commit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "client/session/session.h"
#include "store/format/memory/record.h"
#include "store/format/types/write_options.h"

namespace remora {

/// Key and value, one behind the other, as they are sent; hashes the value as it goes by. Both outlive this.
/// A value in registered memory is sent from where it is.
///
/// Thread Safety: none.
class LargeStream {
 public:
  LargeStream(std::string_view key, const SentValue& value)
      : key_(key), value_(value.bytes), local_key_(value.local_key) {}

  bool empty() const { return left() == 0; }
  std::size_t left() const { return key_.size() + value_.size(); }
  /// The next bytes, as many as `room` has at most; what is copied is copied there.
  SgeList Take(const rdma::Sge& room) {
    const std::size_t key_bytes = std::min<std::size_t>(key_.size(), room.size);
    std::memcpy(room.data, key_.data(), key_bytes);
    const SentValue next{value_.substr(0, room.size - key_bytes), local_key_};
    rdma::Sge value{room.data + key_bytes, static_cast<std::uint32_t>(next.bytes.size()), room.local_key};
    if (local_key_) {
      value = next.sge();
    } else {
      std::memcpy(value.data, next.bytes.data(), value.size);
    }
    // What is sent: of a copy, the original is not in the cache by now, and may have changed.
    hasher_.Add(value.data, value.size);
    SgeList taken;
    taken.Add({room.data, static_cast<std::uint32_t>(key_bytes), room.local_key});
    taken.Add(value);
    key_.remove_prefix(key_bytes);
    value_.remove_prefix(value.size);
    return taken;
  }
  /// REQUIRES: all was taken.
  std::uint64_t value_hash() const { return hasher_.Hash(); }

 private:
  std::string_view key_;
  std::string_view value_;
  std::optional<std::uint32_t> local_key_;
  ValueHasher hasher_;
};

/// As Put, for values of more than kMaxSmallValueSize. Unless it is in registered memory, the value passes
/// through the session's own buffer in pieces: nothing is allocated or registered for it, and its bytes need
/// not be memory that can be.
absl::Status PutLarge(Session& session, std::string_view key, const SentValue& value,
                      const PutOptions& options);

}  // namespace remora
