#include "server/main/shards_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rdma/adaptive_poll.h"
#include "rdma/address.h"
#include "rdma/address_list.h"
#include "server/main/etcd_division.h"
#include "server/main/listen_checks.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/durable/tier_log/tier_log_options.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"
#include "store/format/types/duration_text.h"
#include "store/format/types/expiry.h"
#include "store/options.h"

namespace remora {
namespace {

// A process each, which all share this host.
constexpr std::uint32_t kMaxShardsOfHost = 64;
constexpr std::string_view kSlotsInEtcd = "etcd";
constexpr std::uint32_t kLastPort = std::numeric_limits<std::uint16_t>::max();
// Keys of a file that a server keeps when it is started again.
constexpr std::array<std::string_view, 6> kKeptSettings = {"shards",   "topology",   "listen",
                                                           "data_dir", "backup_dir", "durability"};

template <typename... Words>
absl::Status Reject(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

bool IsWildcard(const rdma::Address& address) {
  return address.kind != rdma::TransportKind::kLocal && (address.host == "0.0.0.0" || address.host == "::");
}

/// Returns the address of a shard's server. `count`: of the shards.
absl::StatusOr<rdma::Address> AddressOf(const rdma::Address& address, std::uint32_t shard,
                                        std::uint32_t count) {
  rdma::Address own = address;
  if (address.kind == rdma::TransportKind::kLocal) {
    absl::StrAppend(&own.path, ".", shard);
    return rdma::ParseAddress(own.ToString());  // a path has a longest size
  }
  if (address.port + count - 1 > kLastPort) {
    return Reject("--shards=", count, " with --listen=", address.ToString(), ": the last port would be ",
                  address.port + count - 1, ", and ", kLastPort, " is the last one; choose a lower port");
  }
  own.port = static_cast<std::uint16_t>(address.port + shard);
  return own;
}

absl::StatusOr<std::vector<rdma::Address>> AddressesOf(const Flags& flags, std::uint32_t shard) {
  std::vector<rdma::Address> own;
  for (const rdma::Address& address : flags.listen) {
    REMORA_ASSIGN_OR_RETURN(rdma::Address one, AddressOf(address, shard, flags.shards.count));
    own.push_back(std::move(one));
  }
  return own;
}

/// Returns OK if clients can connect to each server at each of its addresses, and no two servers have the
/// same one.
absl::Status CheckAddresses(const Flags& flags) {
  if (flags.listen.size() > rdma::kMaxAddresses) {
    return Reject("--shards: ", flags.listen.size(), " addresses are given, and a topology has ",
                  rdma::kMaxAddresses, " for each server; leave some out");
  }
  std::vector<rdma::Address> all;
  for (std::uint32_t shard = 0; shard < flags.shards.count; ++shard) {
    REMORA_ASSIGN_OR_RETURN(const std::vector<rdma::Address> own, AddressesOf(flags, shard));
    all.insert(all.end(), own.begin(), own.end());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (IsWildcard(all[i])) {
      return Reject("--listen=", flags.listen[i % flags.listen.size()].ToString(),
                    ": with --shards clients get the addresses from the topology, and this is none of a "
                    "host; name one");
    }
    const auto same = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end(),
                                   [&](const rdma::Address& other) { return IsSameAddress(all[i], other); });
    if (same != all.end()) {
      return Reject("--shards=", flags.shards.count, ": two servers would have the address ",
                    all[i].ToString(), "; leave more distance between the ports of --listen");
    }
  }
  return absl::OkStatus();
}

/// Returns HOST:PORT with the port of a shard. Text of another form stays as it is, for the check of --http.
std::string HttpOf(const std::string& http, std::uint32_t shard) {
  const std::size_t colon = http.rfind(':');
  if (colon == std::string::npos) return http;
  std::uint32_t port = 0;
  const char* const end = http.data() + http.size();
  const auto [read, error] = std::from_chars(http.data() + colon + 1, end, port);
  if (error != std::errc() || read != end || port > kLastPort) return http;
  return absl::StrCat(http.substr(0, colon + 1),
                      port + shard);  // a port above the last one is rejected there
}

/// Returns the number in the name of a shard: 0, 1 and so on, as Topology::Even names them.
std::optional<std::uint32_t> NumberIn(std::string_view name, std::uint32_t count) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  if (!is_number || number >= count || absl::StrCat(number) != AbslView(name)) return std::nullopt;
  return number;
}

/// Gives one shard its part of the flags.
absl::Status Divide(const command_line::CommandLine& line, std::uint32_t shard, Flags* flags) {
  const std::uint32_t count = flags->shards.count;
  StoreOptions& store = flags->server.store;
  REMORA_ASSIGN_OR_RETURN(flags->listen, AddressesOf(*flags, shard));
  for (std::string* const folder : {&store.data_dir, &flags->server.backup_dir}) {
    if (!folder->empty()) absl::StrAppend(folder, "/", shard);
  }
  flags->http = HttpOf(flags->http, shard);
  flags->memory /= count;
  // As Topology::Even divides them.
  ClusterSlots slots;
  slots.Add(FirstSlotOfPart(shard, count), FirstSlotOfPart(shard + 1, count) - 1);
  flags->server.slots = std::make_shared<const ClusterSlots>(slots);
  if (store.commit_log_bytes > 0 && !line.Has("--commit_log")) {
    store.commit_log_bytes = std::max<std::uint64_t>(store.commit_log_bytes / count, kMinTierLogBytes);
  }
  return absl::OkStatus();
}

/// Has the keeper read the slots in etcd. The store has all until then, and serves nobody.
absl::Status TakeSlotsInEtcd(Flags* flags) {
  if (flags->cluster.etcd.store.endpoints.empty()) {
    return Reject("--slots=etcd: needs --etcd=URL, which says where that is; give it, or name the slots");
  }
  ClusterSlots all;
  all.Add(0, kSlots - 1);
  flags->server.slots = std::make_shared<const ClusterSlots>(all);
  flags->server.replication.has_division = true;
  flags->cluster.keeper.division = std::make_shared<const TopologyFormat>();
  return absl::OkStatus();
}

/// Returns the fault of the time after which a server hangs; empty: it has none.
std::string FaultOfHangTimeout(const std::string& text) {
  constexpr std::chrono::seconds kLeast{1};
  constexpr std::chrono::hours kMost{1};
  std::string why;
  const std::optional<std::chrono::milliseconds> time = ParseTtl(text, &why);
  if (!time) return why;
  return *time == kNeverExpires || (*time >= kLeast && *time <= kMost) ? "" : "it is from 1s to 1h, or never";
}

}  // namespace

