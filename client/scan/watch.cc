#include "client/watch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/put/put.h"
#include "client/scan/scan_impl.h"
#include "client/scan/watch_impl.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"
#include "store/format/wire/resume_token.h"
#include "store/format/wire/scan_messages.h"

namespace remora {
namespace {

absl::Status NoWatchPage(const char* why) {
  return absl::InternalError(
      absl::StrCat("protocol error: the server's message is no page of this watch: ", why));
}

}  // namespace

bool IsFinalForWatch(const absl::Status& status) {
  return absl::IsOutOfRange(status) || absl::IsInvalidArgument(status) || absl::IsInternal(status);
}

ClientWatch::ClientWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) { impl_->set_watch(this); }
ClientWatch::~ClientWatch() = default;
absl::StatusOr<bool> ClientWatch::Next(std::chrono::milliseconds wait) { return impl_->Next(wait); }
std::string ClientWatch::resume_token() const { return MakeChangeToken(impl_->position()); }

ClientWatch::Impl::Impl(ScanRange range, const ChangePosition& position, const Session& session, Caller call)
    : range_(std::move(range)),
      life_(session.life()),
      clock_(session.clock()),
      call_(std::move(call)),
      position_(position) {}

absl::StatusOr<std::unique_ptr<ClientWatch::Impl>> ClientWatch::Impl::Begin(const WatchOptions& options,
                                                                            const Session& session,
                                                                            Caller call) {
  ScanRange range;
  ChangePosition position;
  if (const char* why = ResolveWatch(options, &range, &position)) return absl::InvalidArgumentError(why);
  std::unique_ptr<Impl> impl(new Impl(std::move(range), position, session, std::move(call)));
  REMORA_RETURN_IF_ERROR(impl->call_([&](Session& of_call) { return impl->FetchPage(of_call); }));
  return impl;
}

// --- Pages ----------------------------------------------------------------------------------------------

absl::Status ClientWatch::Impl::FetchPage(Session& session) {
  // A page of a scan may be in flight, or not shown yet.
  REMORA_RETURN_IF_ERROR(session.calls().AwaitScanPage());
  ScanWindow& scan_window = session.scan_window();
  if (scan_window.owner() != nullptr) scan_window.owner()->GiveUpWindow();
  scan_window.set_owner(nullptr);
  REMORA_ASSIGN_OR_RETURN(const ScanWindow::View window,
                          session.scan_window().Register(session.endpoint().connection()));
  const std::size_t page_size = std::min(window.bytes.size(), kMaxPageSize);
  absl::StatusOr<ServerReply> answer = absl::NotFoundError("");
  if (cursor_ != 0 && KnowsPlace(session)) {
    Request request;
    request.operation = Operation::kScanNext;
    request.value_size = static_cast<std::uint32_t>(page_size);
    request.condition = cursor_;
    answer = session.calls().CallBare(request);
  }
  if (!answer.ok() && !absl::IsNotFound(answer.status())) return answer.status();
  if (!answer.ok() || answer->reply.status == ReplyStatus::kNotFound) {
    // The server does not have the cursor, so the watch opens anew behind the last complete change.
    page_.clear();
    taken_ = 0;
    cursor_ = 0;
    answer = Open(session, window, page_size);
  }
  REMORA_RETURN_IF_ERROR(answer.status());
  const absl::Status status = ToStatus(*answer);
  if (!status.ok()) {
    cursor_ = 0;
    return status;
  }
  const Reply& reply = answer->reply;
  if (reply.result < 0 || static_cast<std::uint64_t>(reply.result) > page_size) {
    return NoWatchPage("it is larger than the client asked for");
  }
  if (reply.version == 0 || reply.slot < position_.sequence || reply.slot > kMaxSequence) {
    return NoWatchPage("it ends before it begins, or nowhere");
  }
  cursor_ = reply.version;
  page_end_ = reply.slot;
  page_.erase(0, std::exchange(taken_, 0));
  page_.append(reinterpret_cast<const char*>(window.bytes.data()), static_cast<std::size_t>(reply.result));
  if (position_.sequence == 0) {  // begin now
    position_.sequence = page_end_;
    if (page_.size() >= sizeof(ChangeEntry))
      std::memcpy(&position_.sequence, page_.data(), sizeof(std::uint64_t));
  }
  return absl::OkStatus();
}

