// The server: a store, exported for clients to read in place, and the commit path that their writes
// take. It owns the parts, in the order of their use; event_loop.h has the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tls.h"
#include "rdma/transport.h"
#include "server/connection/acceptor.h"
#include "server/event_loop.h"
#include "server/loop_handover.h"
#include "server/memory/exported_memory.h"
#include "server/memory/huge_pages.h"
#include "server/monitoring/client_activity.h"
#include "server/monitoring/log_events.h"
#include "server/monitoring/operator_log.h"
#include "server/monitoring/rate_limited_log.h"
#include "server/monitoring/service_notices.h"
#include "server/replication/replication_service.h"
#include "server/request/cold_read_pool.h"
#include "server/request/cold_reads.h"
#include "server/request/large_writes.h"
#include "server/request/rate_limiter.h"
#include "server/request/reply_sender.h"
#include "server/request/reserve_queue.h"
#include "server/request/unbatched_requests.h"
#include "server/request/write_batcher.h"
#include "server/wake_signals.h"
#include "store/options.h"
#include "store/server_store.h"

namespace remora {

class ClusterSlots;
class SlotDivision;
class KeptDivision;
class SlotMoves;

struct ServerOptions {
  StoreOptions store;
  std::uint32_t max_clients = 512;
  /// The reason for this limit, for rejected clients.
  std::string max_clients_by = "--max_clients allows";
  /// Disconnected clients whose completion records are kept in case they return
  /// (server/connection/client_table.h); about 700 bytes each. Above this number, the server
  /// forgets the client that disconnected first. (So a client that loses its connection has until
  /// as many others have come and gone.)
  std::uint32_t remembered_clients = 4096;
  /// Directory of the backups that clients ask for. Empty: there is none, and they are rejected.
  std::string backup_dir{};
  /// Newest backups to keep when one is made; older ones are deleted. 0: none are deleted.
  std::uint32_t backup_keep = 0;
  /// Auth tokens of the clients that it serves (server/connection/auth_tokens.h). Empty: it serves
  /// all clients that the transport admits.
  std::string tokens_file{};
  /// Also serves clients without a token, for reading and writing, when there is a tokens_file. (A
  /// client that has one proves it all the same, and the server proves it, too.)
  bool serves_without_token = false;
  /// TLS of its tls:// listeners; null: it has none. The server loads the secrets of the tokens_file into it,
  /// and loads it anew when it reads the tokens anew.
  std::shared_ptr<rdma::ServerTls> tls{};
  /// The slots of a cluster that the server has, in place of StoreOptions::slots. It answers for the keys of
  /// others with ReplyStatus::kMoved. Null: it has all.
  std::shared_ptr<const ClusterSlots> slots{};
  /// The division that says which slots of a cluster the server has, in place of `slots`. Then they may move
  /// to other servers, and back (server/cluster/slot_moves.h). Null: they are as `slots` says, for good.
  std::shared_ptr<SlotDivision> division{};
  /// The division in etcd, of a member whose slots may move, in place of `division`; null: there is none.
  /// `move_credentials`: with which it connects to other shards.
  std::shared_ptr<KeptDivision> kept_division{};
  FollowerAddress move_credentials{};
  /// The part of the server in replication. Needs a store with a commit log.
  ReplicationOptions replication{};
  /// Threads that read records from the durable tier for GETs and writes, so that the server thread does not
  /// wait for the disk. 0: the server thread reads. Without meaning for Durability::kMemory.
  std::size_t read_threads = 0;
  /// Makes a pool in place of those threads, for a simulation or a test. May be empty.
  ColdReadPool::Factory make_read_pool{};
  /// Asks for huge pages for the memory (server/memory/huge_pages.h), in a thread of its own.
  bool huge_pages = false;
  /// Lets other threads run between polls for requests. It pays where servers that share their clients are as
  /// many as the CPUs, or more: while one polls, another one or the client could not run.
  bool yields_between_polls = false;
  /// Gets each event that an operator wants to see. The number of events that clients cause is
  /// bounded (server/monitoring/rate_limited_log.h). May be empty.
  LogSink log;
  ServiceNotices notices{};
  /// Returns the settings for clients that ask (`kvctl config`), as JSON. May be empty.
  UnbatchedRequests::SettingsSource settings{};
  /// Is called in the step behind ReloadTokens, before the tokens are read. May be empty.
  std::function<void()> on_reload{};
};

/// A store, served to clients over any number of listeners.
///
/// Thread safety: Stop may be called from any thread and from a signal handler. Everything else is
/// called by one thread, which is also the one that called Listen for the listeners (see
/// rdma::Listener).
///
/// The class has more than 15 fields, because it owns each part of the server, in the order in which one
/// depends on the next.
class Server {
 public:
  /// Creates the memory and opens the store in it; see ServerStore::Open for the errors, and ReadTokens.
  /// Starts no thread, except one for huge pages, read_threads, and one for a backup while it is made. Step
  /// does the work when it is called. The time is that of the store's clock, so that a test can run it in
  /// steps. ResourceExhausted: the system does not start a thread.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerOptions& options);

