#include "tools/kvgate/cluster/redis_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cluster/slots.h"
#include "rdma/auth/hmac.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/kvgate/cluster/redis_slot.h"

namespace remora::kvgate {
namespace {

constexpr char kNodesFlag[] = "--cluster_nodes";
constexpr char kAnnounceFlag[] = "--cluster_announce";
constexpr std::size_t kIdBytes = 20;

/// An address in the one form that it has here.
struct Place {
  std::string host;
  std::uint16_t port = 0;
  bool has_tls = false;
  bool has_name = false;

  friend bool operator==(const Place&, const Place&) = default;

  std::string ToString() const {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return absl::StrCat(has_tls ? "rediss://" : "redis://", is_ipv6 ? "[" : "", host, is_ipv6 ? "]:" : ":",
                        port);
  }
};

/// Returns the place of a host's address. Nothing: it is a path.
std::optional<Place> PlaceOf(const ListenAddress& listen) {
  if (listen.address.kind != rdma::TransportKind::kTcp) return std::nullopt;
  Place place{absl::AsciiStrToLower(listen.address.host), listen.address.port, listen.has_tls, false};
  in_addr v4{};
  in6_addr v6{};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_pton(AF_INET6, place.host.c_str(), &v6) == 1) {
    place.host = ::inet_ntop(AF_INET6, &v6, text.data(), text.size());
  } else {
    place.has_name = ::inet_pton(AF_INET, place.host.c_str(), &v4) != 1;
  }
  return place;
}

/// Returns whether clients may take the host for that of a machine. The replies to CLUSTER are lines of
/// words, which no host may break.
bool IsHost(const Place& place) {
  if (place.host == "0.0.0.0" || place.host == "::") return false;
  if (!place.has_name) return true;
  return std::ranges::all_of(place.host, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  });
}

absl::Status Fault(std::string_view flag, std::string_view text, std::string_view fault) {
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(flag), ": '", absl::Utf8SafeCHexEscape(AbslView(text)), "' ", AbslView(fault)));
}

absl::StatusOr<Place> ParseNode(std::string_view flag, std::string_view text) {
  const absl::StatusOr<ListenAddress> parsed = ParseListenAddress(text);
  const std::optional<Place> place = parsed.ok() ? PlaceOf(*parsed) : std::nullopt;
  if (!place) {
    return Fault(
        flag, text,
        "is no node; write redis://HOST:PORT, or rediss://HOST:PORT for TLS, with an IPv6 address in "
        "brackets");
  }
  if (!IsHost(*place)) {
    return Fault(flag, text, "names no host to which clients connect; write its name or its IP address");
  }
  return *place;
}

absl::StatusOr<std::vector<Place>> ParseNodes(std::string_view text) {
  std::vector<Place> places;
  for (const absl::string_view node : absl::StrSplit(AbslView(text), ',')) {
    REMORA_ASSIGN_OR_RETURN(places.emplace_back(), ParseNode(kNodesFlag, {node.data(), node.size()}));
  }
  if (places.size() > RedisCluster::kMaxNodes) {
    return absl::InvalidArgumentError(absl::StrCat("--cluster_nodes: ", places.size(),
                                                   " nodes; a cluster has up to ", RedisCluster::kMaxNodes));
  }
  std::ranges::sort(places, {}, [](const Place& place) { return std::tie(place.host, place.port); });
  for (std::size_t i = 1; i < places.size(); ++i) {
    const Place& before = places[i - 1];
    const Place& place = places[i];
    if (before.host == place.host && before.port == place.port) {
      return Fault(kNodesFlag, place.ToString(), "comes twice; name each gate once");
    }
    if (before.has_tls != place.has_tls) {
      return Fault(kNodesFlag, place.ToString(),
                   absl::StrCat("and ", before.ToString(),
                                ": one has TLS; give it to all or to none, as a client does"));
    }
  }
  return places;
}

/// Returns the index of this gate's node: that of the announced address, or of an address of its own.
absl::StatusOr<std::size_t> FindOwn(const std::vector<Place>& places, std::string_view announced,
                                    std::span<const ListenAddress> listen) {
  if (!announced.empty()) {
    REMORA_ASSIGN_OR_RETURN(const Place own, ParseNode(kAnnounceFlag, announced));
    const auto found = std::ranges::find(places, own);
    if (found != places.end()) return static_cast<std::size_t>(found - places.begin());
    return Fault(kAnnounceFlag, announced, "is none of --cluster_nodes; add it there, in each gate");
  }
  std::optional<std::size_t> own;
  for (const ListenAddress& address : listen) {
    const std::optional<Place> place = PlaceOf(address);
    if (!place) continue;
    const auto found = std::ranges::find(places, *place);
    if (found == places.end()) continue;
    const auto index = static_cast<std::size_t>(found - places.begin());
    if (own && *own != index) {
      return Fault(kNodesFlag, found->ToString(),
                   absl::StrCat("and ", places[*own].ToString(), " are this gate; name one of them"));
    }
    own = index;
  }
  if (own) return *own;
  return absl::InvalidArgumentError(
      "--cluster_nodes: none of them is an address at which this gate listens (--listen, or --redis of "
      "kvserver); add it, or name the node that leads to this gate by --cluster_announce=ADDRESS");
}

std::string IdOf(const Place& place) {
  const std::string address = absl::StrCat(place.host, " ", place.port);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(address));
  const rdma::Mac mac = rdma::HmacSha256("node of kvgate", {{bytes}});
  return absl::BytesToHexString({reinterpret_cast<const char*>(mac.data()), kIdBytes});
}

}  // namespace

absl::StatusOr<RedisCluster> RedisCluster::Create(std::string_view nodes, std::string_view announced,
                                                  std::span<const ListenAddress> listen) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<Place> places, ParseNodes(nodes));
  REMORA_ASSIGN_OR_RETURN(const std::size_t own, FindOwn(places, announced, listen));
  std::vector<ClusterNode> made;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    made.push_back({IdOf(place), place.host, place.port, place.has_name, EvenSlots(i, places.size())});
  }
  return RedisCluster(std::move(made), own, places.front().has_tls);
}

const ClusterNode& RedisCluster::NodeOf(std::uint32_t slot) const {
  return *std::ranges::lower_bound(nodes_, slot, {}, [](const ClusterNode& node) { return node.slots.last; });
}

bool RedisCluster::IsOwn(std::string_view key) const {
  if (nodes_.size() == 1) return true;
  return &NodeOf(RedisSlotOf(key)) == &nodes_[own_];
}

std::uint64_t RedisCluster::OwnPartOf(std::uint64_t count) const {
  const std::uint64_t remainder = count % nodes_.size();
  return count / nodes_.size() + (own_ < remainder ? 1 : 0);
}

}  // namespace remora::kvgate
