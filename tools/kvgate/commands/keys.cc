// Commands of keys: their type, their names, how many they are.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "store/format/wire/write_batch.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/store_calls.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

Task<void> Type(Call& call) {
  const std::string_view key = call.argument(1);
  const absl::StatusOr<bool> exists = co_await call.kv().Exists(key);
  if (!exists.ok() && !IsMissing(exists.status(), key)) co_return FailCall(call, exists.status());
  call.reply.Simple(exists.ok() && *exists ? "string" : "none");
}

/// Moves a value, with its expiry, in one batch. Returns the key that is to be renamed as it was found, or
/// a status. `only_new`: AlreadyExists, if there is a key of the new name.
Task<absl::Status> Move(Call& call, const KeyRecord& found, bool only_new) {
  WriteBatch batch;
  batch.Delete(call.argument(1), {.condition = Condition::Version(found.version)});
  batch.Put(call.argument(2), found.value,
            {.ttl = KeptTtl(std::optional(KeyExpiry{found.version, found.expiry_ms, {}})),
             .condition = only_new ? Condition::Absent() : Condition()});
  if (std::string fault = batch.fault(); !fault.empty()) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        call.command->name, ": it does not fit into an atomic batch, use COPY and DEL: ", fault));
  }
  co_return co_await call.kv().Apply(batch);
}

Task<void> RenameKey(Call& call, bool only_new) {
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto found = co_await FindRecord(call.kv(), call.argument(1));
    if (!found.ok()) co_return FailCall(call, found.status());
    if (!found->has_value()) co_return call.reply.Error("ERR no such key");
    bool is_done = false;
    if (call.argument(1) != call.argument(2)) {
      const absl::Status status = co_await Move(call, **found, only_new);
      const bool is_taken = only_new && absl::IsAlreadyExists(status);
      if (!is_taken && IsOvertaken(status)) continue;
      if (!is_taken && !status.ok()) co_return FailCall(call, status);
      is_done = status.ok();
    }
    if (only_new) co_return call.reply.Integer(is_done ? 1 : 0);
    co_return call.reply.Ok();
  }
  FailOvertaken(call);
}
Task<void> Rename(Call& call) { return RenameKey(call, false); }
Task<void> RenameNx(Call& call) { return RenameKey(call, true); }

/// Returns false after an error, which it sets.
bool ParseCopyOptions(Call& call, bool* replaces) {
  for (std::size_t i = 3; i < call.request.size(); ++i) {
    if (IsWord(call.argument(i), "REPLACE")) {
      *replaces = true;
      continue;
    }
    if (!IsWord(call.argument(i), "DB") || i + 1 >= call.request.size()) {
      call.reply.Error(kSyntaxError);
      return false;
    }
    const std::optional<std::int64_t> database = ParseInteger(call.argument(++i));
    if (database == 0) continue;
    call.reply.Error(database ? "ERR DB index is out of range" : kNotAnInteger);
    return false;
  }
  return true;
}

Task<void> Copy(Call& call) {
  bool replaces = false;
  if (!ParseCopyOptions(call, &replaces)) co_return;
  if (call.argument(1) == call.argument(2)) {
    co_return call.reply.Error("ERR source and destination objects are the same");
  }
  for (int i = 0; i < kMaxAttempts; ++i) {
    const auto found = co_await FindRecord(call.kv(), call.argument(1));
    if (!found.ok()) co_return FailCall(call, found.status());
    if (!found->has_value()) co_return call.reply.Integer(0);
    const absl::Status status = co_await call.kv().Put(
        call.argument(2), (*found)->value,
        {.ttl = KeptTtl(*found), .condition = replaces ? Condition() : Condition::Absent()});
    if (absl::IsOutOfRange(status)) continue;  // it has expired meanwhile
    if (!status.ok() && !absl::IsAlreadyExists(status)) co_return FailCall(call, status);
    co_return call.reply.Integer(status.ok() ? 1 : 0);
  }
  FailOvertaken(call);
}

Task<void> DbSize(Call& call) {
  const absl::StatusOr<std::uint64_t> count = co_await call.services.blocking.Run<std::uint64_t>(
      [](ClusterClient& client) { return client.Count(); });
  if (!count.ok()) co_return FailCall(call, count.status());
  call.reply.Integer(static_cast<std::int64_t>(call.services.gate.options.PartOf(*count)));
}

constexpr Command kKeyCommands[] = {
    {"copy", -3, Order::kExclusive, kFlagWrite | kFlagDenyOom, 1, 2, 1, "generic", "Copies a key", nullptr,
     Copy},
    {"dbsize", 1, Order::kExclusive, kFlagReadonly | kFlagFast | kFlagNoMulti, 0, 0, 0, "server",
     "Counts the keys", nullptr, DbSize},
    {"rename", 3, Order::kExclusive, kFlagWrite, 1, 2, 1, "generic", "Renames a key", nullptr, Rename},
    {"renamenx", 3, Order::kExclusive, kFlagWrite | kFlagFast, 1, 2, 1, "generic",
     "Renames a key if the new name is free", nullptr, RenameNx},
    {"type", 2, Order::kRead, kFlagReadonly | kFlagFast, 1, 1, 1, "generic", "Returns the type of a key",
     nullptr, Type},
};

}  // namespace

std::span<const Command> KeyCommands() { return kKeyCommands; }

}  // namespace remora::kvgate
