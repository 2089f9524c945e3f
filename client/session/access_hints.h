// The keys that were read last, for a server whose memory fills: it does not see reads, and has to know which
// records are used. They go along with the next request, whatever it is; and with one of their own when
// there is none for a while.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "store/format/wire/messages.h"

namespace remora {

/// Thread Safety: none.
class AccessHints {
 public:
  /// As the server's last reply said.
  void set_wanted(bool wanted) { wanted_ = wanted; }

  /// Whether it now holds as many as go into one request.
  bool Note(std::uint64_t key_hash) {
    if (!wanted_) return false;
    hashes_[count_++ % kMaxReads] = key_hash;
    return count_ >= kMaxReads;
  }

  /// Bytes that Take would copy.
  std::size_t bytes() const { return std::min(count_, kMaxReads) * sizeof(std::uint64_t); }

  /// Copies them to `to`, which has room for kMaxReads, and forgets them. Returns how many they are.
  std::size_t Take(std::byte* to) {
    const std::size_t taken = std::min(count_, kMaxReads);
    std::memcpy(to, hashes_.data(), taken * sizeof(std::uint64_t));
    count_ = 0;
    return taken;
  }

 private:
  bool wanted_ = false;
  std::size_t count_ = 0;  // since the last Take
  std::array<std::uint64_t, kMaxReads> hashes_;
};

}  // namespace remora
