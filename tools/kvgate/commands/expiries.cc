// Commands of expiry.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/expiry.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/store_calls.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

/// Options of EXPIRE and the like.
struct ExpireOptions {
  bool nx = false;
  bool xx = false;
  bool gt = false;
  bool lt = false;
};

/// Returns false after an error, which it sets.
bool ParseExpireOptions(Call& call, ExpireOptions* options) {
  for (std::size_t i = 3; i < call.request.size(); ++i) {
    const std::string_view word = call.argument(i);
    if (IsWord(word, "NX")) {
      options->nx = true;
    } else if (IsWord(word, "XX")) {
      options->xx = true;
    } else if (IsWord(word, "GT")) {
      options->gt = true;
    } else if (IsWord(word, "LT")) {
      options->lt = true;
    } else {
      call.reply.Error(absl::StrCat("ERR Unsupported option ", AbslView(word)));
      return false;
    }
  }
  if (options->nx && (options->xx || options->gt || options->lt)) {
    call.reply.Error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return false;
  }
  if (options->gt && options->lt) {
    call.reply.Error("ERR GT and LT options at the same time are not compatible");
    return false;
  }
  return true;
}

/// A key without expiry counts as one that expires behind all times.
bool Allows(const ExpireOptions& options, const KeyExpiry& old, std::int64_t new_ms) {
  const auto old_ms = static_cast<std::int64_t>(old.expiry_ms);
  const bool has_expiry = old_ms != 0;
  if (options.nx && has_expiry) return false;
  if (options.xx && !has_expiry) return false;
  if (options.gt && (!has_expiry || new_ms <= old_ms)) return false;
  return !options.lt || !has_expiry || new_ms < old_ms;
}

Task<void> SetExpiry(Call& call, TimeForm form) {
  const std::string_view key = call.argument(1);
  ExpireOptions options;
  if (!ParseExpireOptions(call, &options)) co_return;
  const std::optional<std::int64_t> number = ParseInteger(call.argument(2));
  if (!number) co_return call.reply.Error(kNotAnInteger);
  std::optional<ExpiryTime> time = MakeExpiry(*number, form, call.services.clock);
  if (!time) co_return call.reply.Error(InvalidExpiry(call.command->name));
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto found = co_await FindExpiry(call.kv(), key);
    if (!found.ok()) co_return FailCall(call, found.status());
    if (!found->has_value() || !Allows(options, **found, time->unix_ms)) co_return call.reply.Integer(0);
    const WriteOptions write{.condition = StillAs(*found)};
    absl::Status status;
    if (time->is_over) {
      status = co_await call.kv().Delete(key, write);
    } else {
      status = co_await call.kv().Touch(key, time->ttl, write);
      if (absl::IsOutOfRange(status)) time->is_over = true;  // by the server's clock
    }
    if (IsOvertaken(status)) continue;
    if (!status.ok()) co_return FailCall(call, status);
    co_return call.reply.Integer(1);
  }
  FailOvertaken(call);
}
Task<void> Expire(Call& call) { return SetExpiry(call, TimeForm::kSeconds); }
Task<void> PExpire(Call& call) { return SetExpiry(call, TimeForm::kMilliseconds); }
Task<void> ExpireAt(Call& call) { return SetExpiry(call, TimeForm::kUnixSeconds); }
Task<void> PExpireAt(Call& call) { return SetExpiry(call, TimeForm::kUnixMilliseconds); }

/// Replies with a time of the key, -1 if it never expires, and -2 if it does not exist.
Task<void> ShowExpiry(Call& call, TimeForm form) {
  const auto found = co_await FindExpiry(call.kv(), call.argument(1));
  if (!found.ok()) co_return FailCall(call, found.status());
  if (!found->has_value()) co_return call.reply.Integer(-2);
  const KeyExpiry& expiry = **found;
  if (expiry.expiry_ms == 0) co_return call.reply.Integer(-1);
  const std::int64_t left_ms = expiry.ttl.value_or(std::chrono::milliseconds(0)).count();
  const std::int64_t shown_ms = IsUnix(form) ? static_cast<std::int64_t>(expiry.expiry_ms) : left_ms;
  // Seconds are rounded to the nearest.
  call.reply.Integer(IsInSeconds(form) ? (shown_ms + 500) / 1000 : shown_ms);
}
Task<void> Ttl(Call& call) { return ShowExpiry(call, TimeForm::kSeconds); }
Task<void> PTtl(Call& call) { return ShowExpiry(call, TimeForm::kMilliseconds); }
Task<void> ExpireTime(Call& call) { return ShowExpiry(call, TimeForm::kUnixSeconds); }
Task<void> PExpireTime(Call& call) { return ShowExpiry(call, TimeForm::kUnixMilliseconds); }

Task<void> Persist(Call& call) {
  const std::string_view key = call.argument(1);
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto found = co_await FindExpiry(call.kv(), key);
    if (!found.ok()) co_return FailCall(call, found.status());
    if (!found->has_value() || (*found)->expiry_ms == 0) co_return call.reply.Integer(0);
    const absl::Status status = co_await call.kv().Touch(key, kNeverExpires, {.condition = StillAs(*found)});
    if (IsOvertaken(status)) continue;
    if (!status.ok()) co_return FailCall(call, status);
    co_return call.reply.Integer(1);
  }
  FailOvertaken(call);
}

constexpr Command kExpiryCommands[] = {
    {"expire", -3, Order::kExclusive, kFlagWrite | kFlagFast, 1, 1, 1, "generic",
     "Sets the expiry, in seconds from now", nullptr, Expire},
    {"expireat", -3, Order::kExclusive, kFlagWrite | kFlagFast, 1, 1, 1, "generic",
     "Sets the expiry, in seconds since 1970", nullptr, ExpireAt},
    {"expiretime", 2, Order::kRead, kReadFlags, 1, 1, 1, "generic",
     "Returns the expiry, in seconds since 1970", nullptr, ExpireTime},
    {"persist", 2, Order::kExclusive, kFlagWrite | kFlagFast, 1, 1, 1, "generic", "Removes the expiry",
     nullptr, Persist},
    {"pexpire", -3, Order::kExclusive, kFlagWrite | kFlagFast, 1, 1, 1, "generic",
     "Sets the expiry, in milliseconds from now", nullptr, PExpire},
    {"pexpireat", -3, Order::kExclusive, kFlagWrite | kFlagFast, 1, 1, 1, "generic",
     "Sets the expiry, in milliseconds since 1970", nullptr, PExpireAt},
    {"pexpiretime", 2, Order::kRead, kReadFlags, 1, 1, 1, "generic",
     "Returns the expiry, in milliseconds since 1970", nullptr, PExpireTime},
    {"pttl", 2, Order::kRead, kReadFlags, 1, 1, 1, "generic", "Returns the time to live, in milliseconds",
     nullptr, PTtl},
    {"ttl", 2, Order::kRead, kReadFlags, 1, 1, 1, "generic", "Returns the time to live, in seconds", nullptr,
     Ttl},
};

}  // namespace

std::span<const Command> ExpiryCommands() { return kExpiryCommands; }

}  // namespace remora::kvgate
