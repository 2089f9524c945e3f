#include "server/server.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/cluster/kept_division.h"
#include "server/cluster/slot_division.h"
#include "server/cluster/slot_moves.h"
#include "server/connection/auth_tokens.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/durable/incoming_copy.h"

namespace remora {
namespace {

// The server can remember as many writes as a client may have unanswered.
static_assert(kCredits <= kCompletionsPerClient);

Metric TransportCounter(const rdma::Address& address) {
  switch (address.kind) {
    case rdma::TransportKind::kVerbs:
      return Metric::kConnectionsVerbs;
    case rdma::TransportKind::kTcp:
      return address.tls ? Metric::kConnectionsTls : Metric::kConnectionsTcp;
    case rdma::TransportKind::kLocal:
      break;
  }
  return Metric::kConnectionsLocal;
}

}  // namespace

Server::Server(const ServerOptions& options) : log_(options.log), on_reload_(options.on_reload) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(options));
  REMORA_ASSIGN_OR_RETURN(server->signals_, WakeSignals::Create());
  std::vector<Token> tokens;
  if (!options.tokens_file.empty()) {
    REMORA_ASSIGN_OR_RETURN(tokens, ReadTokens(options.tokens_file));
  }
  if (options.tls != nullptr) REMORA_RETURN_IF_ERROR(options.tls->Load(SecretsOf(tokens)));
  REMORA_ASSIGN_OR_RETURN(server->memory_, ExportedMemory::Create(options.store.memory_size));
  StoreOptions store_options = options.store;
  History history;
  if (!store_options.data_dir.empty()) {
    REMORA_RETURN_IF_ERROR(server->TakeUpCopy(options));
    REMORA_ASSIGN_OR_RETURN(history, CheckHistory(store_options.data_dir, options.replication));
  }
  if (options.replication.is_on()) {
    // A primary, too, until all its followers are there: so it writes nothing outside of its history.
    store_options.follows = true;
    // R11 of replication_sender.h: twice, for the writes that were in flight when the bound was reached.
    store_options.watch_retention_bytes = std::max<std::uint64_t>(
        store_options.watch_retention_bytes, 2 * std::uint64_t{options.replication.max_pending_bytes});
  }
  store_options.on_synced = [signals = server->signals_.get()] { signals->ReportSynced(); };
  if (options.huge_pages) {
    server->huge_pages_ = std::make_unique<HugePages>(server->memory_->region());
    store_options.on_first_use = [pages = server->huge_pages_.get()](std::uint64_t end) {
      pages->Reached(end);
    };
  }
  store_options.slots = options.slots;
  SlotsAtStart slots;
  if (options.division != nullptr) {
    REMORA_ASSIGN_OR_RETURN(slots, ReadSlotsAtStart(*options.division));
    store_options.slots = std::make_shared<const ClusterSlots>(slots.own);
  }
  REMORA_ASSIGN_OR_RETURN(server->store_, ServerStore::Open(store_options, server->memory_->region()));
  if (options.huge_pages) REMORA_RETURN_IF_ERROR(server->huge_pages_->Start(server->store_.get()));
  if (server->store_->Read(Metric::kLogTorn) != 0) {
    server->log_.Write(
        LogEvent::kLogTorn,
        "the log was torn, as when the machine fails: writes at its end, none of which was synced, are "
        "dropped");
  }
  if (const std::string line = server->store_->commit_log_description(); !line.empty()) {
    server->log_.Write(LogEvent::kCommitLog, line);
  }
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<ColdReadPool> read_pool, server->MakeReadPool(options));
  if (options.division != nullptr) {
    server->division_ = options.division;
    server->moves_ =
        std::make_unique<SlotMoves>(*server->store_, *options.division, server->log_,
                                    options.store.durability != Durability::kMemory, std::move(slots));
  }
  if (options.kept_division != nullptr) {
    server->kept_division_ = options.kept_division;
    const auto state = [one = server.get()] {
      return MovingMember::State{.epoch = one->replication_->serving_epoch(),
                                 .published = one->replication_->published()};
    };
    server->moves_ = std::make_unique<SlotMoves>(
        *server->store_, server->log_, MovingMember{*options.kept_division, options.move_credentials, state});
  }
  server->MakeParts(options, std::move(tokens), std::move(read_pool));
  REMORA_RETURN_IF_ERROR(server->MakeEventLoop(options, std::move(history)));
  server->store_->Add(Metric::kRegisteredBytes, static_cast<std::int64_t>(server->memory_->region().size()));
  return server;
}

