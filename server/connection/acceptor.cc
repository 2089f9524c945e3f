#include "server/connection/acceptor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/transport.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

// A client whose host is gone, or cut off, sends nothing. It may never have a request in flight
// that tells, and would keep its staging buffer for ever.
constexpr std::chrono::seconds kProbeEvery{5};

}  // namespace

Acceptor::Acceptor(Options options, std::vector<Token> tokens, ServerStore& store, const OperatorLog& log,
                   RateLimitedLog& rate_limited_log)
    : options_(std::move(options)),
      store_(store),
      log_(log),
      rate_limited_log_(rate_limited_log),
      clients_(options_.remembered_clients, store.TakeCompletions()),
      activities_(options_.max_clients) {
  store_.Add(Metric::kClientsRemembered, static_cast<std::int64_t>(clients_.size()));
  if (tokens.empty()) return;
  store_.Add(Metric::kTokens, static_cast<std::int64_t>(tokens.size()));
  authenticator_ = std::make_unique<Authenticator>(std::move(tokens), store_.clock());
}

// --- Clients come ---------------------------------------------------------------------------------------

bool Acceptor::AcceptClients() {
  bool busy = false;
  for (Port& port : ports_) busy |= AcceptClient(port);
  return busy;
}

void Acceptor::CountDropped(Port& port) {
  if (const std::uint64_t dropped = port.listener->dropped_handshakes(); dropped != port.dropped_handshakes) {
    store_.Add(Metric::kHandshakesDropped, static_cast<std::int64_t>(dropped - port.dropped_handshakes));
    port.dropped_handshakes = dropped;
  }
  if (const std::uint64_t rejected = port.listener->without_descriptor();
      rejected != port.without_descriptor) {
    rate_limited_log_.Write(LogEvent::kDescriptorsShort,
                            absl::StrCat(rejected - port.without_descriptor,
                                         " clients rejected: no descriptor is left for them; raise the "
                                         "limit (ulimit -n)"));
    port.without_descriptor = rejected;
  }
  while (const std::optional<std::string> rejection = port.listener->NextRejection()) {
    rate_limited_log_.Write(LogEvent::kClientRejected, *rejection);
  }
}

bool Acceptor::AcceptClient(Port& port) {
  std::unique_ptr<rdma::ServerConnection> connection = port.listener->NextRequest();
  CountDropped(port);
  if (connection == nullptr) return false;

  // Bytes from other programs may be shorter; magic and versions come first in every release.
  HelloRequest hello;
  const std::span<const std::byte> said = connection->peer_data();
  hello.magic = 0;
  std::ranges::copy(said.first(std::min(said.size(), sizeof(hello))),
                    std::as_writable_bytes(std::span(&hello, 1)).begin());
  TokenUse* use = nullptr;
  if (!CheckHello(*connection, hello, &use)) return true;
  const std::string peer = connection->peer();
  // A store that is not a primary's registers no clients.
  const bool has_id = hello.client != 0 && WhyNotServing().empty();
  ClientEntry* const client = has_id ? &BeginClient(hello.client, connection.get(), use) : nullptr;
  HelloReply reply;
  reply.flags = LoadingFlag(store_) | ReplyFlag::kHasSettings;
  if (HasLease()) reply.flags |= ReplyFlag::kHasLease;
  if (store_.has_ordered_index()) reply.flags |= ReplyFlag::kHasLeaves;
  if (options_.has_topology) reply.flags |= ReplyFlag::kHasTopology;
  if (use != nullptr && use->token.role == Role::kReadOnly) reply.flags |= ReplyFlag::kReadOnly;
  reply.incarnation = store_.superblock().incarnation;
  reply.server_ms = store_.clock().UnixMillis();
  reply.memory = port.memory;
  if ((hello.flags & HelloFlag::kAsksShard) != 0 && !options_.shard.is_none()) {
    reply.flags |= ReplyFlag::kHasShard;
    reply.shard = options_.shard;
  }
  auto session = ClientSession::Accept(connection, reply, [&](HelloReply* whole) {
    if (use != nullptr) ProveServer(use->token, hello, whole);
  });
  if (session.ok()) {
    AddSession(*std::move(session), port, client, use);
    rate_limited_log_.Write(LogEvent::kClientConnected, absl::StrCat("client ", peer, ": connected",
                                                                     use == nullptr ? "" : " with the token ",
                                                                     use == nullptr ? "" : use->token.name));
    return true;
  }
  if (client != nullptr) clients_.End(*client);
  if (connection != nullptr) {
    Reject(*connection, Metric::kRejectedFull, {.reason = RejectionReason::kFull},
           StdView(session.status().message()));
  } else {
    rate_limited_log_.Write(
        LogEvent::kClientLost,
        absl::StrCat("client ", peer, ": disconnected before it was accepted: ", session.status().message()));
  }
  return true;
}

