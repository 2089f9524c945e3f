// The language of the tests of scans: an ordered store, with a disk or with an ordered index.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/sizes.h"

namespace remora {

using Pairs = std::vector<std::pair<std::string, std::string>>;

class Scans : public Behaviour {
 protected:
  bool is_in_memory() const { return GetParam().has_ordered_index && !GetParam().has_commit_log; }
  void StartInOrder(const ClientOptions& client = {}, std::size_t memory_size = 16 * kMiB) {
    Start({.durability = is_in_memory() ? Durability::kMemory : Durability::kLogged,
           .memory_size = memory_size,
           .eviction = Eviction::kLeastUsed,
           .ordered_index = GetParam().has_ordered_index},
          client);
  }
  std::unique_ptr<KeyScan> Begin(const ScanOptions& options = {}) { return Begin(*kv_, options); }
  static std::unique_ptr<KeyScan> Begin(KeyValue& kv, const ScanOptions& options = {}) {
    auto scan = kv.Scan(options);
    EXPECT_TRUE(scan.ok()) << scan.status();
    return *std::move(scan);
  }
  static Pairs Rest(KeyScan& scan) {
    Pairs pairs;
    while (scan.Next()) pairs.emplace_back(scan.key(), scan.value());
    EXPECT_CODE(kOk, scan.status());
    EXPECT_FALSE(scan.Next()) << "an end is the end";
    return pairs;
  }
  Pairs All(const ScanOptions& options = {}) { return Rest(*Begin(options)); }
  std::vector<std::string> Keys(const ScanOptions& options = {}) {
    std::vector<std::string> keys;
    for (auto& [key, value] : All(options)) keys.push_back(key);
    return keys;
  }
  static std::string KeyOf(int i) { return "key " + std::to_string(100'000 + i); }
  /// Puts `count` keys; returns what a scan should show.
  Pairs Fill(int count, std::size_t value_size = 100) {
    Pairs pairs;
    for (int i = 0; i < count; ++i) {
      pairs.emplace_back(KeyOf(i), std::to_string(i) + std::string(value_size, 'v'));
      EXPECT_CODE(kOk, Put(pairs.back().first, pairs.back().second));
    }
    return pairs;
  }
  /// Until the server has seen it.
  void ExpectCounter(Metric counter, std::uint64_t value) {
    for (int i = 0; i < 100'000 && store().Read(counter) != value; ++i) {
      ASSERT_CODE(kOk, kv_->client()->Ping());
    }
    EXPECT_EQ(store().Read(counter), value);
  }
};

/// Returns the deployments with clients, of a server that has an ordered index: only in memory, and with a
/// disk.
inline std::vector<TestedDeployment> ClientsOfOrderedIndex() {
  std::vector<TestedDeployment> all;
  for (const auto with : {WithOrderedIndex, WithOrderedIndexAndDisk}) {
    for (const DeploymentKind kind : {DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                      DeploymentKind::kVerbs, DeploymentKind::kSim}) {
      all.push_back(with(kind));
    }
  }
  return all;
}

inline std::string NameOfScanned(const testing::TestParamInfo<TestedDeployment>& test) {
  if (!test.param.has_ordered_index) return NameOf(test.param);
  return NameOf(test.param) + (test.param.has_commit_log ? "_in_order" : "_in_memory");
}

}  // namespace remora
