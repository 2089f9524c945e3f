// A connection, and one operation over it.
#include <sysexits.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/client.h"
#include "client/session/credentials.h"
#include "rdma/address_list.h"
#include "rdma/auth/hmac.h"
#include "store/base/clock.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/format/types/duration_text.h"
#include "tools/command_line/say.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

Outcome FromStatus(const absl::Status& status) {
  if (IsShortage(status)) return {EX_OSERR, std::string(status.message())};
  if (IsDiskFailure(status)) return {EX_IOERR, std::string(status.message())};
  int exit_code = EX_SOFTWARE;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return {};
    case absl::StatusCode::kNotFound:
      exit_code = kExitNoSuchKey;
      break;
    case absl::StatusCode::kInvalidArgument:
      exit_code = EX_USAGE;
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:  // a watch that is too far behind
      exit_code = EX_UNAVAILABLE;
      break;
    case absl::StatusCode::kResourceExhausted:
      exit_code = EX_OSERR;
      break;
    case absl::StatusCode::kDataLoss:
      exit_code = EX_IOERR;
      break;
    case absl::StatusCode::kPermissionDenied:
      exit_code = EX_NOPERM;
      break;
    default:
      break;
  }
  return {exit_code, std::string(status.message())};
}

Outcome FromAnswer(const absl::Status& status) {
  Outcome outcome = FromStatus(status);
  if (absl::IsFailedPrecondition(status)) outcome.exit_code = EX_CONFIG;
  return outcome;
}

Outcome WriteOutput(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() && std::fflush(stdout) == 0)
    return {};
  return {EX_IOERR, absl::StrFormat("standard output: %s", std::strerror(errno))};
}

Outcome WriteOutput(std::string_view bytes, std::string_view done) {
  Outcome outcome = WriteOutput(bytes);
  if (Failed(outcome)) outcome.error += absl::StrFormat("; it was done all the same: %s", done);
  return outcome;
}

void AppendEscaped(std::string_view bytes, std::string* line) {
  while (!bytes.empty()) {
    const std::size_t control = command_line::ControlCharacterAt(bytes);
    for (const char byte : bytes.substr(0, control)) {
      absl::StrAppendFormat(line, "\\x%02x", static_cast<unsigned char>(byte));
    }
    if (control == 0 && bytes[0] == '\\') line->push_back('\\');
    if (control == 0) line->push_back(bytes[0]);
    bytes.remove_prefix(control == 0 ? 1 : control);
  }
}

absl::StatusOr<std::string> ReadToken(const Arguments& arguments) {
  if (arguments.token_file.empty()) return std::string();
  absl::StatusOr<std::string> token = ReadTokenFile(arguments.token_file);
  const absl::Status& status = token.status();
  if (status.ok() || absl::IsPermissionDenied(status) || absl::IsResourceExhausted(status)) return token;
  return absl::InvalidArgumentError(status.message());
}

absl::StatusOr<std::unique_ptr<Client>> Connect(const Arguments& arguments, const Clock& clock,
                                                bool reconnects) {
  const std::chrono::milliseconds timeout{arguments.timeout_ms};
  ClientOptions options{.connect_timeout = timeout, .timeout = timeout, .location_cache_bytes = 0};
  options.tls = arguments.tls;
  options.reconnect = reconnects;
  options.expected_shard = arguments.expected_shard;
  options.admin_connection = arguments.is_admin();
  REMORA_ASSIGN_OR_RETURN(options.token, ReadToken(arguments));
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Connect(arguments.server, options, clock));
  REMORA_ASSIGN_OR_RETURN(const std::vector<rdma::Address> addresses, rdma::ParseAddresses(arguments.server));
  if (addresses.size() > 1) {
    command_line::SayError(absl::StrCat("kvctl: connected to ", client->description()));
  }
  return client;
}

Outcome MakeToken(const Arguments& arguments) {
  std::array<std::byte, 32> secret;
  rdma::FillRandom(secret);
  const absl::string_view bytes(reinterpret_cast<const char*>(secret.data()), secret.size());
  return WriteOutput(
      absl::StrFormat("%s %s %s\n", arguments.key, arguments.role, absl::BytesToHexString(bytes)));
}

