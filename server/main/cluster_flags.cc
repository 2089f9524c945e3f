#include "server/main/cluster_flags.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "server/cluster/kept_division.h"
#include "server/cluster/shard_configuration.h"
#include "server/connection/auth_tokens.h"
#include "server/main/etcd_flags.h"
#include "store/base/status_macros.h"

namespace remora {

void AddClusterFlags(command_line::CommandLine& line, Flags* flags) {
  ClusterFlags* const cluster = &flags->cluster;
  const command_line::Option etcd =
      AddEtcdFlags(line, &cluster->etcd,
                   "The server is then a member of its --shard: it leads or follows as the configuration "
                   "there says, and takes over by itself");
  line.Add("--member", cluster->keeper.member, "With --etcd: the ID of this server among the members")
      .Check([](const std::string& text) { return std::string(CheckMemberId(text).message()); })
      .TypeName("ID")
      .Needs(etcd);
  line.Add("--initial_member", cluster->members,
           "With --etcd: a member, and the address at which the others reach it; once for each, on all of "
           "them the "
           "same. The first server writes it to etcd, where later ones find it")
      .TypeName("ID=ADDRESS")
      .Needs(etcd);
  line.Add("--min_in_sync", cluster->min_in_sync,
           "With --initial_member: members that have each write before it is answered, the primary included")
      .Range(std::uint32_t{1}, static_cast<std::uint32_t>(kMaxReplicas))
      .TypeName("COUNT")
      .Needs(etcd);
  line.Add("--failover_after", cluster->failover_after_ms,
           "With --etcd: milliseconds without an answer after which a member is given up")
      .Range(std::uint32_t{100}, std::uint32_t{60'000})
      .ShowDefault()
      .TypeName("MS")
      .Needs(etcd);
}

absl::Status TakeCluster(Flags* flags) {
  ClusterFlags& cluster = flags->cluster;
  if (cluster.etcd.store.endpoints.empty()) return absl::OkStatus();
  ReplicationOptions& replication = flags->server.replication;
  if (replication.is_on()) {
    return absl::InvalidArgumentError(
        "--etcd: with it, the configuration there names the followers; leave out --follow and "
        "--replicate_to");
  }
  if (cluster.keeper.member.empty() || flags->server.store.shard.is_none()) {
    return absl::InvalidArgumentError("--etcd: needs --member=ID and --shard=CLUSTER/NAME; give both");
  }
  if (flags->server.store.commit_log_bytes == 0) {
    return absl::InvalidArgumentError(
        "--etcd needs a commit log: leave out --commit_log=off, and choose --durability=logged or synced");
  }
  REMORA_RETURN_IF_ERROR(CheckEtcdFlags(cluster.etcd));
  std::vector<Replica> replicas;
  for (const std::string& text : cluster.members) {
    const std::size_t sign = text.find('=');
    if (sign == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("--initial_member=", text, ": is not ID=ADDRESS; correct it"));
    }
    REMORA_RETURN_IF_ERROR(rdma::ParseAddress(text.substr(sign + 1)).status());
    replicas.push_back({.id = text.substr(0, sign), .address = text.substr(sign + 1)});
  }
  if (!replicas.empty()) {
    const std::uint32_t half = static_cast<std::uint32_t>(replicas.size() / 2 + 1);
    const std::uint32_t min_in_sync = cluster.min_in_sync != 0 ? cluster.min_in_sync
                                      : replicas.size() == 2   ? 1
                                                               : half;
    const absl::StatusOr<ShardConfiguration> first = FirstConfiguration(std::move(replicas), min_in_sync);
    if (!first.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--initial_member: ", first.status().message()));
    }
    cluster.keeper.first = *first;
  }
  cluster.keeper.key = ShardKey(IdentityText(flags->server.store.shard));
  cluster.keeper.data_dir = flags->server.store.data_dir;
  cluster.keeper.is_synced = flags->server.store.durability == Durability::kSynced;
  cluster.keeper.lease_time = replication.lease_time;
  cluster.keeper.failover_after = std::chrono::milliseconds(cluster.failover_after_ms);
  cluster.keeper.credentials.tls = flags->replication_tls;
  cluster.keeper.credentials.shard = flags->server.store.shard;
  replication.membership = std::make_shared<Membership>();
  return absl::OkStatus();
}

absl::Status ReadClusterSecrets(Flags* flags) {
  ClusterFlags& cluster = flags->cluster;
  if (cluster.etcd.store.endpoints.empty()) return absl::OkStatus();
  REMORA_RETURN_IF_ERROR(ReadEtcdFiles(&cluster.etcd));
  cluster.keeper.store = cluster.etcd.store;
  if (!flags->replication_token_file.empty()) {
    REMORA_ASSIGN_OR_RETURN(const std::vector<Token> tokens, ReadTokens(flags->replication_token_file));
    if (tokens.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("tokens in ", flags->replication_token_file,
                                                     ": a member has one token; leave one line"));
    }
    cluster.keeper.credentials.secret = tokens[0].secret;
  }
  if (cluster.keeper.division == nullptr) return absl::OkStatus();
  cluster.keeper.kept =
      std::make_shared<KeptDivision>(cluster.keeper.credentials.shard, cluster.keeper.data_dir);
  flags->server.kept_division = cluster.keeper.kept;
  flags->server.move_credentials = cluster.keeper.credentials;
  return absl::OkStatus();
}

}  // namespace remora
