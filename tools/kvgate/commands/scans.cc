// Commands of all keys. The client's scan shows each key that stays exactly once.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/format/types/scan_range.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/pattern.h"
#include "tools/kvgate/commands/store_calls.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

// Bounds of one piece of a scan: the helper thread does it at once, and other calls wait meanwhile.
constexpr std::size_t kMaxPieceKeys = 10'000;
constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 20;
// Bound of the names of one KEYS, with their overhead. A reply is in memory as a whole.
constexpr std::size_t kMaxKeysBytes = std::size_t{64} << 20;
constexpr std::size_t kKeyOverhead = 64;

/// Some keys of a scan.
struct Piece {
  std::vector<std::string> keys{};
  std::string rest{};  // resume token; empty: the scan is at its end
};

/// Reads the next `count` keys, or fewer, and keeps those that fit the pattern and that the gate tells of.
/// `rest`: resume token; empty: from the first key that begins with `prefix` on.
absl::StatusOr<Piece> ReadPiece(ClusterClient& client, const GateOptions& gate, std::string_view rest,
                                std::string_view prefix, std::size_t count, std::string_view pattern) {
  // One more, to tell whether it is the end.
  ScanOptions options{.limit = count + 1, .keys_only = true, .resume_token = rest};
  if (rest.empty()) {
    options.prefix = prefix;
    options.any_order = true;
  }
  auto scan = client.Scan(options);
  if (!scan.ok()) return scan.status();
  Piece piece;
  std::size_t seen = 0;
  std::size_t bytes = 0;
  while ((*scan)->Next()) {
    ++seen;
    bytes += (*scan)->key().size();
    const std::string_view key = (*scan)->key();
    if (FitsPattern(pattern, key) && gate.TellsOf(key)) piece.keys.emplace_back(key);
    if (seen < count && bytes < kMaxPieceBytes) continue;
    piece.rest = (*scan)->resume_token();
    if (!(*scan)->Next()) piece.rest.clear();
    break;
  }
  if (!(*scan)->status().ok()) return (*scan)->status();
  return piece;
}

void ReplyKeys(Reply& reply, const std::vector<std::string>& keys) {
  reply.Array(keys.size());
  for (const std::string& key : keys) reply.Bulk(key);
}

// --- SCAN -----------------------------------------------------------------------------------------------

struct ScanArguments {
  std::uint64_t cursor = 0;
  std::size_t count = 10;
  std::string pattern = "*";
  bool has_strings = true;  // TYPE names the only type that there is, or is not given
};

/// Reads a cursor as strtoul does, which Redis uses.
std::optional<std::uint64_t> ParseCursor(std::string_view text) {
  const std::string copy(text);
  if (!copy.empty() && std::isspace(static_cast<unsigned char>(copy[0])) != 0) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const std::uint64_t cursor = std::strtoull(copy.c_str(), &end, 10);
  if (*end != '\0' || errno == ERANGE) return std::nullopt;
  return cursor;
}

/// Returns false after an error, which it sets.
bool ParseScan(Call& call, ScanArguments* arguments) {
  const std::optional<std::uint64_t> cursor = ParseCursor(call.argument(1));
  if (!cursor) {
    call.reply.Error("ERR invalid cursor");
    return false;
  }
  arguments->cursor = *cursor;
  for (std::size_t i = 2; i < call.request.size(); i += 2) {
    const bool has_value = i + 1 < call.request.size();
    if (has_value && IsWord(call.argument(i), "COUNT")) {
      const std::optional<std::int64_t> count = ParseInteger(call.argument(i + 1));
      if (!count || *count < 1) {
        call.reply.Error(count ? kSyntaxError : kNotAnInteger);
        return false;
      }
      arguments->count = static_cast<std::size_t>(std::min<std::int64_t>(*count, kMaxPieceKeys));
    } else if (has_value && IsWord(call.argument(i), "MATCH")) {
      arguments->pattern = call.argument(i + 1);
    } else if (has_value && IsWord(call.argument(i), "TYPE")) {
      arguments->has_strings = IsWord(call.argument(i + 1), "string");
    } else {
      call.reply.Error(kSyntaxError);
      return false;
    }
  }
  return true;
}

