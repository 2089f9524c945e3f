// A connection to a Redis, with commands that are sent together.
#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/kvctl/redis/address.h"

namespace remora::kvctl {

/// Bytes of the keys of commands that are sent before a reply is read. They fit into the buffers of a socket:
/// a server whose replies are not read stops to read commands.
inline constexpr std::size_t kKeyBytesAtOnce = std::size_t{64} << 10;

struct FreeRedisReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReply = std::unique_ptr<redisReply, FreeRedisReply>;

/// Returns the bytes of a string, a status or an error; of another reply, none.
std::string_view TextOf(const redisReply& reply);

/// Returns the status of a reply. OK: it is no error.
///   PermissionDenied: NOAUTH, WRONGPASS, NOPERM, DENIED.
///   ResourceExhausted: OOM.
///   DataLoss: MISCONF, the disk of the Redis fails.
///   Unavailable: READONLY, LOADING, MOVED and others, with which the Redis may serve at another time, or
///     another Redis does.
///   FailedPrecondition: any other error.
absl::Status StatusOf(const redisReply& reply);

/// Returns the name of the Redis's run, random at each start, from the reply to `INFO server`. "": the reply
/// has none.
std::string RunIn(const redisReply& info);

/// Returns the failure of a call that got a reply of another type, or with another text, than a Redis gives
/// to the command: FailedPrecondition.
absl::Status StrangeReply(std::string_view command);

/// A connection, as a user and to a database. A call that finds it broken ends with Unavailable; so do all
/// later ones.
///
/// Thread safety: none.
class RedisConnection {
 public:
  /// Connects, authenticates and selects the database. `timeout`: for that, and later for each reply.
  ///   Unavailable: nobody answers there.
  ///   PermissionDenied: a password is missing, or wrong.
  ///   InvalidArgument: there is no such database.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Connect(const RedisAddress& address,
                                                                  std::chrono::milliseconds timeout);

  /// Adds a command to those that the next Receive sends.
  void Send(std::span<const std::string_view> words);
  void Send(std::initializer_list<std::string_view> words) { Send({words.begin(), words.size()}); }
  /// Sends what was added, and returns the reply to the earliest command that has none yet. It may be an
  /// error.
  absl::StatusOr<RedisReply> Receive();
  /// Does one command. An error is a status.
  absl::StatusOr<RedisReply> Call(std::initializer_list<std::string_view> words);

 private:
  struct FreeContext {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  RedisConnection(RedisAddress address, redisContext* context)
      : address_(std::move(address)), context_(context) {}
  absl::Status Begin();
  absl::Status Broken() const;

  const RedisAddress address_;
  const std::unique_ptr<redisContext, FreeContext> context_;
};

}  // namespace remora::kvctl