void AddShardsFlags(command_line::CommandLine& line, Flags* flags) {
  line.Add("--shards", flags->shards.count,
           "Start this number of servers, which divide the keys: each is a process of its own. They "
           "divide --memory; server I has the folder I in --data_dir, I added to the port of --listen "
           "and --http, or .I to the path of a socket. With --shard=CLUSTER/I, the process is server I")
      .Range(std::uint32_t{1}, kMaxShardsOfHost)
      .TypeName("COUNT")
      .ShowDefault();
  line.Add("--topology", flags->shards.topology,
           "With --shards: the file for clients, which says where each server is; made when missing. "
           "Default: `topology` in --data_dir")
      .TypeName("FILE");
  line.Add("--hang_timeout", flags->shards.hang_text,
           "With --shards or --redis: end a server, or the gate, of which a thread has done nothing for so "
           "long, and start it again; from 1s to 1h, or never. Before it serves, it may take any time")
      .Check(FaultOfHangTimeout)
      .ShowDefault()
      .TypeName("DURATION");
  line.Add("--slots", flags->shards.slots,
           "With --shard: the slots of this server, as in 0-8191,8200. It does nothing for keys of others. "
           "With --etcd: etcd, if that has the division of the slots (kvctl cluster publish). "
           "Default: all; with --shards, the part of server I")
      .Check([](const std::string& text) {
        return text == kSlotsInEtcd || SlotsIn(text)
                   ? ""
                   : "'" + text +
                         "' is no set of slots; give numbers from 0 to 16383 and ranges, as in 0-8191,8200, "
                         "and each slot once; or etcd";
      })
      .TypeName("SLOTS");
}

