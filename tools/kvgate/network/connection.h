// One connection of a Redis client: its input, its commands in flight, its output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tools/kvgate/call.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/network/channel.h"
#include "tools/kvgate/network/spare_calls.h"
#include "tools/kvgate/network/streams.h"

namespace remora::kvgate {

/// A connection, without its place in an event loop.
///
/// Bounds: it reads no more input while a command waits, and begins no command while kMaxOutput bytes of
/// replies wait for the client. It expects another reply to be as large as the last one, so large ones mostly
/// come one by one. If a large reply to a read is complete all the same while others wait before it, the
/// connection drops it, and reads again when its turn comes. So its memory is at most one request
/// (RequestParser), one read of input, one large reply, kMaxOutput bytes of output, and as much again
/// in replies that wait. A subscriber has its Mailbox beside them.
///
/// Invariants:
///   C1: replies leave in the order of their requests.
///   C2: a read is in flight only with reads, a write only with writes, another command alone (Order).
///   C3: no command begins beside others while their requests, replies and the output have kMaxOutput bytes.
///   C4: an invalidation (CLIENT TRACKING) leaves behind the replies to all commands that have begun.
///
/// The class has more than 25 methods and 15 fields, because it follows commands from their bytes to those of
/// their replies.
///
/// Thread safety: none.
class Connection {
 public:
  static constexpr std::size_t kMaxOutput = std::size_t{1} << 20;
  static constexpr std::size_t kMaxInFlight = 64;

  /// Takes a connected socket. `on_reply` is called in the end of a command that did
  /// not end at once; the owner then calls Work. `wake` is called in any thread when the client has messages;
  /// then the owner calls Work, too.
  Connection(std::unique_ptr<Channel> channel, std::shared_ptr<ClientRecord> record, Services services,
             std::function<void(Connection&)> on_reply, std::function<void()> wake);
  /// REQUIRES: is_idle().
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Reads input that the socket has, as long as commands can begin.
  void Receive();
  /// Begins commands that can begin, and sends replies that are complete.
  void Work();
  /// Takes no more input and sends no more output.
  void Abandon();
  /// Sends the replies that wait for others to leave with.
  void SendGathered();

  bool wants_input() const {
    return !is_broken_ && !ends_ && !requests_.has_ended() && !has_next_ && replies_.size() < kMaxOutput;
  }
  bool wants_output() const {
    return !is_broken_ && ((replies_.size() > 0 && !gathers_) || channel_->has_output());
  }
  /// Returns whether replies wait for those of commands in flight, to leave together: a system call, and a
  /// wake-up of the client, for all of them. The owner calls SendGathered before it waits, and soon.
  bool gathers() const { return gathers_; }
  /// Returns whether Receive has something to do although the socket may have no input.
  bool has_input() const { return wants_input() && channel_->has_input(); }
  /// Returns whether the connection is over, so that its owner may destroy it.
  bool is_over() const { return is_idle() && (is_broken_ || (ends_ && calls_.empty() && !wants_output())); }
  /// Returns whether no command is in flight.
  bool is_idle() const { return in_flight_ == 0; }
  int fd() const { return channel_->fd(); }
  std::int64_t id() const { return session_.record->id; }

 private:
  /// Parses until a command waits, or no input is left. Returns whether one waits.
  bool ParseNext();
  /// Begins commands. Returns whether it stopped because the output is full.
  bool BeginAll();
  bool CanBegin() const;
  void BeginNext();
  void Execute(Call& call);
  void RunLocal(Call& call);
  Task<void> RunInStore(Call& call);
  void Finish(Call& call);
  void Complete(Call& call);
  void Hold(Call& call, std::size_t bytes);
  /// Adds an error as the reply of a command of its own.
  void AddError(std::string_view text);
  /// Moves replies of calls that have ended, from the front, to the output.
  void Collect();
  /// Sends the output, or leaves it for SendGathered.
  void SendOrGather();
  void Send();

  const std::unique_ptr<Channel> channel_;
  Services services_;
  const std::function<void(Connection&)> on_reply_;
  Session session_;
  RequestStream requests_;
  ReplyStream replies_;
  std::unique_ptr<Call> next_;               // its request is being parsed, or waits
  bool has_next_ = false;                    // it waits
  std::deque<std::unique_ptr<Call>> calls_;  // begun, and not yet in the output
  SpareCalls spare_;
  std::size_t in_flight_ = 0;
  std::size_t held_ = 0;         // bytes of their requests, and of their replies that are complete
  Order order_ = Order::kLocal;  // of those in flight
  std::size_t expected_reply_ = kMaxOutput / 4;  // none is known yet
  bool ends_ = false;                            // no more commands; it is over when its output was sent
  bool is_broken_ = false;                       // the socket failed
  bool gathers_ = false;
};

}  // namespace remora::kvgate