Task<void> Scan(Call& call) {
  ScanArguments arguments;
  if (!ParseScan(call, &arguments)) co_return;
  ScanCursors& cursors = call.services.gate.cursors;
  std::optional<std::string> rest = std::string();
  if (arguments.cursor != 0) rest = cursors.Find(arguments.cursor);
  if (!rest) {
    co_return call.reply.Error(absl::StrCat("ERR the cursor ", arguments.cursor,
                                            " is not known to this gate, which keeps those of ",
                                            ScanCursors::kMaxScans, " scans; begin again with cursor 0"));
  }
  Piece piece;
  if (arguments.has_strings) {
    // No prefix: the next call may come with another pattern.
    absl::StatusOr<Piece> read = co_await call.services.blocking.Run<Piece>([&](ClusterClient& client) {
      return ReadPiece(client, call.services.gate.options, *rest, {}, arguments.count, arguments.pattern);
    });
    if (!read.ok()) co_return FailCall(call, read.status());
    piece = *std::move(read);
  }
  std::uint64_t next = 0;
  if (!piece.rest.empty()) {
    next = cursors.Keep(arguments.cursor, std::move(piece.rest));
  } else if (arguments.cursor != 0) {
    cursors.End(arguments.cursor);
  }
  call.reply.Array(2);
  call.reply.Bulk(absl::StrCat(next));
  ReplyKeys(call.reply, piece.keys);
}

// --- KEYS and RANDOMKEY ---------------------------------------------------------------------------------

Task<void> Keys(Call& call) {
  const std::string_view pattern = call.argument(1);
  std::vector<std::string> keys;
  std::string rest;
  std::size_t bytes = 0;
  do {
    absl::StatusOr<Piece> piece = co_await call.services.blocking.Run<Piece>([&](ClusterClient& client) {
      return ReadPiece(client, call.services.gate.options, rest, PrefixOf(pattern), kMaxPieceKeys, pattern);
    });
    if (!piece.ok()) co_return FailCall(call, piece.status());
    for (std::string& key : piece->keys) {
      bytes += key.size() + kKeyOverhead;
      keys.push_back(std::move(key));
    }
    if (bytes > kMaxKeysBytes) {
      co_return call.reply.Error(absl::StrCat("ERR keys: the names, with ", kKeyOverhead,
                                              " bytes for each, have more than ", kMaxKeysBytes,
                                              " bytes; use SCAN"));
    }
    rest = std::move(piece->rest);
  } while (!rest.empty());
  ReplyKeys(call.reply, keys);
}

/// Returns one of the first keys behind a random place. Empty: there is none behind it.
absl::StatusOr<std::string> KeyBehind(ClusterClient& client, const ScanRange& range, std::size_t skipped) {
  const std::string token = MakeScanToken(range);
  auto scan = client.Scan({.limit = skipped + 1, .keys_only = true, .resume_token = token});
  if (!scan.ok()) return scan.status();
  std::vector<std::string> keys;
  while ((*scan)->Next()) keys.emplace_back((*scan)->key());
  if (!(*scan)->status().ok()) return (*scan)->status();
  return keys.empty() ? std::string() : keys[skipped % keys.size()];
}

/// Returns the first key, or the last one. Empty: there is none. FailedPrecondition: the store has no order.
absl::StatusOr<std::string> OutermostKey(ClusterClient& client, bool last) {
  const auto scan = client.Scan({.reverse = last, .limit = 1, .keys_only = true});
  if (!scan.ok()) return scan.status();
  if ((*scan)->Next()) return std::string((*scan)->key());
  if (!(*scan)->status().ok()) return (*scan)->status();
  return std::string();
}

