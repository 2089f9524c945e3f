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
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/client.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology.h"
#include "client/cluster/topology_source.h"
#include "client/session/credentials.h"
#include "rdma/address_list.h"
#include "rdma/auth/hmac.h"
#include "store/base/absl_view.h"
#include "store/base/clock.h"
#include "store/base/moved.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/format/types/duration_text.h"
#include "tools/command_line/say.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

Outcome FromStatus(const absl::Status& status) {
  if (IsShortage(status)) return {EX_OSERR, std::string(status.message())};
  if (IsDiskFailure(status)) return {EX_IOERR, std::string(status.message())};
  if (IsMoved(status)) return {EX_CONFIG, std::string(status.message())};
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

void ShardFailures::Add(const ShardPlace& shard, const absl::Status& status) {
  if (count_++ == 0) first_ = FromStatus(NameShard(shard, status));
}

Outcome ShardFailures::outcome() const {
  Outcome outcome = first_;
  if (count_ > 1) absl::StrAppend(&outcome.error, "; and ", count_ - 1, " more");
  return outcome;
}

Arguments OfShard(const Arguments& arguments, std::size_t shard) {
  Arguments one = arguments;
  const ShardPlace& place = arguments.topology->shards()[shard];
  one.server = place.addresses;
  if (place.name.empty()) return one;
  one.expected_shard = arguments.topology->IdentityOfShard(shard);
  if (!HasTls(place)) one.tls = {};
  return one;
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

namespace {

absl::StatusOr<ClientOptions> OptionsOf(const Arguments& arguments) {
  const std::chrono::milliseconds timeout{arguments.timeout_ms};
  ClientOptions options{.connect_timeout = timeout, .timeout = timeout, .location_cache_bytes = 0};
  options.tls = arguments.tls;
  options.admin_connection = arguments.is_admin();
  REMORA_ASSIGN_OR_RETURN(options.token, ReadToken(arguments));
  return options;
}

/// Reads the topology of --topology, from a file or of servers.
absl::StatusOr<Topology> TopologyOf(const Arguments& arguments) {
  if (!IsOfServers(arguments.topology_file)) return Topology::Read(arguments.topology_file);
  REMORA_ASSIGN_OR_RETURN(const ClientOptions options, OptionsOf(arguments));
  return remora::ReadTopology(arguments.topology_file, options, DefaultClock());
}

/// Says which of several addresses of a server is taken.
absl::Status SayChoice(const std::string& server, const Client& client) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<rdma::Address> addresses, rdma::ParseAddresses(server));
  if (addresses.size() > 1) {
    command_line::SayError(absl::StrCat("kvctl: connected to ", client.description()));
  }
  return absl::OkStatus();
}

}  // namespace

Outcome ReadTopology(Arguments* arguments) {
  absl::StatusOr<Topology> read = TopologyOf(*arguments);
  if (read.ok()) {
    arguments->topology.emplace(*std::move(read));
    return {};
  }
  if (IsOfServers(arguments->topology_file)) return FromAnswer(read.status());
  Outcome outcome = FromStatus(read.status());
  if (absl::IsNotFound(read.status())) outcome.exit_code = EX_NOINPUT;
  if (absl::IsInvalidArgument(read.status())) outcome.exit_code = EX_DATAERR;
  return outcome;
}

absl::StatusOr<std::unique_ptr<Client>> Connect(const Arguments& arguments, const Clock& clock,
                                                bool reconnects) {
  REMORA_ASSIGN_OR_RETURN(ClientOptions options, OptionsOf(arguments));
  options.reconnect = reconnects;
  options.expected_shard = arguments.expected_shard;
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Connect(arguments.server, options, clock));
  REMORA_RETURN_IF_ERROR(SayChoice(arguments.server, *client));
  return client;
}

absl::StatusOr<std::unique_ptr<ClusterClient>> ConnectToAll(const Arguments& arguments, const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(const ClientOptions options, OptionsOf(arguments));
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<ClusterClient> client,
                          ClusterClient::Connect(*arguments.topology, options, clock));
  if (!arguments.topology_file.empty()) return client;
  REMORA_ASSIGN_OR_RETURN(const Client* const server, client->shard(0));
  REMORA_RETURN_IF_ERROR(SayChoice(arguments.server, *server));
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

namespace {

/// Tries until a server answers, or the deadline.
absl::StatusOr<Answered> AwaitAnswer(const Arguments& arguments, TimePoint deadline, const Clock& clock) {
  constexpr std::chrono::milliseconds kPause{20};
  for (;;) {
    absl::StatusOr<Answered> answered = ConnectAndPing(arguments, clock);
    if (answered.ok()) return answered;
    // Only these can be cured by waiting for a server that starts.
    const bool may_come =
        absl::IsUnavailable(answered.status()) || absl::IsDeadlineExceeded(answered.status());
    if (!may_come || clock.Now() + kPause > deadline) return answered;
    std::this_thread::sleep_for(kPause);
  }
}

/// Returns what stands before the lines of a shard. Empty: it is a server alone, without a name.
std::string LinePrefix(const ShardPlace& shard, std::string_view before, std::string_view behind) {
  return shard.name.empty() ? "" : absl::StrCat(AbslView(before), shard.name, AbslView(behind));
}

}  // namespace