absl::Status TakeShards(const command_line::CommandLine& line, Flags* flags) {
  ShardsFlags& shards = flags->shards;
  if (!shards.slots.empty()) {
    if (shards.count > 1) return Reject("--slots: with --shards each server has its part; leave it out");
    if (flags->server.store.shard.is_none()) return Reject("--slots: needs --shard=CLUSTER/NAME; give it");
    if (shards.slots == kSlotsInEtcd) return TakeSlotsInEtcd(flags);
    flags->server.slots = std::make_shared<const ClusterSlots>(*SlotsIn(shards.slots));
  }
  std::string why;
  const std::chrono::milliseconds hang_timeout = ParseTtl(shards.hang_text, &why).value_or(kNeverExpires);
  if (hang_timeout != kNeverExpires) shards.hang_timeout = hang_timeout;
  if (shards.count == 1) {
    if (line.Has("--hang_timeout") && flags->gate.addresses.empty()) {
      return Reject(
          "--hang_timeout: is for --shards and --redis; leave it out, and have a service manager watch the "
          "server");
    }
    if (shards.topology.empty()) return absl::OkStatus();
    return Reject("--topology: one server has no topology; leave it out, or give --shards more");
  }
  if (flags->server.replication.is_on() || !flags->cluster.etcd.store.endpoints.empty()) {
    return Reject(
        "--shards: replicas are of one server; start each with its own flags (--shard), or leave out "
        "--replicate_to, --follow and --etcd");
  }
  if (shards.topology.empty()) {
    if (flags->server.store.data_dir.empty()) {
      return Reject("--shards: without --data_dir it needs --topology=FILE, the file for clients; give it");
    }
    shards.topology = absl::StrCat(flags->server.store.data_dir, "/topology");
  }
  REMORA_RETURN_IF_ERROR(CheckAddresses(*flags));
  if (StartsShards(*flags)) return absl::OkStatus();
  const ShardIdentity& shard = flags->server.store.shard;
  const std::optional<std::uint32_t> number = NumberIn(shard.name(), shards.count);
  if (!number) {
    return Reject("--shard=", IdentityText(shard), ": the servers of --shards=", shards.count,
                  " are called 0 to ", shards.count - 1, "; give one of these names");
  }
  shards.number = static_cast<int>(*number);
  // The first process has the gate.
  flags->gate = {};
  // The servers' threads and one of a client.
  flags->server.yields_between_polls = rdma::AreMoreThanCpus(std::size_t{shards.count} + 1);
  return Divide(line, *number, flags);
}

bool StartsShards(const Flags& flags) { return flags.shards.count > 1 && flags.server.store.shard.is_none(); }

std::vector<std::string> ArgumentsOfServers(int argc, char** argv, const Flags& flags) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (const command_line::Setting& setting : flags.settings.list()) {
    const bool is_kept = std::ranges::find(kKeptSettings, setting.key) != kKeptSettings.end();
    if (!is_kept || setting.source != command_line::Source::kFile) continue;
    arguments.push_back(absl::StrCat("--", setting.key, "=", setting.value));
  }
  return arguments;
}

std::vector<std::string> ShardAddresses(const Flags& flags) {
  std::vector<std::string> servers;
  for (std::uint32_t shard = 0; shard < flags.shards.count; ++shard) {
    const absl::StatusOr<std::vector<rdma::Address>> own = AddressesOf(flags, shard);
    servers.push_back(absl::StrJoin(*own, ",", [](std::string* out, const rdma::Address& address) {
      absl::StrAppend(out, address.ToString());
    }));
  }
  return servers;
}

}  // namespace remora
