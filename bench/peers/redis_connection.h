// One connection to a server that speaks the protocol of Redis: by TCP, TLS or a Unix socket.
#pragma once

#include <hiredis/hiredis.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/peers/peers.h"
#include "rdma/tcp/stream/tls_context.h"
#include "rdma/tcp/stream/tls_stream.h"

namespace remora::bench {

struct RedisReplyDeleter {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReply = std::unique_ptr<redisReply, RedisReplyDeleter>;

/// Makes commands and parses replies by hiredis. Debian 12's hiredis has no TLS, so these bytes then go
/// through a TlsStream, as those of a Remora client do.
///
/// Thread safety: none.
class RedisConnection {
 public:
  /// Connects, and shows by a PING that a Redis server answers. `tls`: null for a connection without TLS.
  /// Unavailable: no server answers there, or the handshake failed.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Connect(
      const PeerAddress& address, std::shared_ptr<const rdma::TlsContext> tls);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  /// Adds a command to those that Flush sends.
  void Append(std::span<const std::string_view> words);
  absl::Status Flush();
  /// Sends what was appended, and returns the first reply. REQUIRES: no earlier reply is outstanding.
  absl::StatusOr<RedisReply> Call();
  /// Returns the next reply that has arrived; null: none has.
  absl::StatusOr<RedisReply> NextReply();
  /// Waits for bytes of the server, and receives them.
  absl::Status Receive();
  /// Returns whether Receive would not wait.
  bool IsReadable() const;

 private:
  struct ContextDeleter {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  using Context = std::unique_ptr<redisContext, ContextDeleter>;

  explicit RedisConnection(Context context) : context_(std::move(context)) {}
  absl::Status StartTls(std::shared_ptr<const rdma::TlsContext> tls, const std::string& host);
  absl::Status FlushTls();
  absl::Status ReceiveTls();
  /// Waits until the socket is readable, or (`for_output`) writable. Unavailable: it takes too long.
  absl::Status Await(bool for_output) const;
  absl::Status Broken() const;

  const Context context_;
  std::unique_ptr<rdma::TlsStream> tls_;
  std::string unsent_;  // over TLS: commands that are not encrypted yet
  // The words of a command, for hiredis. Kept, so that no command allocates them.
  std::vector<const char*> begins_;
  std::vector<std::size_t> sizes_;
};

}  // namespace remora::bench
