#include "client/cluster/topology_reader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology_source.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// A server that is well answers within this time.
constexpr std::chrono::milliseconds kReadPatience{500};
// Before a shard that was silent is asked again.
constexpr std::chrono::seconds kSilentPause{1};

}  // namespace

TopologyReader::TopologyReader(Topology first, const ClientOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      is_of_servers_(IsOfServers(first.path())),
      latest_(std::move(first)),
      asked_(is_of_servers_ ? latest_.shards().size() : 0) {}

Topology TopologyReader::latest() const {
  const MutexLock lock(mutex_);
  return latest_;
}

absl::StatusOr<Topology> TopologyReader::Read() {
  std::uint64_t before = 0;
  {
    const MutexLock lock(mutex_);
    before = begun_;
  }
  const MutexLock reading(reading_);
  {
    const MutexLock lock(mutex_);
    // One that began after this call has ended meanwhile.
    if (begun_ > before) return result_;
    ++begun_;
  }
  result_ = ReadNow();
  return result_;
}

absl::StatusOr<Topology> TopologyReader::ReadNow() {
  REMORA_ASSIGN_OR_RETURN(Topology fresh, is_of_servers_ ? AskAll() : ReadFile());
  return Take(std::move(fresh));
}

absl::StatusOr<Topology> TopologyReader::ReadFile() const {
  const std::string path = latest().path();
  absl::StatusOr<Topology> fresh = Topology::Read(path);
  // That code means other shards here.
  if (absl::IsFailedPrecondition(fresh.status())) return absl::UnavailableError(fresh.status().message());
  return fresh;
}

absl::StatusOr<Topology> TopologyReader::AskAll() {
  const Topology before = latest();
  std::optional<Topology> greatest;
  for (std::size_t i = 0; i < asked_.size(); ++i) {  // T2
    std::optional<Topology> told = AskShard(before, i);
    if (!told || (greatest && greatest->revision() >= told->revision())) continue;
    greatest = std::move(told);
  }
  if (greatest) return *std::move(greatest);
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> servers, ServersOf(before));
  ClientOptions options = options_;
  options.connect_timeout = std::min(kReadPatience, options.connect_timeout);
  absl::StatusOr<Topology> fresh = AskForTopology(servers, before.path(), options, clock_);
  if (absl::IsFailedPrecondition(fresh.status())) return absl::UnavailableError(fresh.status().message());
  return fresh;
}

std::optional<Topology> TopologyReader::AskShard(const Topology& before, std::size_t shard) {
  Asked& asked = asked_[shard];
  const ShardPlace& place = before.shards()[shard];
  if (asked.addresses != place.addresses)
    asked = {.client = {}, .addresses = place.addresses, .next_attempt = {}};
  if (asked.client == nullptr) {
    if (clock_.Now() < asked.next_attempt) return std::nullopt;
    ClientOptions options = OptionsOfShard(before, shard, options_);
    options.connect_timeout = std::min(kReadPatience, options.connect_timeout);
    options.timeout = std::min(kReadPatience, options.timeout);
    options.reconnect = options.metrics = false;
    options.location_cache_bytes = options.index_mirror_bytes = options.scan_window_bytes = 0;
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(place.addresses, options, clock_);
    asked.next_attempt = clock_.Now() + kSilentPause;
    if (!client.ok()) return std::nullopt;
    asked.client = *std::move(client);
  }
  const absl::StatusOr<std::string> text = asked.client->ReadTopology();
  if (!text.ok()) {
    asked.client.reset();  // a member that was the primary may be none any more
    return std::nullopt;
  }
  absl::StatusOr<Topology> told = TopologyInAnswer(*text, place.addresses, before.path());
  return told.ok() ? std::optional(*std::move(told)) : std::nullopt;
}

absl::StatusOr<Topology> TopologyReader::Take(Topology fresh) {
  const MutexLock lock(mutex_);
  const bool has_same = is_of_servers_ ? fresh.HasNamesOf(latest_) : fresh.HasShardsOf(latest_);
  if (!has_same) {  // T3
    return absl::FailedPreconditionError(absl::StrCat(latest_.path(), ": the topology has other shards now"));
  }
  if (is_of_servers_ && fresh.revision() < latest_.revision()) return latest_;  // T1
  latest_ = std::move(fresh);
  return latest_;
}

}  // namespace remora
