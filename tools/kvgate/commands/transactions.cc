// Commands of transactions: optimistic, by the versions of the keys, and one atomic batch.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/format/types/bounds.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/store_calls.h"
#include "tools/kvgate/keys/transaction_keys.h"
#include "tools/kvgate/tracking/client_tracking.h"

namespace remora::kvgate {
namespace {

// Bound of the replies of one transaction. They are in memory as a whole.
constexpr std::size_t kMaxReplies = std::size_t{128} << 20;

void Multi(Call& call) {
  std::optional<CommandQueue>& queue = call.session.transaction.queue;
  if (queue) return call.reply.Error("ERR MULTI calls can not be nested");
  queue.emplace(call.services.gate.queued_bytes);
  call.reply.Ok();
}

void Discard(Call& call) {
  Transaction& transaction = call.session.transaction;
  if (!transaction.queue) return call.reply.Error("ERR DISCARD without MULTI");
  transaction.Reset();
  call.reply.Ok();
}

Task<void> Watch(Call& call) {
  Transaction& transaction = call.session.transaction;
  if (transaction.queue) co_return call.reply.Error("ERR WATCH inside MULTI is not allowed");
  WatchedKeys watched = transaction.watched;
  for (std::size_t i = 1; i < call.request.size(); ++i) {
    const std::string_view key = call.argument(i);
    // A key that no store has never changes.
    if (!IsKey(key) || watched.contains(key)) continue;
    if (watched.size() == Transaction::kMaxWatched) {
      co_return call.reply.Error(absl::StrCat("ERR WATCH: a connection watches up to ",
                                              Transaction::kMaxWatched, " keys; none of these is watched"));
    }
    const auto found = co_await FindExpiry(call.kv(), key);
    if (!found.ok()) co_return FailCall(call, found.status());
    watched.emplace(key, *found ? std::optional((*found)->version) : std::nullopt);
  }
  transaction.watched = std::move(watched);
  call.reply.Ok();
}

void Unwatch(Call& call) {
  call.session.transaction.watched.clear();
  call.reply.Ok();
}

// --- EXEC -----------------------------------------------------------------------------------------------

absl::Status TooLarge() {
  return absl::ResourceExhaustedError(
      absl::StrCat("its replies have more than ", kMaxReplies, " bytes together"));
}

/// Runs the commands one after the other. Its status says why the replies are void.
Task<absl::Status> RunAll(Call& call, CommandQueue& queue, TransactionKeys& keys, Reply& replies) {
  for (QueuedCommand& queued : queue.commands) {
    Call one(call.session, call.services);
    one.keys = &keys;
    one.command = queued.command;
    one.request = std::move(queued.request);
    if (one.command->run != nullptr) {
      one.command->run(one);
    } else {
      co_await one.command->begin(one);
    }
    queued.request = std::move(one.request);
    replies.Append(one.reply);
    if (!keys.failure().ok()) co_return keys.failure();
    if (replies.size() > kMaxReplies) co_return TooLarge();
  }
  co_return absl::OkStatus();
}

void Discarded(Call& call, const absl::Status& why) {
  call.reply.Error(absl::StrCat("EXECABORT Transaction discarded because of: ", why.message()));
}

Task<void> Execute(Call& call, CommandQueue queue, const WatchedKeys& watched) {
  const int protocol = call.session.protocol;
  for (int i = 0; i < kMaxAttempts; ++i) {
    call.session.protocol = protocol;  // HELLO of an earlier attempt
    TransactionKeys keys(call.services.keys, watched, call.services.clock);
    Reply replies(protocol);
    absl::Status status = co_await RunAll(call, queue, keys, replies);
    const bool has_run = status.ok();
    if (has_run) status = co_await keys.Commit();
    if (status.ok()) {
      call.reply.Array(queue.commands.size());
      co_return call.reply.Append(replies);
    }
    if (!absl::IsAborted(status)) {
      // A write whose outcome is not known was done once or not at all.
      has_run && !absl::IsInvalidArgument(status) ? FailCall(call, status) : Discarded(call, status);
      co_return;
    }
    const absl::StatusOr<bool> holds = co_await keys.HoldsWatched();
    if (!holds.ok()) co_return Discarded(call, holds.status());
    if (!*holds) co_return call.reply.NullArray();
  }
  Discarded(call, absl::AbortedError("its keys were changed by other clients at each attempt; try again"));
}

Task<void> Exec(Call& call) {
  Transaction& transaction = call.session.transaction;
  if (!transaction.queue) co_return call.reply.Error("ERR EXEC without MULTI");
  CommandQueue queue = *std::move(transaction.queue);
  const WatchedKeys watched = std::move(transaction.watched);
  transaction.Reset();
  if (queue.is_aborted()) {
    co_return call.reply.Error("EXECABORT Transaction discarded because of previous errors.");
  }
  RegisterQueue(call.session, queue);
  co_await Execute(call, std::move(queue), watched);
}

constexpr Command kTransactionCommands[] = {
    {"discard", 1, Order::kLocal, kAlwaysFlags | kFlagFast | kRunsInMulti, 0, 0, 0, "transactions",
     "Forgets a transaction", Discard, nullptr},
    {"exec", 1, Order::kExclusive, kAlwaysFlags | kRunsInMulti, 0, 0, 0, "transactions",
     "Does the commands of a transaction as one", nullptr, Exec},
    {"multi", 1, Order::kLocal, kAlwaysFlags | kFlagFast | kRunsInMulti, 0, 0, 0, "transactions",
     "Begins a transaction", Multi, nullptr},
    {"unwatch", 1, Order::kLocal, kAlwaysFlags | kFlagFast, 0, 0, 0, "transactions",
     "Forgets the watched keys", Unwatch, nullptr},
    {"watch", -2, Order::kExclusive, kAlwaysFlags | kFlagFast | kRunsInMulti, 1, -1, 1, "transactions",
     "Has EXEC do nothing if a key changes", nullptr, Watch},
};

}  // namespace

std::span<const Command> TransactionCommands() { return kTransactionCommands; }

}  // namespace remora::kvgate
