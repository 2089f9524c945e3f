// Leases of clients on a primary that may have been replaced (store/format/memory/lease_line.h), in three
// settings. A client reads lines that say anything. A member's replies to a primary say anything. And a shard
// of honest servers, whose messages, clocks and failures the input moves, is never read under a lease once a
// member has taken over.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "client/session/read_lease.h"
#include "server/replication/follower_link.h"
#include "server/replication/follower_support.h"
#include "server/replication/lease_rounds.h"
#include "store/base/clock.h"
#include "store/format/memory/lease_line.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kIncarnation = 77;
constexpr TimePoint kNever{Duration::min() / 2};
constexpr int kMostActs = 2000;

// --- A client of a server whose line says anything ------------------------------------------------------

/// Follows what a ReadLease may hold at most, by all looks and answers that there were.
class LineReader {
 public:
  explicit LineReader(Input& input) : input_(input) {}

  void Act() {
    const auto what = input_.Take<std::uint8_t>();
    if (what % 4 == 0) now_ += milliseconds(input_.Take<std::uint16_t>() % 1024);
    if (what % 4 == 1 && lease_.is_on()) Answer();
    if (what % 4 >= 2) Look(NextLine());
    FUZZ_CHECK(lease_.end() <= latest_);
    FUZZ_CHECK(!lease_.is_on() || !lease_.Covers(now_) || lease_.Holds(now_ + Clock::kCoarseness));
  }

 private:
  struct Seen {
    TimePoint at;
    std::uint64_t begun = 0;
  };
  using Words = std::array<std::uint64_t, sizeof(LeaseLine) / 8>;

  Duration Span() const { return Duration(lease_.lease_time()) * 3 / 4; }
  void Answer() {
    const TimePoint asked = now_ - milliseconds(input_.Take<std::uint8_t>());
    lease_.TakeAnswer(asked);
    latest_ = std::max(latest_, asked + Span());
  }
  /// Returns the line that the server shows next: a plausible one, another one, or a mixture of two.
  LeaseLine NextLine() {
    const auto how = input_.Take<std::uint8_t>();
    const LeaseLine before = line_;
    const bool was_sealed = is_sealed_;
    line_.begun += how & 3;
    line_.done = line_.begun - (how >> 2 & 1);
    Words words = std::bit_cast<Words>(line_);
    if ((how & 8) != 0) words[input_.Take<std::uint8_t>() % words.size()] = input_.Take<std::uint64_t>();
    line_ = std::bit_cast<LeaseLine>(words);
    is_sealed_ = (how & 16) == 0;
    if (is_sealed_) line_.checksum = LeaseChecksum(line_, kIncarnation);
    if ((how & 32) == 0) return line_;
    words = std::bit_cast<Words>(line_);
    const auto torn = input_.Take<std::uint8_t>();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if ((torn >> i & 1) != 0) words[i] = std::bit_cast<Words>(before)[i];
    }
    const auto mixed = std::bit_cast<LeaseLine>(words);
    // Q1. Where the input sets the checksum, it may be that of the mixture.
    const bool is_mixture = was_sealed && is_sealed_ && mixed != before && mixed != line_;
    FUZZ_CHECK(!is_mixture || !ReadLease::IsWhole(mixed, kIncarnation));
    return mixed;
  }
  void Look(const LeaseLine& line) {
    if (!ReadLease::IsWhole(line, kIncarnation)) return;
    FUZZ_CHECK(line.begun - line.done <= 1 && line.lease_ms >= 200 && line.lease_ms <= 10'000);
    if (!lease_.is_on()) {
      FUZZ_CHECK(lease_.Begin(line, now_) == (line.epoch != 0));
      FUZZ_CHECK(!lease_.Holds(now_));
      if (lease_.is_on()) looks_.push_back({now_, line.begun});
      return;
    }
    const TimePoint before = lease_.end();
    if (!lease_.Take(line, now_)) {
      FUZZ_CHECK(lease_.end() == before);
      lease_.Forget();
      looks_.clear();
      latest_ = kNever;
      return;
    }
    // Q6: a round that began after an earlier look has ended.
    for (const Seen& look : looks_) {
      if (line.done > look.begun) latest_ = std::max(latest_, look.at + Span());
    }
    looks_.push_back({now_, line.begun});
  }

  Input& input_;
  TimePoint now_{std::chrono::seconds(1000)};
  ReadLease lease_;
  LeaseLine line_{.epoch = 3, .begun = 5, .done = 5, .lease_ms = 800, .reserved = {}, .checksum = 0};
  bool is_sealed_ = false;  // line_ has the checksum of its words
  std::vector<Seen> looks_;
  TimePoint latest_ = kNever;  // the last end that a lease may have
};

// --- A primary whose member answers anything ------------------------------------------------------------

/// Drives a FollowerLink and the rounds of its primary.
class LiedTo {
 public:
  explicit LiedTo(Input& input) : input_(input), last_(input.Take<std::uint8_t>()) {}

