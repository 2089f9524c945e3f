// An operator's wish that another member in sync becomes the primary (`kvctl cluster switch`).
//
//   kPromote ─▶ member ──kFollowYields──▶ primary: begins no round for T, then takes no write until all
//               takes over ◀───reply────           have all groups
//
// Nothing relies on this: a member in sync may take over from a primary that serves, as from one that is
// dead, and serves T after its last answer. It is only that T is over by then, and that nothing is left to be
// given up. So the primary may go on at any time, as it does after a failure of each kind.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "server/replication/membership.h"
#include "server/request/pending_request.h"
#include "store/base/clock.h"
#include "store/format/wire/replication_messages.h"

namespace remora {

/// The state of both sides. A state machine without I/O.
///
/// Thread safety: none; the server's one thread.
class Handover {
 public:
  // --- The primary

  /// Begins to yield to the member that has asked. `lease_time`: T.
  void BeginYield(const PendingRequest& asked, TimePoint now, Duration lease_time) {
    yield_ = Yield{.asked = asked, .drains_at = now + lease_time};
  }
  bool is_yielding() const { return yield_.has_value(); }
  /// Returns whether writes wait.
  bool holds_writes() const { return yield_ && yield_->gives_up_at; }

  enum class Next : std::uint8_t { kNothing = 1, kAnswers, kRejects, kGoesOn };
  /// Returns what there is to do. `is_drained`: all members that count have all groups. Behind kRejects and
  /// kGoesOn, it does not yield any more.
  Next Step(TimePoint now, bool is_drained) {
    if (!yield_ || now < yield_->drains_at) return Next::kNothing;
    if (!yield_->gives_up_at) {
      yield_->gives_up_at = now + kDrainTime;
      yield_->answers_at = now + kLastWrites;
      return Next::kNothing;
    }
    if (yield_->asked.session != nullptr && is_drained && now >= yield_->answers_at) {
      yield_->gives_up_at = now + kYieldTime;
      return Next::kAnswers;
    }
    if (now < *yield_->gives_up_at) return Next::kNothing;
    return yield_->asked.session != nullptr ? Next::kRejects : Next::kGoesOn;
  }
  /// Returns the request that is to be answered. It is answered once.
  PendingRequest TakeYield() { return std::exchange(yield_->asked, PendingRequest{}); }
  void EndYield() { yield_.reset(); }
  /// Returns when Step has work because of the time.
  std::optional<TimePoint> next_work() const {
    if (!yield_) return std::nullopt;
    if (!yield_->gives_up_at) return yield_->drains_at;
    return yield_->asked.session != nullptr ? std::max(yield_->answers_at, yield_->drains_at)
                                            : *yield_->gives_up_at;
  }

  // --- The member that is to take over

  MemberWish wish() const { return asked_ ? wish_ : MemberWish::kNone; }
  void Ask(const PendingRequest& asked, MemberWish wish) {
    asked_ = asked;
    wish_ = wish;
  }
  /// REQUIRES: there is a wish.
  PendingRequest TakeAsked() { return *std::exchange(asked_, std::nullopt); }

  void Forget(ClientSession& session) {
    if (asked_ && asked_->session == &session) asked_.reset();
    if (yield_ && yield_->asked.session == &session) yield_.reset();
  }

 private:
  // Time for the members to get the last groups.
  static constexpr std::chrono::seconds kDrainTime{2};
  // Time for writes that the server has taken before to become groups.
  static constexpr std::chrono::milliseconds kLastWrites{5};

  struct Yield {
    PendingRequest asked;  // no session: it was answered
    TimePoint drains_at;   // then it takes no writes
    TimePoint answers_at{};
    std::optional<TimePoint> gives_up_at{};
  };

  std::optional<Yield> yield_;
  std::optional<PendingRequest> asked_;
  MemberWish wish_ = MemberWish::kNone;  // of that
};

}  // namespace remora
