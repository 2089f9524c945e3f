// Commands about how a key is kept.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/format/memory/record.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/help.h"
#include "tools/kvgate/commands/store_calls.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

constexpr std::string_view kNoFrequency =
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when "
    "switching "
    "between policies at runtime LRU and LFU data will take some time to adjust.";

/// Returns the name that Redis has for a value that was set.
std::string_view EncodingOf(std::string_view value) {
  constexpr std::size_t kMostEmbedded = 44;
  if (ParseInteger(value)) return "int";
  return value.size() <= kMostEmbedded ? "embstr" : "raw";
}

Task<void> Object(Call& call) {
  if (RepliedHelp(call)) co_return;
  const std::string_view name = call.argument(1);
  const bool is_encoding = IsWord(name, "ENCODING");
  const bool is_frequency = IsWord(name, "FREQ");
  if (!is_encoding && !is_frequency && !IsWord(name, "REFCOUNT")) {
    co_return call.reply.Error(UnknownSubcommand(name, "object"));
  }
  if (call.request.size() != 3) {
    co_return call.reply.Error(WrongArity(is_encoding    ? "object|encoding"
                                          : is_frequency ? "object|freq"
                                                         : "object|refcount"));
  }
  const auto found = co_await FindRecord(call.kv(), call.argument(2));
  if (!found.ok()) co_return FailCall(call, found.status());
  if (!found->has_value()) {
    call.reply.Null();
  } else if (is_encoding) {
    call.reply.Bulk(EncodingOf((*found)->value));
  } else if (is_frequency) {
    call.reply.Error(kNoFrequency);
  } else {
    call.reply.Integer(1);
  }
}

Task<void> Memory(Call& call) {
  if (RepliedHelp(call)) co_return;
  if (!IsWord(call.argument(1), "USAGE")) {
    co_return call.reply.Error(UnknownSubcommand(call.argument(1), "memory"));
  }
  if (call.request.size() < 3) co_return call.reply.Error(WrongArity("memory|usage"));
  // A string has no parts of which to take samples.
  for (std::size_t i = 3; i < call.request.size(); i += 2) {
    if (!IsWord(call.argument(i), "SAMPLES") || i + 1 == call.request.size()) {
      co_return call.reply.Error(kSyntaxError);
    }
    const std::optional<std::int64_t> samples = ParseInteger(call.argument(i + 1));
    if (!samples || *samples < 0) co_return call.reply.Error(samples ? kSyntaxError : kNotAnInteger);
  }
  const auto found = co_await FindRecord(call.kv(), call.argument(2));
  if (!found.ok()) co_return FailCall(call, found.status());
  if (!found->has_value()) co_return call.reply.Null();
  call.reply.Integer(
      static_cast<std::int64_t>(sizeof(RecordHeader) + call.argument(2).size() + (*found)->value.size()));
}

constexpr Command kObjectCommands[] = {
    {"memory", -2, Order::kRead, kFlagReadonly, 2, 2, 1, "server", "Returns the bytes of a key's record",
     nullptr, Memory},
    {"object", -2, Order::kRead, kFlagReadonly, 2, 2, 1, "generic", "Describes how a key is kept", nullptr,
     Object},
};

}  // namespace

std::span<const Command> ObjectCommands() { return kObjectCommands; }

}  // namespace remora::kvgate
