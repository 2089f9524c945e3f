// Commands of numbers. The store adds whole numbers itself: it keeps them as decimal digits, which GET shows.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "store/base/moved.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/store_calls.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

Task<void> Add(Call& call, std::int64_t delta) {
  const absl::StatusOr<std::int64_t> sum = co_await call.kv().Increment(call.argument(1), delta);
  if (sum.ok()) co_return call.reply.Integer(*sum);
  // A connection may fail with the same code.
  const bool is_connected = call.kv().is_connected(call.argument(1));
  if (absl::IsOutOfRange(sum.status())) {
    call.reply.Error("ERR increment or decrement would overflow");
  } else if (absl::IsFailedPrecondition(sum.status()) && is_connected && !IsMoved(sum.status())) {
    call.reply.Error(kNotAnInteger);
  } else {
    FailCall(call, sum.status());
  }
}

Task<void> Incr(Call& call) { return Add(call, 1); }
Task<void> Decr(Call& call) { return Add(call, -1); }

Task<void> IncrBy(Call& call) {
  const std::optional<std::int64_t> delta = ParseInteger(call.argument(2));
  if (!delta) co_return call.reply.Error(kNotAnInteger);
  co_await Add(call, *delta);
}

Task<void> DecrBy(Call& call) {
  const std::optional<std::int64_t> delta = ParseInteger(call.argument(2));
  if (!delta) co_return call.reply.Error(kNotAnInteger);
  if (*delta == std::numeric_limits<std::int64_t>::min()) {
    co_return call.reply.Error("ERR decrement would overflow");
  }
  co_await Add(call, -*delta);
}

Task<void> IncrByFloat(Call& call) {
  constexpr std::string_view kNotAFloat = "ERR value is not a valid float";
  const std::string_view key = call.argument(1);
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto found = co_await FindRecord(call.kv(), key);
    if (!found.ok()) co_return FailCall(call, found.status());
    const std::optional<long double> number =
        found->has_value() ? ParseFloat((*found)->value) : std::optional(0.0L);
    const std::optional<long double> delta = ParseFloat(call.argument(2));
    if (!number || !delta) co_return call.reply.Error(kNotAFloat);
    const long double sum = *number + *delta;
    if (!std::isfinite(sum)) co_return call.reply.Error("ERR increment would produce NaN or Infinity");
    const std::string text = FormatFloat(sum);
    const absl::Status status =
        co_await call.kv().Put(key, text, {.ttl = KeptTtl(*found), .condition = StillAs(*found)});
    if (IsOvertaken(status)) continue;
    if (!status.ok()) co_return FailCall(call, status);
    co_return call.reply.Bulk(text);
  }
  FailOvertaken(call);
}

constexpr Command kNumberCommands[] = {
    {"decr", 2, Order::kWrite, kWriteFlags, 1, 1, 1, "string", "Subtracts one from a number", nullptr, Decr},
    {"decrby", 3, Order::kWrite, kWriteFlags, 1, 1, 1, "string", "Subtracts from a number", nullptr, DecrBy},
    {"incr", 2, Order::kWrite, kWriteFlags, 1, 1, 1, "string", "Adds one to a number", nullptr, Incr},
    {"incrby", 3, Order::kWrite, kWriteFlags, 1, 1, 1, "string", "Adds to a number", nullptr, IncrBy},
    {"incrbyfloat", 3, Order::kExclusive, kWriteFlags, 1, 1, 1, "string",
     "Adds to a number that may have a fraction", nullptr, IncrByFloat},
};

}  // namespace

std::span<const Command> NumberCommands() { return kNumberCommands; }

}  // namespace remora::kvgate