void Acceptor::RememberClients() {
  const auto before = static_cast<std::int64_t>(clients_.size());
  clients_.Remember(store_.TakeCompletions());
  store_.Add(Metric::kClientsRemembered, static_cast<std::int64_t>(clients_.size()) - before);
}

void Acceptor::AddSession(std::unique_ptr<ClientSession> session, const Port& port, ClientEntry* client,
                          TokenUse* use) {
  const std::size_t bytes =
      port.client_bytes - ClientSession::MaxRegisteredBytes().largest + session->registered_bytes();
  session->set_bytes(bytes);
  session->set_counters(port.staging_counter, port.transport_counter);
  if (!session->is_read_only()) store_.Add(port.staging_counter, 1);
  session->set_client(client);
  session->set_token_use(use);
  session->set_activity(activities_.Begin(port.transport_counter, store_.clock().UnixMillis()));
  rdma::Connection* const connection = &session->connection();
  connection->set_owner(session.get());
  if (use != nullptr) ++use->connections;
  sessions_.emplace(connection, std::move(session));
  if (!next_probe_) next_probe_ = store_.clock().Now() + kProbeEvery;
  store_.Add(Metric::kRegisteredBytes, static_cast<std::int64_t>(bytes));
  store_.Add(Metric::kConnections, 1);
  store_.Add(port.transport_counter, 1);
  store_.Add(Metric::kConnectionsAccepted, 1);
}

bool Acceptor::CheckHello(rdma::ServerConnection& connection, const HelloRequest& hello, TokenUse** use) {
  // Before anything is done, or told, of what others have here.
  if (!CheckVersion(connection, hello) || !Authenticate(connection, hello, use)) return false;
  const std::string_view why_not = WhyNotServing();
  if (!why_not.empty() && (hello.flags & HelloFlag::kIsAdmin) == 0) {
    Reject(connection, Metric::kRejectedNotServing, {.reason = RejectionReason::kNotServing}, why_not);
    return false;
  }
  if (HasLease() && (hello.flags & (HelloFlag::kKnowsLease | HelloFlag::kIsAdmin)) == 0) {
    Reject(connection, Metric::kRejectedVersion, {.reason = RejectionReason::kVersion},
           "it has followers, and the client knows no leases; use a client of this release");
    return false;
  }
  ClientEntry* const known = hello.client == 0 ? nullptr : clients_.Find(hello.client);
  // Everybody who sees the wire sees a client ID: it is of use only with the token that it came
  // with.
  const bool is_anothers =
      known != nullptr && !known->token.empty() && (*use == nullptr || known->token != (*use)->token.name);
  if (is_anothers) return RejectClientId(connection);
  if (known == nullptr && (hello.flags & HelloFlag::kReconnects) != 0) {
    return RejectClientId(connection);
  }
  // O1 of client_table.h: the old connection of this client ID ends first, even if its client has not closed
  // it.
  if (known != nullptr && known->connection != nullptr) {
    Drop(known->connection,
         absl::UnavailableError("disconnect: the client has reconnected over another connection"));
  }
  if (*use != nullptr && (*use)->is_full()) {
    Reject(connection, Metric::kRejectedTokenFull, {.reason = RejectionReason::kFull},
           absl::StrCat("the token ", (*use)->token.name, " has ", (*use)->connections,
                        " connections, as many as it may"));
    return false;
  }
  if (sessions_.size() >= options_.max_clients) {
    Reject(connection, Metric::kRejectedFull, {.reason = RejectionReason::kFull},
           absl::StrCat("it has ", sessions_.size(), " clients, as many as ", options_.max_clients_by));
    return false;
  }
  return true;
}

