#include "server/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/request/request_decoder.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Before sleeping, so that the next request of a client that was answered does not wait for a wake-up: so
// many empty steps, each after so many looks for requests. A look takes tens of nanoseconds, and a step some
// hundreds, in which nobody looks: less than 0.5 ms in all.
constexpr int kSpinSteps = 100;
constexpr int kLooksPerStep = 64;

// Writes of one group at most: bounds the time that the first of them waits for the last.
constexpr std::size_t kMaxGroup = 256;

// Steps that commit writes, between two looks at all that can wait.
constexpr int kStepsPerLook = 16;

constexpr std::size_t kCacheLine = 64;
// Of what came in one message, the bytes that are asked for before they are needed: as many lines as a
// processor has under way.
constexpr std::size_t kForeseen = 16 * kCacheLine;

// The server can remember as many writes as a client may have unanswered.
static_assert(kCredits <= kRememberedWrites);

/// Makes an eventfd readable. Fails only when it is so already, which is what is wanted.
void Signal(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof(one));
}

}  // namespace

Server::Server(const ServerOptions& options) : options_(options) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(options));
  server->stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  server->wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (server->stop_fd_ < 0 || server->wake_fd_ < 0) return absl::ErrnoToStatus(errno, "eventfd");
  std::vector<Token> tokens;
  if (!options.tokens_file.empty()) {
    REMORA_ASSIGN_OR_RETURN(tokens, ReadTokens(options.tokens_file));
  }
  REMORA_ASSIGN_OR_RETURN(server->memory_, ExportedMemory::Create(options.store.memory_size));
  StoreOptions store_options = options.store;
  store_options.on_synced = [server = server.get()] {
    server->synced_.store(true, std::memory_order_release);
    Signal(server->wake_fd_);
  };
  if (options.large_pages) {
    server->large_pages_ = std::make_unique<LargePages>(server->memory_->region());
    store_options.on_reach = [pages = server->large_pages_.get()](std::uint64_t end) { pages->Reached(end); };
  }
  REMORA_ASSIGN_OR_RETURN(server->store_, Store::Open(store_options, server->memory_->region()));
  if (options.large_pages) REMORA_RETURN_IF_ERROR(server->large_pages_->Start(server->store_.get()));
  server->tells_of_load_ = options.store.durability != Durability::kMemory;
  if (server->store_->Read(Counter::kLogTorn) != 0) {
    server->Warn(
        "the log was torn, as when the machine fails: writes at its end, none of which was synced, are "
        "dropped");
  }
  server->outcomes_ =
      std::make_unique<Outcomes>(options.remembered_clients, server->store_->TakeRemembered());
  server->store_->Add(Counter::kClientsRemembered, static_cast<std::int64_t>(server->outcomes_->size()));
  if (!tokens.empty()) {
    server->store_->Add(Counter::kTokens, static_cast<std::int64_t>(tokens.size()));
    server->admission_ = std::make_unique<Admission>(std::move(tokens), server->store_->clock());
  }
  server->grants_ = std::make_unique<Grants>(*server->store_, *server->memory_);
  server->scans_ = std::make_unique<Scans>(*server->store_);
  server->bounded_log_ = std::make_unique<BoundedLog>(options.log, server->store_->clock());
  server->backups_ = std::make_unique<Backups>(*server->store_, options.backup_dir, options.backup_keep,
                                               [log = server->bounded_log_.get()](std::string_view line) {
                                                 log->Write(BoundedLog::Kind::kBackups, line);
                                               });
  server->store_->Add(Counter::kRegisteredBytes, static_cast<std::int64_t>(server->memory_->region().size()));
  return server;
}

