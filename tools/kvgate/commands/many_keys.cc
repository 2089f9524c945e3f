// Commands of many keys.
#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/slots.h"
#include "store/base/absl_view.h"
#include "store/format/memory/layout.h"
#include "tools/kvgate/cluster/redis_slot.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/store_calls.h"

namespace remora::kvgate {
namespace {

// Operations of one command that are in flight together.
constexpr std::size_t kAtOnce = 128;
// Bound of the values of one MGET. A reply is in memory as a whole.
constexpr std::size_t kMaxMGetBytes = std::size_t{128} << 20;

/// Waits for the end of several tasks.
///
/// Thread safety: none.
class Join {
 public:
  void Begin() { ++running_; }
  void End() {
    if (--running_ == 0 && waiting_) std::exchange(waiting_, nullptr).resume();
  }

  bool await_ready() const noexcept { return running_ == 0; }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { waiting_ = waiting; }
  void await_resume() const noexcept {}

 private:
  std::size_t running_ = 0;
  std::coroutine_handle<> waiting_;
};

/// Outcome of one key.
struct KeyOutcome {
  absl::Status status{};
  std::string value{};
};

/// The end of a command's tasks, and the bytes of values that they have read.
struct Progress {
  Join join{};
  std::size_t bytes = 0;
};

Task<void> GetOne(Call& call, std::string_view key, KeyOutcome& outcome, Progress& progress) {
  absl::StatusOr<std::string> value = co_await call.kv().Get(key);
  if (value.ok()) {
    // A value that does not fit goes at once: others are yet to come.
    progress.bytes += value->size();
    if (progress.bytes <= kMaxMGetBytes) outcome.value = *std::move(value);
  } else {
    outcome.status = value.status();
  }
  progress.join.End();
}

Task<void> ExistsOne(Call& call, std::string_view key, KeyOutcome& outcome, Progress& progress) {
  const absl::StatusOr<bool> exists = co_await call.kv().Exists(key);
  outcome.status = exists.status();
  if (exists.ok() && !*exists) outcome.status = absl::NotFoundError("");
  progress.join.End();
}

Task<void> DeleteOne(Call& call, std::string_view key, KeyOutcome& outcome, Progress& progress) {
  outcome.status = co_await call.kv().Delete(key, {});
  progress.join.End();
}

using OneKey = Task<void> (*)(Call&, std::string_view, KeyOutcome&, Progress&);

/// Does one of the above with each argument, kAtOnce at a time in their order, and calls `take` with each
/// outcome that is OK or a missing key. Returns the first other status. Then, and when there are too many
/// bytes, it begins no later ones.
Task<absl::Status> ForEachKey(Call& call, OneKey one,
                              std::function<void(const KeyOutcome& outcome, bool is_missing)> take) {
  Progress progress;
  for (std::size_t begin = 1; begin < call.request.size(); begin += kAtOnce) {
    std::vector<KeyOutcome> outcomes(std::min(kAtOnce, call.request.size() - begin));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      progress.join.Begin();
      call.Start(one(call, call.argument(begin + i), outcomes[i], progress));
    }
    co_await progress.join;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const bool is_missing = IsMissing(outcomes[i].status, call.argument(begin + i));
      if (!is_missing && !outcomes[i].status.ok()) co_return outcomes[i].status;
      take(outcomes[i], is_missing);
    }
    if (progress.bytes > kMaxMGetBytes) {
      co_return absl::InvalidArgumentError(absl::StrCat("mget: the values have more than ", kMaxMGetBytes,
                                                        " bytes together; ask for fewer keys"));
    }
  }
  co_return absl::OkStatus();
}

Task<void> MGet(Call& call) {
  call.reply.Array(call.request.size() - 1);
  const absl::Status status =
      co_await ForEachKey(call, GetOne, [&](const KeyOutcome& outcome, bool is_missing) {
        is_missing ? call.reply.Null() : call.reply.Bulk(outcome.value);
      });
  if (!status.ok()) FailCall(call, status);
}

Task<void> CountKeys(Call& call, OneKey one) {
  std::int64_t count = 0;
  const absl::Status status = co_await ForEachKey(call, one, [&](const KeyOutcome&, bool is_missing) {
    if (!is_missing) ++count;
  });
  status.ok() ? call.reply.Integer(count) : FailCall(call, status);
}
Task<void> Delete(Call& call) { return CountKeys(call, DeleteOne); }
Task<void> Exists(Call& call) { return CountKeys(call, ExistsOne); }

/// More are begun when others have ended, and so not in the order of other commands.
Order OrderOfDelete(const Request& request) {
  return request.size() - 1 <= kAtOnce ? Order::kWrite : Order::kExclusive;
}

// --- MSET -----------------------------------------------------------------------------------------------

/// A pair of a request.
struct Pair {
  std::string_view key;
  std::string_view value;
};

