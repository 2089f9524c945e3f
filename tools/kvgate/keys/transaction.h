// A connection's transaction before EXEC: the commands that MULTI queues, and the keys that WATCH watches.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/kvgate/resp/request.h"

namespace remora::kvgate {

struct Command;

/// Watched keys, each with the version that it had; none: it did not exist.
using WatchedKeys = std::map<std::string, std::optional<std::uint64_t>, std::less<>>;

struct QueuedCommand {
  const Command* command = nullptr;
  Request request{};
};

/// Commands between MULTI and EXEC. Their bytes count to a sum over all clients, until the queue goes.
///
/// Thread safety: none; `sum` may be used by any thread meanwhile.
class CommandQueue {
 public:
  static constexpr std::size_t kMaxCommands = std::size_t{64} << 10;
  static constexpr std::size_t kMaxBytes = std::size_t{65} << 20;
  /// Bound of the queues of all clients of a gate together.
  static constexpr std::size_t kMaxSum = std::size_t{256} << 20;

  explicit CommandQueue(std::atomic<std::size_t>& sum) : sum_(&sum) {}
  ~CommandQueue() { Clear(); }
  CommandQueue(CommandQueue&& other) noexcept
      : commands(std::move(other.commands)),
        is_aborted_(other.is_aborted_),
        sum_(other.sum_),
        bytes_(std::exchange(other.bytes_, 0)) {}
  CommandQueue& operator=(CommandQueue&&) = delete;

  /// Takes a command. Returns false, and gives all memory back, if there are too many, or too many bytes.
  bool Add(const Command& command, Request request) {
    if (is_aborted_) return true;  // nothing will run
    const std::size_t bytes = sizeof(QueuedCommand) + request.bytes() + request.size() * sizeof(std::size_t);
    bytes_ += bytes;
    const std::size_t sum = sum_->fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (commands.size() >= kMaxCommands || bytes_ > kMaxBytes || sum > kMaxSum) {
      Abort();
      return false;
    }
    commands.push_back({&command, std::move(request)});
    return true;
  }
  /// Has EXEC do nothing: a command could not be queued.
  void Abort() {
    is_aborted_ = true;
    Clear();
  }
  bool is_aborted() const { return is_aborted_; }

  std::vector<QueuedCommand> commands{};

 private:
  void Clear() {
    commands = {};
    sum_->fetch_sub(std::exchange(bytes_, 0), std::memory_order_relaxed);
  }

  bool is_aborted_ = false;
  std::atomic<std::size_t>* sum_;
  std::size_t bytes_ = 0;
};

struct Transaction {
  // As many as a batch has writes and checks.
  static constexpr std::size_t kMaxWatched = 1024;

  std::optional<CommandQueue> queue{};  // between MULTI and EXEC
  WatchedKeys watched{};

  void Reset() {
    queue.reset();
    watched.clear();
  }
};

}  // namespace remora::kvgate