bool Acceptor::RejectClientId(rdma::ServerConnection& connection) {
  store_.Add(Metric::kClientsForgotten, 1);
  Reject(connection, Metric::kRejectedForgotten, {.reason = RejectionReason::kForgotten},
         "it does not know this client, or not any more; the outcome of its last write is unknown");
  return false;
}

bool Acceptor::CheckVersion(rdma::ServerConnection& connection, const HelloRequest& hello) {
  if (hello.magic != kHelloMagic) {
    Reject(connection, Metric::kRejectedVersion, {.reason = RejectionReason::kNotRemora},
           "that was no Remora client's greeting");
    return false;
  }
  if (hello.protocol_version != kProtocolVersion || hello.format_version != kFormatVersion) {
    Reject(
        connection, Metric::kRejectedVersion, {.reason = RejectionReason::kVersion},
        absl::StrCat("it speaks protocol ", kProtocolVersion, " and format ", kFormatVersion, ", the client ",
                     hello.protocol_version, " and ", hello.format_version, "; use one release"));
    return false;
  }
  if (hello.layout_signature != FoldedLayoutSignature()) {
    Reject(connection, Metric::kRejectedVersion, {.reason = RejectionReason::kLayout},
           absl::StrCat("its layout signature is ", absl::Hex(FoldedLayoutSignature()), ", the client's ",
                        absl::Hex(hello.layout_signature), "; use builds of one release"));
    return false;
  }
  return true;
}

bool Acceptor::Authenticate(rdma::ServerConnection& connection, const HelloRequest& hello, TokenUse** use) {
  *use = nullptr;
  if (authenticator_ == nullptr) return true;
  const bool has_token = (hello.flags & HelloFlag::kHasToken) != 0;
  const bool proves = has_token && (hello.flags & HelloFlag::kProves) != 0;
  if (!has_token && options_.serves_without_token) return true;
  if (proves) *use = authenticator_->Prove(hello);
  if (*use != nullptr) return true;
  HelloRejection rejection{.reason = RejectionReason::kChallenge};
  rejection.nonce = authenticator_->NonceFor(hello);
  if (has_token && !proves) {  // as it must begin; nothing for the log
    connection.Reject(AsBytes(rejection));
    store_.Add(Metric::kChallenges, 1);
  } else {
    Reject(connection, Metric::kRejectedToken, rejection,
           has_token ? "the client's auth token is unknown" : "an auth token is required");
  }
  return false;
}

ClientEntry& Acceptor::BeginClient(std::uint64_t id, rdma::Connection* connection, const TokenUse* use) {
  const std::size_t before = clients_.size();
  ClientEntry& client = clients_.Begin(id, connection);
  if (use != nullptr) client.token = use->token.name;
  const std::vector<std::uint64_t> forgotten = clients_.Forget();
  store_.Add(Metric::kClientsRemembered,
             static_cast<std::int64_t>(clients_.size()) - static_cast<std::int64_t>(before));
  if (const absl::Status status = store_.RegisterClient(id, forgotten); !status.ok()) {
    rate_limited_log_.Write(
        LogEvent::kClientNotRemembered,
        absl::StrCat("client ", connection->peer(), ": a restart may forget it: ", status.message()));
  }
  return client;
}

void Acceptor::Reject(rdma::ServerConnection& connection, Metric why, HelloRejection rejection,
                      std::string_view text) {
  text.copy(rejection.text, sizeof(rejection.text));
  connection.Reject(AsBytes(rejection));
  store_.Add(Metric::kConnectionsRejected, 1);
  store_.Add(why, 1);
  rate_limited_log_.Write(LogEvent::kClientRejected,
                          absl::StrCat("client ", connection.peer(), ": rejected: ", AbslView(text)));
}

