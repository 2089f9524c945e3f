// Values of cold keys that come in the server's replies, while the records stay in the durable tier.
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/format/wire/messages.h"
#include "tests/conformance/async_fixture.h"
#include "tests/simulation/seeded_read_pool.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/random_bytes.h"
#include "tests/support/server_thread.h"
#include "tests/support/tampered_connection.h"

namespace remora {
namespace {

class LocatedValues : public Async {
 protected:
  static constexpr std::size_t kValueSize = 3000;
  static constexpr int kKeys = 10'000;  // twice what the memory holds

  static std::string KeyOf(int i) { return "key " + std::to_string(i); }
  static std::string ValueOf(int i) { return RandomBytes(kValueSize, static_cast<std::uint64_t>(i)); }
  static Deployment::Options InLittleMemory() {
    return {.durability = Durability::kLogged,
            .memory_size = kMinMemorySize,
            .eviction = Eviction::kLeastUsed,
            .grace = std::chrono::milliseconds(kMinGraceMs)};
  }
  /// Writes all keys. The first ones are cold then, and were not used lately.
  void Fill() {
    for (int i = 0; i < kKeys; ++i) ASSERT_CODE(kOk, Put(KeyOf(i), ValueOf(i)));
  }
  std::uint64_t passed() { return store().Read(Metric::kColdReadsPassed); }
  std::uint64_t locates() { return kv_->client()->counters().locates; }
};

INSTANTIATE_TEST_SUITE_P(On, LocatedValues,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(LocatedValues, EveryReadShowsThem) {
  START(InLittleMemory());
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(ConnectAsync());
  Client& client = *kv_->client();
  std::vector<std::byte> memory(kValueSize);
  const auto buffer = client.Register(memory);
  const auto async_buffer = async_->Register(memory);
  ASSERT_TRUE(buffer.ok() && async_buffer.ok());
  const auto is_in_memory = [&](int i) {
    return std::memcmp(memory.data(), ValueOf(i).data(), kValueSize) == 0;
  };
  const std::uint64_t before = passed();
  int key = 0;  // each is read once
  for (; key < 800; key += 8) {
    const auto ordinary = client.Get(KeyOf(key));
    ASSERT_CODE(kOk, ordinary.status());
    EXPECT_TRUE(*ordinary == ValueOf(key));
    ASSERT_CODE(kOk, client.Get(KeyOf(key + 1), (*buffer)->Part(0, kValueSize)).status());
    EXPECT_TRUE(is_in_memory(key + 1));
    std::string shown;
    ASSERT_CODE(kOk, client.Visit(KeyOf(key + 2), [&](std::string_view value) { shown = value; }));
    EXPECT_TRUE(shown == ValueOf(key + 2));
    EXPECT_TRUE(client.Exists(KeyOf(key + 3)).value_or(false));
    const auto ttl = client.Ttl(KeyOf(key + 4));
    EXPECT_TRUE(ttl.ok() && !ttl->has_value());
    const Outcome got = AsyncGet(KeyOf(key + 5));
    ASSERT_OUTCOME(kOk, got);
    EXPECT_TRUE(got.value == ValueOf(key + 5));
    const Outcome into = Do([&](AsyncClient::Done done) {
      return async_->Get(KeyOf(key + 6), (*async_buffer)->Part(0, kValueSize), std::move(done));
    });
    ASSERT_OUTCOME(kOk, into);
    EXPECT_TRUE(is_in_memory(key + 6));
    const Outcome visited = Do([&](AsyncClient::Done done) {
      return async_->Visit(
          KeyOf(key + 7), [&](std::string_view value) { shown = value; }, std::move(done));
    });
    ASSERT_OUTCOME(kOk, visited);
    EXPECT_TRUE(shown == ValueOf(key + 7));
  }
  EXPECT_GT(passed() - before, 760u) << "of 800; some may be taken for keys that were used";
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(KeyOf(key + i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<GetResult> results(keys.size());
  const std::uint64_t alone = passed();
  ASSERT_CODE(kOk, client.MultiGet(keys, results));
  for (int i = 0; i < 100; ++i) {
    ASSERT_CODE(kOk, results[static_cast<std::size_t>(i)].status);
    EXPECT_TRUE(results[static_cast<std::size_t>(i)].value == ValueOf(key + i));
  }
  EXPECT_GT(passed() - alone, 20u) << "of 100; the server sends some of these at a time";
}

TEST_P(LocatedValues, AreOfAnySizeThatFitsAReply) {
  START(InLittleMemory());
  ASSERT_NO_FATAL_FAILURE(ConnectAsync());
  const auto key_of = [](std::size_t size) { return "of " + std::to_string(size); };
  const auto value_of = [](std::size_t size) { return RandomBytes(size, size); };
  constexpr std::size_t kSizes[] = {0, 1, 15, 16, 368, 369, kMaxValueBehind, kMaxValueBehind + 1};
  PutOptions options;
  options.ttl = std::chrono::hours(1);
  for (const std::size_t size : kSizes) {
    ASSERT_CODE(kOk, kv_->client()->Put(key_of(size), value_of(size), options));
  }
  ASSERT_CODE(kOk, Put("too large", std::string(2000, 'v')));
  ASSERT_NO_FATAL_FAILURE(Fill());  // after which these are cold
  for (const std::size_t size : kSizes) {
    const std::uint64_t before = passed();
    const Outcome got = AsyncGet(key_of(size));
    ASSERT_OUTCOME(kOk, got);
    EXPECT_TRUE(got.value == value_of(size)) << size;
    EXPECT_EQ(passed() - before, size > kMaxValueBehind ? 0u : 1u) << size;
    std::uint64_t version = 0;
    std::string again;
    ASSERT_CODE(kOk, kv_->client()->Get(key_of(size), &again, &version));
    EXPECT_TRUE(again == value_of(size)) << size;
    EXPECT_EQ(got.version, version);
    const auto ttl = kv_->client()->Ttl(key_of(size));
    ASSERT_TRUE(ttl.ok() && ttl->has_value());
    EXPECT_GT(**ttl, std::chrono::minutes(59));
  }
  std::vector<std::byte> memory(1999);
  const auto buffer = kv_->client()->Register(memory);
  ASSERT_TRUE(buffer.ok());
  EXPECT_CODE(kOutOfRange, kv_->client()->Get("too large", (*buffer)->Part(0, memory.size())).status());
}

// A client that does not poll leaves replies in the transport's queue, and some of the values do not fit.
TEST_P(LocatedValues, ManyAtOnceLeaveSpaceForOtherReplies) {
  START(InLittleMemory());
  ASSERT_NO_FATAL_FAILURE(Fill());
  constexpr int kAtOnce = 16;
  ASSERT_NO_FATAL_FAILURE(ConnectAsync({.depth = kAtOnce}, {.reconnect = false}));
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t before = store().Read(Metric::kLocates);
    std::vector<Outcome> outcomes(kAtOnce);
    for (int i = 0; i < kAtOnce; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_TRUE(async_->Get(KeyOf(round * kAtOnce + i), Into(outcomes[at])).ok());
    }
    const auto all_came = [&] {
      if (GetParam() != DeploymentKind::kLocal) async_->Poll();
      return store().Read(Metric::kLocates) - before == kAtOnce;
    };
    while (async_->in_flight() == kAtOnce && store().Read(Metric::kLocates) == before) async_->Poll();
    ASSERT_TRUE(Await(all_came));
    WaitAll();
    for (int i = 0; i < kAtOnce; ++i) {
      ASSERT_OUTCOME(kOk, outcomes[static_cast<std::size_t>(i)]);
      EXPECT_TRUE(outcomes[static_cast<std::size_t>(i)].value == ValueOf(round * kAtOnce + i));
    }
  }
  EXPECT_CODE(kOk, async_->status());
}

TEST_P(LocatedValues, LeaveThoseInMemoryThatAreUsed) {
  START(InLittleMemory());
  ASSERT_NO_FATAL_FAILURE(Fill());
  constexpr int kUsed = 100;
  const auto read_used = [&] {
    for (int i = 0; i < kUsed; ++i) ASSERT_TRUE(Get(KeyOf(i)) == ValueOf(i));
  };
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(read_used());
  ASSERT_CODE(kOk, kv_->client()->Ping());
  std::uint64_t asked = 0;
  int rounds = 0;
  for (int i = kUsed; i < kKeys; ++i) {
    ASSERT_TRUE(Get(KeyOf(i)) == ValueOf(i));
    if (i % 500 != 0) continue;
    const std::uint64_t before = locates();
    ASSERT_NO_FATAL_FAILURE(read_used());
    asked += locates() - before;
    ++rounds;
  }
  EXPECT_LE(asked, static_cast<std::uint64_t>(rounds)) << "a hundredth of the reads of keys that are used";
}

TEST_P(LocatedValues, ComeBackWhenTheyAreUsedOften) {
  START(InLittleMemory());
  ASSERT_NO_FATAL_FAILURE(Fill());
  bool is_back = false;
  for (int i = 0; i < 50 && !is_back; ++i) {
    const std::uint64_t before = locates();
    ASSERT_TRUE(Get(KeyOf(0)) == ValueOf(0));
    is_back = locates() == before;
  }
  EXPECT_TRUE(is_back);
}

// --- Damaged on the way ---------------------------------------------------------------------------------

class DamagedLocatedValues : public SimServed, public testing::Test {
 protected:
  static constexpr int kKeys = 10'000;  // twice what the memory holds

  DamagedLocatedValues() : SimServed(/*seed=*/1) {
    ServerOptions options;
    options.store.memory_size = kMinMemorySize;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = data_.path() + "/data";
    options.store.clock = &network_.clock();
    options.make_read_pool = SeededReadPool::FactoryOf(1);
    Serve(options);
    const auto writer = Connect({});
    for (int i = 0; i < kKeys; ++i) EXPECT_TRUE(writer->Put(KeyOf(i), ValueOf(i)).ok());
  }
  static std::string KeyOf(int i) { return "key " + std::to_string(i); }
  static std::string ValueOf(int i) { return RandomBytes(3000, static_cast<std::uint64_t>(i)); }

  const TempDir data_;
  Tampering tampering_;
};

TEST_F(DamagedLocatedValues, AreNotServed) {
  const auto client = *Client::Connect(std::make_unique<TamperedConnection>(network_.Dial(), tampering_), {},
                                       network_.clock());
  constexpr std::size_t kWords[] = {offsetof(Reply, version), offsetof(Reply, slot), offsetof(Reply, result)};
  int key = 0;  // each is read once
  int damaged = 0;
  const auto read = [&] {
    std::string value;
    std::uint64_t version = 0;
    const absl::Status status = client->Get(KeyOf(key), &value, &version);
    if (status.ok()) {
      EXPECT_TRUE(value == ValueOf(key));
      EXPECT_EQ(version, static_cast<std::uint64_t>(key) + 1);
    } else {
      EXPECT_CODE(kDataLoss, status);
      ++damaged;
    }
    ++key;
  };
  for (const std::size_t word : kWords) {
    for (std::size_t bit = 0; bit < 64; ++bit) {
      tampering_.change_reply = [&](Reply& reply) {
        if ((reply.flags & ReplyFlag::kHasValue) == 0) return;
        reinterpret_cast<std::byte*>(&reply)[word + bit / 8] ^= std::byte{1} << bit % 8;
      };
      read();
    }
  }
  tampering_.change_reply = {};
  for (std::size_t at = 0; at < 3000; at += 61) {
    tampering_.change_behind = [&](const Reply& reply, std::span<std::byte> behind) {
      if ((reply.flags & ReplyFlag::kHasValue) != 0) behind[at] ^= std::byte{1} << at % 8;
    };
    read();
  }
  EXPECT_GT(damaged, key * 9 / 10) << "of " << key;
}

}  // namespace
}  // namespace remora