/// Returns the pairs of the request, in its order, in which watchers see them. If a key comes more than once,
/// its last value counts.
std::vector<Pair> PairsOf(const Call& call) {
  std::vector<Pair> pairs;
  std::set<std::string_view> seen;
  for (std::size_t i = call.request.size() - 1; i > 1; i -= 2) {
    if (seen.insert(call.argument(i - 1)).second) pairs.push_back({call.argument(i - 1), call.argument(i)});
  }
  std::ranges::reverse(pairs);
  return pairs;
}

/// Puts all pairs or none.
Task<absl::Status> PutAsOne(Call& call, const std::vector<Pair>& pairs, Condition condition) {
  if (pairs.size() == 1) {
    co_return co_await call.kv().Put(pairs[0].key, pairs[0].value, {.condition = condition});
  }
  WriteBatch batch;
  for (const Pair& pair : pairs) {
    batch.Put(pair.key, pair.value, {.condition = condition});
    if (std::string fault = batch.fault(); !fault.empty()) {
      co_return absl::InvalidArgumentError(
          absl::StrCat(call.command->name, ": not all of it fits into an atomic batch: ", fault));
    }
  }
  co_return co_await call.kv().Apply(batch);
}

/// Returns whether the servers do the pairs slot by slot. Clients of a Redis Cluster divide an MSET by the
/// slots of Redis, so keys come together that have different slots here, and no common tag.
bool IsDivided(const Call& call, const std::vector<Pair>& pairs) {
  const GateOptions& options = call.services.gate.options;
  if (!options.cluster || options.topology->shards().size() == 1 || call.is_within_transaction())
    return false;
  const std::uint32_t slot = RedisSlotOf(pairs[0].key);
  return std::ranges::all_of(pairs, [slot](const Pair& pair) { return RedisSlotOf(pair.key) == slot; });
}

Task<void> PutPart(Call& call, const std::vector<Pair>& pairs, absl::Status& status, Join& join) {
  status = co_await PutAsOne(call, pairs, {});
  join.End();
}

/// Puts the pairs of each slot as one. Returns the first error; other slots have their pairs all the same.
Task<absl::Status> PutBySlot(Call& call, const std::vector<Pair>& pairs) {
  std::map<std::uint32_t, std::vector<Pair>> by_slot;
  for (const Pair& pair : pairs) by_slot[SlotOfKey(pair.key)].push_back(pair);
  std::vector<absl::Status> outcomes(by_slot.size());
  Join join;
  auto outcome = outcomes.begin();
  for (const auto& [slot, of_slot] : by_slot) {
    join.Begin();
    call.Start(PutPart(call, of_slot, *outcome++, join));
  }
  co_await join;
  const auto failed = std::ranges::find_if(outcomes, [](const absl::Status& one) { return !one.ok(); });
  co_return failed == outcomes.end() ? absl::OkStatus() : *failed;
}

Task<void> MSet(Call& call) {
  if (call.request.size() % 2 == 0) co_return call.reply.Error(WrongArity(call.command->name));
  const std::vector<Pair> pairs = PairsOf(call);
  absl::Status status;
  if (IsDivided(call, pairs)) {
    status = co_await PutBySlot(call, pairs);
  } else {
    status = co_await PutAsOne(call, pairs, {});
  }
  status.ok() ? call.reply.Ok() : FailCall(call, status);
}

Task<void> MSetNx(Call& call) {
  if (call.request.size() % 2 == 0) co_return call.reply.Error(WrongArity(call.command->name));
  const std::vector<Pair> pairs = PairsOf(call);
  const absl::Status status = co_await PutAsOne(call, pairs, Condition::Absent());
  if (!status.ok() && !absl::IsAlreadyExists(status)) co_return FailCall(call, status);
  call.reply.Integer(status.ok() ? 1 : 0);
}

constexpr Command kManyKeyCommands[] = {
    {"del", -2, Order::kWrite, kFlagWrite, 1, -1, 1, "generic", "Deletes keys", nullptr, Delete,
     OrderOfDelete},
    {"exists", -2, Order::kRead, kReadFlags, 1, -1, 1, "generic", "Counts the keys that exist", nullptr,
     Exists},
    {"mget", -2, Order::kRead, kReadFlags, 1, -1, 1, "string", "Returns the values of keys", nullptr, MGet},
    {"mset", -3, Order::kWrite, kFlagWrite | kFlagDenyOom, 1, -1, 2, "string", "Stores several values as one",
     nullptr, MSet},
    {"msetnx", -3, Order::kWrite, kFlagWrite | kFlagDenyOom, 1, -1, 2, "string",
     "Stores several values as one, if none of the keys exists", nullptr, MSetNx},
    {"touch", -2, Order::kRead, kReadFlags, 1, -1, 1, "generic", "Counts the keys that exist", nullptr,
     Exists},
    {"unlink", -2, Order::kWrite, kFlagWrite | kFlagFast, 1, -1, 1, "generic", "Deletes keys", nullptr,
     Delete, OrderOfDelete},
};

}  // namespace

std::span<const Command> ManyKeyCommands() { return kManyKeyCommands; }

}  // namespace remora::kvgate
