#include "tools/kvgate/pubsub/change_watcher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "tools/command_line/say.h"

namespace remora::kvgate {
namespace {

// The thread looks so often whether its watch is still wanted.
constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::milliseconds kPauseOfDialling{200};

/// Returns whether the position of the watch is lost: then it begins anew.
bool IsPlaceLost(const absl::Status& status) {
  return absl::IsOutOfRange(status) || absl::IsInvalidArgument(status) || absl::IsInternal(status);
}

/// Returns whether the server shows no changes until its operator acts, for example as it has no log.
bool HasNoChanges(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChangeWatcher>> ChangeWatcher::Start(std::string name, Connect connect,
                                                                    const RedisCluster* cluster,
                                                                    MessageHub& hub,
                                                                    TrackingTable& tracking) {
  std::unique_ptr<ChangeWatcher> watcher(
      new ChangeWatcher(std::move(name), std::move(connect), cluster, hub, tracking));
  REMORA_ASSIGN_OR_RETURN(
      watcher->thread_, StartThread([&watcher] { return std::thread(&ChangeWatcher::Run, watcher.get()); }));
  return watcher;
}

ChangeWatcher::~ChangeWatcher() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void ChangeWatcher::Stop() {
  clock_.Stop();
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

// --- What is wanted -------------------------------------------------------------------------------------

EventFlags ChangeWatcher::flags() const {
  const MutexLock lock(mutex_);
  return flags_;
}

void ChangeWatcher::SetFlags(EventFlags flags) {
  {
    const MutexLock lock(mutex_);
    flags_ = flags;
    EndIfUnwanted();
  }
  changed_.notify_all();
}

void ChangeWatcher::Update() {
  {
    const MutexLock lock(mutex_);
    EndIfUnwanted();
  }
  changed_.notify_all();
}

bool ChangeWatcher::IsWanted() const {
  if (tracking_.has_clients()) return true;
  const bool has_events = flags_.has_sets() || flags_.has_deletions();
  return has_events && ((flags_.has_keyspace() && hub_.wants_keyspace()) ||
                        (flags_.has_keyevent() && hub_.wants_keyevent()));
}

bool ChangeWatcher::AwaitBegin(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  const TimePoint until = std::chrono::steady_clock::now() + timeout;
  while (!has_begun_ && !stopping_ && IsWanted() && lock.WaitUntil(changed_, until)) {
  }
  return has_begun_;
}

void ChangeWatcher::EndIfUnwanted() {
  if (IsWanted()) return;
  ++period_;
  has_begun_ = false;
}

std::optional<EventFlags> ChangeWatcher::FlagsIn(Period period) const {
  const MutexLock lock(mutex_);
  return stopping_ || period_ != period ? std::nullopt : std::optional(flags_);
}

// --- The thread -----------------------------------------------------------------------------------------

void ChangeWatcher::Run() {
  for (;;) {
    Period period = 0;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && !IsWanted()) lock.Wait(changed_);
      if (stopping_) return;
      period = period_;
    }
    WatchAll(period);
  }
}

void ChangeWatcher::WatchAll(Period period) {
  std::string token;
  while (FlagsIn(period)) {
    const absl::Status status = WatchOverOneConnection(period, &token);
    if (status.ok() || absl::IsCancelled(status)) continue;
    if (!token.empty() && IsPlaceLost(status)) {
      token.clear();
      Say("changes were lost, and the watch continues with those from now on", status);
      continue;
    }
    Complain(status);
    if (HasNoChanges(status)) DisconnectTracking();
    Pause();
  }
}

absl::Status ChangeWatcher::WatchOverOneConnection(Period period, std::string* token) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, connect_(clock_));
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<ClientWatch> watch, client->Watch({.resume_token = *token}));
  complaint_.clear();
  if (token->empty()) incarnation_ = client->incarnation();
  bool has_lost = false;
  {
    const MutexLock lock(mutex_);
    has_lost = token->empty() && has_begun_;
    has_begun_ = period_ == period;
  }
  if (has_lost) tracking_.InvalidateAll();
  changed_.notify_all();
  for (;;) {
    const absl::StatusOr<bool> came = watch->Next(kLook);
    const std::optional<EventFlags> flags = FlagsIn(period);
    if (!flags) return absl::OkStatus();
    if (!came.ok()) {
      *token = watch->resume_token();
      return came.status();
    }
    NoteIncarnation(client->incarnation());
    if (*came) Show(*flags, watch->kind(), watch->key());
  }
}

void ChangeWatcher::NoteIncarnation(std::uint64_t incarnation) {
  if (std::exchange(incarnation_, incarnation) != incarnation) tracking_.InvalidateAll();
}

void ChangeWatcher::DisconnectTracking() {
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(has_begun_, false)) return;
  }
  tracking_.DisconnectAll("it tracks keys, and the server no longer shows its changes");
}

void ChangeWatcher::Show(EventFlags wanted, ChangeKind kind, std::string_view key) const {
  if (tracking_.has_clients()) tracking_.Invalidate(key);
  const bool is_put = kind == ChangeKind::kPut;
  if (!(is_put ? wanted.has_sets() : wanted.has_deletions())) return;
  if (cluster_ != nullptr && !cluster_->IsOwn(key)) return;
  const std::string_view event = is_put ? "set" : "del";
  if (wanted.has_keyspace() && hub_.wants_keyspace()) {
    hub_.Publish(absl::StrCat(AbslView(kKeyspacePrefix), AbslView(key)), event);
  }
  if (wanted.has_keyevent() && hub_.wants_keyevent()) {
    hub_.Publish(absl::StrCat(AbslView(kKeyeventPrefix), AbslView(event)), key);
  }
}

void ChangeWatcher::Complain(const absl::Status& status) {
  if (complaint_ == status.message()) return;
  complaint_ = std::string(status.message());
  Say("none until the server serves again", status);
}

void ChangeWatcher::Say(absl::string_view what, const absl::Status& why) const {
  command_line::SayError(absl::StrCat("kvgate: keyspace notifications: ", name_, what, ": ", why.message()));
}

void ChangeWatcher::Pause() {
  MutexLock lock(mutex_);
  const TimePoint until = std::chrono::steady_clock::now() + kPauseOfDialling;
  while (!stopping_ && IsWanted() && lock.WaitUntil(changed_, until)) {
  }
}

}  // namespace remora::kvgate
