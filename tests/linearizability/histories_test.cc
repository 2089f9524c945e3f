// Histories of clients of every transport, side by side, which the checker judges: with connections that
// break, clients that come and go, and servers that start again.
#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/base/clock.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/linearizability/checker.h"
#include "tests/linearizability/workload.h"

namespace remora {
namespace {

class Histories : public Behaviour {
 protected:
  static constexpr std::uint32_t kClients = 4;

  std::uint64_t operations() const { return slow() ? 150 : 2500; }

  /// Each of the clients does so much; where they run side by side, at the same time.
  void Use(const linear::WorkloadOptions& options, std::uint64_t count) {
    if (workers_.empty()) {
      for (std::uint32_t i = 0; i < kClients; ++i) {
        workers_.push_back(std::make_unique<linear::Worker>(options, i, shared_, [this] { return Now(); }));
      }
    }
    std::vector<std::unique_ptr<KeyValue>> clients;
    for (std::uint32_t i = 0; i < kClients; ++i) clients.push_back(Connect());
    if (deployment_->concurrent()) {
      std::vector<std::thread> threads;
      for (std::uint32_t i = 0; i < kClients; ++i) {
        threads.emplace_back([&, i] {
          for (std::uint64_t n = 0; n < count; ++n) workers_[i]->Do(*clients[i]);
        });
      }
      for (std::thread& thread : threads) thread.join();
    } else {
      for (std::uint64_t n = 0; n < count * kClients; ++n) workers_[n % kClients]->Do(*clients[n % kClients]);
    }
    workers_.front()->ReadAll(*clients.front());
  }

  void ExpectLinearizable(std::size_t at_least) {
    linear::History history;
    for (const auto& worker : workers_) {
      std::ranges::move(worker->history().operations, std::back_inserter(history.operations));
      std::ranges::move(worker->history().scans, std::back_inserter(history.scans));
      for (const std::string& complaint : worker->complaints()) ADD_FAILURE() << complaint;
    }
    const linear::Verdict verdict = linear::Check(history);
    EXPECT_TRUE(verdict.ok()) << linear::Text(verdict);
    EXPECT_GE(verdict.checked, at_least);
  }

  linear::Time Now() const {
    return std::chrono::nanoseconds(deployment_->clock().Now().time_since_epoch()).count();
  }

  linear::WorkloadShared shared_;
  std::vector<std::unique_ptr<linear::Worker>> workers_;
};

INSTANTIATE_TEST_SUITE_P(On, Histories,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kVerbsAndLocal, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Histories, InMemory) {
  START();
  linear::WorkloadOptions options;
  options.keys = 6;
  ASSERT_NO_FATAL_FAILURE(Use(options, operations()));
  ExpectLinearizable(operations() * kClients);
}

TEST_P(Histories, OfTwoKeysThatAllWant) {
  START();
  linear::WorkloadOptions options;
  options.keys = 2;
  options.read_percent = 70;
  options.max_value = 20'000;
  ASSERT_NO_FATAL_FAILURE(Use(options, operations()));
  ExpectLinearizable(operations() * kClients);
}

TEST_P(Histories, WithADiskAndRestarts) {
  Deployment::Options deployment;
  deployment.durability = Durability::kLogged;
  START(deployment);
  linear::WorkloadOptions options;
  options.keys = 12;
  options.scans = true;
  options.durabilities = true;
  const int rounds = slow() ? 2 : 4;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_NO_FATAL_FAILURE(Use(options, operations() / 4));
    ASSERT_NO_FATAL_FAILURE(Restart());
  }
  ExpectLinearizable(operations() / 4 * kClients);
}

TEST_P(Histories, LargerThanMemoryWithLargeValues) {
  Deployment::Options deployment;
  deployment.durability = Durability::kLogged;
  deployment.eviction = Eviction::kLeastUsed;
  START(deployment);
  linear::WorkloadOptions options;
  options.keys = 400;
  options.max_value = slow() ? 60'000 : 200'000;
  options.large_permille = 20;
  ASSERT_NO_FATAL_FAILURE(Use(options, operations() / 4));
  ExpectLinearizable(operations() / 4 * kClients);
}

// The server goes away under its clients, and comes again, with what it had.
TEST_P(Histories, WhileTheServerStartsAgain) {
  Deployment::Options deployment;
  deployment.durability = Durability::kLogged;
  START(deployment);
  if (!remote() || !deployment_->concurrent()) GTEST_SKIP() << "tests/simulation does so in one thread";
  linear::WorkloadOptions options;
  options.keys = 6;
  options.scans = true;
  options.durabilities = true;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    workers_.push_back(std::make_unique<linear::Worker>(options, i, shared_, [this] { return Now(); }));
  }
  std::atomic<bool> over = false;
  std::vector<std::unique_ptr<KeyValue>> clients;
  for (std::uint32_t i = 0; i < kClients; ++i) clients.push_back(Connect());
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      // At least once more than the last start.
      while (!over) workers_[i]->Do(*clients[i]);
      for (std::uint64_t n = 0; n < 20; ++n) workers_[i]->Do(*clients[i]);
    });
  }
  kv_.reset();
  for (int starts = 0; starts < (slow() ? 2 : 5); ++starts) {
    // Until some more writes are done over this one.
    const std::uint64_t before = deployment_->store().Read(Metric::kPuts);
    while (deployment_->store().Read(Metric::kPuts) < before + 50) std::this_thread::yield();
    const absl::Status restarted = deployment_->Restart();
    EXPECT_TRUE(restarted.ok()) << restarted;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  workers_.front()->ReadAll(*clients.front());
  std::uint64_t reconnects = 0;
  for (const auto& client : clients) reconnects += client->client()->counters().reconnects;
  EXPECT_GE(reconnects, kClients);
  ExpectLinearizable(100);
}

}  // namespace
}  // namespace remora
