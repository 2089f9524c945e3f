// Versions, and writes that are done only if a condition holds, wherever the store is.
#include <chrono>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/format/memory/layout.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

class Conditions : public Behaviour {
 protected:
  struct Versioned {
    std::string value;
    std::uint64_t version = 0;
  };
  Versioned GetVersioned(std::string_view key) {
    Versioned got;
    const absl::Status status = kv_->Get(key, &got.value, &got.version);
    EXPECT_TRUE(status.ok()) << status;
    return got;
  }
  absl::Status PutIf(std::string_view key, std::string_view value, Condition condition) {
    return kv_->Put(key, value, {.ttl = std::nullopt, .condition = condition, .version = nullptr});
  }
  bool Exists(std::string_view key) {
    const absl::StatusOr<bool> exists = kv_->Exists(key);
    EXPECT_TRUE(exists.ok()) << exists.status();
    return exists.ok() && *exists;
  }
  /// Checks all conditions on a key that is there, with any value.
  void CheckAllOf(const std::string& key) {
    EXPECT_CODE(kAlreadyExists, PutIf(key, "no", Condition::Absent()));
    EXPECT_CODE(kFailedPrecondition, PutIf(key, "no", Condition::Version(kMaxVersion - 1)));
    EXPECT_TRUE(Exists(key));
    const Versioned before = GetVersioned(key);
    std::uint64_t version = 0;
    ASSERT_CODE(kOk,
                kv_->Put(key, "new", {.condition = Condition::Version(before.version), .version = &version}));
    EXPECT_GT(version, before.version);
    EXPECT_EQ(GetVersioned(key).version, version);
    EXPECT_CODE(kFailedPrecondition, kv_->Delete(key, {.condition = Condition::Version(before.version)}));
    EXPECT_EQ(Get(key), "new");
    EXPECT_CODE(kOk, kv_->Delete(key, {.condition = Condition::Version(version)}));
    EXPECT_FALSE(Exists(key));
    EXPECT_CODE(kNotFound, PutIf(key, "no", Condition::Version(version)));
    EXPECT_CODE(kOk, PutIf(key, "again", Condition::Absent()));
  }
};

INSTANTIATE_TEST_SUITE_P(On, Conditions,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Conditions, AGetSaysTheVersionThatTheWriteSaid) {
  START();
  std::uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    std::uint64_t put = 0;
    ASSERT_CODE(kOk, kv_->Put("key", std::to_string(i), {.version = &put}));
    EXPECT_GT(put, last);
    last = put;
    ASSERT_CODE(kOk, Put("other", "value"));
    EXPECT_EQ(GetVersioned("key").version, put);
    EXPECT_EQ(GetVersioned("key").version, put) << "from a place that is known";
  }
  std::uint64_t touched = 0;
  ASSERT_CODE(kOk, kv_->Touch("key", std::chrono::hours(1), {.condition = {}, .version = &touched}));
  EXPECT_GT(touched, last);
  EXPECT_EQ(GetVersioned("key").version, touched);
  std::uint64_t deleted = 0;
  ASSERT_CODE(kOk, kv_->Delete("key", {.condition = {}, .version = &deleted}));
  EXPECT_GT(deleted, touched);
}

TEST_P(Conditions, AFailedWriteLeavesTheCallersVersionAlone) {
  START();
  std::uint64_t version = 7;
  std::string value;
  EXPECT_CODE(kNotFound, kv_->Get("key", &value, &version));
  EXPECT_CODE(kNotFound, kv_->Put("key", "value", {.condition = Condition::Present(), .version = &version}));
  EXPECT_CODE(kNotFound, kv_->Delete("key", {.condition = {}, .version = &version}));
  EXPECT_EQ(version, 7u);
}

TEST_P(Conditions, AbsentAndPresent) {
  START();
  EXPECT_FALSE(Exists("key"));
  EXPECT_CODE(kNotFound, PutIf("key", "1", Condition::Present()));
  EXPECT_CODE(kNotFound, GetStatus("key"));
  EXPECT_CODE(kOk, PutIf("key", "2", Condition::Absent()));
  EXPECT_CODE(kAlreadyExists, PutIf("key", "3", Condition::Absent()));
  EXPECT_EQ(Get("key"), "2");
  EXPECT_TRUE(Exists("key"));
  EXPECT_CODE(kOk, PutIf("key", "4", Condition::Present()));
  EXPECT_EQ(Get("key"), "4");
  EXPECT_CODE(kAlreadyExists, kv_->Delete("key", {.condition = Condition::Absent()}));
  EXPECT_CODE(kOk, Delete("key"));
  EXPECT_CODE(kOk, PutIf("key", "5", Condition::Absent()));
}