  /// Returns false once the link gives its member up.
  bool Act() {
    const auto what = input_.Take<std::uint8_t>();
    if (what % 4 == 0) Ask();
    if (what % 4 == 1) SendPart(std::size_t{1} + (what >> 2) * 40);
    if (what % 4 >= 2 && !TakeReply()) return false;
    FUZZ_CHECK(link_.answered() <= asked_);                                  // Q3
    FUZZ_CHECK(link_.acknowledged() <= sent_ && link_.next() == sent_ + 1);  // R4, R6
    const bool has_ended = rounds_.End(link_.answered());
    FUZZ_CHECK(!has_ended || link_.answered() == rounds_.begun());
    LeaseLine line = rounds_.line();
    line.checksum = LeaseChecksum(line, kIncarnation);
    FUZZ_CHECK(ReadLease::IsWhole(line, kIncarnation));
    return true;
  }

 private:
  static constexpr std::size_t kSlots = 4, kSlotSize = 1024;

  void Ask() {
    now_ += milliseconds(100);
    rounds_.Begin(now_);
    const std::optional<Request> request = link_.Ask(rounds_.begun());
    if (!request) return;
    FUZZ_CHECK(request->condition > asked_ && request->condition == rounds_.begun());
    asked_ = request->condition;
    Use(link_.ask_slot(), request->request_id);
  }
  void SendPart(std::size_t group_size) {
    if (offset_ == 0) group_size_ = group_size;
    const std::optional<FollowerLink::Part> part = link_.Next(group_size_);
    if (!part) return;
    FUZZ_CHECK(part->number == sent_ + 1 && part->offset == offset_ && part->size > 0);  // R4
    FUZZ_CHECK(part->size <= kSlotSize && part->offset + part->size <= group_size_);
    FUZZ_CHECK(part->slot != link_.ask_slot());
    Use(part->slot, part->request.request_id);
    offset_ += part->size;
    if (offset_ != group_size_) return;
    offset_ = 0;
    ++sent_;
  }
  void Use(std::size_t slot, std::uint64_t id) {
    FUZZ_CHECK(slot < kSlots && in_slot_[slot] == 0);  // R5
    in_slot_[slot] = id;
  }
  bool TakeReply() {
    const auto how = input_.Take<std::uint8_t>();
    Reply reply;
    reply.request_id = in_slot_[how % kSlots];
    reply.version = sent_;
    if ((how & 4) != 0) reply.request_id = input_.Take<std::uint64_t>();
    if ((how & 8) != 0) reply.version = input_.Take<std::uint64_t>();
    if ((how & 48) == 48) reply.status = static_cast<ReplyStatus>(input_.Take<std::uint8_t>());
    const auto slot = std::ranges::find(in_slot_, reply.request_id);
    const bool is_good = reply.request_id != 0 && slot != in_slot_.end() && reply.version <= sent_ &&
                         reply.status == ReplyStatus::kOk;
    const std::uint64_t acknowledged = link_.acknowledged(), answered = link_.answered();
    const bool is_taken = link_.TakeReply(reply, "text").ok();
    FUZZ_CHECK(is_taken == is_good);
    if (is_taken) *slot = 0;
    FUZZ_CHECK(is_taken || (link_.acknowledged() == acknowledged && link_.answered() == answered));
    FUZZ_CHECK(link_.acknowledged() >= acknowledged && link_.answered() >= answered);
    return is_taken;
  }

  Input& input_;
  const std::uint64_t last_;
  TimePoint now_{std::chrono::seconds(1000)};
  FollowerLink link_{kSlots, kSlotSize, last_, 0};
  LeaseRounds rounds_{3, milliseconds(800)};
  std::array<std::uint64_t, kSlots> in_slot_{};
  std::uint64_t sent_ = last_;
  std::uint64_t asked_ = 0;
  std::size_t group_size_ = 0, offset_ = 0;
};

// --- A shard of honest servers --------------------------------------------------------------------------

/// A primary, two members that follow it and may take over, and a client, each with a clock of its own.
class Shard {
 public:
  explicit Shard(Input& input) : input_(input) {
    for (Duration& rate : rates_) rate = Duration(16 + input_.Take<std::uint8_t>() % 5);  // up to a quarter
    for (std::size_t i = 0; i < members_.size(); ++i) Restart(i);
  }

  void Act() {
    const auto what = input_.Take<std::uint8_t>();
    const std::size_t i = what >> 4 & 1;
    Member& member = members_[i];
    switch (what % 16) {
      case 0:
      case 1:
      case 2:
        ticks_ += 1 + input_.Take<std::uint8_t>() * (what % 16 + 1);
        break;
      case 3:
      case 4:
      case 5:
        Lead();
        break;
      case 6:
      case 7:
        TakeRequest(i);
        break;
      case 8:
      case 9:
        TakeReply(member);
        break;
      case 10:
        Connect(i);
        break;
      case 11:
        if (what >= 224) Restart(i);
        break;
      case 12:
        member.is_sealed = member.is_sealed || what >= 192;  // it asks etcd for a takeover,
        member.leads = member.leads || what >= 224;          // and gets it; not by each request
        break;
      default:
        ActAsClient(what);
    }
    TakeOver();
    FUZZ_CHECK(lease_.end() <= replaced_at_);
  }

