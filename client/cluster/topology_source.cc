#include "client/cluster/topology_source.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "rdma/address.h"
#include "rdma/address_list.h"
#include "store/base/absl_view.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

constexpr std::string_view kSchemeOfServers = "cluster://";
constexpr std::size_t kMaxSeeds = 64;
// A server that is well answers within this time, and another one may be. Then each gets its part.
constexpr std::chrono::milliseconds kFirstPatience{250};

absl::StatusOr<Topology> AskOne(const std::string& server, const std::string& source, ClientOptions options,
                                std::chrono::milliseconds patience, const Clock& clock) {
  options.connect_timeout = options.timeout = std::max(patience, std::chrono::milliseconds(1));
  options.reconnect = false;
  options.admin_connection = true;  // a member that follows tells it, too
  options.expected_shard = {};
  options.location_cache_bytes = options.index_mirror_bytes = options.scan_window_bytes = 0;
  options.metrics = false;
  if (!server.starts_with("tls://")) options.tls = {};
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(server, options, clock));
  REMORA_ASSIGN_OR_RETURN(const std::string text, client->ReadTopology());
  return TopologyInAnswer(text, server, source);
}

}  // namespace

bool IsOfServers(std::string_view source) { return source.starts_with(kSchemeOfServers); }

absl::StatusOr<std::vector<std::string>> SeedsOf(std::string_view source) {
  const auto failed = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(AbslView(source), ": ", why));
  };
  std::string_view text = source.substr(std::min(source.size(), kSchemeOfServers.size()));
  std::vector<std::string> seeds;
  for (bool is_last = false; !is_last;) {
    const std::size_t size = std::min(text.find(','), text.size());
    is_last = size == text.size();
    std::string seed(text.substr(0, size));
    text.remove_prefix(is_last ? size : size + 1);
    if (seed.find("://") == std::string::npos) seed.insert(0, "tcp://");
    const absl::StatusOr<rdma::Address> address = rdma::ParseAddress(seed);
    if (!address.ok()) return failed(address.status().message());
    if (seeds.size() == kMaxSeeds) return failed(absl::StrCat("it names more than ", kMaxSeeds, " servers"));
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

absl::StatusOr<std::vector<std::string>> ServersOf(const Topology& topology) {
  REMORA_ASSIGN_OR_RETURN(std::vector<std::string> servers, SeedsOf(topology.path()));
  for (const ShardPlace& shard : topology.shards()) {
    REMORA_ASSIGN_OR_RETURN(const std::vector<rdma::Address> addresses,
                            rdma::ParseAddresses(shard.addresses));
    for (const rdma::Address& address : addresses) servers.push_back(address.ToString());
  }
  std::ranges::sort(servers);
  servers.erase(std::unique(servers.begin(), servers.end()), servers.end());
  return servers;
}

absl::StatusOr<Topology> TopologyInAnswer(std::string_view text, std::string_view server,
                                          const std::string& source) {
  absl::StatusOr<Topology> topology = Topology::Parse(text, "topology");
  if (!topology.ok()) {
    return absl::DataLossError(absl::StrCat("the answer of ", AbslView(server), " is no topology: ",
                                            topology.status().message(), "; is it kvserver?"));
  }
  topology->set_path(source);
  return topology;
}

absl::StatusOr<Topology> AskForTopology(const std::vector<std::string>& servers, const std::string& source,
                                        const ClientOptions& options, const Clock& clock) {
  const TimePoint deadline = clock.Now() + options.connect_timeout;
  const std::size_t count = servers.size();
  const std::size_t first = RandomId() % count;  // so that the clients of a cluster ask all of its servers
  absl::Status failed;
  for (const bool is_first_round : {true, false}) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& server = servers[(first + i) % count];
      const auto left = std::chrono::floor<std::chrono::milliseconds>(deadline - clock.Now());
      const auto part = left / static_cast<std::int64_t>(is_first_round ? 2 * count - i : count - i);
      absl::StatusOr<Topology> topology =
          AskOne(server, source, options, is_first_round ? std::min(kFirstPatience, part) : part, clock);
      if (topology.ok()) return topology;
      if (clock.IsInterrupted() || absl::IsInvalidArgument(topology.status())) return topology;
      if (failed.ok() || !is_first_round) {
        failed = absl::Status(topology.status().code(),
                              absl::StrCat("topology of ", server, ": ", topology.status().message()));
      }
    }
    if (clock.Now() >= deadline) break;
  }
  return failed;
}

absl::StatusOr<Topology> ReadTopology(const std::string& source, const ClientOptions& options,
                                      const Clock& clock) {
  if (!IsOfServers(source)) return Topology::Read(source);
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> seeds, SeedsOf(source));
  return AskForTopology(seeds, source, options, clock);
}

}  // namespace remora