absl::StatusOr<ServerReply> ClientWatch::Impl::Open(Session& session, const ScanWindow::View& window,
                                                    std::size_t page_size) {
  ScanStart start{.window = window.remote,
                  .page_size = static_cast<std::uint32_t>(page_size),
                  .kind = ScanKind::kChanges,
                  .ends = session.scan_window().TakeAbandonedCursor(),
                  .begin_size = static_cast<std::uint16_t>(range_.begin.size()),
                  .end_size = static_cast<std::uint16_t>(range_.end.size()),
                  .from = position_};
  std::string bytes(reinterpret_cast<const char*>(&start), sizeof(start));
  bytes += range_.begin;
  bytes += range_.end;
  absl::StatusOr<ServerReply> answer = session.calls().Call(Operation::kScan, {}, HashKey({}), bytes);
  // The server has checked the position: it belongs to this incarnation.
  if (answer.ok() && answer->reply.status == ReplyStatus::kOk) {
    position_.incarnation = session.server().shape().incarnation;
  }
  return answer;
}

bool ClientWatch::Impl::KnowsPlace(const Session& session) const {
  return session.server().shape().incarnation == position_.incarnation;
}

absl::StatusOr<bool> ClientWatch::Impl::IsBehind(Session& session) {
  // The end of another log says nothing about this position: it may stay before it for good.
  if (!KnowsPlace(session)) return true;
  REMORA_ASSIGN_OR_RETURN(const Superblock* superblock, session.calls().ReadSuperblock());
  return superblock->counters[static_cast<std::size_t>(Metric::kChangesEnd)] >= position_.sequence;
}

// --- Changes --------------------------------------------------------------------------------------------

absl::StatusOr<bool> ClientWatch::Impl::Next(std::chrono::milliseconds wait) {
  REMORA_RETURN_IF_ERROR(failed_);
  if (life_.expired()) {
    return failed_ = absl::FailedPreconditionError(
               "watch: the client of this watch is gone; go on from resume_token() with a watch of another "
               "client");
  }
  const TimePoint until = clock_.Now() + wait;
  for (Duration pause = kFirstWatchPause;;) {
    absl::StatusOr<bool> taken = TakeEntry();
    bool came = false;  // whether any bytes came
    if (taken.ok() && !*taken) {
      const absl::Status called = call_([&](Session& session) -> absl::Status {
        REMORA_ASSIGN_OR_RETURN(const bool behind, IsBehind(session));
        if (!behind) return absl::OkStatus();
        const std::size_t before = page_.size();
        const std::uint64_t end = page_end_;
        REMORA_RETURN_IF_ERROR(FetchPage(session));
        came = page_.size() > before || page_end_ > end;
        return absl::OkStatus();
      });
      if (called.ok()) taken = TakeEntry();
      if (!called.ok()) taken = called;
    }
    if (!taken.ok()) {
      if (IsFinalForWatch(taken.status())) failed_ = taken.status();
      return taken;
    }
    if (*taken) return true;
    if (came) continue;
    const TimePoint now = clock_.Now();
    if (now >= until) return false;
    if (clock_.IsInterrupted()) return absl::CancelledError(kInterrupted);
    clock_.Sleep(std::min<Duration>(pause, until - now));
    pause = std::min<Duration>(2 * pause, kLongestWatchPause);
  }
}

absl::StatusOr<bool> ClientWatch::Impl::TakeEntry() {
  const std::string_view rest = std::string_view(page_).substr(taken_);
  if (rest.empty()) position_.sequence = std::max(position_.sequence, page_end_);
  if (rest.size() < sizeof(ChangeEntry)) return false;
  ChangeEntry& header = watch_->change_;
  ChangeEntry next;
  std::memcpy(&next, rest.data(), sizeof(next));
  REMORA_RETURN_IF_ERROR(Check(next));
  const std::size_t size = sizeof(next) + next.key_size + next.value_size;
  if (rest.size() < size) return false;
  header = next;
  watch_->key_ = rest.substr(sizeof(next), next.key_size);
  watch_->value_ = rest.substr(sizeof(next) + next.key_size, next.value_size);
  if (!range_.Contains(watch_->key_)) return NoWatchPage("a key out of its range");
  taken_ += size;
  position_.sequence = next.sequence + 1;
  return true;
}

absl::Status ClientWatch::Impl::Check(const ChangeEntry& header) const {
  const bool is_put = header.kind == ChangeKind::kPut;
  const bool is_good = (is_put || header.kind == ChangeKind::kDelete) && header.key_size >= kMinKeySize &&
                       header.key_size <= kMaxKeySize && header.value_size <= (is_put ? kMaxValueSize : 0) &&
                       header.reserved == 0 && header.sequence >= position_.sequence &&
                       header.sequence <= kMaxSequence &&
                       (is_put ? header.version > 0 && header.version < kMaxVersion : header.version == 0);
  return is_good ? absl::OkStatus() : NoWatchPage("a change out of bounds, or out of order");
}

}  // namespace remora
