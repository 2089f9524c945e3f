// Commands of one string.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/format/memory/layout.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/expiry.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/set_options.h"
#include "tools/kvgate/commands/store_calls.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

void ReplyValue(Reply& reply, const std::optional<KeyRecord>& found) {
  found ? reply.Bulk(found->value) : reply.Null();
}

/// A time of an option or argument that has to lie ahead or, as a moment, may be over. Returns false after an
/// error, which it sets.
bool TakeTime(Call& call, std::string_view text, TimeForm form, std::optional<ExpiryTime>* time) {
  const std::optional<std::int64_t> number = ParseInteger(text);
  if (!number) {
    call.reply.Error(kNotAnInteger);
    return false;
  }
  if (*number > 0) *time = MakeExpiry(*number, form, call.services.clock);
  if (!*time) call.reply.Error(InvalidExpiry(call.command->name));
  return time->has_value();
}

Task<void> Get(Call& call) {
  const std::string_view key = call.argument(1);
  const absl::StatusOr<std::string> value = co_await call.kv().Get(key);
  if (value.ok()) {
    call.reply.Bulk(*value);
  } else if (IsMissing(value.status(), key)) {
    call.reply.Null();
  } else {
    FailCall(call, value.status());
  }
}

// --- SET ------------------------------------------------------------------------------------------------

/// A SET that needs no read: one write.
Task<void> SetBlindly(Call& call, const SetOptions& options, const std::optional<ExpiryTime>& time) {
  PutOptions put;
  if (time) put.ttl = time->ttl;
  if (options.only == SetOptions::Only::kIfAbsent) put.condition = Condition::Absent();
  if (options.only == SetOptions::Only::kIfPresent) put.condition = Condition::Present();
  const absl::Status status = co_await call.kv().Put(call.argument(1), call.argument(2), put);
  if (status.ok()) {
    call.reply.Ok();
  } else if (!put.condition.is_none() && (absl::IsAlreadyExists(status) || absl::IsNotFound(status))) {
    call.reply.Null();
  } else {
    FailCall(call, status);
  }
}

/// Writes over what was found, if nobody else did. A time that is over deletes the key.
Task<absl::Status> Replace(Call& call, const std::optional<KeyRecord>& found, std::string_view value,
                           const SetOptions& options, const std::optional<ExpiryTime>& time) {
  const std::string_view key = call.argument(1);
  if (time && time->is_over) {
    if (!found) co_return absl::OkStatus();
    co_return co_await call.kv().Delete(key, {.condition = StillAs(found)});
  }
  PutOptions put{.condition = StillAs(found)};
  if (options.keeps_ttl) put.ttl = KeptTtl(found);
  if (time) put.ttl = time->ttl;
  co_return co_await call.kv().Put(key, value, put);
}

/// A SET whose reply or expiry depends on what is there.
Task<void> SetAfterRead(Call& call, const SetOptions& options, std::optional<ExpiryTime> time,
                        std::string_view value) {
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto found = co_await FindRecord(call.kv(), call.argument(1));
    if (!found.ok()) co_return FailCall(call, found.status());
    const bool has = found->has_value();
    const bool is_kept = options.only == (has ? SetOptions::Only::kIfAbsent : SetOptions::Only::kIfPresent);
    if (!is_kept) {
      const absl::Status status = co_await Replace(call, *found, value, options, time);
      if (time && absl::IsOutOfRange(status)) time->is_over = true;  // by the server's clock
      if (IsOvertaken(status)) continue;
      if (!status.ok()) co_return FailCall(call, status);
    }
    if (options.gets) {
      ReplyValue(call.reply, *found);
    } else {
      is_kept ? call.reply.Null() : call.reply.Ok();
    }
    co_return;
  }
  FailOvertaken(call);
}

Task<void> Set(Call& call) {
  const std::optional<SetOptions> options = ParseSetOptions(call.request);
  if (!options) co_return call.reply.Error(kSyntaxError);
  std::optional<ExpiryTime> time;
  if (options->time_form && !TakeTime(call, options->time, *options->time_form, &time)) co_return;
  // A moment may be over when the server has the write.
  const bool reads = options->gets || options->keeps_ttl || (time && IsUnix(*options->time_form));
  if (reads) {
    co_await SetAfterRead(call, *options, time, call.argument(2));
  } else {
    co_await SetBlindly(call, *options, time);
  }
}

Order OrderOfSet(const Request& request) {
  if (request.size() == 3) return Order::kWrite;
  const std::optional<SetOptions> options = ParseSetOptions(request);
  if (!options) return Order::kWrite;  // an error, and no write
  const bool reads =
      options->gets || options->keeps_ttl || (options->time_form && IsUnix(*options->time_form));
  return reads ? Order::kExclusive : Order::kWrite;
}

