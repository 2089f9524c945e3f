// Clients come: they greet, prove their tokens, are accepted or refused. Clients go.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/server.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

// A client whose host is gone, or cut off, says nothing, and may never have anything under way that tells: it
// would keep its slice for ever.
constexpr std::chrono::seconds kProbeEvery{5};

constexpr BoundedLog::Kind kClients = BoundedLog::Kind::kClients;
constexpr BoundedLog::Kind kStrangers = BoundedLog::Kind::kStrangers;

}  // namespace

// --- Clients come ---------------------------------------------------------------------------------------

bool Server::AcceptClients(Port& port) {
  std::unique_ptr<rdma::Connection> connection = port.listener->NextRequest();
  if (const std::uint64_t dropped = port.listener->dropped_handshakes(); dropped != port.dropped_handshakes) {
    store_->Add(Counter::kHandshakesDropped, static_cast<std::int64_t>(dropped - port.dropped_handshakes));
    port.dropped_handshakes = dropped;
  }
  if (const std::uint64_t refused = port.listener->without_descriptor(); refused != port.without_descriptor) {
    bounded_log_->Write(kStrangers,
                        absl::StrCat(refused - port.without_descriptor,
                                     " clients refused: no descriptor is left for them; raise the "
                                     "limit (ulimit -n)"));
    port.without_descriptor = refused;
  }
  if (connection == nullptr) return false;

  // Bytes from other programs may be shorter; magic and versions come first in every release.
  HelloRequest hello;
  const std::span<const std::byte> said = connection->peer_data();
  hello.magic = 0;
  std::ranges::copy(said.first(std::min(said.size(), sizeof(hello))),
                    std::as_writable_bytes(std::span(&hello, 1)).begin());
  TokenUse* use = nullptr;
  if (!IsWelcome(*connection, hello, &use)) return true;
  const std::string peer = connection->peer();
  NamedClient* const client = hello.client == 0 ? nullptr : &BeginClient(hello.client, connection.get(), use);
  HelloReply reply;
  reply.flags = LoadingFlag();
  if (use != nullptr && use->token.role == Role::kReadOnly) reply.flags |= ReplyFlag::kReadOnly;
  reply.incarnation = store_->superblock().incarnation;
  reply.server_ms = store_->clock().UnixMillis();
  reply.memory = port.memory;
  auto session = ServerSession::Accept(connection, reply, [&](HelloReply* whole) {
    if (use != nullptr) ProveServer(use->token, hello, whole);
  });
  if (session.ok()) {
    rdma::Connection* const key = &(*session)->connection();
    const std::size_t bytes =
        port.client_bytes - ServerSession::MaxRegisteredBytes() + (*session)->registered_bytes();
    (*session)->set_bytes(bytes);
    (*session)->set_slices(port.slices);
    if (!(*session)->is_read_only()) store_->Add(port.slices, 1);
    (*session)->set_client(client);
    (*session)->set_token_use(use);
    key->set_owner(session->get());
    if (use != nullptr) ++use->connections;
    sessions_.emplace(key, *std::move(session));
    if (!next_probe_) next_probe_ = store_->clock().Now() + kProbeEvery;
    store_->Add(Counter::kRegisteredBytes, static_cast<std::int64_t>(bytes));
    store_->Add(Counter::kConnections, 1);
    store_->Add(Counter::kConnectionsAccepted, 1);
    bounded_log_->Write(kClients,
                        absl::StrCat("client ", peer, ": connected", use == nullptr ? "" : " with the token ",
                                     use == nullptr ? "" : use->token.name));
    return true;
  }
  if (client != nullptr) outcomes_->End(*client);
  if (connection != nullptr) {
    Refuse(*connection, Counter::kRefusedFull, {.reason = RefusalReason::kFull},
           StdView(session.status().message()));
  } else {
    bounded_log_->Write(
        kStrangers,
        absl::StrCat("client ", peer, ": gone while being accepted: ", session.status().message()));
  }
  return true;
}