TEST_P(Conditions, AVersionLetsOneOfTwoWritersThrough) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  const std::uint64_t version = GetVersioned("key").version;
  const std::unique_ptr<KeyValue> other = Connect();
  EXPECT_CODE(kOk, other->Put("key", "other's", {.condition = Condition::Version(version)}));
  const absl::Status status = PutIf("key", "mine", Condition::Version(version));
  EXPECT_CODE(kFailedPrecondition, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::to_string(GetVersioned("key").version)));
  EXPECT_EQ(Get("key"), "other's");
  EXPECT_CODE(kFailedPrecondition, kv_->Delete("key", {.condition = Condition::Version(version)}));
  EXPECT_CODE(kFailedPrecondition, kv_->Persist("key", {.condition = Condition::Version(version)}));
  EXPECT_CODE(kFailedPrecondition,
              kv_->Increment("key", 1, {.condition = Condition::Version(version)}).status());
  EXPECT_CODE(kFailedPrecondition,
              kv_->Append("key", "1", {.condition = Condition::Version(version)}).status());
  EXPECT_CODE(kNotFound, PutIf("missing", "mine", Condition::Version(version)));
  ASSERT_NO_FATAL_FAILURE(CheckAllOf("key"));
}

TEST_P(Conditions, AVersionThatNoWriteHasIsRejected) {
  START();
  for (const std::uint64_t version :
       {std::uint64_t{0}, kMaxVersion, std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_CODE(kInvalidArgument, PutIf("key", "value", Condition::Version(version)));
    EXPECT_CODE(kInvalidArgument, kv_->Delete("key", {.condition = Condition::Version(version)}));
    EXPECT_CODE(kInvalidArgument, kv_->Persist("key", {.condition = Condition::Version(version)}));
  }
  EXPECT_CODE(kInvalidArgument, kv_->Exists("").status());
  EXPECT_EQ(store().Read(Metric::kKeys), 0u);
}

TEST_P(Conditions, AnExpiredKeyIsAbsent) {
  START();
  ASSERT_CODE(kOk, kv_->Put("key", "value", {.ttl = std::chrono::hours(1)}));
  const std::uint64_t version = GetVersioned("key").version;
  EXPECT_CODE(kAlreadyExists, PutIf("key", "no", Condition::Absent()));
  deployment_->Advance(std::chrono::hours(1));
  EXPECT_FALSE(Exists("key"));
  EXPECT_CODE(kNotFound, PutIf("key", "no", Condition::Version(version)));
  EXPECT_CODE(kNotFound, PutIf("key", "no", Condition::Present()));
  EXPECT_CODE(kOk, PutIf("key", "again", Condition::Absent()));
  EXPECT_EQ(Get("key"), "again");
}

TEST_P(Conditions, AVersionIsGoodAcrossARestart) {
  START({.durability = Durability::kLogged});
  ASSERT_CODE(kOk, Put("key", "value"));
  ASSERT_CODE(kOk, Put("other", "value"));
  const std::uint64_t version = GetVersioned("key").version;
  Restart();
  EXPECT_EQ(GetVersioned("key").version, version);
  ASSERT_NO_FATAL_FAILURE(CheckAllOf("key"));
  Restart();
  EXPECT_EQ(Get("key"), "again");
}

TEST_P(Conditions, OfKeysThatAreNotLoadedYet) {
  START({.durability = Durability::kLogged, .loading = Loading::kInSteps});
  for (const std::string key : {"a", "b", "c", "d"}) ASSERT_CODE(kOk, Put(key, "1"));
  Restart();
  ASSERT_TRUE(store().loading());
  EXPECT_TRUE(Exists("d"));
  EXPECT_CODE(kAlreadyExists, PutIf("b", "no", Condition::Absent()));
  EXPECT_CODE(kFailedPrecondition, PutIf("b", "no", Condition::Version(kMaxVersion - 1)));
  EXPECT_CODE(kOk, PutIf("b", "2", Condition::Present()));
  EXPECT_CODE(kNotFound, PutIf("missing", "no", Condition::Present()));
  EXPECT_CODE(kOk, PutIf("absent", "new", Condition::Absent()));
  ASSERT_TRUE(store().loading());
  ASSERT_NO_FATAL_FAILURE(CheckAllOf("a"));
  EXPECT_EQ(kv_->Increment("c", 41).value_or(0), 42);
  while (store().Load()) {
  }
  EXPECT_EQ(Get("a"), "again");
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(Get("c"), "42");
  EXPECT_EQ(Get("absent"), "new");
  EXPECT_EQ(store().Read(Metric::kKeys), 5u);
}

TEST_P(Conditions, OfKeysThatAreNotInMemory) {
  START({.durability = Durability::kLogged,
         .memory_size = kMinMemorySize,
         .eviction = Eviction::kLeastUsed,
         .grace = std::chrono::milliseconds(kMinGraceMs)});
  constexpr int kKeys = 300;
  const std::string value(100'000, 'v');
  std::vector<std::uint64_t> versions(kKeys);
  for (std::size_t i = 0; i < kKeys; ++i) {
    ASSERT_CODE(kOk, kv_->Put("key " + std::to_string(i), value, {.version = &versions[i]}));
  }
  ASSERT_GT(store().Read(Metric::kColdKeys), 50u);
  // Nothing of this brings a record to memory.
  const std::uint64_t fetches = store().Read(Metric::kFetches);
  for (std::size_t i = 0; i < 30; ++i) {
    const std::string key = "key " + std::to_string(i);
    ASSERT_CODE(kAlreadyExists, PutIf(key, "no", Condition::Absent()));
    ASSERT_CODE(kFailedPrecondition, PutIf(key, "no", Condition::Version(versions[i] + 1)));
    ASSERT_CODE(kOk, PutIf(key, "new", Condition::Version(versions[i])));
    ASSERT_EQ(kv_->Append("key " + std::to_string(30 + i), "more").value_or(0), value.size() + 4);
  }
  EXPECT_EQ(store().Read(Metric::kFetches), fetches);
  for (std::size_t i = 0; i < 30; ++i) {
    ASSERT_EQ(Get("key " + std::to_string(i)), "new");
    ASSERT_EQ(Get("key " + std::to_string(30 + i)), value + "more");
    ASSERT_EQ(GetVersioned("key " + std::to_string(100 + i)).version, versions[100 + i])
        << "what comes back to memory has its version";
  }
}

TEST_P(Conditions, OfLargeValues) {
  START({.memory_size = std::size_t{64} << 20});
  const std::string large(3'000'000, 'v');
  const std::string larger(4'000'000, 'w');
  std::uint64_t version = 0;
  ASSERT_CODE(kOk, kv_->Put("key", large, {.condition = Condition::Absent(), .version = &version}));
  const Versioned got = GetVersioned("key");
  EXPECT_EQ(got.version, version);
  EXPECT_TRUE(got.value == large);
  EXPECT_TRUE(Exists("key"));
  ASSERT_TRUE(Await([&] { return store().Read(Metric::kLogBytesUsed) > large.size(); }));
  const std::uint64_t used = store().Read(Metric::kLogBytesUsed);
  EXPECT_CODE(kAlreadyExists, PutIf("key", larger, Condition::Absent()));
  EXPECT_CODE(kFailedPrecondition, PutIf("key", larger, Condition::Version(version + 1)));
  EXPECT_CODE(kNotFound, PutIf("other", larger, Condition::Present()));
  EXPECT_TRUE(Await([&] { return store().Read(Metric::kLogBytesUsed) == used; }))
      << "what was reserved was not given back";
  EXPECT_EQ(GetVersioned("key").version, version);
  EXPECT_CODE(kOk, PutIf("key", larger, Condition::Version(version)));
  EXPECT_TRUE(GetVersioned("key").value == larger);
  EXPECT_CODE(kOutOfRange, kv_->Append("key", "more").status());
  EXPECT_CODE(kFailedPrecondition, kv_->Increment("key", 1).status());
  if (!remote()) return;
  std::vector<std::byte> memory(larger.size());
  const auto buffer = kv_->client()->Register(memory);
  ASSERT_TRUE(buffer.ok());
  version = 0;
  ASSERT_CODE(kOk, kv_->client()->Get("key", **buffer, &version).status());
  EXPECT_EQ(version, GetVersioned("key").version);
  const std::uint64_t reads = kv_->client()->counters().reads;
  EXPECT_TRUE(Exists("key"));
  EXPECT_LE(kv_->client()->counters().reads - reads, 1u) << "the value was read";
}

TEST_P(Conditions, AgreesWithAMapOverRandomOperations) {
  START();
  struct Expected {
    std::string value;
    std::uint64_t version;
  };
  std::mt19937 random(11);
  std::map<std::string, Expected> map;
  std::vector<std::uint64_t> versions{kMaxVersion - 1};
  std::uint64_t last = 0;
  const int most = GetParam() == DeploymentKind::kVerbs ? 500 : 3000;
  for (int i = 0; i < most; ++i) {
    const std::string key = "key " + std::to_string(random() % 20);
    const auto found = map.find(key);
    const bool there = found != map.end();
    // A version of the key, or of any write before.
    const std::uint64_t wanted =
        there && random() % 2 == 0 ? found->second.version : versions[random() % versions.size()];
    const Condition conditions[] = {
        {}, Condition::Absent(), Condition::Present(), Condition::Version(wanted)};
    const Condition condition = conditions[random() % 4];
    absl::StatusCode expected = absl::StatusCode::kOk;
    if (condition == Condition::Absent()) {
      if (there) expected = absl::StatusCode::kAlreadyExists;
    } else if (!condition.is_none() && !there) {
      expected = absl::StatusCode::kNotFound;
    } else if (!condition.is_none() && condition != Condition::Present() && found->second.version != wanted) {
      expected = absl::StatusCode::kFailedPrecondition;
    }
    std::uint64_t version = 0;
    if (random() % 3 > 0) {
      const std::string value = std::to_string(i);
      ASSERT_TRUE(HasCode(expected, kv_->Put(key, value, {.condition = condition, .version = &version})));
      if (expected == absl::StatusCode::kOk) map[key] = {value, version};
    } else {
      // A key that is to be absent cannot be deleted: the first answer is that it is not there.
      if (!there) expected = absl::StatusCode::kNotFound;
      ASSERT_TRUE(HasCode(expected, kv_->Delete(key, {.condition = condition, .version = &version})));
      if (expected == absl::StatusCode::kOk) map.erase(key);
    }
    ASSERT_EQ(version > 0, expected == absl::StatusCode::kOk);
    if (version > 0) {
      ASSERT_GT(version, last);
      last = version;
      versions.push_back(version);
    }
  }
  for (const auto& [key, expected] : map) {
    const Versioned got = GetVersioned(key);
    EXPECT_EQ(got.value, expected.value);
    EXPECT_EQ(got.version, expected.version);
  }
}

// Each adds to the number that it read, if it is still the one: so no addition is lost.
TEST_P(Conditions, LoopsOfCompareAndSwapLoseNothing) {
  START();
  ASSERT_CODE(kOk, Put("sum", "0"));
  const int rounds = GetParam() == DeploymentKind::kVerbs ? 30 : 200;
  const auto add_one = [](KeyValue& kv) {
    for (;;) {
      std::string value;
      std::uint64_t version = 0;
      ASSERT_CODE(kOk, kv.Get("sum", &value, &version));
      const absl::Status status =
          kv.Put("sum", std::to_string(std::stoi(value) + 1), {.condition = Condition::Version(version)});
      if (status.ok()) return;
      ASSERT_CODE(kFailedPrecondition, status);
    }
  };
  std::vector<std::unique_ptr<KeyValue>> kvs;
  for (int i = 0; i < 4; ++i) kvs.push_back(Connect());
  if (deployment_->concurrent()) {
    std::vector<std::thread> threads;
    for (const std::unique_ptr<KeyValue>& kv : kvs) {
      threads.emplace_back([&add_one, &kv, rounds] {
        for (int i = 0; i < rounds; ++i) ASSERT_NO_FATAL_FAILURE(add_one(*kv));
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    for (int i = 0; i < rounds; ++i) {
      for (const std::unique_ptr<KeyValue>& kv : kvs) ASSERT_NO_FATAL_FAILURE(add_one(*kv));
    }
  }
  EXPECT_EQ(Get("sum"), std::to_string(4 * rounds));
}

}  // namespace
}  // namespace remora