Server::~Server() {
  // Disconnects the clients first, then waits for the listeners: clients see the server end before
  // the store's data can be anybody else's. The grants and scans of the clients go before the
  // clients. By then the clients have learned of the end; otherwise a WRITE there would fail as if
  // it were not allowed.
  for (const auto& [connection, session] : sessions_) connection->Disconnect();
  for (Port& port : ports_) port.listener->AwaitEnds();
  grants_.reset();
  scans_.reset();
  backups_.reset();
  sessions_.clear();
  ports_.clear();
  if (large_pages_) large_pages_->Stop();
  store_.reset();
  if (stop_fd_ >= 0) ::close(stop_fd_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

absl::Status Server::AddListener(std::unique_ptr<rdma::Listener> listener) {
  // A device locks memory, whose pages then stay as they are.
  if (large_pages_ && listener->address().kind == rdma::TransportKind::kVerbs) large_pages_->ProvideAll();
  REMORA_ASSIGN_OR_RETURN(const RemoteRegion memory, memory_->RegisterAt(*listener));
  const rdma::TransportKind kind = listener->address().kind;
  const rdma::QueueLimits limits = listener->limits();
  const Counter slices = listener->binds_writes() ? Counter::kSlicesBound : Counter::kSlicesUnbound;
  ports_.push_back({std::move(listener), memory, ClientBytes(kind, limits), slices});
  store_->Add(Counter::kRegisteredBytes, static_cast<std::int64_t>(ListenerBytes(kind, limits)));
  return absl::OkStatus();
}

bool Server::Step() { return Serve(TakeRequests()); }

bool Server::Serve(bool busy) {
  busy |= AnswerSynced();
  if (!delayed_.empty()) busy |= DispatchDelayed();
  // Writes first: a locate behind a write of the same client finds it.
  const bool committed = CommitWrites();
  busy |= AnswerOthers();
  if (committed) {
    // An answered client is about to ask again. So the rest is done when none does, or now and
    // then.
    store_->CatchUp();
    if (++steps_since_look_ < kStepsPerLook) return true;
  }
  steps_since_look_ = 0;
  busy |= LookAround();
  return committed || store_->Work() || busy;
}

bool Server::LookAround() {
  bool busy = false;
  if (reload_.exchange(false, std::memory_order_acquire)) ReadTokensAnew();
  for (Port& port : ports_) busy |= AcceptClients(port);
  busy |= AnswerReserves();
  scans_->Expire();
  if (next_probe_) ProbeClients();
  if (bounded_log_->next_telling()) bounded_log_->TellDue();
  if (tells_of_load_) SeeHowTheLoadGoes();
  if ((store_->Read(Counter::kDiskRefuses) != 0) != disk_refuses_) SeeHowTheDiskDoes();
  return busy;
}

void Server::SeeHowTheLoadGoes() {
  if (store_->loading() && store_->load_status().ok()) return;
  tells_of_load_ = false;
  if (store_->loading()) return Stop();  // for good: see Run
  const double seconds = std::chrono::duration<double>(store_->load_time()).count();
  const std::uint64_t keys = store_->Read(Counter::kKeysLoaded);
  Log(absl::StrFormat("loaded %d keys in %.2f s: %.0f keys per second; records of %d are not in memory", keys,
                      seconds, static_cast<double>(keys) / std::max(seconds, 1e-3),
                      store_->Read(Counter::kColdKeys)));
}

void Server::SeeHowTheDiskDoes() {
  const absl::Status status = store_->disk_status();
  disk_refuses_ = !status.ok();
  Warn(disk_refuses_ ? absl::StrCat("writes are refused, reads go on: ", status.message())
                     : "the disk takes writes again");
}

// --- Requests come --------------------------------------------------------------------------------------

bool Server::TakeRequests() {
  bool busy = false;
  for (Port& port : ports_) busy |= TakeCompletions(port);
  return busy;
}

bool Server::TakeCompletions(Port& port) {
  bool busy = false;
  std::int64_t received = 0;
  bool is_more = true;
  while (is_more && write_requests_.size() + completions_.size() <= kMaxGroup) {
    const std::size_t count = port.listener->Poll(completions_);
    if (count == 0) break;
    reply_ms_.reset();
    std::size_t requests = 0;
    for (const rdma::Completion& completion : std::span(completions_).first(count)) {
      if (completion.connection == nullptr) continue;  // dropped by an earlier completion of this very round
      auto* const session = static_cast<ServerSession*>(completion.connection->owner());
      if (session == nullptr) continue;  // it was not accepted
      if (completion.kind == rdma::CompletionKind::kSend && completion.ok) {
        session->TakeSendCompletion();  // nothing to be done for it
        continue;
      }
      ++requests;
      if (completion.kind == rdma::CompletionKind::kDisconnected) {
        Drop(completion.connection, completion.connection->status());
      } else if (completion.ok) {  // else flushed; kDisconnected follows
        ++received;
        TakeRequest(*session, completion);
      }
    }
    busy |= requests > 0;
    // A request that came alone need not wait for another poll.
    is_more = requests > 1 || count == completions_.size();
  }
  // One by one, each would wait for what was stored before it.
  if (received > 0) store_->Add(Counter::kReceiveCompletions, received);
  return busy;
}

void Server::TakeRequest(ServerSession& session, const rdma::Completion& completion) {
  if (expected_ > 0) --expected_;
  Pending pending{.session = &session, .request = {}, .client = session.client()};
  const Request& request = pending.request;
  if (const absl::Status taken = session.TakeRequest(completion, &pending.request); !taken.ok()) {
    store_->Add(Counter::kRejectedRequests, 1);
    return Drop(completion.connection, taken);
  }
  NamedClient* const client = pending.client;
  if (client != nullptr && !client->TakeRequestIds(request.request_id, IdsOf(request))) {
    store_->Add(Counter::kRejectedRequests, 1);
    return Drop(completion.connection, absl::InvalidArgumentError("a request id that does not go up"));
  }
  if (request.read_count > 0) NoteReads(session, request);
  if (session.token_use() != nullptr && session.token_use()->has_rate() && IsDelayed(session, pending))
    return;
  Dispatch(session, pending);
}

void Server::Dispatch(ServerSession& session, const Pending& pending) {
  const Request& request = pending.request;
  if (session.is_read_only() && NeedsWriter(request.operation)) {
    store_->Add(Counter::kRequestsDenied, 1);
    return Answer(pending, NeedsWriterError());
  }
  switch (request.operation) {
    case Operation::kPut:
    case Operation::kDelete:
    case Operation::kTouch:
    case Operation::kIncrement:
    case Operation::kAppend:
      if (const char* const payload = session.PayloadOf(request).key.data();
          payload != nullptr && FitsItsOperation(request)) {
        // The client's processor has it; it is read when the group is made up.
        __builtin_prefetch(payload);
        __builtin_prefetch(payload + kCacheLine);
        write_requests_.push_back(pending);
      } else {
        other_requests_.push_back(pending);
      }
      return;
    case Operation::kBatch:
    case Operation::kPutList:
      if (const std::span<const std::byte> part = session.PartOf(request);
          FitsItsOperation(request) && !part.empty()) {
        for (std::size_t i = 0; i < std::min(part.size(), kForeseen); i += kCacheLine) {
          __builtin_prefetch(part.data() + i);
        }
        write_requests_.push_back(pending);
      } else {
        other_requests_.push_back(pending);
      }
      return;
    case Operation::kCommit:
      if (FitsItsOperation(request) && grants_->BeginCommit(session.connection(), request)) {
        write_requests_.push_back(pending);
      } else {
        other_requests_.push_back(pending);
      }
      return;
    case Operation::kLocate:
    case Operation::kPing:
    case Operation::kReserve:
    case Operation::kPart:
    case Operation::kScan:
    case Operation::kScanNext:
    case Operation::kOutcome:
    case Operation::kBackup:
      other_requests_.push_back(pending);
      return;
  }
  store_->Add(Counter::kRejectedRequests, 1);
  Drop(&session.connection(), absl::InvalidArgumentError("a request of an unknown operation"));
}

bool Server::IsDelayed(ServerSession& session, const Pending& pending) {
  TokenUse& use = *session.token_use();
  const auto waiting = delayed_.find(&use);
  if (waiting == delayed_.end() && use.TakeRequest(store_->clock().Now(), CountOf(pending.request))) {
    return false;
  }
  delayed_[&use].push_back(pending);
  store_->Add(Counter::kRequestsDelayed, 1);
  return true;
}

bool Server::DispatchDelayed() {
  const TimePoint now = store_->clock().Now();
  // Dispatch may drop a connection, and its requests with it: so first whose turn it is, then what comes of
  // it.
  due_.clear();
  for (auto& [use, waiting] : delayed_) {
    while (!waiting.empty() && due_.size() < kMaxGroup / 2 &&
           use->TakeRequest(now, CountOf(waiting.front().request))) {
      due_.push_back(waiting.front());
      waiting.pop_front();
    }
  }
  absl::erase_if(delayed_, [](const auto& entry) { return entry.second.empty(); });
  for (const Pending& pending : due_) {
    if (pending.session != nullptr) Dispatch(*pending.session, pending);
  }
  return !due_.empty();
}

void Server::NoteReads(const ServerSession& session, const Request& request) {
  ServerSession::Reads reads;
  const std::size_t count = session.TakeReads(request, &reads);
  for (std::size_t i = 0; i < count; ++i) store_->NoteRead(reads[i]);
  store_->Add(Counter::kReadsReported, static_cast<std::int64_t>(count));
}

// --- Nothing to do --------------------------------------------------------------------------------------

// Polling pays for a while after an answer, as the client may come again. It does not pay for a
// client that waits for an answer, which the disk may delay.
absl::Status Server::Run() {
  int idle_steps = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    bool came = TakeRequests();
    for (int looks = 0; !came && IsWorthALook() && looks < kLooksPerStep; ++looks) came = TakeRequests();
    if (Serve(came)) {
      idle_steps = 0;
      continue;
    }
    if (expected_ > 0 && ++idle_steps < kSpinSteps) continue;
    idle_steps = 0;
    expected_ = 0;
    Sleep();
  }
  bounded_log_->TellAll();
  return store_->load_status();
}

bool Server::IsWorthALook() const { return expected_ > 0 && !synced_.load(std::memory_order_relaxed); }

void Server::Sleep() {
  for (Port& port : ports_) port.listener->Arm();
  // Events before the arming are not signalled.
  if (!Step()) {
    std::vector<pollfd> fds;
    fds.push_back({stop_fd_, POLLIN, 0});
    fds.push_back({wake_fd_, POLLIN, 0});
    for (const Port& port : ports_) fds.push_back({port.listener->wait_fd(), POLLIN, 0});
    if (::poll(fds.data(), fds.size(), MillisToNextWork()) > 0) store_->Add(Counter::kWakeups, 1);
    // The flag says what there is to do; the signal is for sleepers.
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = ::read(wake_fd_, &count, sizeof(count));
  }
  for (Port& port : ports_) port.listener->Disarm();
}

int Server::MillisToNextWork() const {
  // Postponed requests need another try, even if the store has no work.
  if (!reserves_.empty() || !write_requests_.empty() || !other_requests_.empty()) return 1;
  std::optional<TimePoint> next = store_->next_work();
  for (const auto& expiry :
       {grants_->next_expiry(), scans_->next_expiry(), next_probe_, bounded_log_->next_telling()}) {
    if (expiry) next = next ? std::min(*next, *expiry) : *expiry;
  }
  for (const auto& [use, waiting] : delayed_) {
    next = next ? std::min(*next, use->MayTakeAt()) : use->MayTakeAt();
  }
  // The end of a load wakes nobody.
  const int longest = tells_of_load_ ? 20 : 3'600'000;
  if (!next) return tells_of_load_ ? longest : -1;
  // Rounded up, so as not to wake too early and find nothing.
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*next - store_->clock().Now());
  return static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, longest));
}

void Server::Stop() {
  // Wakes Run, and keeps it from sleeping until it sees the flag.
  Signal(stop_fd_);
  // The last thing: the server may be destroyed as soon as Run, which acquires it, has returned.
  stop_.store(true, std::memory_order_release);
}

void Server::ReloadTokens() {
  reload_.store(true, std::memory_order_release);
  Signal(wake_fd_);
}

void Server::Log(std::string_view line) {
  if (options_.log) options_.log(line);
}

void Server::Warn(std::string_view line) { options_.warn ? options_.warn(line) : Log(line); }

}  // namespace remora
