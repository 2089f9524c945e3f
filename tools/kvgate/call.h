// One command of one client, from its request to its reply.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "store/base/clock.h"
#include "tools/kvgate/gate_state.h"
#include "tools/kvgate/keys/blocking_calls.h"
#include "tools/kvgate/keys/key_store.h"
#include "tools/kvgate/keys/transaction.h"
#include "tools/kvgate/network/client_registry.h"
#include "tools/kvgate/network/server_links.h"
#include "tools/kvgate/pubsub/mailbox.h"
#include "tools/kvgate/pubsub/subscriptions.h"
#include "tools/kvgate/resp/reply.h"
#include "tools/kvgate/resp/request.h"
#include "tools/kvgate/tracking/tracking.h"
#include "tools/kvgate/users.h"

namespace remora::kvgate {

struct Command;

/// State of a connection that commands change.
struct Session {
  /// Returns whether the connection only takes commands for subscribers: RESP2 cannot tell a message from a
  /// reply.
  bool is_for_messages() const { return protocol == 2 && !subscriptions->empty(); }

  std::shared_ptr<ClientRecord> record;
  int protocol = 2;
  bool replies = true;            // CLIENT REPLY
  bool skips_next_reply = false;  // CLIENT REPLY SKIP
  bool closes = false;            // behind the reply to this command
  Transaction transaction{};
  std::unique_ptr<Subscriptions> subscriptions{};
  std::unique_ptr<Tracking> tracking{};  // null: CLIENT TRACKING is off
  std::optional<User> user{};            // nothing: the client has to show a token first
};

/// The parts of a gateway thread that commands use. All live longer than any call.
struct Services {
  ServerLinks& servers;
  KeyStore& keys;
  BlockingCalls& blocking;
  GateState& gate;
  const Clock& clock;
};

/// A command in flight. It stays where it is from its start to its end.
struct Call {
  Call(Session& of, Services& with) : session(of), services(with), reply(of.protocol) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Makes it as it was at first, but for memory that its request and its reply may use again.
  void Renew() {
    keys = &services.keys;
    command = nullptr;
    request.Clear();
    reply.Clear();
    reply.set_protocol(session.protocol);
    is_silent = is_done = repeats = false;
    held = 0;
  }

  std::string_view argument(std::size_t index) const { return request[index]; }
  bool is_within_transaction() const { return keys != &services.keys; }
  KeyStore& kv() const { return *keys; }
  /// Runs a part of the command beside it.
  void Start(Task<void> task) const { services.servers.Start(std::move(task)); }

  Session& session;
  Services& services;
  KeyStore* keys = &services.keys;  // of the server, or of a transaction
  const Command* command = nullptr;
  Request request;
  Reply reply;
  bool is_silent = false;  // the client wants no reply
  bool is_done = false;
  std::size_t held = 0;                   // bytes that count to the connection's
  bool repeats = false;                   // its reply was dropped, and it is to run again
  std::vector<Delivery> invalidations{};  // that leave behind its reply
};

}  // namespace remora::kvgate
