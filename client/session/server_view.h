// What a client knows of its server, from its hello, its superblock and its replies.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "client/session/server_clock.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/key_search.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Knowledge of one server, until the connection breaks: Forget. The clock outlives it.
///
/// Thread safety: none.
class ServerView {
 public:
  explicit ServerView(const Clock& clock) : clock_(clock) {}

  void Forget() {
    hello_ = {};
    server_time_ = {};
    index_ = {};
  }
  /// The answer to a hello that was sent at `sent`. REQUIRES: it was checked.
  void TakeHello(const HelloReply& hello, TimePoint sent) {
    hello_ = hello;
    server_time_.Learn(hello.server_ms, sent, clock_.Now());
    is_loading_ = (hello.flags & kLoading) != 0;
  }
  /// REQUIRES: as TakeHello.
  void TakeStore(const StoreShape& shape, std::chrono::milliseconds grace, std::uint32_t level) {
    shape_ = shape;
    grace_ = grace;
    index_.level = level;
  }
  /// A reply says whether the store is loading. It goes from loading to loaded once: a reply that is heard
  /// late is no less true.
  void TakeLoading(bool is_loading) {
    if (!is_loading) is_loading_ = false;
  }

  const HelloReply& hello() const { return hello_; }
  /// The server's memory for what this client WRITEs.
  const RemoteRegion& staging() const { return hello_.slice; }
  const RemoteRegion& memory() const { return hello_.memory; }
  /// There is no staging memory: what would go there goes along with the request.
  bool is_read_only() const { return (hello_.flags & ReplyFlag::kReadOnly) != 0; }
  /// Requests that the server takes from this client at a time.
  std::size_t credits() const { return hello_.credits; }

  const StoreShape& shape() const { return shape_; }
  Duration grace() const { return grace_; }
  /// The growth of the index, as far as it is known.
  IndexView& index() { return index_; }
  const IndexView& index() const { return index_; }
  /// Whether a key that the index does not have may exist all the same.
  bool is_loading() const { return is_loading_; }

  /// Whether what was read since `start` (of Clock::Coarse) is still to be trusted (layout.h, I6).
  bool InTime(TimePoint start) const { return clock_.Coarse() - start <= grace_; }

  // Expiry.
  ServerTime& server_time() { return server_time_; }
  /// Whether a record has expired that was read since `start`; for those that never do, it reads no clock.
  ServerTime::Life LifeOf(std::uint64_t expiry_ms, TimePoint start) const {
    return expiry_ms == 0 ? ServerTime::Life::kAlive : server_time_.Of(expiry_ms, start, clock_.Now());
  }
  /// Whether a record that was read just now has not expired, for sure.
  bool IsAlive(std::uint64_t expiry_ms) const {
    const TimePoint now = clock_.Now();
    return server_time_.Of(expiry_ms, now, now) == ServerTime::Life::kAlive;
  }
  /// Time until a record expires, or a little less. REQUIRES: it does.
  std::chrono::milliseconds TimeLeft(std::uint64_t expiry_ms) const {
    const std::int64_t left = static_cast<std::int64_t>(expiry_ms) - server_time_.Latest(clock_.Now());
    return std::chrono::milliseconds(std::max<std::int64_t>(left, 0));
  }

 private:
  const Clock& clock_;
  HelloReply hello_;
  StoreShape shape_;
  std::chrono::milliseconds grace_{0};
  ServerTime server_time_;
  bool is_loading_ = false;
  IndexView index_;
};

}  // namespace remora
