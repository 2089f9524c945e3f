#include "tools/kvgate/network/connection.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/format/memory/layout.h"
#include "tools/command_line/say.h"
#include "tools/kvgate/commands/help.h"
#include "tools/kvgate/network/admission.h"
#include "tools/kvgate/tracking/client_tracking.h"

namespace remora::kvgate {
namespace {

// A value, its key, and the other words of its command.
constexpr std::size_t kMaxRequestBytes = kMaxValueSize + kMaxKeySize + 4096;
constexpr std::size_t kLeastExpectedReply = 64;
// Replies that wait for others have fewer bytes than that.
constexpr std::size_t kMostGathered = std::size_t{16} << 10;

/// Adds an invalidation to the output, or to the mailbox of the client that REDIRECT names.
void Invalidate(Session& session, Services& services, const Delivery& invalidation, ReplyStream* output) {
  if (session.tracking == nullptr) return;  // it has ended meanwhile
  const std::int64_t target = session.tracking->options.redirect;
  Reply reply(session.protocol);
  if (target == 0) {
    AppendDelivery(invalidation, &reply);
  } else {
    Delivery redirected = invalidation;
    redirected.kind = DeliveryKind::kRedirected;
    if (services.gate.clients.Send(target, std::move(redirected), services.clock.Now())) return;
    session.tracking->is_broken = session.record->is_redirect_broken = true;
    reply.Push(2);
    reply.Bulk("tracking-redir-broken");
    reply.Integer(target);
  }
  // RESP2 cannot tell a push from a reply.
  if (session.protocol > 2) output->Add(reply);
}

/// Moves messages to the output until it has `most` bytes, with the calls that are in flight. Invalidations
/// wait for the reply to `last`, if it is not null. Adds their bytes to *held. Returns false if the mailbox
/// has ended, for example as the client has not taken its messages in time.
bool MoveMessages(Session& session, Services& services, std::size_t most, Call* last, std::size_t* held,
                  ReplyStream* output) {
  Mailbox& mailbox = session.subscriptions->mailbox();
  if (!mailbox.has_news()) return true;
  Reply messages(session.protocol);
  while (output->size() + *held + messages.size() < most) {
    std::optional<Delivery> delivery = mailbox.Take();
    if (!delivery) break;
    if (delivery->kind != DeliveryKind::kInvalidation) {
      // Redis sends invalidations in RESP2 to subscribers alone.
      if (session.protocol > 2 || session.is_for_messages()) AppendDelivery(*delivery, &messages);
    } else if (last == nullptr) {
      Invalidate(session, services, *delivery, output);
    } else {
      const std::size_t bytes = Mailbox::SizeOf(*delivery);
      last->held += bytes;
      *held += bytes;
      last->invalidations.push_back(*std::move(delivery));
    }
  }
  if (messages.size() > 0) output->Add(messages);
  const std::string_view reason = mailbox.end_reason();
  if (reason.empty()) return true;
  command_line::SayError(absl::StrCat("kvgate: client ", session.record->id, " at ", session.record->address,
                                      " is disconnected: ", AbslView(reason)));
  return false;
}

}  // namespace

Connection::Connection(std::unique_ptr<Channel> channel, std::shared_ptr<ClientRecord> record,
                       Services services, std::function<void(Connection&)> on_reply,
                       std::function<void()> wake)
    : channel_(std::move(channel)),
      services_(services),
      on_reply_(std::move(on_reply)),
      requests_(kMaxRequestBytes) {
  session_.record = std::move(record);
  session_.user = services.gate.options.users.OfNewClient();
  session_.subscriptions = std::make_unique<Subscriptions>(services.gate.hub, std::move(wake));
  services.gate.clients.SetMailbox(session_.record.get(), session_.subscriptions->shared_mailbox());
}

Connection::~Connection() {
  REMORA_CHECK(is_idle());
  EndTracking(session_, services_.gate);
  if (session_.subscriptions->empty()) return;
  session_.subscriptions->Reset();
  services_.gate.watchers->Update();
}

// --- Input ----------------------------------------------------------------------------------------------

void Connection::Receive() {
  if (!wants_input()) return;
  if (!requests_.Receive(*channel_)) Abandon();
  Work();
}

bool Connection::ParseNext() {
  while (!has_next_ && !ends_) {
    if (next_ == nullptr) next_ = spare_.Take(session_, services_);
    requests_.set_is_stranger(!session_.user);
    switch (requests_.Next(&next_->request)) {
      case Parsed::kNeedsMore:
        ends_ = requests_.has_ended();
        return false;
      case Parsed::kCommand:
        next_->command = FindCommand(next_->argument(0));
        has_next_ = true;
        break;
      case Parsed::kOversized:
        AddError("ERR string exceeds maximum allowed size: a value has up to 67108864 bytes");
        break;
      case Parsed::kError:
        AddError("ERR " + requests_.error());
        ends_ = true;
        break;
    }
  }
  return has_next_;
}
static_assert(kMaxValueSize == 67108864, "the error names it");

void Connection::Abandon() {
  is_broken_ = true;
  for (const std::unique_ptr<Call>& call : calls_) {
    if (!std::exchange(call->repeats, false)) continue;
    Complete(*call);
    --in_flight_;
  }
}

// --- Commands -------------------------------------------------------------------------------------------

void Connection::Work() {
  bool has_more = false;
  do {
    const bool is_full = BeginAll();
    Collect();
    // A command that runs alone may be the SUBSCRIBE to their channel, whose reply comes first.
    const bool runs_alone = in_flight_ > 0 && order_ == Order::kExclusive;
    Call* const last = calls_.empty() ? nullptr : calls_.back().get();
    if (!is_broken_ && !runs_alone &&
        !MoveMessages(session_, services_, kMaxOutput, last, &held_, &replies_)) {
      Abandon();
    }
    has_more = is_full || replies_.size() >= kMaxOutput;
    SendOrGather();
    // The client may have taken the output just now: nothing else would begin the next command.
  } while (has_more && !is_broken_ && replies_.size() < kMaxOutput);
}

bool Connection::BeginAll() {
  while (!is_broken_) {
    Collect();
    if (replies_.size() >= kMaxOutput) Send();
    if (replies_.size() >= kMaxOutput) return true;
    if (!calls_.empty() && std::exchange(calls_.front()->repeats, false)) {
      calls_.front()->Start(RunInStore(*calls_.front()));
    }
    if (ends_ || !ParseNext() || !CanBegin()) return false;
    BeginNext();
  }
  return false;
}

bool Connection::CanBegin() const {
  if (calls_.empty()) return true;
  const std::size_t expected = next_->request.bytes() + in_flight_ * expected_reply_;
  if (calls_.size() >= kMaxInFlight || replies_.size() + held_ + expected >= kMaxOutput) return false;
  const Order order = OrderOfCall(*next_);
  if (in_flight_ == 0) return true;
  // Not even a local one: it may change the session, which EXEC uses.
  if (order_ == Order::kExclusive) return false;
  return order == Order::kLocal || order_ == order;
}

void Connection::BeginNext() {
  has_next_ = false;
  calls_.push_back(std::move(next_));
  Call& call = *calls_.back();
  Hold(call, call.request.bytes());
  call.reply.set_protocol(session_.protocol);
  call.is_silent = !session_.replies || std::exchange(session_.skips_next_reply, false);
  session_.record->active_ms = services_.clock.UnixMillis();
  services_.gate.commands.fetch_add(1, std::memory_order_relaxed);
  Execute(call);
  // The commands of an EXEC need it until Finish.
  const bool runs_alone = in_flight_ > 0 && order_ == Order::kExclusive;
  if (session_.tracking != nullptr && !runs_alone) EndCaching(call);
}

void Connection::Execute(Call& call) {
  const std::string rejection = Rejection(call);
  if (IsOfHttp(call.request)) {
    ends_ = true;
    call.is_silent = true;
    Complete(call);
  } else if (!rejection.empty()) {
    Reject(call, rejection);
    Complete(call);
  } else if (IsQueued(call)) {
    Enqueue(call);
    Complete(call);
  } else if (OrderOf(*call.command, call.request) == Order::kLocal) {
    RunLocal(call);
  } else {
    session_.record->command = FullName(*call.command, call.request);
    order_ = OrderOf(*call.command, call.request);
    ++in_flight_;
    if (session_.tracking != nullptr && session_.tracking->takes_keys()) [[unlikely]] {
      RegisterKeys(*session_.tracking, *call.command, call.request);
    }
    call.Start(RunInStore(call));
  }
}

void Connection::RunLocal(Call& call) {
  session_.record->command = FullName(*call.command, call.request);
  call.command->run(call);
  Complete(call);
  if (session_.closes) ends_ = true;
}

Task<void> Connection::RunInStore(Call& call) {
  co_await call.command->begin(call);
  Finish(call);
}

void Connection::Finish(Call& call) {
  expected_reply_ = std::max(call.reply.size(), kLeastExpectedReply);
  if (session_.tracking != nullptr && order_ == Order::kExclusive) EndCaching(call);
  const bool waits = &call != calls_.front().get();
  if (waits && !is_broken_ && order_ == Order::kRead && held_ + call.reply.size() > kMaxOutput) {
    call.reply = Reply(call.reply.protocol());
    call.repeats = true;  // and stays in flight, so that no write begins
  } else {
    Complete(call);
    --in_flight_;
  }
  on_reply_(*this);
}

void Connection::Complete(Call& call) {
  call.is_done = true;
  Hold(call, call.reply.size());
}

void Connection::Hold(Call& call, std::size_t bytes) {
  call.held += bytes;
  held_ += bytes;
}

void Connection::AddError(std::string_view text) {
  std::unique_ptr<Call> call = spare_.Take(session_, services_);
  call->reply.Error(text);
  Complete(*call);
  calls_.push_back(std::move(call));
}

// --- Output ---------------------------------------------------------------------------------------------

void Connection::Collect() {
  while (!calls_.empty() && calls_.front()->is_done) {
    Call& call = *calls_.front();
    if (!call.is_silent) replies_.Add(call.reply);
    held_ -= call.held;
    for (const Delivery& one : call.invalidations) Invalidate(session_, services_, one, &replies_);
    spare_.Keep(std::move(calls_.front()));
    calls_.pop_front();
  }
}

void Connection::SendOrGather() {
  if (in_flight_ > 0 && replies_.size() < kMostGathered) {
    gathers_ = replies_.size() > 0;
  } else {
    Send();
  }
}

void Connection::SendGathered() {
  if (gathers_) Send();
}

void Connection::Send() {
  gathers_ = false;
  if (!is_broken_ && !replies_.Send(*channel_)) Abandon();
}

}  // namespace remora::kvgate
