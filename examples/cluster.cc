// Several servers as one store. It needs a topology file and its servers (docs/operating/scale.md):
//   example_cluster TOPOLOGY USER NAME
// stores a user's name and the number of its changes together, then shows all users of all servers.
#include <remora/cluster_client.h>

#include <cstdint>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: example_cluster TOPOLOGY USER NAME\n";
    return 64;
  }
  const absl::StatusOr<remora::Topology> topology = remora::Topology::Read(argv[1]);
  if (!topology.ok()) {
    std::cerr << topology.status().message() << '\n';
    return 1;
  }
  const auto cluster = remora::ClusterClient::Connect(*topology);
  if (!cluster.ok()) {
    std::cerr << cluster.status() << '\n';
    return 1;
  }
  // The braces put both keys into one slot, so that a batch can write them.
  const std::string user = std::string("user:{") + argv[2] + "}";
  for (;;) {
    std::string changes;
    std::uint64_t version = 0;
    const absl::Status found = (*cluster)->Get(user + ":changes", &changes, &version);
    if (!found.ok() && !absl::IsNotFound(found)) {
      std::cerr << found << '\n';
      return 1;
    }
    const auto as_read = found.ok() ? remora::Condition::Version(version) : remora::Condition::Absent();
    remora::WriteBatch batch;
    batch.Put(user + ":name", argv[3]);
    batch.Put(user + ":changes", changes + "+", {.condition = as_read});
    const absl::Status applied = (*cluster)->Apply(batch);
    if (applied.ok()) break;
    // Another program may have been faster; then this one begins again.
    const absl::Status now = (*cluster)->Get(user + ":changes", &changes, &version);
    if (now.ok() && as_read != remora::Condition::Version(version)) continue;
    std::cerr << applied << '\n';
    return 1;
  }
  const auto scan = (*cluster)->Scan({.prefix = "user:"});
  if (!scan.ok()) {
    std::cerr << scan.status() << '\n';
    return 1;
  }
  while ((*scan)->Next()) {
    const remora::ShardPlace& shard = topology->shards()[topology->ShardOf((*scan)->key())];
    std::cout << (*scan)->key() << " = " << (*scan)->value() << " (shard " << shard.name << ")\n";
  }
  if ((*scan)->status().ok()) return 0;
  std::cerr << (*scan)->status() << '\n';
  return 1;
}
