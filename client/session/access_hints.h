// The keys that the client read last, for a server whose memory fills. The server does not see reads, but has
// to know which records are in use. The hints go along with the next request of any kind. If none comes for a
// while, the client sends a request only for them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "store/base/clock.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Hashes of the keys read since the last request.
///
/// Thread safety: none.
class AccessHints {
 public:
  /// Turns the hints on or off, as the server's last reply asks.
  void set_wanted(bool wanted) { wanted_ = wanted; }

  /// Notes a read. Returns whether the hints now fill one request.
  bool Note(std::uint64_t key_hash) {
    if (!wanted_) return false;
    hashes_[count_++ % kMaxReads] = key_hash;
    return count_ >= kMaxReads;
  }

  /// Returns whether a request is due that only reports reads. Then it counts as sent at `now`.
  bool TakeReport(TimePoint now) {
    if (now - reported_ < kReportPause) return false;
    reported_ = now;
    return true;
  }

  /// Returns how many bytes Take would copy.
  std::size_t bytes() const { return std::min(count_, kMaxReads) * sizeof(std::uint64_t); }

  /// Copies the hashes to `to`, which has space for kMaxReads of them, and forgets them. Returns their
  /// number.
  std::size_t Take(std::byte* to) {
    const std::size_t taken = std::min(count_, kMaxReads);
    std::memcpy(to, hashes_.data(), taken * sizeof(std::uint64_t));
    count_ = 0;
    return taken;
  }

 private:
  /// Shortest pause between two requests that only report reads.
  static constexpr std::chrono::milliseconds kReportPause{100};

  bool wanted_ = false;
  std::size_t count_ = 0;  // since the last Take
  TimePoint reported_;     // when a request that only reports reads was last due
  std::array<std::uint64_t, kMaxReads> hashes_;
};

}  // namespace remora
