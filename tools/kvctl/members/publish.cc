// cluster publish: the division of the slots of a cluster's shards, in etcd.
#include <sysexits.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/topology.h"
#include "server/cluster/config_store.h"
#include "server/cluster/division.h"
#include "server/cluster/keeper.h"
#include "server/cluster/shard_configuration.h"
#include "server/main/etcd_flags.h"
#include "store/base/status_macros.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/members/shard.h"

namespace remora::kvctl {
namespace {

constexpr int kPublishTries = 8;  // a member may write its first configuration in between

Outcome FaultOfTopology(const Arguments& arguments, const std::string& why) {
  return {EX_DATAERR, absl::StrCat(arguments.topology_file, ": ", why)};
}

/// Returns the revisions of the shards' configurations. FailedPrecondition: a shard has begun.
absl::StatusOr<std::vector<ConfigStore::Revision>> RevisionsOf(const Topology& topology, ConfigStore& store) {
  std::vector<ConfigStore::Revision> revisions;
  for (std::size_t i = 0; i < topology.shards().size(); ++i) {
    std::string key = ShardKey(IdentityText(topology.IdentityOfShard(i)));
    REMORA_ASSIGN_OR_RETURN(const ConfigStore::Value value, store.Read(key));
    if (value.revision != 0) {
      REMORA_ASSIGN_OR_RETURN(const ShardConfiguration configuration, DecodeConfiguration(value.text));
      if (configuration.epoch > 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("cluster publish: shard ", topology.shards()[i].name,
                         " has begun, with all slots; a division is published before that, so begin with new "
                         "shards, and copy the data (kvctl export, import)"));
      }
    }
    revisions.push_back({.key = std::move(key), .revision = value.revision});
  }
  return revisions;
}

absl::Status PublishText(const Topology& topology, const std::string& text, ConfigStore& store) {
  const std::string key = DivisionKey(topology.cluster());
  for (int tries = 0; tries < kPublishTries; ++tries) {
    REMORA_ASSIGN_OR_RETURN(const ConfigStore::Value there, store.Read(key));
    if (there.text == text) return absl::OkStatus();
    if (there.revision != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cluster publish: etcd has another division of this cluster already, at ", key,
                       "; see `kvctl cluster status`"));
    }
    REMORA_ASSIGN_OR_RETURN(const std::vector<ConfigStore::Revision> others, RevisionsOf(topology, store));
    const absl::Status swapped = store.Swap(key, 0, text, others).status();
    if (absl::IsUnknown(swapped)) {
      return absl::UnknownError(absl::StrCat("cluster publish: it may have been done, or may still be done: ",
                                             swapped.message(), "; run the command again"));
    }
    if (!absl::IsAborted(swapped)) return swapped;
  }
  return absl::UnavailableError(
      "cluster publish: the configurations of the shards change all the time; stop their servers, and run it "
      "again");
}

}  // namespace

Outcome ClusterPublish(const Arguments& arguments) {
  const Topology& topology = *arguments.topology;
  if (topology.cluster() == 0) {
    return FaultOfTopology(arguments,
                           "it has no line 'cluster ID'; take one that `kvctl cluster init` wrote");
  }
  if (topology.shards().size() > ConfigStore::kMaxOthers) {
    return FaultOfTopology(arguments, absl::StrCat("it has ", topology.shards().size(),
                                                   " shards, and a division in etcd has up to ",
                                                   ConfigStore::kMaxOthers, "; publish fewer"));
  }
  const std::string text = topology.ToText();
  if (text.size() > kMaxConfigValue) {
    return FaultOfTopology(arguments,
                           absl::StrCat("its text has ", text.size(), " bytes, and a value in etcd up to ",
                                        kMaxConfigValue, "; give the shards fewer ranges of slots"));
  }
  EtcdFlags etcd = arguments.etcd;
  if (const absl::Status read = ReadEtcdFiles(&etcd); !read.ok()) return FailureOf(read);
  etcd.store.timeout = std::chrono::milliseconds(arguments.timeout_ms);
  const absl::StatusOr<std::unique_ptr<ConfigStore>> store = ConfigStore::Create(std::move(etcd.store));
  if (!store.ok()) return FailureOf(store.status());
  const absl::Status published = PublishText(topology, text, **store);
  if (absl::IsFailedPrecondition(published)) return {kExitProblem, std::string(published.message())};
  if (!published.ok()) return FailureOf(published);
  return WriteOutput(absl::StrCat("the division of ", topology.shards().size(),
                                  " shards is in etcd; start each of their servers with --slots=etcd\n"));
}

}  // namespace remora::kvctl