bool Server::IsWelcome(rdma::Connection& connection, const HelloRequest& hello, TokenUse** use) {
  // Before anything is done, or told, of what others have here.
  if (!SpeaksAsWeDo(connection, hello) || !HasToken(connection, hello, use)) return false;
  NamedClient* const known = hello.client == 0 ? nullptr : outcomes_->Find(hello.client);
  // A name is seen by all who see the wire: it is of use only with the token that it came with.
  const bool is_anothers =
      known != nullptr && !known->token.empty() && (*use == nullptr || known->token != (*use)->token.name);
  if (is_anothers) return RefuseName(connection);
  if (known == nullptr && (hello.flags & HelloFlag::kReturns) != 0) {
    return RefuseName(connection);
  }
  // O1. Whether its own end has ended or not: nobody else has this name.
  if (known != nullptr && known->connection != nullptr) {
    Drop(known->connection, absl::UnavailableError("its client has come back over another connection"));
  }
  if (*use != nullptr && (*use)->is_full()) {
    Refuse(connection, Counter::kRefusedTokenFull, {.reason = RefusalReason::kFull},
           absl::StrCat("the token ", (*use)->token.name, " has ", (*use)->connections,
                        " connections, as many as it may"));
    return false;
  }
  if (sessions_.size() >= options_.max_clients) {
    Refuse(connection, Counter::kRefusedFull, {.reason = RefusalReason::kFull},
           absl::StrCat("it has ", sessions_.size(), " clients, as many as ", options_.max_clients_by));
    return false;
  }
  return true;
}

bool Server::RefuseName(rdma::Connection& connection) {
  store_->Add(Counter::kClientsForgotten, 1);
  Refuse(connection, Counter::kConnectionsRefused, {.reason = RefusalReason::kForgotten},
         "it does not know this client, or not any more; what became of its last write is unknown");
  return false;
}

bool Server::SpeaksAsWeDo(rdma::Connection& connection, const HelloRequest& hello) {
  if (hello.magic != kHelloMagic) {
    Refuse(connection, Counter::kRefusedVersion, {.reason = RefusalReason::kNotRemora},
           "that was no Remora client's greeting");
    return false;
  }
  if (hello.protocol_version != kProtocolVersion || hello.format_version != kFormatVersion) {
    Refuse(
        connection, Counter::kRefusedVersion, {.reason = RefusalReason::kVersion},
        absl::StrCat("it speaks protocol ", kProtocolVersion, " and format ", kFormatVersion, ", the client ",
                     hello.protocol_version, " and ", hello.format_version, "; use one release"));
    return false;
  }
  if (hello.layout_signature != FoldedLayoutSignature()) {
    Refuse(connection, Counter::kRefusedVersion, {.reason = RefusalReason::kLayout},
           absl::StrCat("its layout signature is ", absl::Hex(FoldedLayoutSignature()), ", the client's ",
                        absl::Hex(hello.layout_signature), "; use builds of one release"));
    return false;
  }
  return true;
}

bool Server::HasToken(rdma::Connection& connection, const HelloRequest& hello, TokenUse** use) {
  *use = nullptr;
  if (admission_ == nullptr) return true;
  const bool has_token = (hello.flags & HelloFlag::kHasToken) != 0;
  const bool proves = has_token && (hello.flags & HelloFlag::kProves) != 0;
  if (!has_token && options_.serves_without_token) return true;
  if (proves) *use = admission_->Prove(hello);
  if (*use != nullptr) return true;
  HelloRefusal refusal{.reason = RefusalReason::kChallenge};
  refusal.nonce = admission_->NonceFor(hello);
  if (has_token && !proves) {  // as it must begin; nothing for the log
    connection.Reject(AsBytes(refusal));
    store_->Add(Counter::kChallenges, 1);
  } else {
    Refuse(connection, Counter::kRefusedToken, refusal,
           has_token ? "the proof is of no token that it knows" : "it serves only who has a token");
  }
  return false;
}