Outcome Ping(const Arguments& arguments, const Clock& clock) {
  const TimePoint deadline = clock.Now() + std::chrono::seconds(arguments.wait_seconds);
  ShardFailures failures;
  std::string lines;
  for (std::size_t i = 0; i < arguments.topology->shards().size(); ++i) {
    const ShardPlace& shard = arguments.topology->shards()[i];
    const absl::StatusOr<Answered> answered = AwaitAnswer(OfShard(arguments, i), deadline, clock);
    if (!answered.ok()) {
      failures.Add(shard, answered.status());
      continue;
    }
    const std::chrono::duration<double, std::micro> microseconds = answered->round_trip;
    lines += LinePrefix(shard, "shard ", ": ");
    AppendEscaped(shard.addresses, &lines);
    absl::StrAppendFormat(&lines, " answered in %.1f us\nconnected to ", microseconds.count());
    AppendEscaped(answered->description, &lines);
    lines.push_back('\n');
  }
  const Outcome written = WriteOutput(lines);
  return Failed(written) ? written : failures.outcome();
}

Outcome Get(ClusterClient& client, const Arguments& arguments) {
  std::string value;
  std::uint64_t version = 0;
  const absl::Status status = client.Get(arguments.key, &value, &version);
  if (!status.ok()) return FromStatus(status);
  if (arguments.show_version) value.insert(0, absl::StrFormat("%d\n", version));
  return WriteOutput(value);
}

Outcome Exists(ClusterClient& client, const Arguments& arguments) {
  const absl::StatusOr<bool> exists = client.Exists(arguments.key);
  if (!exists.ok()) return FromStatus(exists.status());
  return *exists ? Outcome{} : Outcome{kExitNoSuchKey, "no such key"};
}

namespace {

/// `result`: the text to print. `done`: the effect of the write, for an error of the output.
absl::Status Write(ClusterClient& client, const Arguments& arguments, std::string* result,
                   std::string* done) {
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

Outcome Write(ClusterClient& client, const Arguments& arguments) {
  std::string result;
  std::string done;
  const absl::Status status = Write(client, arguments, &result, &done);
  if (IsMoved(status)) return FromStatus(status);  // no condition failed
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

Outcome Ttl(ClusterClient& client, const Arguments& arguments) {
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

namespace {

using Metrics = std::vector<std::pair<std::string, std::uint64_t>>;

absl::StatusOr<Metrics> ConnectAndReadStats(const Arguments& arguments, const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(auto client, Connect(arguments, clock));
  return client->Stats();
}

}  // namespace

Outcome Stats(const Arguments& arguments, const Clock& clock) {
  ShardFailures failures;
  std::string text;
  const bool is_alone = arguments.topology_file.empty();
  for (std::size_t i = 0; i < arguments.topology->shards().size(); ++i) {
    const ShardPlace& shard = arguments.topology->shards()[i];
    const absl::StatusOr<Metrics> stats = ConnectAndReadStats(OfShard(arguments, i), clock);
    if (!stats.ok()) {
      failures.Add(shard, stats.status());
      continue;
    }
    if (arguments.json) {  // the names are those of this program's registry, and have letters and '_'
      absl::StrAppend(&text, text.empty() ? "" : ",", LinePrefix(shard, "\"", "\":"));
      char before = '{';
      for (const auto& [name, value] : *stats) {
        absl::StrAppendFormat(&text, "%c\"%s\":%d", std::exchange(before, ','), name, value);
      }
      text.push_back('}');
      continue;
    }
    for (const auto& [name, value] : *stats) {
      text += LinePrefix(shard, "", " ");
      AppendEscaped(name, &text);
      absl::StrAppendFormat(&text, " %d\n", value);
    }
  }
  if (is_alone && Failed(failures.outcome())) return failures.outcome();
  if (arguments.json) text = (is_alone ? text : absl::StrCat("{", text, "}")) + "\n";
  const Outcome written = WriteOutput(text);
  return Failed(written) ? written : failures.outcome();
}

Outcome Scan(ClusterClient& client, const Arguments& arguments) {
  const auto scan = client.Scan({.prefix = arguments.prefix,
                                 .reverse = arguments.reverse,
                                 .any_order = arguments.any_order,
                                 .limit = arguments.limit,
                                 .keys_only = arguments.keys_only,
                                 .one_sided = arguments.one_sided});
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

Outcome Watch(ClusterClient& client, const Arguments& arguments) {
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

Outcome CountOrDeleteAll(ClusterClient& client, const Arguments& arguments) {
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
