// A client's knowledge of its server, from the server's hello, superblock and replies.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "client/session/known_slots.h"
#include "client/session/server_clock.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/key_search.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Knowledge of one server, valid until the connection breaks (Forget). The clock outlives it.
///
/// The class has more than 25 methods, because each optional operation of a server has one.
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
  /// Takes the answer to a hello that was sent at `sent`. REQUIRES: the answer was checked.
  void TakeHello(const HelloReply& hello, TimePoint sent) {
    hello_ = hello;
    server_time_.Learn(hello.server_ms, sent, clock_.Now());
    is_loading_ = (hello.flags & kLoading) != 0;
  }
  /// Takes the shape and state of the store from its superblock. REQUIRES: both were checked.
  void TakeStore(const StoreShape& shape, std::chrono::milliseconds grace, std::uint32_t level,
                 std::uint64_t slots_word) {
    shape_ = shape;
    grace_ = grace;
    index_.level = level;
    slots_.Begin(slots_word);
  }
  /// Takes a reply's statement on whether the store is loading. That changes once, from loading to loaded, so
  /// a statement that arrives late does no harm.
  void TakeLoading(bool is_loading) {
    if (!is_loading) is_loading_ = false;
  }

  const HelloReply& hello() const { return hello_; }
  /// Returns the server's memory into which this client WRITEs payloads.
  const RemoteRegion& staging() const { return hello_.staging; }
  const RemoteRegion& memory() const { return hello_.memory; }
  /// Returns whether the client has no staging memory. Then the payload goes along with the request.
  bool is_read_only() const { return (hello_.flags & ReplyFlag::kReadOnly) != 0; }
  /// Returns whether results count under a lease alone.
  bool has_lease() const { return (hello_.flags & ReplyFlag::kHasLease) != 0; }
  /// Returns whether the server takes requests for its settings.
  bool has_settings() const { return (hello_.flags & ReplyFlag::kHasSettings) != 0; }
  /// Returns whether clients can READ the leaves of the server's ordered index.
  bool has_leaves() const { return (hello_.flags & ReplyFlag::kHasLeaves) != 0; }
  bool has_topology() const { return (hello_.flags & ReplyFlag::kHasTopology) != 0; }
  /// Returns how many requests of this client the server allows in flight.
  std::size_t credits() const { return hello_.credits; }

  const StoreShape& shape() const { return shape_; }
  Duration grace() const { return grace_; }
  /// Returns the client's view of the index, which may be old.
  IndexView& index() { return index_; }
  const IndexView& index() const { return index_; }
  /// Returns whether a key that is not in the index may exist nevertheless.
  bool is_loading() const { return is_loading_; }
  /// Returns the slots of a cluster that the server has.
  KnownSlots& slots() { return slots_; }
  const KnownSlots& slots() const { return slots_; }

  /// Returns whether data read since `start`, a time of Clock::Coarse, is still valid (layout.h, I6).
  bool InTime(TimePoint start) const { return clock_.Coarse() - start <= grace_; }

  // Expiry.
  ServerTime& server_time() { return server_time_; }
  /// Returns whether a record that was read since `start` has expired. Reads no clock if it never expires.
  ServerTime::Life LifeOf(std::uint64_t expiry_ms, TimePoint start) const {
    return expiry_ms == 0 ? ServerTime::Life::kAlive : server_time_.Of(expiry_ms, start, clock_.Now());
  }
  /// Returns whether a record that was read just now has certainly not expired.
  bool IsAlive(std::uint64_t expiry_ms) const {
    const TimePoint now = clock_.Now();
    return server_time_.Of(expiry_ms, now, now) == ServerTime::Life::kAlive;
  }
  /// Returns the time until a record expires, or a little less. REQUIRES: expiry_ms is not 0.
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
  KnownSlots slots_;
  IndexView index_;
};

}  // namespace remora