  /// Returns OK if the slots that the server has are those of the division still, now that no server before
  /// this one can be at its addresses. Aborted: start it anew. Others: those of SlotDivision::Own.
  absl::Status CheckDivision();

  /// Serves over `listener`, too, from the next Step on. Errors as Listener::RegisterRead.
  absl::Status AddListener(std::unique_ptr<rdma::Listener> listener);

  /// Ends all connections, then closes the store.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Does what there is to do, without waiting. False: there was nothing.
  bool Step();

  /// Steps until Stop, sleeping while there is nothing to do. Not OK: it returned because the store cannot
  /// load what it holds (Store::load_status).
  absl::Status Run();

  /// Makes Run return after its current step. Async-signal-safe. The server may be destroyed when Run has
  /// returned, even before this has.
  void Stop();

  /// Reads the tokens_file and the files of TLS anew in the next step. Connections whose token is not in it
  /// any more, or is another one, end. If something is wrong with one of the files, the log says so, and all
  /// stays as it was.
  /// Async-signal-safe.
  void ReloadTokens();

  /// Changes ServerOptions::backup_keep, from the next backup on.
  void SetBackupKeep(std::uint32_t keep) { unbatched_->SetBackupKeep(keep); }

  ServerStore& store() { return *store_; }
  std::size_t client_count() const { return acceptor_->client_count(); }
  /// Returns what each client asks of the server, for readers in other threads; the server outlives them.
  const ClientActivities& activities() const { return acceptor_->activities(); }
  /// Returns the states of the followers, for readers in other threads; the server outlives them.
  const FollowerActivities& followers() const { return followers_; }

 private:
  explicit Server(const ServerOptions& options);
  /// Puts a copy of a primary's data in its place, if one has come (store/durable/incoming_copy.h).
  absl::Status TakeUpCopy(const ServerOptions& options);
  /// Makes the pool that reads the durable tier. Null: the server thread reads.
  absl::StatusOr<std::unique_ptr<ColdReadPool>> MakeReadPool(const ServerOptions& options);
  /// Makes the parts between the store and its clients.
  void MakeParts(const ServerOptions& options, std::vector<Token> tokens,
                 std::unique_ptr<ColdReadPool> read_pool);
  /// Makes the part of replication, if there is one, and the event loop.
  absl::Status MakeEventLoop(const ServerOptions& options, History history);

  const OperatorLog log_;
  const std::function<void()> on_reload_;
  FollowerActivities followers_;
  std::unique_ptr<WakeSignals> signals_;
  const std::shared_ptr<LoopHandover> handover_ = std::make_shared<LoopHandover>();
  std::unique_ptr<ExportedMemory> memory_;
  std::unique_ptr<HugePages> huge_pages_;  // null: the system's affair alone
  std::unique_ptr<ServerStore> store_;
  std::unique_ptr<RateLimitedLog> rate_limited_log_;  // for all that clients cause
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<LargeWrites> large_writes_;
  std::unique_ptr<ReplySender> replies_;
  std::unique_ptr<RateLimiter> rate_limiter_;
  std::unique_ptr<ColdReads> cold_reads_;
  std::unique_ptr<WriteBatcher> writes_;
  std::unique_ptr<ReserveQueue> reserves_;
  std::unique_ptr<UnbatchedRequests> unbatched_;
  std::unique_ptr<ReplicationService> replication_;  // null: the server has no part in replication
  std::shared_ptr<SlotDivision> division_;
  std::shared_ptr<KeptDivision> kept_division_;
  std::unique_ptr<SlotMoves> moves_;  // null: the slots do not move
  std::unique_ptr<EventLoop> event_loop_;
};

}  // namespace remora
