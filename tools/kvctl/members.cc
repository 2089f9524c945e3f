// cluster members: the configuration of a shard in etcd, and the members that it names.
#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "server/cluster/config_store.h"
#include "server/cluster/keeper.h"
#include "server/cluster/shard_configuration.h"
#include "server/main/etcd_flags.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/shard_identity.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/members/report.h"

namespace remora::kvctl {
namespace {

/// NotFound: etcd has no configuration of the shard. Others as of ReadEtcdFiles, ConfigStore::Read and
/// DecodeConfiguration.
absl::StatusOr<ShardConfiguration> ReadConfiguration(const Arguments& arguments) {
  EtcdFlags etcd = arguments.etcd;
  REMORA_RETURN_IF_ERROR(ReadEtcdFiles(&etcd));
  etcd.store.timeout = std::chrono::milliseconds(arguments.timeout_ms);
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<ConfigStore> store,
                          ConfigStore::Create(std::move(etcd.store)));
  const std::string key = ShardKey(arguments.shard);
  REMORA_ASSIGN_OR_RETURN(const ConfigStore::Value value, store->Read(key));
  if (value.revision != 0) return DecodeConfiguration(value.text);
  return absl::NotFoundError(
      absl::StrCat("etcd: there is no configuration at ", key, "; compare --shard with that of the members"));
}

Outcome FailureOf(const absl::Status& status) {
  Outcome outcome = FromStatus(status);
  if (absl::IsNotFound(status)) outcome.exit_code = EX_NOINPUT;
  if (absl::IsDataLoss(status)) outcome.exit_code = EX_DATAERR;
  return outcome;
}

absl::StatusOr<MemberAnswer> Ask(const Replica& member, const Arguments& arguments, const Clock& clock) {
  Arguments one = arguments;
  one.server = member.address;
  one.expected_shard = IdentityIn(arguments.shard).value();
  if (!member.address.starts_with("tls://")) one.tls = {};
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Connect(one, clock, /*reconnects=*/false));
  REMORA_ASSIGN_OR_RETURN(const auto metrics, client->Stats());
  return AnswerIn(metrics);
}

}  // namespace

Outcome ClusterMembers(const Arguments& arguments, const Clock& clock) {
  // Before all else: it is wrong for each member alike.
  if (const absl::Status token = ReadToken(arguments).status(); !token.ok()) return FromStatus(token);
  const absl::StatusOr<ShardConfiguration> configuration = ReadConfiguration(arguments);
  if (!configuration.ok()) return FailureOf(configuration.status());
  const std::vector<Replica>& replicas = configuration->replicas;
  std::vector<std::size_t> order(replicas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The primary first: a member lacks all of its writes until then that it does not have now.
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return replicas[i].id == configuration->primary; });
  std::vector<MemberAnswer> answers(replicas.size());
  for (const std::size_t i : order) {
    absl::StatusOr<MemberAnswer> answer = Ask(replicas[i], arguments, clock);
    if (answer.ok()) {
      answers[i] = *std::move(answer);
    } else {
      answers[i].failure = FromStatus(answer.status());
    }
  }
  const MembersReport report(arguments.shard, *configuration, std::move(answers));
  const Outcome written = WriteOutput(arguments.json ? report.ToJson() : report.ToText());
  return Failed(written) ? written : report.Verdict();
}

}  // namespace remora::kvctl