 private:
  struct Member {
    std::optional<FollowerLink> link{};        // the primary's end
    std::optional<FollowerSupport> support{};  // the member's
    std::deque<Request> requests{};            // in flight
    std::deque<Reply> replies{};               // in flight
    std::uint64_t answered = 0;                // as the primary knows it
    bool is_sealed = false;                    // it answers no primary
    bool leads = false;                        // the configuration names it, also after its restart
  };
  struct Asked {
    TimePoint at;             // by the client's clock
    std::uint64_t round = 0;  // for whose end the primary waits; 0: the request is in flight
  };

  static constexpr milliseconds kLease{800};
  static constexpr std::size_t kPrimary = 2, kClient = 3;

  /// Returns what a tick is by one of the clocks: a millisecond, and up to a quarter more.
  Duration TickOf(std::size_t whose) const { return rates_[whose] * 62'500; }
  TimePoint At(std::size_t whose, std::int64_t ticks) const { return TimePoint{} + ticks * TickOf(whose); }
  TimePoint Now(std::size_t whose) const { return At(whose, ticks_); }

  void Connect(std::size_t i) {
    Member& member = members_[i];
    member.link.reset();
    member.requests.clear();
    member.replies.clear();
    if (member.is_sealed) return;
    member.support->NoteAnswer(Now(i));
    member.link.emplace(2, 1024, 0, 0);
  }
  void Restart(std::size_t i) {
    members_[i].support.emplace(kLease, Now(i));
    members_[i].is_sealed = members_[i].leads;
    Connect(i);
  }
  void Lead() {
    if (rounds_.Begin(Now(kPrimary))) line_ = rounds_.line();
    std::uint64_t answered = ~std::uint64_t{0};
    for (Member& member : members_) {
      answered = std::min(answered, member.answered);
      if (!member.link) continue;
      if (const std::optional<Request> ask = member.link->Ask(rounds_.begun()))
        member.requests.push_back(*ask);
    }
    if (rounds_.End(answered)) line_ = rounds_.line();
  }
  void TakeRequest(std::size_t i) {
    Member& member = members_[i];
    if (member.requests.empty() || member.is_sealed) return;
    member.support->NoteAnswer(Now(i));  // Q4
    Reply reply;
    reply.request_id = member.requests.front().request_id;
    member.requests.pop_front();
    member.replies.push_back(reply);
  }
  void TakeReply(Member& member) {
    if (member.replies.empty()) return;
    FUZZ_CHECK(member.link->TakeReply(member.replies.front(), {}).ok());
    member.replies.pop_front();
    member.answered = std::max(member.answered, member.link->answered());
  }
  void ActAsClient(std::uint8_t what) {
    const TimePoint now = Now(kClient);
    switch (what >> 4 & 3) {
      case 0:  // a look begins; its READ comes later
        look_ = now;
        break;
      case 1:
        if (look_) Look(*look_);
        look_.reset();
        break;
      case 2:
        if (lease_.is_on() && !asked_) asked_ = Asked{.at = now};
        break;
      default:
        if (asked_ && asked_->round == 0) {
          asked_->round = rounds_.Await();
        } else if (asked_ && asked_->round <= rounds_.done()) {
          lease_.TakeAnswer(asked_->at);
          asked_.reset();
        }
    }
  }
  void Look(TimePoint before) {
    if (lease_.is_on()) {
      FUZZ_CHECK(lease_.Take(line_, before));
    } else {
      FUZZ_CHECK(lease_.Begin(line_, before));
    }
  }
  /// A member that leads serves, once it may (Q5). From then on, there are writes that the client cannot
  /// see.
  void TakeOver() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Duration ends = members_[i].support->ends_at().time_since_epoch();
      const std::int64_t due = (ends + TickOf(i) - Duration(1)) / TickOf(i);
      if (!members_[i].leads || ticks_ < due) continue;
      replaced_at_ = std::min(replaced_at_, At(kClient, std::max(due, looked_at_)));
    }
    looked_at_ = ticks_;
  }

  Input& input_;
  std::array<Duration, 4> rates_{};
  std::int64_t ticks_ = 1;
  std::int64_t looked_at_ = 1;  // by TakeOver
  std::array<Member, 2> members_{};
  LeaseRounds rounds_{3, kLease};
  LeaseLine line_ = rounds_.line();
  ReadLease lease_;
  std::optional<TimePoint> look_;
  std::optional<Asked> asked_;
  TimePoint replaced_at_ = TimePoint::max();
};

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const auto setting = input.Take<std::uint8_t>() % 4;
  int acts = 0;
  if (setting == 0) {
    LineReader reader(input);
    while (!input.empty() && ++acts < kMostActs) reader.Act();
  } else if (setting == 1) {
    LiedTo primary(input);
    while (!input.empty() && ++acts < kMostActs && primary.Act()) {
    }
  } else {
    Shard shard(input);
    while (!input.empty() && ++acts < kMostActs) shard.Act();
  }
  return 0;
}
