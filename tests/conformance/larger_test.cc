// Stores that hold more than their memory, on every way to run them, and under the adversary.
#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/async_client.h"
#include "store/format/memory/record.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/seeded_read_pool.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/self_describing.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

class Larger : public Behaviour {
 protected:
  static constexpr std::size_t kValueSize = 20'000;
  static constexpr std::uint64_t kKeys = 2000;  // 2.5 times what the memory holds

  static Deployment::Options InLittleMemory(Durability durability) {
    return {.durability = durability,
            .memory_size = kMinMemorySize,
            .eviction = Eviction::kLeastUsed,
            .grace = std::chrono::milliseconds(kMinGraceMs)};
  }
  static std::string KeyOf(std::uint64_t i) { return "key " + std::to_string(i); }
  void Fill() {
    for (std::uint64_t i = 0; i < kKeys; ++i)
      ASSERT_CODE(kOk, Put(KeyOf(i), MakeValue(KeyOf(i), i, kValueSize)));
  }
  bool AwaitReported(std::uint64_t least) {
    return Await([&] { return store().Read(Metric::kReadsReported) >= least; });
  }
};
INSTANTIATE_TEST_SUITE_P(On, Larger,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Larger, AllOfItIsThereAndAMissIsOneRead) {
  START(InLittleMemory(Durability::kLogged), {.location_cache_bytes = 0});
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_GT(store().Read(Metric::kColdKeys), kKeys / 3);
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    const std::optional<std::uint64_t> number = NumberOf(KeyOf(i), Get(KeyOf(i)));
    ASSERT_EQ(number, i) << KeyOf(i);
  }
  EXPECT_GT(store().Read(Metric::kFetches), kKeys / 3);
  EXPECT_EQ(store().Read(Metric::kKeys), kKeys);
  if (!remote()) return;
  const ClientCounters before = kv_->client()->counters();
  EXPECT_GT(before.cold, kKeys / 3);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_CODE(kNotFound, GetStatus("no " + KeyOf(i)));
  EXPECT_EQ(kv_->client()->counters().locates, before.locates);
  EXPECT_LE(kv_->client()->counters().reads - before.reads, 110u);
}

TEST_P(Larger, WritesOfWhatIsNotInMemory) {
  START(InLittleMemory(Durability::kLogged));
  ASSERT_NO_FATAL_FAILURE(Fill());
  EXPECT_CODE(kOk, Put(KeyOf(0), "new"));
  EXPECT_CODE(kOk, Delete(KeyOf(1)));
  EXPECT_CODE(kOk, kv_->Touch(KeyOf(2), std::chrono::hours(1)));
  EXPECT_EQ(Get(KeyOf(0)), "new");
  EXPECT_CODE(kNotFound, GetStatus(KeyOf(1)));
  EXPECT_CODE(kNotFound, Delete(KeyOf(1)));
  EXPECT_EQ(NumberOf(KeyOf(2), Get(KeyOf(2))), 2u);
  EXPECT_GT(kv_->Ttl(KeyOf(2))->value(), std::chrono::minutes(59));
  EXPECT_GT(kv_->Ttl(KeyOf(2))->value(), std::chrono::minutes(59));
  EXPECT_FALSE(kv_->Ttl(KeyOf(3))->has_value()) << "of a key that is brought to memory for it";
}

TEST_P(Larger, ACacheDropsWhatWasNotUsedAndKeepsWhatIs) {
  START(InLittleMemory(Durability::kMemory));
  constexpr std::uint64_t kUsed = 20;
  std::string value;
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_CODE(kOk, Put(KeyOf(i), MakeValue(KeyOf(i), i, kValueSize)));
    const absl::Status status = kv_->Get(KeyOf(i % kUsed), &value);
    found += status.ok() ? 1 : 0;
    if (status.ok()) {
      ASSERT_EQ(NumberOf(KeyOf(i % kUsed), value), i % kUsed);
    }
  }
  EXPECT_GT(found, kKeys * 9 / 10) << "the server does not know what was read";
  EXPECT_TRUE(Await([&] { return store().Read(Metric::kEvictions) == kKeys - store().Read(Metric::kKeys); }))
      << store().Read(Metric::kEvictions) << " evictions, " << store().Read(Metric::kKeys) << " keys left";
  EXPECT_CODE(kNotFound, GetStatus(KeyOf(kUsed)));
  if (remote()) {
    EXPECT_GT(store().Read(Metric::kReadsReported), kKeys / 2);
  }
}

// One that only reads sends nothing else along with which it could say so.
TEST_P(Larger, AReadingClientReportsItsReads) {
  START(InLittleMemory(Durability::kMemory));
  if (!remote()) GTEST_SKIP() << "an embedded store sees its reads";
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_CODE(kOk, kv_->client()->Ping());  // the reply says that reads are wanted
  const std::uint64_t reported = store().Read(Metric::kReadsReported);
  const std::uint64_t requests = kv_->client()->counters().requests;
  for (int i = 0; i < 640; ++i) {
    ASSERT_CODE(kOk, GetStatus(KeyOf(kKeys - 1)));
    if (i % 64 == 0) deployment_->Advance(std::chrono::milliseconds(150));
  }
  EXPECT_TRUE(AwaitReported(reported + 64));
  EXPECT_LE(kv_->client()->counters().requests, requests + 11);
}

