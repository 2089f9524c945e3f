// The calls that have ended, for the next commands of their connection.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "tools/kvgate/call.h"

namespace remora::kvgate {

/// A few calls with little memory, so that a command mostly asks no allocator.
///
/// Thread safety: none.
class SpareCalls {
 public:
  /// Returns a call of the session, as a new one is.
  std::unique_ptr<Call> Take(Session& session, Services& services) {
    if (calls_.empty()) return std::make_unique<Call>(session, services);
    std::unique_ptr<Call> call = std::move(calls_.back());
    calls_.pop_back();
    call->Renew();
    return call;
  }
  /// Keeps a call that has ended, or destroys it. REQUIRES: it is of the session that Take is called with.
  void Keep(std::unique_ptr<Call> ended) {
    const bool is_small =
        ended->request.memory() + ended->reply.memory() <= kMostBytes && ended->invalidations.capacity() == 0;
    if (is_small && calls_.size() < kMost) calls_.push_back(std::move(ended));
  }

 private:
  static constexpr std::size_t kMost = 16;
  static constexpr std::size_t kMostBytes = 1024;  // of a request and its reply

  std::vector<std::unique_ptr<Call>> calls_;
};

}  // namespace remora::kvgate