namespace {

struct Answered {
  Duration round_trip{};
  std::string description;  // Client::description
};

absl::StatusOr<Answered> ConnectAndPing(const Arguments& arguments, const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(auto client, Connect(arguments, clock));
  const TimePoint start = clock.Now();
  REMORA_RETURN_IF_ERROR(client->Ping());
  return Answered{clock.Now() - start, client->description()};
}

}  // namespace

Outcome Ping(const Arguments& arguments, const Clock& clock) {
  constexpr std::chrono::milliseconds kPause{20};
  const TimePoint deadline = clock.Now() + std::chrono::seconds(arguments.wait_seconds);
  for (;;) {
    const absl::StatusOr<Answered> answered = ConnectAndPing(arguments, clock);
    if (answered.ok()) {
      const std::chrono::duration<double, std::micro> microseconds = answered->round_trip;
      std::string server, description;
      AppendEscaped(arguments.server, &server);
      AppendEscaped(answered->description, &description);
      return WriteOutput(absl::StrFormat("%s answered in %.1f us\nconnected to %s\n", server,
                                         microseconds.count(), description));
    }
    // Only these can be cured by waiting for a server that starts.
    const bool may_come =
        absl::IsUnavailable(answered.status()) || absl::IsDeadlineExceeded(answered.status());
    if (!may_come || clock.Now() + kPause > deadline) return FromStatus(answered.status());
    std::this_thread::sleep_for(kPause);
  }
}

Outcome Get(Client& client, const Arguments& arguments) {
  std::string value;
  std::uint64_t version = 0;
  const absl::Status status = client.Get(arguments.key, &value, &version);
  if (!status.ok()) return FromStatus(status);
  if (arguments.show_version) value.insert(0, absl::StrFormat("%d\n", version));
  return WriteOutput(value);
}

Outcome Exists(Client& client, const Arguments& arguments) {
  const absl::StatusOr<bool> exists = client.Exists(arguments.key);
  if (!exists.ok()) return FromStatus(exists.status());
  return *exists ? Outcome{} : Outcome{kExitNoSuchKey, "no such key"};
}

namespace {

/// `result`: the text to print. `done`: the effect of the write, for an error of the output.
absl::Status Write(Client& client, const Arguments& arguments, std::string* result, std::string* done) {
  const PutOptions put{.ttl = arguments.ttl, .condition = arguments.condition, .version = nullptr};
  const WriteOptions write{.condition = arguments.condition, .version = nullptr};
  if (arguments.command == "put") return client.Put(arguments.key, arguments.value, put);
  if (arguments.command == "delete") return client.Delete(arguments.key, write);
  if (arguments.command == "touch") return client.Touch(arguments.key, *arguments.ttl, write);
  if (arguments.command == "persist") return client.Persist(arguments.key, write);
  if (arguments.command == "incr") {
    REMORA_ASSIGN_OR_RETURN(const std::int64_t sum, client.Increment(arguments.key, arguments.delta, put));
    *result = absl::StrFormat("%d\n", sum);
    *done = absl::StrFormat("the sum %d is stored", sum);
    return absl::OkStatus();
  }
  REMORA_ASSIGN_OR_RETURN(const std::size_t size, client.Append(arguments.key, arguments.value, put));
  *result = absl::StrFormat("%d\n", size);
  *done = absl::StrFormat("the value has %d bytes now", size);
  return absl::OkStatus();
}

}  // namespace

Outcome Write(Client& client, const Arguments& arguments) {
  std::string result;
  std::string done;
  const absl::Status status = Write(client, arguments, &result, &done);
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return result.empty() ? Outcome{} : WriteOutput(result, done);
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return {kExitCondition, std::string(status.message())};
    case absl::StatusCode::kOutOfRange:
      return {EX_DATAERR, std::string(status.message())};
    case absl::StatusCode::kResourceExhausted:  // it is the server that lacks space
      return {EX_CANTCREAT, std::string(status.message())};
    default:
      return FromStatus(status);
  }
}

Outcome Ttl(Client& client, const Arguments& arguments) {
  const auto left = client.Ttl(arguments.key);
  if (!left.ok()) return FromStatus(left.status());
  return WriteOutput(TtlText(left->value_or(kNeverExpires)) + "\n");
}