NamedClient& Server::BeginClient(std::uint64_t name, rdma::Connection* connection, const TokenUse* use) {
  const std::size_t before = outcomes_->size();
  NamedClient& client = outcomes_->Begin(name, connection);
  if (use != nullptr) client.token = use->token.name;
  const std::vector<std::uint64_t> forgotten = outcomes_->Forget();
  store_->Add(Counter::kClientsRemembered,
              static_cast<std::int64_t>(outcomes_->size()) - static_cast<std::int64_t>(before));
  if (const absl::Status status = store_->Remember(name, forgotten); !status.ok()) {
    bounded_log_->Write(kClients, absl::StrCat("client ", connection->peer(),
                                               ": a restart may forget it: ", status.message()));
  }
  return client;
}

void Server::Refuse(rdma::Connection& connection, Counter why, HelloRefusal refusal, std::string_view text) {
  text.copy(refusal.text, sizeof(refusal.text));
  connection.Reject(AsBytes(refusal));
  store_->Add(Counter::kConnectionsRefused, 1);
  if (why != Counter::kConnectionsRefused) store_->Add(why, 1);
  bounded_log_->Write(kStrangers, absl::StrCat("client ", connection.peer(), ": refused: ", AbslView(text)));
}

// --- Clients go -----------------------------------------------------------------------------------------

void Server::Drop(rdma::Connection* connection, const absl::Status& why) {
  bounded_log_->Write(kClients,
                      absl::StrCat("client ", connection->peer(), ": disconnected: ", why.message()));
  if (!absl::IsUnavailable(why)) store_->Add(Counter::kConnectionsBroken, 1);
  grants_->End(*connection);
  scans_->End(*connection);
  const auto session = sessions_.find(connection);
  store_->Add(Counter::kRegisteredBytes, -static_cast<std::int64_t>(session->second->bytes()));
  if (!session->second->is_read_only()) store_->Add(session->second->slices(), -1);
  if (session->second->client() != nullptr) outcomes_->End(*session->second->client());
  if (TokenUse* const use = session->second->token_use()) {
    --use->connections;
    const auto waiting = delayed_.find(use);
    if (waiting != delayed_.end()) {
      std::erase_if(waiting->second,
                    [&](const Pending& pending) { return pending.session == session->second.get(); });
      if (waiting->second.empty()) delayed_.erase(waiting);
    }
  }
  // Its requests, and the unprocessed completions of its connection, go with it.
  const ServerSession* const gone = session->second.get();
  for (Pending& pending : write_requests_) pending.Forget(gone);
  some_gone_ = true;
  for (Pending& pending : other_requests_) pending.Forget(gone);
  for (Pending& pending : due_) pending.Forget(gone);
  for (Turn& turn : reserves_) turn.pending.Forget(gone);
  for (auto& [ticket, unsynced] : unsynced_) unsynced.pending.Forget(gone);
  for (rdma::Completion& completion : completions_) {
    if (completion.connection == connection) completion.connection = nullptr;
  }
  sessions_.erase(session);
  store_->Add(Counter::kConnections, -1);
}

void Server::ProbeClients() {
  const TimePoint now = store_->clock().Coarse();
  if (now < *next_probe_) return;
  next_probe_.reset();
  for (const auto& [connection, session] : sessions_) {
    if (connection->Probe()) next_probe_ = now + kProbeEvery;
  }
}

// --- Tokens change --------------------------------------------------------------------------------------

void Server::ReadTokensAnew() {
  if (admission_ == nullptr) return Log("asked to read tokens anew, and has none: start it with --tokens");
  absl::StatusOr<std::vector<Token>> tokens = ReadTokens(options_.tokens_file);
  if (!tokens.ok()) return Warn(absl::StrCat("all tokens stay as they were: ", tokens.status().message()));
  store_->Add(Counter::kTokens,
              static_cast<std::int64_t>(tokens->size()) - static_cast<std::int64_t>(admission_->size()));
  admission_->Replace(*std::move(tokens), [this](TokenUse& use) {
    std::vector<rdma::Connection*> connections;
    for (const auto& [connection, session] : sessions_) {
      if (session->token_use() == &use) connections.push_back(connection);
    }
    for (rdma::Connection* const connection : connections) {
      Drop(connection, absl::UnavailableError(absl::StrCat("its token ", use.token.name, " was taken back")));
    }
  });
  for (Port& port : ports_) port.listener->AwaitEnds();
  Log(absl::StrCat("read ", admission_->size(), " tokens anew"));
}

}  // namespace remora
