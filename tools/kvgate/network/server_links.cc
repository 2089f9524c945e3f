#include "tools/kvgate/network/server_links.h"

#include <algorithm>
#include <utility>

#include "client/async_client.h"
#include "client/cluster/cluster_shard.h"
#include "store/base/status_macros.h"

namespace remora::kvgate {
namespace {

// Operations in flight at each shard, of all connections of a thread.
constexpr std::size_t kDepth = 512;

}  // namespace

absl::StatusOr<std::unique_ptr<ServerLinks>> ServerLinks::Connect(TopologyReader& reader,
                                                                  const ClientOptions& options, Inbox& inbox,
                                                                  const Clock& clock) {
  std::unique_ptr<ServerLinks> links(new ServerLinks(reader, options.timeout, inbox, clock));
  const Topology& topology = links->topology();
  for (std::size_t i = 0; i < topology.shards().size(); ++i) {
    const ShardPlace& place = topology.shards()[i];
    auto client =
        AsyncClient::Connect(place.addresses, OptionsOfShard(topology, i, options), {.depth = kDepth}, clock);
    if (!client.ok()) return NameShard(place, client.status());
    auto link = std::make_unique<Link>();
    link->kv = std::make_unique<CoroutineClient>(*std::move(client));
    link->addresses = place.addresses;
    REMORA_ASSIGN_OR_RETURN(link->dialer, HelperThread::Start());
    links->links_.push_back(std::move(link));
  }
  return links;
}

// The first client runs the tasks, and so is the last one to go.
ServerLinks::~ServerLinks() {
  owners_.Stop();
  StopDialling();
  for (std::size_t i = links_.size(); i-- > 0;) links_[i]->kv.reset();
}

bool ServerLinks::Poll() {
  if (adopted_ != owners_.adopted()) TakeAddresses();
  std::size_t ended = 0;
  for (const std::unique_ptr<Link>& link : links_) {
    ended += link->kv->Poll();
    if (!link->is_dialling && link->kv->client().BeginReconnect()) BeginDialling(*link);
  }
  return owners_.Poll() || ended > 0;
}

void ServerLinks::BeginDialling(Link& link) {
  link.is_dialling = true;
  link.dialer->Post([this, &link] {
    link.kv->client().Reconnect();
    inbox_.Post([this, &link] {
      link.kv->client().EndReconnect();
      link.is_dialling = false;
      if (!link.kv->client().status().ok()) owners_.NoteSilence();
    });
  });
}

void ServerLinks::TakeAddresses() {
  bool have_all = true;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = *links_[i];
    const std::string& addresses = topology().shards()[i].addresses;
    if (addresses == link.addresses) continue;
    if (link.is_dialling) {
      have_all = false;  // its thread uses the addresses before
      continue;
    }
    // The topology was checked when it was read.
    link.kv->client().SetAddresses(addresses).IgnoreError();
    link.addresses = addresses;
  }
  if (have_all) adopted_ = owners_.adopted();
}

bool ServerLinks::has_in_flight() const {
  return std::ranges::any_of(links_, [](const auto& link) { return link->kv->client().in_flight() > 0; });
}

void ServerLinks::Arm() {
  for (const std::unique_ptr<Link>& link : links_) link->kv->client().Arm();
}

void ServerLinks::Disarm() {
  for (const std::unique_ptr<Link>& link : links_) link->kv->client().Disarm();
}

std::vector<int> ServerLinks::fds() const {
  std::vector<int> all;
  for (const std::unique_ptr<Link>& link : links_) all.push_back(link->kv->client().fd());
  return all;
}

std::optional<TimePoint> ServerLinks::next_deadline() const {
  std::optional<TimePoint> first = owners_.next_deadline();
  for (const std::unique_ptr<Link>& link : links_) {
    const std::optional<TimePoint> deadline = link->kv->client().next_deadline();
    if (deadline && (!first || *deadline < *first)) first = deadline;
  }
  return first;
}

bool ServerLinks::is_dialling() const {
  return std::ranges::any_of(links_, [](const auto& link) { return link->is_dialling; });
}

void ServerLinks::StopDialling() {
  for (const std::unique_ptr<Link>& link : links_) link->dialer.reset();
}

}  // namespace remora::kvgate
