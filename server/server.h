// The server: a store, exported for clients to read in place, and the commit path that their writes take.
//
//   Step:  take requests of all connections
//          commit their writes as one group (store.h): copy, verify, make durable, publish, reply
//          answer pings, locate records, reserve room for large values, go on with scans, reply
//          now that nobody waits: the store's housekeeping, at the pace of the writes, or a bit of it
//          now and then, and where there is nothing else to do: accept new clients, see who is gone
//
// One thread does all of it. GETs are not among its work: clients READ the memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "server/connection/authenticator.h"
#include "server/connection/client_session.h"
#include "server/connection/client_table.h"
#include "server/memory/exported_memory.h"
#include "server/memory/huge_pages.h"
#include "server/monitoring/rate_limited_log.h"
#include "server/request/backup_service.h"
#include "server/request/large_writes.h"
#include "server/request/scan_service.h"
#include "store/base/clock.h"
#include "store/format/wire/multi_put.h"
#include "store/store.h"

namespace remora {

struct ServerOptions {
  StoreOptions store;
  std::uint32_t max_clients = 512;
  /// Why not more: for who is refused.
  std::string max_clients_by = "--max_clients allows";
  /// Disconnected clients whose completion records are kept in case they return
  /// (server/connection/client_table.h); about 700 bytes each. Above this number, the server
  /// forgets the client that disconnected first. (So a client that loses its connection has until
  /// as many others have come and gone.)
  std::uint32_t remembered_clients = 4096;
  /// Where backups go that clients ask for. Empty: nowhere, they are refused.
  std::string backup_dir{};
  /// When one is made, older ones are deleted, but so many of the newest. 0: none are.
  std::uint32_t backup_keep = 0;
  /// Whom it serves (server/connection/auth_tokens.h). Empty: everybody whom the transport lets through.
  std::string tokens_file{};
  /// With a tokens_file: whether it serves who has none, too, for reading and writing. (A client that has one
  /// proves it all the same, and is proven to.)
  bool serves_without_token = false;
  /// Asks for large pages for the memory (server/memory/huge_pages.h), in a thread of its own.
  bool large_pages = false;
  /// Gets one line, without its end, for each event that someone who runs a server wants to see; of what
  /// clients cause, so many in a time (server/monitoring/rate_limited_log.h). May be empty.
  std::function<void(std::string_view)> log;
  /// Gets those of the lines that say what is wrong, in place of `log`. Empty: `log` gets them, too.
  std::function<void(std::string_view)> warn{};
};

/// Thread safety: Stop may be called from any thread and from a signal handler. Everything else is
/// called by one thread, which is also the one that called Listen for the listeners (see
/// rdma::Listener).
class Server {
 public:
  /// Creates the memory and opens the store in it; see Store::Open for the errors, and ReadTokens.
  /// Starts no thread, except one for huge pages, and one for a backup while it is made. Step does
  /// the work when it is called. The time is that of the store's clock, so that a test can run it
  /// in steps.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerOptions& options);

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

  /// Reads the tokens_file anew in the next step. Connections whose token is not in it any more, or is
  /// another one, end. If something is wrong with it, the log says so, and all stays as it was.
  /// Async-signal-safe.
  void ReloadTokens();

  Store& store() { return *store_; }
  std::size_t client_count() const { return sessions_.size(); }

 private:
  struct Port {
    std::unique_ptr<rdma::Listener> listener;
    RemoteRegion memory;
    std::size_t client_bytes = 0;
    Counter slices = Counter::kSlicesBound;  // where those of its clients are counted
    std::uint64_t dropped_handshakes = 0;    // of the listener's, those that are counted
    std::uint64_t without_descriptor = 0;    // and those that were told of
  };
  // State of a multi-put.
  struct PutList {
    PutListOutcomes outcomes;                              // of those that were begun
    std::array<std::uint64_t, kMaxListedPuts> versions{};  // of those of them that were done
    std::size_t waiting = 0;                               // of them, for the disk
    bool is_put_off = false;                               // there are others
    std::size_t text_of = kMaxListedPuts;                  // the first that was not done
    std::string text{};                                    // why that was not