Task<void> SetNx(Call& call) {
  const absl::Status status =
      co_await call.kv().Put(call.argument(1), call.argument(2), {.condition = Condition::Absent()});
  if (!status.ok() && !absl::IsAlreadyExists(status)) co_return FailCall(call, status);
  call.reply.Integer(status.ok() ? 1 : 0);
}

Task<void> SetWithTime(Call& call, TimeForm form) {
  std::optional<ExpiryTime> time;
  if (!TakeTime(call, call.argument(2), form, &time)) co_return;
  const absl::Status status = co_await call.kv().Put(call.argument(1), call.argument(3), {.ttl = time->ttl});
  status.ok() ? call.reply.Ok() : FailCall(call, status);
}
Task<void> SetEx(Call& call) { return SetWithTime(call, TimeForm::kSeconds); }
Task<void> PSetEx(Call& call) { return SetWithTime(call, TimeForm::kMilliseconds); }

Task<void> GetSet(Call& call) {
  const SetOptions options{.gets = true};
  co_await SetAfterRead(call, options, std::nullopt, call.argument(2));
}

// --- Reads that change -------------------------------------------------------------------------------------

Task<void> GetDel(Call& call) {
  const std::string_view key = call.argument(1);
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto found = co_await FindRecord(call.kv(), key);
    if (!found.ok()) co_return FailCall(call, found.status());
    if (found->has_value()) {
      const absl::Status status = co_await call.kv().Delete(key, {.condition = StillAs(*found)});
      if (IsOvertaken(status)) continue;
      if (!status.ok()) co_return FailCall(call, status);
    }
    co_return ReplyValue(call.reply, *found);
  }
  FailOvertaken(call);
}

Task<void> GetEx(Call& call) {
  const std::string_view key = call.argument(1);
  const std::optional<SetOptions> options = ParseGetExOptions(call.request);
  if (!options) co_return call.reply.Error(kSyntaxError);
  std::optional<ExpiryTime> time;
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto found = co_await FindRecord(call.kv(), key);
    if (!found.ok()) co_return FailCall(call, found.status());
    if (!found->has_value()) co_return call.reply.Null();
    // Redis looks at the time only of a key that exists.
    const bool takes_time = options->time_form && !time;
    if (takes_time && !TakeTime(call, options->time, *options->time_form, &time)) co_return;
    if (!time && !options->persists) co_return ReplyValue(call.reply, *found);
    const WriteOptions write{.condition = StillAs(*found)};
    absl::Status status;
    if (time && time->is_over) {
      status = co_await call.kv().Delete(key, write);
    } else if (time || (*found)->expiry_ms != 0) {
      status = co_await call.kv().Touch(key, time ? time->ttl : kNeverExpires, write);
    }
    if (time && absl::IsOutOfRange(status)) time->is_over = true;  // by the server's clock
    if (IsOvertaken(status)) continue;
    if (!status.ok()) co_return FailCall(call, status);
    co_return ReplyValue(call.reply, *found);
  }
  FailOvertaken(call);
}

// --- Parts -------------------------------------------------------------------------------------------------

Task<void> StrLen(Call& call) {
  const auto found = co_await FindRecord(call.kv(), call.argument(1));
  if (!found.ok()) co_return FailCall(call, found.status());
  call.reply.Integer(found->has_value() ? static_cast<std::int64_t>((*found)->value.size()) : 0);
}

/// Returns the part of the text from `first` to `last`, where negative numbers count from the end.
std::string_view PartOf(std::string_view text, std::int64_t first, std::int64_t last) {
  const auto size = static_cast<std::int64_t>(text.size());
  if (first < 0 && last < 0 && first > last) return {};
  const auto from_front = [size](std::int64_t place) {
    return place >= 0 ? place : std::max<std::int64_t>(place < -size ? 0 : place + size, 0);
  };
  const std::int64_t begin = from_front(first);
  const std::int64_t end = std::min(from_front(last), size - 1);
  if (size == 0 || begin > end) return {};
  return text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin + 1));
}

Task<void> GetRange(Call& call) {
  const std::optional<std::int64_t> first = ParseInteger(call.argument(2));
  const std::optional<std::int64_t> last = ParseInteger(call.argument(3));
  if (!first || !last) co_return call.reply.Error(kNotAnInteger);
  const auto found = co_await FindRecord(call.kv(), call.argument(1));
  if (!found.ok()) co_return FailCall(call, found.status());
  call.reply.Bulk(found->has_value() ? PartOf((*found)->value, *first, *last) : std::string_view());
}