// --- Clients go -----------------------------------------------------------------------------------------

void Acceptor::Drop(rdma::Connection* connection, const absl::Status& why) {
  rate_limited_log_.Write(LogEvent::kClientDisconnected,
                          absl::StrCat("client ", connection->peer(), ": disconnected: ", why.message()));
  if (!absl::IsUnavailable(why)) store_.Add(Metric::kConnectionsBroken, 1);
  const auto found = sessions_.find(connection);
  ClientSession& session = *found->second;
  // Its requests, and the unprocessed completions of its connection, go with it.
  for (SessionObserver* const observer : observers_) observer->Forget(session);
  store_.Add(Metric::kRegisteredBytes, -static_cast<std::int64_t>(session.bytes()));
  if (!session.is_read_only()) store_.Add(session.staging_counter(), -1);
  store_.Add(session.transport_counter(), -1);
  activities_.End(session.activity());
  if (session.client() != nullptr) clients_.End(*session.client());
  if (TokenUse* const use = session.token_use()) --use->connections;
  sessions_.erase(found);
  store_.Add(Metric::kConnections, -1);
}

void Acceptor::DisconnectAll() {
  for (const auto& [connection, session] : sessions_) connection->Disconnect();
  for (Port& port : ports_) port.listener->AwaitEnds();
}

void Acceptor::ProbeClients() {
  const TimePoint now = store_.clock().Coarse();
  if (now < *next_probe_) return;
  next_probe_.reset();
  for (const auto& [connection, session] : sessions_) {
    if (session->connection().Probe()) next_probe_ = now + kProbeEvery;
  }
}

// --- Tokens change --------------------------------------------------------------------------------------

bool Acceptor::has_secrets() const {
  return authenticator_ != nullptr || (options_.tls != nullptr && options_.tls->has_files());
}

void Acceptor::ReloadTokens() {
  if (!has_secrets())
    return log_.Write(LogEvent::kReloadIgnored,
                      "SIGHUP: there are neither auth tokens nor certificates to read anew; start with "
                      "--config, --tokens or --tls_cert for that");
  absl::StatusOr<std::vector<Token>> tokens = std::vector<Token>();
  if (authenticator_ != nullptr) tokens = ReadTokens(options_.tokens_file);
  if (!tokens.ok())
    return log_.Write(LogEvent::kReloadFailed,
                      absl::StrCat("kept all auth tokens as they were: ", tokens.status().message()));
  if (options_.tls != nullptr) {
    if (const absl::Status loaded = options_.tls->Load(SecretsOf(*tokens)); !loaded.ok()) {
      return log_.Write(
          LogEvent::kReloadFailed,
          absl::StrCat("kept all auth tokens and certificates as they were: ", loaded.message()));
    }
  }
  if (options_.tls != nullptr && options_.tls->has_files())
    log_.Write(LogEvent::kTlsReloaded, "reloaded the files of TLS, for connections from now on");
  if (authenticator_ == nullptr) return;
  store_.Add(Metric::kTokens,
             static_cast<std::int64_t>(tokens->size()) - static_cast<std::int64_t>(authenticator_->size()));
  authenticator_->Replace(*std::move(tokens), [this](TokenUse& use) {
    std::vector<rdma::Connection*> connections;
    for (const auto& [connection, session] : sessions_) {
      if (session->token_use() == &use) connections.push_back(connection);
    }
    for (rdma::Connection* const connection : connections) {
      Drop(connection,
           absl::UnavailableError(absl::StrCat("disconnect: its token ", use.token.name, " was revoked")));
    }
  });
  for (Port& port : ports_) port.listener->AwaitEnds();
  log_.Write(LogEvent::kTokensReloaded, absl::StrCat("reloaded ", authenticator_->size(), " auth tokens"));
}

}  // namespace remora