    bool is_over() const { return waiting == 0 && !is_put_off; }
  };
  // A request and the session to answer it in. The key of a write points into its slice.
  struct Pending {
    ServerSession* session;  // null: it is gone
    Request request;
    NamedClient* client = nullptr;  // null: no name. Of a write that is being committed, it is there
    // Number of its writes in the group: one, those of a batch or multi-put, or none (refused_ says
    // why).
    std::size_t writes = 1;
    std::shared_ptr<PutList> list{};  // of one that was begun, and is not over
    TimePoint not_before{};           // of what was put off: the next try

    void Forget(const ServerSession* gone) {
      if (session == gone) session = nullptr;
    }
  };

  // A reserve that waits for room.
  struct Turn {
    Pending pending;
    TimePoint asked{};     // last
    bool is_asked = true;  // else it was answered with kAskAgain
  };

  // A write that waits for the disk.
  struct Unsynced {
    Pending pending;
    std::size_t number = 0;  // of a list, in it
  };

  explicit Server(const ServerOptions& options);

  // --- connection/acceptor.cc: they come, and go

  bool AcceptClients(Port& port);
  /// False: it was refused.
  bool IsWelcome(rdma::Connection& connection, const HelloRequest& hello, TokenUse** use);
  bool SpeaksAsWeDo(rdma::Connection& connection, const HelloRequest& hello);
  bool RefuseName(rdma::Connection& connection);  // false
  /// False: it was refused, or challenged. *use: null where no token is asked for.
  bool HasToken(rdma::Connection& connection, const HelloRequest& hello, TokenUse** use);
  /// The name, from before its client is accepted on.
  NamedClient& BeginClient(std::uint64_t name, rdma::Connection* connection, const TokenUse* use);
  void Refuse(rdma::Connection& connection, Counter why, HelloRefusal refusal, std::string_view text);
  void Drop(rdma::Connection* connection, const absl::Status& why);
  /// Finds out who is gone without a word, now and then.
  void ProbeClients();
  void ReadTokensAnew();

  // --- server.cc

  /// Does the work of Step behind TakeRequests. `came`: the result of that.
  bool Serve(bool came);
  /// Does the work for which nobody waits. Returns false if there was nothing to do.
  bool LookAround();
  /// To where they are answered from. False: there were none.
  bool TakeRequests();
  bool TakeCompletions(Port& port);
  void TakeRequest(ServerSession& session, const rdma::Completion& completion);
  /// To where it is answered from.
  void Dispatch(ServerSession& session, const Pending& pending);
  /// Where its token's rate is used up: keeps it until its turn comes, behind those that wait already.
  bool IsDelayed(ServerSession& session, const Pending& pending);
  /// Whose turn has come. False: nobody's.
  bool DispatchDelayed();
  void NoteReads(const ServerSession& session, const Request& request);
  /// Returns the flag of replies as of now.
  std::uint16_t LoadingFlag() const { return store_->loading() ? ReplyFlag::kLoading : 0; }
  /// While the store loads: says when it has, stops when it never will.
  void SeeHowTheLoadGoes();
  /// Says when the disk takes no writes, and when it does again.
  void SeeHowTheDiskDoes();
  /// Before what else there is to do: somebody is about to ask, and the disk has nothing to tell.
  bool IsWorthALook() const;
  void Sleep();
  /// For poll: -1 when nothing is to be done before somebody comes.
  int MillisToNextWork() const;
  /// For what clients do not cause: always written.
  void Log(std::string_view line);
  /// For what is wrong, and for its end.
  void Warn(std::string_view line);

  // --- request/write_batcher.cc