/// Replaces a value by what `change` makes of it, and replies with the new size. `change` returns false if
/// that would be too large.
Task<void> ChangeValue(Call& call, std::function<bool(std::string*)> change) {
  const std::string_view key = call.argument(1);
  for (int i = 0; i < kMaxAttempts; ++i) {
    auto found = co_await FindRecord(call.kv(), key);
    if (!found.ok()) co_return FailCall(call, found.status());
    std::string value;
    if (found->has_value()) value.swap((*found)->value);
    if (!change(&value)) co_return call.reply.Error(kTooLargeString);
    const absl::Status status =
        co_await call.kv().Put(key, value, {.ttl = KeptTtl(*found), .condition = StillAs(*found)});
    if (IsOvertaken(status)) continue;
    if (!status.ok()) co_return FailCall(call, status);
    co_return call.reply.Integer(static_cast<std::int64_t>(value.size()));
  }
  FailOvertaken(call);
}

Task<void> SetRange(Call& call) {
  const std::optional<std::int64_t> offset = ParseInteger(call.argument(2));
  if (!offset) co_return call.reply.Error(kNotAnInteger);
  if (*offset < 0) co_return call.reply.Error("ERR offset is out of range");
  const std::string_view bytes = call.argument(3);
  if (bytes.empty()) co_return co_await StrLen(call);
  co_await ChangeValue(call, [place = static_cast<std::size_t>(*offset), bytes](std::string* value) {
    if (place > kMaxValueSize || place + bytes.size() > kMaxValueSize) return false;
    value->resize(std::max(value->size(), place + bytes.size()));
    value->replace(place, bytes.size(), bytes);
    return true;
  });
}

Task<void> Append(Call& call) {
  const std::string_view bytes = call.argument(2);
  const absl::StatusOr<std::size_t> size = co_await call.kv().Append(call.argument(1), bytes);
  if (size.ok()) co_return call.reply.Integer(static_cast<std::int64_t>(*size));
  if (!absl::IsOutOfRange(size.status())) co_return FailCall(call, size.status());
  // Too large for the server to append to.
  co_await ChangeValue(call, [bytes](std::string* value) {
    if (value->size() + bytes.size() > kMaxValueSize) return false;
    *value += bytes;
    return true;
  });
}

constexpr Command kStringCommands[] = {
    {"append", 3, Order::kExclusive, kWriteFlags, 1, 1, 1, "string", "Appends bytes to a value", nullptr,
     Append},
    {"get", 2, Order::kRead, kReadFlags, 1, 1, 1, "string", "Returns a value", nullptr, Get},
    {"getdel", 2, Order::kExclusive, kFlagWrite | kFlagFast, 1, 1, 1, "string",
     "Returns a value and deletes its key", nullptr, GetDel},
    {"getex", -2, Order::kExclusive, kFlagWrite | kFlagFast, 1, 1, 1, "string",
     "Returns a value and sets the expiry of its key", nullptr, GetEx},
    {"getrange", 4, Order::kRead, kFlagReadonly, 1, 1, 1, "string", "Returns a part of a value", nullptr,
     GetRange},
    {"getset", 3, Order::kExclusive, kWriteFlags, 1, 1, 1, "string", "Stores a value and returns the old one",
     nullptr, GetSet},
    {"psetex", 4, Order::kWrite, kFlagWrite | kFlagDenyOom, 1, 1, 1, "string",
     "Stores a value for some milliseconds", nullptr, PSetEx},
    {"set", -3, Order::kWrite, kFlagWrite | kFlagDenyOom, 1, 1, 1, "string", "Stores a value", nullptr, Set,
     OrderOfSet},
    {"setex", 4, Order::kWrite, kFlagWrite | kFlagDenyOom, 1, 1, 1, "string",
     "Stores a value for some seconds", nullptr, SetEx},
    {"setnx", 3, Order::kWrite, kWriteFlags, 1, 1, 1, "string", "Stores a value if the key does not exist",
     nullptr, SetNx},
    {"setrange", 4, Order::kExclusive, kFlagWrite | kFlagDenyOom, 1, 1, 1, "string",
     "Overwrites a part of a value", nullptr, SetRange},
    {"strlen", 2, Order::kRead, kReadFlags, 1, 1, 1, "string", "Returns the size of a value", nullptr,
     StrLen},
};

}  // namespace

std::span<const Command> StringCommands() { return kStringCommands; }

}  // namespace remora::kvgate
