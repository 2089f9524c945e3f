// The clients: they come over the listeners, greet, prove their tokens, are accepted or rejected, and
// go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "rdma/transport.h"
#include "server/connection/auth_tokens.h"
#include "server/connection/authenticator.h"
#include "server/connection/client_session.h"
#include "server/connection/client_table.h"
#include "server/connection/session_observer.h"
#include "server/monitoring/client_activity.h"
#include "server/monitoring/operator_log.h"
#include "server/monitoring/rate_limited_log.h"
#include "store/base/clock.h"
#include "store/format/wire/messages.h"
#include "store/server_store.h"

namespace remora {

/// A listener, and what the server knows of it.
struct Port {
  std::unique_ptr<rdma::Listener> listener;
  RemoteRegion memory;
  std::size_t client_bytes = 0;  // each client's share of the counted memory, at most
  Metric staging_counter = Metric::kStagingBuffersBound;  // counts the staging buffers of its clients
  Metric transport_counter = Metric::kConnectionsLocal;   // counts its clients
  std::uint64_t dropped_handshakes = 0;                   // the listener's count that the metric already has
  std::uint64_t without_descriptor = 0;                   // the listener's count that the log already has
};

/// Accepts and rejects clients, and drops those that are gone or break the protocol.
///
/// The class has more than 25 methods, because it takes a client from its greeting to its end, and each check
/// of the greeting is a method.
///
/// Thread safety: none; the server's one thread.
class Acceptor {
 public:
  /// Options of ServerOptions, which has their meaning.
  struct Options {
    std::uint32_t max_clients = 0;
    std::string max_clients_by;
    std::uint32_t remembered_clients = 0;
    std::string tokens_file;
    bool serves_without_token = false;
    std::shared_ptr<rdma::ServerTls> tls = nullptr;
    ShardIdentity shard{};      // StoreOptions::shard
    bool has_topology = false;  // it answers kTopology
  };

  /// `tokens`: the tokens of tokens_file. If there is none, all clients are served. References outlive this.
  Acceptor(Options options, std::vector<Token> tokens, ServerStore& store, const OperatorLog& log,
           RateLimitedLog& rate_limited_log);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Accepts clients of this listener, too.
  void AddPort(Port port) { ports_.push_back(std::move(port)); }
  std::span<Port> ports() { return ports_; }
  /// Tells `observer`, which outlives this object's use, of each session that ends.
  void AddObserver(SessionObserver& observer) { observers_.push_back(&observer); }
  /// Has new clients rejected while `why_not` returns a text, which says why, for them. Those that administer
  /// are accepted (HelloFlag::kIsAdmin).
  void set_gate(std::function<std::string_view()> why_not) { why_not_ = std::move(why_not); }
  /// Asks `has_lease` for each new client whether clients read under a lease. One that knows no leases is
  /// rejected then, unless it administers.
  void set_lease(std::function<bool()> has_lease) { has_lease_ = std::move(has_lease); }
  /// Takes the completion records of a store that was promoted, in place of all before. REQUIRES: the gate
  /// has been closed until now.
  void RememberClients();
  /// Returns whether a client needs a token.
  bool asks_for_tokens() const { return authenticator_ != nullptr; }
  std::size_t client_count() const { return sessions_.size(); }
  /// Returns what clients ask of the server.
  const ClientActivities& activities() const { return activities_; }

  /// Takes one client of each listener. Returns false if there were none.
  bool AcceptClients();
  /// Ends a session: its client has gone, or has to go.
  ///
  /// REQUIRES: the connection is that of a session.
  void Drop(rdma::Connection* connection, const absl::Status& why);
  /// Finds out, now and then, which clients are gone without a message.
  void ProbeClients();
  /// Returns when ProbeClients has work. Nothing: no client needs it.
  std::optional<TimePoint> next_probe() const { return next_probe_; }
  /// Returns whether there is a tokens_file, or files of TLS.
  bool has_secrets() const;
  /// Reads the tokens_file and the files of TLS anew (Server::ReloadTokens).
  void ReloadTokens();
  /// Disconnects all clients, and waits until they can reach no memory any more. Their sessions
  /// stay.
  void DisconnectAll();

 private:
  bool AcceptClient(Port& port);
  bool HasLease() const { return has_lease_ && has_lease_(); }
  std::string_view WhyNotServing() const { return why_not_ ? why_not_() : std::string_view(); }
  /// Notes the clients of the listener that never became a request.
  void CountDropped(Port& port);
  void AddSession(std::unique_ptr<ClientSession> session, const Port& port, ClientEntry* client,
                  TokenUse* use);
  /// Returns false if the client was rejected.
  bool CheckHello(rdma::ServerConnection& connection, const HelloRequest& hello, TokenUse** use);
  bool CheckVersion(rdma::ServerConnection& connection, const HelloRequest& hello);
  /// Returns false.
  bool RejectClientId(rdma::ServerConnection& connection);
  /// Returns false if the client was rejected, or challenged. *use: null where no token is asked
  /// for.
  bool Authenticate(rdma::ServerConnection& connection, const HelloRequest& hello, TokenUse** use);
  /// Notes the client ID, before its client is accepted.
  ClientEntry& BeginClient(std::uint64_t id, rdma::Connection* connection, const TokenUse* use);
  void Reject(rdma::ServerConnection& connection, Metric why, HelloRejection rejection,
              std::string_view text);

  const Options options_;
  ServerStore& store_;
  const OperatorLog& log_;
  RateLimitedLog& rate_limited_log_;
  ClientTable clients_;
  std::unique_ptr<Authenticator> authenticator_;  // null: no tokens
  std::function<std::string_view()> why_not_;     // empty: all may come
  std::function<bool()> has_lease_;               // empty: no client needs a lease
  std::vector<SessionObserver*> observers_;
  std::optional<TimePoint> next_probe_;
  ClientActivities activities_;

  // Destroyed in reverse: connections go before their listeners.
  std::vector<Port> ports_;
  // Each is the owner of its connection (Connection::owner), from AcceptClient to Drop.
  absl::flat_hash_map<rdma::Connection*, std::unique_ptr<ClientSession>> sessions_;
};

}  // namespace remora
