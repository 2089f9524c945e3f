#include "server/replication/link_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

constexpr std::chrono::seconds kConnectTimeout{3};
constexpr std::chrono::milliseconds kFirstPause{50};
constexpr std::chrono::milliseconds kLongestPause{1000};
// A follower that has not answered a message for so long counts as away, though its connection stays.
constexpr std::chrono::seconds kSilence{2};
constexpr int kLookMs = 500;                   // for a silent follower
constexpr std::chrono::seconds kCopyPause{5};  // behind a copy that failed, which cost both disks something

// No request of a FollowerLink has this ID.
constexpr std::uint64_t kFollowRequest = ~std::uint64_t{0};

void Drain(int fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(fd, &count, sizeof(count));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkThread>> LinkThread::Start(FollowerAddress to, const Source& source,
                                                              std::function<void()> on_change) {
  std::unique_ptr<LinkThread> link(new LinkThread(std::move(to), source, std::move(on_change)));
  link->wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (link->wake_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  REMORA_ASSIGN_OR_RETURN(link->thread_,
                          StartThread([&] { return std::thread([one = link.get()] { one->Run(); }); }));
  return link;
}

LinkThread::~LinkThread() {
  Stop();
  if (thread_.joinable()) thread_.join();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void LinkThread::Stop() {
  is_stopped_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

// Sequentially consistent, as in Sleep: either this sees that the thread is about to sleep, or the thread
// sees the group.
void LinkThread::Wake() {
  if (!is_asleep_.exchange(false)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

void LinkThread::Ask(std::uint64_t round) {
  asked_.store(round);  // as in Wake
  Wake();
}

std::uint64_t LinkThread::life() const {
  const MutexLock lock(mutex_);
  return shown_.life;
}

LinkThread::Status LinkThread::status() const {
  const MutexLock lock(mutex_);
  return shown_;
}

void LinkThread::SetStatus(LinkState state, std::string text) {
  {
    const MutexLock lock(mutex_);
    if (shown_.state == state && shown_.text == text) return;
    shown_ = {state, std::move(text), shown_.life};
  }
  changes_.fetch_add(1, std::memory_order_release);
  on_change_();
}

// --- The connection -------------------------------------------------------------------------------------

void LinkThread::Run() {
  ServeAlways();
  has_ended_.store(true, std::memory_order_release);
}

void LinkThread::ServeAlways() {
  Duration pause = kFirstPause;
  while (!is_stopped_.load(std::memory_order_acquire)) {
    has_connected_ = has_failed_copy_ = false;
    const absl::Status ended = Serve();
    cursor_.Reset();
    if (is_stopped_.load(std::memory_order_acquire)) return;
    const bool may_pass = absl::IsUnavailable(ended) || absl::IsDeadlineExceeded(ended);
    SetStatus(may_pass ? LinkState::kAway : LinkState::kRejected, std::string(ended.message()));
    pause = has_connected_ ? kFirstPause : std::min<Duration>(2 * pause, kLongestPause);
    Pause(has_failed_copy_ ? Duration(kCopyPause) : pause);
  }
}

void LinkThread::Pause(Duration pause) {
  const TimePoint until = clock_.Now() + pause;
  while (!is_stopped_.load(std::memory_order_acquire) && clock_.Now() < until) {
    pollfd fd{wake_fd_, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock_.Now());
    ::poll(&fd, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    Drain(wake_fd_);
  }
}

absl::Status LinkThread::Serve() {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<FollowerConnection> connection,
                          FollowerConnection::Connect(to_, clock_, clock_.Now() + kConnectTimeout));
  REMORA_ASSIGN_OR_RETURN(const Reply reply, Follow(*connection));
  if (reply.status != ReplyStatus::kOk) return SendCopy(*connection);
  const auto last = static_cast<std::uint64_t>(reply.result);
  if (last > source_.groups.shipped.last() || reply.version > last) {
    return absl::FailedPreconditionError(
        "follow: the follower answers with groups that do not exist; use one release on both servers");
  }
  if (last < source_.groups.shipped.last()) {
    const absl::Status first = cursor_.Find(last + 1).status();
    if (absl::IsOutOfRange(first) && source_.copies.begin) return SendCopy(*connection);
    if (absl::IsOutOfRange(first)) {
      const std::string why = absl::StrCat("follow: the follower needs group ", last + 1,
                                           ", and the primary's log begins later: ", first.message(),
                                           "; give the follower a copy of the primary's --data_dir");
      TellFailure(*connection, why);
      return absl::FailedPreconditionError(why);
    }
    REMORA_RETURN_IF_ERROR(first);
  }
  has_connected_ = true;
  FollowerLink link(connection->slots(), connection->slot_size(), last, reply.version);
  {
    const MutexLock lock(mutex_);
    shown_.life = reply.slot;
  }
  acknowledged_.store(reply.version, std::memory_order_release);
  const std::string text = absl::StrCat("takes groups from ", last + 1, " on");
  last_answer_ = clock_.Now();
  SetStatus(LinkState::kConnected, text);
  on_change_();
  while (!is_stopped_.load(std::memory_order_acquire)) {
    REMORA_ASSIGN_OR_RETURN(const bool has_sent, SendGroups(*connection, link));
    REMORA_ASSIGN_OR_RETURN(const bool has_taken, TakeReplies(*connection, link));
    if (has_taken || !link.awaits_reply()) {
      last_answer_ = clock_.Now();
      SetStatus(LinkState::kConnected, text);
    } else if (clock_.Now() - last_answer_ > kSilence) {
      SetStatus(LinkState::kAway, "it is connected, and does not answer");
    }
    if (!has_sent && !has_taken) Sleep(*connection, link);
  }
  return absl::OkStatus();
}

absl::StatusOr<Reply> LinkThread::Call(FollowerConnection& connection, const Request& request,
                                       std::string_view payload) {
  REMORA_RETURN_IF_ERROR(connection.Send(0, request, payload));
  const TimePoint deadline = clock_.Now() + kConnectTimeout;
  while (!is_stopped_.load(std::memory_order_acquire) && clock_.Now() < deadline) {
    REMORA_ASSIGN_OR_RETURN(const std::optional<FollowerConnection::Answer> answer, connection.Poll());
    if (answer && answer->reply.status == ReplyStatus::kOk) return answer->reply;
    if (answer && answer->reply.result == kTakesCopy && source_.copies.begin) return answer->reply;
    if (answer) return absl::FailedPreconditionError(answer->text);
    connection.Sleep(wake_fd_, kLookMs);
    Drain(wake_fd_);
  }
  return absl::DeadlineExceededError("it is connected, and does not answer");
}

std::string LinkThread::Introduction() const {
  const History& history = source_.history;
  const FollowStart start{.last = source_.groups.shipped.last(),
                          .count = static_cast<std::uint32_t>(history.reigns.size()),
                          .began_empty = history.began_empty,
                          .is_synced = source_.is_synced,
                          .lease_ms = static_cast<std::uint16_t>(source_.lease_time.count())};
  std::string payload(reinterpret_cast<const char*>(&start), sizeof(start));
  payload.append(reinterpret_cast<const char*>(history.reigns.data()), history.reigns.size() * sizeof(Reign));
  return payload;
}

absl::StatusOr<Reply> LinkThread::Follow(FollowerConnection& connection) {
  const std::string payload = Introduction();
  Request request;
  request.request_id = kFollowRequest;
  request.operation = Operation::kFollow;
  request.condition = kFollowBegins;
  request.value_size = static_cast<std::uint32_t>(payload.size());
  return Call(connection, request, payload);
}

void LinkThread::TellFailure(FollowerConnection& connection, std::string_view why) {
  Request request;
  request.request_id = kFollowRequest;
  request.operation = Operation::kFollow;
  request.condition = kFollowFails;
  request.value_size = static_cast<std::uint32_t>(why.size());
  Call(connection, request, why).IgnoreError();  // the connection ends in any case
}

// --- A copy ---------------------------------------------------------------------------------------------

absl::Status LinkThread::SendCopy(FollowerConnection& connection) {
  CopySender sender(connection, clock_, source_.copies.rate, [this](TimePoint until) {
    Pause(until - clock_.Now());
    return !is_stopped_.load(std::memory_order_acquire);
  });
  REMORA_RETURN_IF_ERROR(sender.Send(CopyStep::kBegins, 0, 0, Introduction()));
  REMORA_RETURN_IF_ERROR(sender.Flush());
  has_failed_copy_ = true;
  SetStatus(LinkState::kCopies, "it is to get a copy of the data; the log goes to the disk first");
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<StoreCopy> copy, source_.copies.begin());
  REMORA_RETURN_IF_ERROR(sender.Send(CopyStep::kFiles, copy->bytes(), 0, {}));
  REMORA_RETURN_IF_ERROR(sender.Flush());
  const bool has_earlier = sender.result() > 0;
  SetStatus(LinkState::kCopies, absl::StrCat("it gets a copy of the data, ", copy->bytes(), " bytes in ",
                                             copy->files().size(), " files"));
  std::uint64_t next = copy->after() + 1, told = 0;
  const auto send_groups = [&]() -> absl::Status {
    source_.copies.on_sent(sender.bytes() - std::exchange(told, sender.bytes()));
    for (;;) {
      REMORA_ASSIGN_OR_RETURN(const ShippedGroups::Group group, cursor_.Find(next));
      if (group == nullptr) return absl::OkStatus();
      REMORA_RETURN_IF_ERROR(sender.SendGroup(next++, *group));
    }
  };
  REMORA_ASSIGN_OR_RETURN(const std::size_t kept, SendFiles(sender, *copy, has_earlier, send_groups));
  REMORA_RETURN_IF_ERROR(send_groups());
  REMORA_RETURN_IF_ERROR(sender.Send(CopyStep::kEnds, 0, copy->files().size(), {}));
  REMORA_RETURN_IF_ERROR(sender.Flush());
  has_failed_copy_ = false;
  return absl::UnavailableError(absl::StrCat("it has a copy of the data up to group ", next - 1, ", with ",
                                             kept, " tables of an earlier copy, and starts again with it"));
}

absl::StatusOr<std::size_t> LinkThread::SendFiles(CopySender& sender, StoreCopy& copy, bool has_earlier,
                                                  const std::function<absl::Status()>& between) {
  const std::vector<StoreCopy::File>& files = copy.files();
  std::erase_if(sent_tables_, [&](const auto& sent) {
    return std::ranges::find(files, sent.first, &StoreCopy::File::name) == files.end();
  });
  std::size_t kept = 0;
  for (const StoreCopy::File& file : files) {
    const auto sent = sent_tables_.find(file.name);
    if (has_earlier && sent != sent_tables_.end()) {
      REMORA_ASSIGN_OR_RETURN(const bool is_there, sender.AskToKeep(file, sent->second));
      kept += is_there ? 1 : 0;
      if (is_there) continue;
    }
    REMORA_ASSIGN_OR_RETURN(const std::uint64_t checksum, sender.SendFile(copy, file, between));
    if (file.name.ends_with(".sst")) sent_tables_[file.name] = checksum;
  }
  return kept;
}

// --- Groups ---------------------------------------------------------------------------------------------

absl::StatusOr<bool> LinkThread::SendGroups(FollowerConnection& connection, FollowerLink& link) {
  bool has_sent = false;
  if (const std::optional<Request> ask = link.Ask(asked_.load())) {
    REMORA_RETURN_IF_ERROR(connection.Send(link.ask_slot(), *ask, {}));
    has_sent = true;
  }
  while (link.can_send()) {
    REMORA_ASSIGN_OR_RETURN(const ShippedGroups::Group group, cursor_.Find(link.next()));
    if (group == nullptr) break;
    const std::optional<FollowerLink::Part> part = link.Next(group->size());
    if (!part) break;
    REMORA_RETURN_IF_ERROR(connection.Send(part->slot, part->request,
                                           std::string_view(*group).substr(part->offset, part->size)));
    has_sent = true;
  }
  return has_sent;
}

absl::StatusOr<bool> LinkThread::TakeReplies(FollowerConnection& connection, FollowerLink& link) {
  bool has_taken = false;
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const std::optional<FollowerConnection::Answer> answer, connection.Poll());
    if (!answer) break;
    REMORA_RETURN_IF_ERROR(link.TakeReply(answer->reply, answer->text));
    has_taken = true;
  }
  const bool has_answered = link.answered() > answered_.load(std::memory_order_relaxed);
  if (has_answered) answered_.store(link.answered(), std::memory_order_release);
  if (has_answered || link.acknowledged() != acknowledged_.load(std::memory_order_relaxed)) {
    acknowledged_.store(link.acknowledged(), std::memory_order_release);
    on_change_();
  }
  return has_taken;
}

void LinkThread::Sleep(FollowerConnection& connection, const FollowerLink& link) {
  is_asleep_.store(true);
  const bool may_send =
      (link.can_send() && source_.groups.shipped.last() >= link.next()) || link.can_ask(asked_.load());
  if (!may_send && !is_stopped_.load()) connection.Sleep(wake_fd_, link.awaits_reply() ? kLookMs : -1);
  is_asleep_.store(false);
  Drain(wake_fd_);
}

}  // namespace remora