TEST_P(Larger, SoDoesAnAsyncOne) {
  START(InLittleMemory(Durability::kMemory));
  if (!remote()) GTEST_SKIP() << "an embedded store has no clients";
  ASSERT_NO_FATAL_FAILURE(Fill());
  auto connection = deployment_->Dial();
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto client = AsyncClient::Connect(*std::move(connection), {}, {}, deployment_->clock());
  ASSERT_TRUE(client.ok()) << client.status();
  const auto wait = [&] { return (*client)->WaitAll(deployment_->clock().Now() + std::chrono::minutes(1)); };
  ASSERT_TRUE((*client)->Ping({}).ok());  // the reply says that reads are wanted
  ASSERT_CODE(kOk, wait());
  const std::uint64_t reported = store().Read(Metric::kReadsReported);
  const std::uint64_t pings = store().Read(Metric::kPings);
  int found = 0;
  const auto count = [&found](const AsyncResult& got) { found += got.status.ok() ? 1 : 0; };
  for (int i = 0; i < 640; ++i) {
    ASSERT_TRUE((*client)->Get(KeyOf(kKeys - 1), count).ok());
    ASSERT_CODE(kOk, wait());
    if (i % 64 == 0) deployment_->Advance(std::chrono::milliseconds(150));
  }
  EXPECT_EQ(found, 640);
  EXPECT_TRUE(AwaitReported(reported + 64));
  EXPECT_LE(store().Read(Metric::kPings), pings + 11);
}

// --- Under the adversary ----------------------------------------------------------------------------------

// Records leave memory and come back while a reader is between two pieces of a READ.
class LargerAdversary : public SimServed, public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::uint64_t kKeys = 2000;  // of 9 KB on average: twice what the memory holds

  LargerAdversary() : SimServed(/*seed=*/GetParam()) {}

  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = kMinMemorySize;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = data_.path() + "/data";
    options.store.clock = &network_.clock();
    options.make_read_pool = SeededReadPool::FactoryOf(GetParam());
    ASSERT_NO_FATAL_FAILURE(Serve(options));
    reader_ = Connect({.timeout = std::chrono::minutes(5), .location_cache_bytes = std::size_t{1} << 14});
    writer_ = Connect({.timeout = std::chrono::minutes(5), .location_cache_bytes = 0});
    for (std::uint64_t i = 0; i < kKeys; ++i) Write(i);
    network_.set_piece_size(GetParam());
    network_.set_interference([this] { Act(); }, /*gap=*/static_cast<std::uint32_t>(2048 / GetParam() + 2));
  }

  static std::string KeyOf(std::uint64_t i) { return "key " + std::to_string(i); }
  void Write(std::uint64_t i) {
    const std::string key = KeyOf(i);
    const absl::Status status =
        writer_->Put(key, MakeValue(key, ++number_, 1000 + network_.random()() % 16'000));
    ASSERT_TRUE(status.ok()) << status;
    written_[i] = number_;
  }
  void Act() {
    std::mt19937_64& random = network_.random();
    const std::uint64_t i = random() % kKeys;
    if (random() % 3 == 0) {
      Write(i);
    } else if (random() % 20 == 0) {
      const absl::Status status = writer_->Delete(KeyOf(i));
      EXPECT_EQ(status.ok(), written_.erase(i) == 1) << status;
    } else {
      // Takes memory, and so makes others leave it.
      std::string value;
      const absl::Status status = writer_->Get(KeyOf(i), &value);
      EXPECT_EQ(status.ok(), written_.contains(i)) << status;
      if (status.ok()) {
        EXPECT_EQ(NumberOf(KeyOf(i), value), written_[i]);
      }
    }
    if (random() % 50 == 0) network_.Advance(std::chrono::milliseconds(random() % 300));
    server_->Step();
  }

  const TempDir data_;
  std::unique_ptr<Client> reader_;
  std::unique_ptr<Client> writer_;
  std::map<std::uint64_t, std::uint64_t> written_;
  std::uint64_t number_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Pieces, LargerAdversary, testing::Values(8, 64, 512));

TEST_P(LargerAdversary, NothingIsWrongStaleOrMissing) {
  std::mt19937_64 random(GetParam());
  for (int reads = 0; reads < 500; ++reads) {
    const std::uint64_t i = random() % kKeys;
    const auto before = written_.find(i);
    const bool was_there = before != written_.end();
    const std::uint64_t oldest = was_there ? before->second : 0;
    std::string value;
    const absl::Status status = reader_->Get(KeyOf(i), &value);
    ASSERT_FALSE(HasFailure());
    if (absl::IsNotFound(status)) {
      ASSERT_FALSE(was_there && written_.contains(i) && written_[i] == oldest) << KeyOf(i) << " was there";
      continue;
    }
    ASSERT_TRUE(status.ok()) << status;
    const std::optional<std::uint64_t> seen = NumberOf(KeyOf(i), value);
    ASSERT_TRUE(seen.has_value()) << "torn or foreign";
    ASSERT_TRUE(was_there || written_.contains(i));
    if (was_there) {
      ASSERT_GE(*seen, oldest) << "stale";
    }
  }
  const ServerStore& store = server_->store();
  EXPECT_GT(store.Read(Metric::kEvictions), kKeys / 4);
  EXPECT_GT(store.Read(Metric::kFetches), 100u);
  EXPECT_GT(reader_->counters().cold, 20u);
  network_.set_interference(nullptr, 1);
  network_.set_piece_size(std::size_t{1} << 20);
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    std::string value;
    const absl::Status status = reader_->Get(KeyOf(i), &value);
    ASSERT_EQ(status.ok(), written_.contains(i)) << KeyOf(i) << ": " << status;
    if (status.ok()) {
      ASSERT_EQ(NumberOf(KeyOf(i), value), written_[i]);
    }
  }
  EXPECT_EQ(store.Read(Metric::kKeys), written_.size());
}

}  // namespace
}  // namespace remora
