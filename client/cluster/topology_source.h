// Where a topology comes from: a file, or the servers of a cluster whose division is in etcd.
//
//   /var/lib/remora/topology            a file
//   cluster://kv1:7470,kv2:7470         servers: any member of any shard, by HOST:PORT, which is tcp://, or
//   by
//                                       an address of another transport (rdma/address.h)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cluster/topology.h"
#include "client/options.h"
#include "store/base/clock.h"

namespace remora {

/// Returns whether the source names servers.
bool IsOfServers(std::string_view source);

/// Returns the addresses of such a source. InvalidArgument: it names none, or one is malformed.
absl::StatusOr<std::vector<std::string>> SeedsOf(std::string_view source);

/// Returns all servers that a topology and its source name, each once. InvalidArgument: as for SeedsOf.
absl::StatusOr<std::vector<std::string>> ServersOf(const Topology& topology);

/// Reads a file, or asks one server after the other until one answers, also members that serve no clients.
/// `options` are those of the clients of the cluster: ReadTopology takes the token, the files of TLS and
/// connect_timeout, which is for all servers together. Outcomes as for Topology::Read, and of servers:
///   Unavailable, DeadlineExceeded: none can be reached.
///   FailedPrecondition: a server has no topology to tell; others are those of Client::Connect.
absl::StatusOr<Topology> ReadTopology(const std::string& source, const ClientOptions& options,
                                      const Clock& clock);

/// Asks these servers, as ReadTopology does. The topology is that of `source`.
absl::StatusOr<Topology> AskForTopology(const std::vector<std::string>& servers, const std::string& source,
                                        const ClientOptions& options, const Clock& clock);

/// Reads the text of a server's answer. `server`: its address, for errors. DataLoss: it is no topology.
absl::StatusOr<Topology> TopologyInAnswer(std::string_view text, std::string_view server,
                                          const std::string& source);

}  // namespace remora