absl::Status Server::TakeUpCopy(const ServerOptions& options) {
  const absl::StatusOr<InstalledCopy> installed =
      InstallCopy(options.store.data_dir, options.store.commit_log_bytes);
  if (absl::IsAborted(installed.status())) {
    log_.Write(LogEvent::kCopyFailed, StdView(installed.status().message()));
    return absl::OkStatus();
  }
  REMORA_RETURN_IF_ERROR(installed.status());
  if (*installed == InstalledCopy::kPart && options.replication.membership != nullptr) {
    log_.Write(LogEvent::kCopyTaken,
               "a part of a copy of a primary's data is here: the next copy goes on from it");
  } else if (*installed == InstalledCopy::kPart) {
    RemoveIncomingCopy(options.store.data_dir);
    log_.Write(LogEvent::kCopyFailed, "a copy of a primary's data that was not whole is removed");
  } else if (*installed == InstalledCopy::kReplaced) {
    log_.Write(LogEvent::kCopyTaken, "the copy of a primary's data is in place; the data before are removed");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ColdReadPool>> Server::MakeReadPool(const ServerOptions& options) {
  if (options.store.durability == Durability::kMemory) return nullptr;
  const auto read = [store = store_.get()](ColdRead* cold) { store->ReadCold(cold); };
  const auto on_done = [signals = signals_.get()] { signals->Wake(); };
  if (options.make_read_pool) return options.make_read_pool(read, on_done);
  if (options.read_threads == 0) return nullptr;
  return StartColdReadThreads(options.read_threads, read, on_done);
}

void Server::MakeParts(const ServerOptions& options, std::vector<Token> tokens,
                       std::unique_ptr<ColdReadPool> read_pool) {
  rate_limited_log_ = std::make_unique<RateLimitedLog>(options.log, store_->clock());
  acceptor_ =
      std::make_unique<Acceptor>(Acceptor::Options{.max_clients = options.max_clients,
                                                   .max_clients_by = options.max_clients_by,
                                                   .remembered_clients = options.remembered_clients,
                                                   .tokens_file = options.tokens_file,
                                                   .serves_without_token = options.serves_without_token,
                                                   .tls = options.tls,
                                                   .shard = options.store.shard,
                                                   .has_topology = options.replication.has_division},
                                 std::move(tokens), *store_, log_, *rate_limited_log_);
  large_writes_ = std::make_unique<LargeWrites>(*store_, *memory_);
  replies_ = std::make_unique<ReplySender>(*store_, *acceptor_);
  rate_limiter_ = std::make_unique<RateLimiter>(*store_);
  // A pool of a test decides when reads end.
  const TryReads tries = options.make_read_pool ? TryReads::kNever : TryReads::kIfCached;
  cold_reads_ = std::make_unique<ColdReads>(*store_, std::move(read_pool), tries);
  writes_ = std::make_unique<WriteBatcher>(*store_, *acceptor_, *large_writes_, *replies_, *cold_reads_);
  reserves_ = std::make_unique<ReserveQueue>(*store_, *large_writes_, *replies_);
  auto backups = std::make_unique<BackupService>(
      *store_, options.backup_dir, options.backup_keep,
      [log = rate_limited_log_.get()](LogEvent event, std::string_view line) { log->Write(event, line); });
  UnbatchedRequests::TopologySource topology;
  if (options.replication.has_division) topology = [this] { return replication_->topology(); };
  unbatched_ =
      std::make_unique<UnbatchedRequests>(*store_, *large_writes_, *reserves_, *replies_, std::move(backups),
                                          *cold_reads_, options.settings, std::move(topology));
}

absl::Status Server::MakeEventLoop(const ServerOptions& options, History history) {
  if (options.replication.is_on()) {
    REMORA_ASSIGN_OR_RETURN(
        replication_,
        ReplicationService::Create({.store = *store_,
                                    .replies = *replies_,
                                    .log = log_,
                                    .wake = [signals = signals_.get()] { signals->Wake(); },
                                    .on_promoted = [this] { acceptor_->RememberClients(); },
                                    .followers = followers_,
                                    .region = memory_->region()},
                                   options.replication, options.store.data_dir,
                                   options.store.durability == Durability::kSynced, std::move(history)));
    acceptor_->set_gate([this] { return replication_->WhyNotServing(); });
    acceptor_->set_lease([this] { return replication_->has_lease(); });
    acceptor_->AddObserver(*replication_);
  }
  event_loop_ = std::make_unique<EventLoop>(EventLoop::Parts{.store = *store_,
                                                             .signals = *signals_,
                                                             .acceptor = *acceptor_,
                                                             .rate_limiter = *rate_limiter_,
                                                             .writes = *writes_,
                                                             .unbatched = *unbatched_,
                                                             .reserves = *reserves_,
                                                             .replies = *replies_,
                                                             .handover = *handover_,
                                                             .replication = replication_.get(),
                                                             .moves = moves_.get(),
                                                             .rate_limited_log = *rate_limited_log_,
                                                             .log = log_,
                                                             .on_reload = on_reload_,
                                                             .notices = options.notices,
                                                             .yields = options.yields_between_polls},
                                            options.store.durability != Durability::kMemory);
  acceptor_->AddObserver(*large_writes_);
  acceptor_->AddObserver(*unbatched_);
  acceptor_->AddObserver(*rate_limiter_);
  acceptor_->AddObserver(*writes_);
  acceptor_->AddObserver(*reserves_);
  acceptor_->AddObserver(*event_loop_);
  return absl::OkStatus();
}

Server::~Server() {
  // Disconnects the clients first, then waits for the listeners: clients see the server end before
  // the store's data can be anybody else's. The grants and scans of the clients go before the
  // clients. By then the clients have learned of the end; otherwise a WRITE there would fail as if
  // it were not allowed.
  if (replication_) replication_->EndLinks();
  if (acceptor_) acceptor_->DisconnectAll();
  event_loop_.reset();
  large_writes_.reset();
  unbatched_.reset();
  cold_reads_.reset();
  acceptor_.reset();
  if (huge_pages_) huge_pages_->Stop();
  moves_.reset();
  store_.reset();
}

absl::Status Server::CheckDivision() { return moves_ != nullptr ? moves_->CheckStart() : absl::OkStatus(); }

absl::Status Server::AddListener(std::unique_ptr<rdma::Listener> listener) {
  // A device locks memory, whose pages then stay as they are.
  if (huge_pages_ && listener->address().kind == rdma::TransportKind::kVerbs) huge_pages_->ProvideAll();
  REMORA_ASSIGN_OR_RETURN(const RemoteRegion memory, memory_->RegisterAt(*listener));
  listener->CountReads([store = store_.get()](const rdma::ServedReads& served) {
    store->Add(Metric::kTcpReads, static_cast<std::int64_t>(served.reads));
    store->Add(Metric::kTcpReadBytes, static_cast<std::int64_t>(served.bytes));
    store->Add(Metric::kTcpCpuTime, served.cpu_time.count());
  });
  listener->ServeBy([handover = handover_, raw = listener.get()] { return handover->TryServe(*raw); });
  const rdma::TransportKind kind = listener->address().kind;
  const rdma::QueueLimits limits = listener->limits();
  const SessionBytes session = ClientSession::MaxRegisteredBytes();
  const Metric staging_counter =
      listener->binds_writes() ? Metric::kStagingBuffersBound : Metric::kStagingBuffersUnbound;
  const Metric transport_counter = TransportCounter(listener->address());
  acceptor_->AddPort(
      {std::move(listener), memory, ClientBytes(kind, limits, session), staging_counter, transport_counter});
  store_->Add(Metric::kRegisteredBytes, static_cast<std::int64_t>(ListenerBytes(kind, limits, session)));
  return absl::OkStatus();
}

bool Server::Step() { return event_loop_->Step(); }

absl::Status Server::Run() { return event_loop_->Run(); }

void Server::Stop() { signals_->Stop(); }

void Server::ReloadTokens() { signals_->RequestReload(); }

}  // namespace remora
