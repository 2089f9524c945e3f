// Cost of finding a key's shard, beside the GET that it serves; and of a MultiGet over all shards, beside one
// of a single shard.
// Each round has a pass of
// each kind over all keys, in turns, so that a disturbance meets all kinds. It prints the least time of each,
// and the median, in ns for each key.
#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/cluster_client.h"
#include "store/base/status_macros.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/say.h"

namespace remora::bench {
namespace {

// Keys of a MultiGet.
constexpr std::size_t kTogether = 64;

struct Kind {
  const char* name;
  std::vector<double> ns{};  // for each key, of each round
};

class Routing {
 public:
  Routing(ClusterClient& cluster, std::size_t keys, std::size_t key_size) : cluster_(cluster) {
    for (std::size_t i = 0; i < keys; ++i) {
      keys_.push_back(absl::StrFormat("route%0*d", static_cast<int>(key_size) - 5, i));
    }
    results_.resize(kTogether);
  }

  absl::Status Load() {
    for (const std::string& key : keys_) {
      REMORA_RETURN_IF_ERROR(cluster_.Put(key, std::string(64, 'v')));
      REMORA_ASSIGN_OR_RETURN(Client* const client, cluster_.shard_of(key));
      clients_.push_back(client);
      all_.push_back(key);
      if (client == clients_.front()) of_one_.push_back(key);
    }
    const std::size_t count = of_one_.size();
    for (std::size_t i = 0; of_one_.size() < all_.size(); ++i) of_one_.push_back(of_one_[i % count]);
    return absl::OkStatus();
  }

  absl::Status Round() {
    const auto get_directly = [this]() -> absl::Status {
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        REMORA_RETURN_IF_ERROR(clients_[i]->Get(keys_[i], &value_));
      }
      return absl::OkStatus();
    };
    const auto get_routed = [this]() -> absl::Status {
      for (const std::string& key : keys_) REMORA_RETURN_IF_ERROR(cluster_.Get(key, &value_));
      return absl::OkStatus();
    };
    REMORA_RETURN_IF_ERROR(Time(direct_, get_directly));
    REMORA_RETURN_IF_ERROR(Time(routed_, get_routed));
    REMORA_RETURN_IF_ERROR(Time(together_of_one_, [this] { return Together(*clients_.front(), of_one_); }));
    return Time(together_, [this] { return Together(cluster_, all_); });
  }

  void Show() {
    for (Kind* const kind : {&direct_, &routed_, &together_of_one_, &together_}) {
      std::sort(kind->ns.begin(), kind->ns.end());
      std::cout << absl::StrFormat("%-28s least %8.1f ns  median %8.1f ns\n", kind->name, kind->ns.front(),
                                   kind->ns[kind->ns.size() / 2]);
    }
    std::cout << absl::StrFormat("routing adds %.1f ns; MultiGet over %d shards / of one: %.2f\n",
                                 routed_.ns.front() - direct_.ns.front(), cluster_.size(),
                                 together_.ns.front() / together_of_one_.ns.front());
  }

 private:
  template <typename Pass>
  absl::Status Time(Kind& kind, const Pass& pass) {
    const auto begin = std::chrono::steady_clock::now();
    REMORA_RETURN_IF_ERROR(pass());
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    kind.ns.push_back(took.count() / static_cast<double>(keys_.size()));
    return absl::OkStatus();
  }

  template <typename Source>
  absl::Status Together(Source& source, const std::vector<std::string_view>& keys) {
    for (std::size_t i = 0; i < keys.size(); i += kTogether) {
      const std::size_t size = std::min(kTogether, keys.size() - i);
      REMORA_RETURN_IF_ERROR(
          source.MultiGet(std::span(keys).subspan(i, size), std::span(results_).first(size)));
    }
    return absl::OkStatus();
  }

  ClusterClient& cluster_;
  std::vector<std::string> keys_;
  std::vector<Client*> clients_;          // of the keys
  std::vector<std::string_view> all_;     // the keys
  std::vector<std::string_view> of_one_;  // keys of the first one's shard, as many
  std::vector<GetResult> results_;
  std::string value_;
  Kind direct_{"Get, client of the shard"}, routed_{"Get, client of the cluster"};
  Kind together_of_one_{"MultiGet, one shard"}, together_{"MultiGet, all shards"};
};

absl::Status Measure(const std::string& file, std::size_t keys, std::size_t key_size, std::size_t rounds) {
  const SteadyClock clock;
  REMORA_ASSIGN_OR_RETURN(const Topology topology, Topology::Read(file));
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterClient> cluster,
                          ClusterClient::Connect(topology, {}, clock));
  Routing routing(*cluster, keys, key_size);
  REMORA_RETURN_IF_ERROR(routing.Load());
  for (std::size_t i = 0; i < rounds; ++i) REMORA_RETURN_IF_ERROR(routing.Round());
  routing.Show();
  return absl::OkStatus();
}

}  // namespace
}  // namespace remora::bench

int main(int argc, char** argv) {
  std::string topology;
  std::uint64_t keys = 10'000, key_size = 23, rounds = 200;
  remora::command_line::CommandLine line(
      "Measures the cost of finding a key's shard, beside the GET that it serves.", "routing_ratio");
  line.Add("--topology", topology, "The topology file; its servers run, and get keys that begin with route")
      .TypeName("FILE")
      .Required();
  line.Add("--keys", keys, "Number of keys")
      .Range(std::uint64_t{1}, std::uint64_t{100'000'000})
      .ShowDefault();
  line.Add("--key_size", key_size, "Bytes of a key")
      .Range(std::uint64_t{14}, std::uint64_t{1000})
      .ShowDefault();
  line.Add("--rounds", rounds, "Number of rounds")
      .Range(std::uint64_t{1}, std::uint64_t{1'000'000})
      .ShowDefault();
  if (const std::optional<int> exit_code = line.Parse(argc, argv)) return *exit_code;
  const absl::Status measured = remora::bench::Measure(topology, keys, key_size, rounds);
  if (measured.ok()) return EX_OK;
  remora::command_line::SayError(absl::StrCat("routing_ratio: ", measured.message()));
  if (absl::IsNotFound(measured)) return EX_NOINPUT;
  return absl::IsInvalidArgument(measured) ? EX_USAGE : EX_UNAVAILABLE;
}