/// Returns a bound at a random place between two keys.
std::string PlaceBetween(const std::string& first, const std::string& last, std::mt19937_64& random) {
  std::size_t same = 0;
  while (same < first.size() && same < last.size() && first[same] == last[same]) ++same;
  const auto byte_of = [same](const std::string& key) {
    return same < key.size() ? static_cast<unsigned char>(key[same]) : 0u;
  };
  std::string place = first.substr(0, same);
  place += static_cast<char>(byte_of(first) + random() % (byte_of(last) - byte_of(first) + 1));
  place += static_cast<char>(random() % 256);
  return place.substr(0, kMaxKeySize);
}

/// Returns a key. Empty: there is none. In a store without an order, a random hash decides. In an ordered
/// one, a random place between the first key and the last one does, and a random number of keys behind it.
absl::StatusOr<std::string> AnyKey(ClusterClient& client) {
  thread_local std::mt19937_64 random{std::random_device()()};
  constexpr std::size_t kMostSkipped = 1000;
  const std::size_t skipped = random() % kMostSkipped;
  ScanRange range;
  const absl::StatusOr<std::string> first = OutermostKey(client, false);
  if (absl::IsFailedPrecondition(first.status())) {
    range.by_hash = true;
    range.after = absl::StrCat(random());
  } else {
    if (!first.ok() || first->empty()) return first;
    const absl::StatusOr<std::string> last = OutermostKey(client, true);
    if (!last.ok()) return last;
    range.begin = PlaceBetween(*first, *last, random);
  }
  absl::StatusOr<std::string> key = KeyBehind(client, range, skipped);
  if (!key.ok() || !key->empty()) return key;
  return KeyBehind(client, {.by_hash = range.by_hash}, skipped);
}

Task<void> RandomKey(Call& call) {
  const absl::StatusOr<std::string> key = co_await call.services.blocking.Run<std::string>(AnyKey);
  if (!key.ok()) co_return FailCall(call, key.status());
  key->empty() ? call.reply.Null() : call.reply.Bulk(*key);
}

// --- FLUSHDB and FLUSHALL -------------------------------------------------------------------------------

Task<void> Flush(Call& call) {
  // SYNC and ASYNC are the same: the server deletes key by key while others are served.
  const bool has_mode =
      call.request.size() == 2 && (IsWord(call.argument(1), "ASYNC") || IsWord(call.argument(1), "SYNC"));
  if (call.request.size() > 1 && !has_mode) co_return call.reply.Error(kSyntaxError);
  const absl::StatusOr<std::uint64_t> deleted = co_await call.services.blocking.Run<std::uint64_t>(
      [](ClusterClient& client) { return client.DeleteAll(); });
  deleted.ok() ? call.reply.Ok() : FailCall(call, deleted.status());
}

constexpr Command kScanCommands[] = {
    {"flushall", -1, Order::kExclusive, kFlagWrite | kFlagNoMulti, 0, 0, 0, "server", "Deletes all keys",
     nullptr, Flush},
    {"flushdb", -1, Order::kExclusive, kFlagWrite | kFlagNoMulti, 0, 0, 0, "server", "Deletes all keys",
     nullptr, Flush},
    {"keys", 2, Order::kExclusive, kFlagReadonly | kFlagNoMulti, 0, 0, 0, "generic",
     "Returns the keys that fit a pattern", nullptr, Keys},
    {"randomkey", 1, Order::kExclusive, kFlagReadonly | kFlagNoMulti, 0, 0, 0, "generic", "Returns any key",
     nullptr, RandomKey},
    {"scan", -2, Order::kExclusive, kFlagReadonly | kFlagNoMulti, 0, 0, 0, "generic",
     "Returns some keys, and a cursor", nullptr, Scan},
};

}  // namespace

std::span<const Command> ScanCommands() { return kScanCommands; }

}  // namespace remora::kvgate
