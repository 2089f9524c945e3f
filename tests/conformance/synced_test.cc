// Writes that the disk has before anybody sees them, wherever the store is.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

class Synced : public Behaviour {
 protected:
  static Deployment::Options Options() {
    return {.durability = Durability::kSynced, .memory_size = std::size_t{32} << 20};
  }
};
INSTANTIATE_TEST_SUITE_P(On, Synced,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Synced, EveryKindOfWriteIsAnsweredWhenTheDiskHasIt) {
  START(Options());
  const auto syncs = [this] { return store().Read(Metric::kSyncs); };
  ASSERT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(syncs(), 1u);
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(kv_->Increment("number", 5).value(), 5);
  EXPECT_EQ(kv_->Append("key", "s").value(), 6u);
  EXPECT_CODE(kAlreadyExists, kv_->Put("key", "no", {.condition = Condition::Absent()}));
  EXPECT_CODE(kOk, kv_->Touch("key", std::chrono::hours(1)));
  EXPECT_EQ(Get("key"), "values");
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("b", "2");
  batch.Delete("number");
  std::uint64_t version = 0;
  ASSERT_CODE(kOk, kv_->Apply(batch, &version));
  EXPECT_EQ(store().Read(Metric::kLastVersion), version + 2);
  EXPECT_EQ(Get("a") + Get("b"), "12");
  const std::string large(std::size_t{3} << 20, 'x');
  ASSERT_CODE(kOk, Put("large", large));
  EXPECT_TRUE(Get("large") == large);
  EXPECT_CODE(kOk, kv_->Delete("large"));
  EXPECT_CODE(kNotFound, kv_->Delete("large"));
  EXPECT_EQ(syncs(), 7u) << "one for each write, none for what was not done";
}

// A level may be asked for with each write, in a store that has it.
TEST_P(Synced, EachWriteMayHaveALevelOfItsOwn) {
  START({.durability = Durability::kLogged, .memory_size = std::size_t{32} << 20});
  ASSERT_CODE(kOk, Put("first", ""));  // raises the limit of versions, once in a million
  const auto syncs = [this] { return store().Read(Metric::kSyncs); };
  const std::uint64_t before = syncs();
  EXPECT_CODE(kOk, Put("key", "logged"));
  EXPECT_CODE(kOk, kv_->Put("key", "memory", {.durability = Durability::kMemory}));
  EXPECT_EQ(syncs(), before);
  EXPECT_CODE(kOk, kv_->Put("key", "1", {.durability = Durability::kSynced}));
  EXPECT_EQ(syncs(), before + 1);
  EXPECT_EQ(kv_->Increment("key", 1, {.durability = Durability::kSynced}).value(), 2);
  EXPECT_EQ(kv_->Append("key", "3", {.durability = Durability::kSynced}).value(), 2u);
  EXPECT_CODE(kOk, kv_->Touch("key", std::chrono::hours(1), {.durability = Durability::kSynced}));
  EXPECT_EQ(Get("key"), "23");
  const std::string large(std::size_t{3} << 20, 'x');
  EXPECT_CODE(kOk, kv_->Put("large", large, {.durability = Durability::kSynced}));
  EXPECT_EQ(syncs(), before + 5);
  EXPECT_CODE(kOk, kv_->Delete("key", {.durability = Durability::kSynced}));
  EXPECT_EQ(syncs(), before + 6);
  if (remote()) {
    WriteBatch batch;
    batch.Put("a", "1");
    batch.Put("b", "2");
    EXPECT_CODE(kOk, kv_->client()->Apply(batch, nullptr, Durability::kSynced));
    EXPECT_EQ(syncs(), before + 7);
  }
  EXPECT_CODE(kInvalidArgument, kv_->Put("key", "value", {.durability = static_cast<Durability>(9)}));
}

TEST_P(Synced, ADurabilityThatTheStoreLacksIsRejected) {
  START();
  EXPECT_CODE(kInvalidArgument, kv_->Put("key", "value", {.durability = Durability::kLogged}));
  EXPECT_CODE(kInvalidArgument, kv_->Delete("key", {.durability = Durability::kSynced}));
  EXPECT_CODE(kOk, kv_->Put("key", "value", {.durability = Durability::kMemory}));
}

TEST_P(Synced, ManyWritersShareTheDisksTurns) {
  START(Options());
  if (!deployment_->concurrent()) GTEST_SKIP() << "one client at a time";
  constexpr int kClients = 8;
  constexpr int kWrites = 60;
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    auto mine = deployment_->Connect({});
    ASSERT_TRUE(mine.ok()) << mine.status();
    threads.emplace_back([kv = std::shared_ptr<KeyValue>(*std::move(mine)), c] {
      std::string got;
      for (int i = 0; i < kWrites; ++i) {
        const std::string key = "key " + std::to_string(c) + " " + std::to_string(i % 10);
        ASSERT_TRUE(kv->Put(key, std::to_string(i)).ok());
        ASSERT_TRUE(kv->Get(key, &got).ok());
        ASSERT_EQ(got, std::to_string(i));
        ASSERT_TRUE(kv->Increment("counter", 1).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get("counter"), std::to_string(kClients * kWrites));
  // How many share a turn is a matter of time; a server that asks the disk for each write asks it as often as
  // this.
  EXPECT_LT(store().Read(Metric::kSyncs), 2 * kClients * kWrites);
}

}  // namespace
}  // namespace remora