  /// False: there were none, or all wait for room.
  bool CommitWrites();
  /// One that is neither of a batch nor of a list, to the group.
  void AddWrite(const Pending& pending);
  /// Rejects bytes that are no batch or multi-put.
  void RefuseBatch(const Pending& pending, const absl::Status& why);
  /// After the group, of those whose record was reserved.
  void EndCommits();
  /// `outcome`: a Write, or a SyncedWrite.
  template <typename Outcome>
  void AnswerWrite(const Pending& pending, const Outcome& outcome);
  /// Answers writes that waited for the disk. Returns false if there were none.
  bool AnswerSynced();
  /// `number`: of a list, in it.
  static RequestName NameOf(const Pending& pending, std::size_t number = 0);
  /// Copies a batch, or a list, out of the slice and adds its writes to the group. InvalidArgument, DataLoss:
  /// it was none, or not whole.
  absl::Status AddBatch(Pending& pending);
  void AddUnsynced(std::uint64_t ticket, const Pending& pending, std::size_t number);
  /// `outcome`: a Write, or a SyncedWrite.
  template <typename Outcome>
  void NoteListed(const Pending& pending, PutList& list, std::size_t number, const Outcome& outcome);
  /// Takes the results of a multi-put's writes in this group. Returns false if some have none, for
  /// lack of space.
  bool TakeList(Pending& pending, std::span<const Write> writes);
  void AnswerList(const Pending& pending, const PutList& list);

  // --- request/read_service.cc

  /// False: there were none, or all wait for room.
  bool AnswerOthers();
  bool AnswerReserves();
  void AddReserve(const Pending& pending);
  /// Answers it if it is time. `is_room`: nobody before it waits for room; false, once it does. True: it is
  /// over.
  bool TakeTurn(Turn& turn, TimePoint now, bool* is_room);
  void TellOutcome(const Pending& pending);
  void TellBackup(const Pending& pending);
  /// Aborted: there is no room right now to bring the record back to memory.
  absl::Status Locate(const ServerSession& session, const Request& request, Reply* reply);
  /// Completes the reply and sends it, with `behind` behind it. Null session: to nobody.
  void SendReply(ServerSession* session, Reply& reply, std::string_view behind);
  void Answer(const Pending& pending, const absl::Status& status, Reply reply = {});

  const ServerOptions options_;
  std::unique_ptr<ExportedMemory> memory_;
  std::unique_ptr<LargePages> large_pages_;  // null: the system's affair alone
  std::unique_ptr<Store> store_;
  std::unique_ptr<BoundedLog> bounded_log_;  // for all that clients cause
  std::vector<Port> ports_;
  std::unique_ptr<Outcomes> outcomes_;
  std::unique_ptr<Admission> admission_;  // null: no tokens
  // Each is the owner of its connection (Connection::owner), from AcceptClients to Drop.
  absl::flat_hash_map<rdma::Connection*, std::unique_ptr<ServerSession>> sessions_;
  std::unique_ptr<Grants> grants_;
  std::unique_ptr<Scans> scans_;
  std::unique_ptr<Backups> backups_;

  // One step's work; kept for their memory.
  std::array<rdma::Completion, 64> completions_;
  std::vector<Pending> write_requests_;
  bool some_gone_ = false;  // maybe of those, their sessions
  std::vector<Write> writes_;
  std::vector<absl::Status> refused_;     // of the write_requests_ that are no writes, in their order
  std::optional<std::int64_t> reply_ms_;  // Clock::UnixMillis, since requests were taken last
  int steps_since_look_ = 0;              // LookAround
  std::vector<std::string> batches_;      // private copies; the first so many are in use:
  std::size_t batches_used_ = 0;
  std::vector<Pending> other_requests_;
  absl::flat_hash_map<TokenUse*, std::deque<Pending>> delayed_;  // none of them empty
  std::vector<Pending> due_;                                     // of those, whose turn has come
  std::deque<Turn> reserves_;  // in the order in which they came; one for a connection at most

  std::optional<TimePoint> next_probe_;  // nothing: there are no clients to be asked whether they are there
  bool tells_of_load_ = false;           // when it is over; it may be already
  bool disk_refuses_ = false;            // and it was said
  std::size_t expected_ = 0;             // requests that may come at once: replies without one behind them

  // Writes that wait for the disk, by their tickets.
  absl::flat_hash_map<std::uint64_t, Unsynced> unsynced_;
  std::vector<SyncedWrite> synced_writes_;

  std::atomic<bool> stop_ = false;
  std::atomic<bool> synced_ = false;  // outcomes have come
  std::atomic<bool> reload_ = false;  // ReloadTokens was called
  int stop_fd_ = -1;                  // an eventfd, readable once Stop was called
  int wake_fd_ = -1;                  // another one, since one of the two was set last, until Run has slept
};

}  // namespace remora
