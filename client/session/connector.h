// Makes the connections of a session: dials, says hello, proves the auth token, and decides what follows an
// attempt that failed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/options.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/wire/messages.h"

namespace remora {

/// A client as the servers know it, over all its connections: its ID and its auth token. It makes one attempt
/// to connect after the other; its session has the connection.
///
/// Thread safety: none. The clock outlives it.
class Connector {
 public:
  /// `dialer` makes later connections, and the second one that an auth token requires; null: there is none.
  /// `secret` is that of the auth token; empty: there is no token.
  Connector(Dialer dialer, std::string secret, const ClientOptions& options, const Clock& clock);

  /// Returns whether there is a dialer.
  bool dials() const { return dialer_ != nullptr; }
  /// Returns whether the client replaces a connection that breaks.
  bool reconnects() const { return dials() && options_.reconnect; }
  /// Returns whether the client administers the server (ClientOptions::admin_connection).
  bool is_admin() const { return options_.admin_connection; }
  /// Has the next connection go to the next address, if there are several.
  void PassOn();
  /// Has later connections go to other addresses (rdma/address_list.h). Errors as AddressChoice::Of.
  /// REQUIRES: dials.
  absl::Status SetAddresses(std::string_view addresses);
  /// Returns the address of the last connection; empty: the dialer is a caller's own.
  std::string address() const;

  // --- One attempt

  /// Dials the current address. REQUIRES: dials.
  absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> Dial(TimePoint deadline);
  /// The answer to a hello, checked, and the time at which the hello was sent.
  struct Greeting {
    HelloReply reply;
    TimePoint sent;
  };
  /// Takes a connection that is not connected yet, keeps it, and prepares it (Endpoint::Bind). It keeps it
  /// also with an error.
  using Bind = absl::FunctionRef<absl::Status(std::unique_ptr<rdma::ClientConnection>)>;
  /// Connects over `connection` or, with an auth token, over another one that it dials afterwards. It calls
  /// `bind` for the connection before the hello that may be accepted, and for one more if the server's nonce
  /// was too old.
  absl::StatusOr<Greeting> Connect(std::unique_ptr<rdma::ClientConnection> connection, TimePoint deadline,
                                   Bind bind);

  // --- Attempts in a row

  /// Returns when the next attempt ends, which gets no answer: later after each that got none.
  TimePoint NextAttemptEnds(TimePoint deadline) const;
  void CountUnanswered() { ++unanswered_attempts_; }
  void ForgetUnanswered() { unanswered_attempts_ = 0; }
  /// Step that follows an attempt to make another connection.
  enum class Next : std::uint8_t {
    kUse = 1,   // it succeeded
    kTryAsNew,  // the server has forgotten the client, which tries again under another ID
    kTryLater,  // another attempt may succeed after a pause, perhaps at another address
    kGiveUp,    // the failure is final
  };
  Next After(const absl::Status& attempt);
  /// Returns, once, whether the server of this connection does not know the earlier writes of this client.
  bool TakeForgotten() { return std::exchange(identity_.forgotten, false); }
  /// Returns the pause after the attempt of this number, which counts from 0.
  static Duration Pause(int attempt);
  /// Number of the attempt whose pause, of 32 to 64 ms, is that after a server that gave no lease.
  static constexpr int kRejectedPause = 4;

 private:
  struct Identity {
    std::uint64_t id = 0;    // HelloRequest::client; 0: the client will not reconnect
    bool returns = false;    // the server has accepted the ID
    bool forgotten = false;  // the server forgot the previous ID, and no connection was made since
  };

  // Defined in handshake.cc:
  absl::StatusOr<Greeting> Join(std::unique_ptr<rdma::ClientConnection> connection, const HelloRequest& hello,
                                TimePoint deadline, Bind bind);
  absl::StatusOr<HelloNonce> AskForNonce(rdma::ClientConnection& connection, const HelloRequest& hello,
                                         TimePoint deadline);
  absl::StatusOr<Greeting> Greet(rdma::ClientConnection& connection, const HelloRequest& hello,
                                 TimePoint deadline);

  const Clock& clock_;
  Dialer dialer_;  // null: the session makes no other connection
  const ClientOptions options_;
  const std::string secret_;
  Identity identity_;
  RejectionReason rejection_ = RejectionReason{};  // of the last attempt, if the server rejected it
  int unanswered_attempts_ = 0;                    // since the last connection was made
};

}  // namespace remora