Outcome Promote(Client& client) {
  const absl::StatusOr<Promotion> promotion = client.Promote();
  if (!promotion.ok()) return FromStatus(promotion.status());
  std::string text = absl::StrFormat("promoted: a primary of epoch %d, with groups up to %d\n",
                                     promotion->epoch, promotion->last_group);
  if (!promotion->waits_for.empty()) {
    std::string why;
    AppendEscaped(promotion->waits_for, &why);
    absl::StrAppend(&text, "it serves no clients yet: ", why, "\n");
  }
  return WriteOutput(text);
}

Outcome Stats(Client& client, const Arguments& arguments) {
  const auto stats = client.Stats();
  if (!stats.ok()) return FromStatus(stats.status());
  std::string text;
  if (arguments.json) {  // the names are those of this program's registry, and have letters and '_'
    for (const auto& [name, value] : *stats) {
      absl::StrAppendFormat(&text, "%c\"%s\":%d", text.empty() ? '{' : ',', name, value);
    }
    return WriteOutput(text + "}\n");
  }
  for (const auto& [name, value] : *stats) {
    AppendEscaped(name, &text);
    absl::StrAppendFormat(&text, " %d\n", value);
  }
  return WriteOutput(text);
}

Outcome Scan(Client& client, const Arguments& arguments) {
  const auto scan = client.Scan({.prefix = arguments.prefix,
                                 .reverse = arguments.reverse,
                                 .any_order = arguments.any_order,
                                 .limit = arguments.limit,
                                 .keys_only = arguments.keys_only});
  if (!scan.ok()) return FromAnswer(scan.status());
  // Written in large pieces, and not all kept.
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::string lines;
  while ((*scan)->Next()) {
    AppendEscaped((*scan)->key(), &lines);
    if (!arguments.keys_only) {
      lines.push_back('\t');
      AppendEscaped((*scan)->value(), &lines);
    }
    lines.push_back('\n');
    if (lines.size() < kPiece) continue;
    if (Outcome outcome = WriteOutput(lines); Failed(outcome)) return outcome;
    lines.clear();
  }
  if (Outcome outcome = WriteOutput(lines); Failed(outcome)) return outcome;
  return FromAnswer((*scan)->status());
}

Outcome Watch(Client& client, const Arguments& arguments) {
  const auto watch = client.Watch({.prefix = arguments.prefix, .resume_token = arguments.resume_token});
  if (!watch.ok()) return FromAnswer(watch.status());
  constexpr std::chrono::seconds kLook{1};
  const bool ends = arguments.idle && *arguments.idle != kNeverExpires;
  std::string line;
  for (std::uint64_t shown = 0; arguments.limit == 0 || shown < arguments.limit;) {
    const absl::StatusOr<bool> came = (*watch)->Next(ends ? *arguments.idle : kLook);
    if (!came.ok()) return FromAnswer(came.status());
    if (!*came && ends) break;
    if (!*came) continue;
    ++shown;
    const bool is_put = (*watch)->kind() == ChangeKind::kPut;
    line = arguments.show_positions ? (*watch)->resume_token() + '\t' : "";
    line += is_put ? "put\t" : "delete\t";
    AppendEscaped((*watch)->key(), &line);
    if (is_put && !arguments.keys_only) {
      line.push_back('\t');
      AppendEscaped((*watch)->value(), &line);
    }
    line.push_back('\n');
    if (Outcome outcome = WriteOutput(line); Failed(outcome)) return outcome;
  }
  return arguments.show_positions ? WriteOutput((*watch)->resume_token() + '\n') : Outcome();
}

Outcome CountOrDeleteAll(Client& client, const Arguments& arguments) {
  const RangeOptions range{.prefix = arguments.prefix};
  const bool all = arguments.prefix.empty();
  const absl::StatusOr<std::uint64_t> count = arguments.command == "count"
                                                  ? (all ? client.Count() : client.Count(range))
                                                  : (all ? client.DeleteAll() : client.DeleteRange(range));
  if (!count.ok()) return FromStatus(count.status());
  const std::string line = absl::StrFormat("%d\n", *count);
  if (arguments.command == "count") return WriteOutput(line);
  return WriteOutput(line, absl::StrFormat("%d keys were deleted", *count));
}

}  // namespace remora::kvctl
