// Records that expire, wherever the store is. The server's clock is hours ahead of its clients'. Where time
// is real, tests let hours pass at once, and nothing hangs on the seconds that they take themselves.
#include "store/format/types/expiry.h"

#include <chrono>
#include <random>
#include <string>

#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

using std::chrono::hours, std::chrono::microseconds, std::chrono::milliseconds, std::chrono::seconds;

class Expiry : public Behaviour {
 protected:
  absl::Status PutFor(std::string_view key, std::string_view value, milliseconds ttl) {
    return kv_->Put(key, value, {.ttl = ttl});
  }
  void Advance(Duration duration) { deployment_->Advance(duration); }
  std::uint64_t keys() { return store().Read(Metric::kKeys); }
  std::uint64_t expired() { return store().Read(Metric::kExpired); }
};

INSTANTIATE_TEST_SUITE_P(On, Expiry,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Expiry, ComesWhenItsTimeIsOverAndNotBefore) {
  START();
  ASSERT_CODE(kOk, PutFor("key", "value", hours(10)));
  EXPECT_EQ(Get("key"), "value");
  Advance(hours(5));
  EXPECT_EQ(Get("key"), "value");
  Advance(hours(5));
  EXPECT_CODE(kNotFound, GetStatus("key"));
  EXPECT_CODE(kNotFound, GetStatus("key"));
}

// However long the write takes, and whatever its client's clock says.
TEST_P(Expiry, ComesAtTheMomentThatTheWriterNamed) {
  START();
  const std::int64_t now = store().clock().UnixMillis();
  const auto moment = static_cast<std::uint64_t>(now + milliseconds(hours(10)).count());
  ASSERT_CODE(kOk, PutFor("early", "1", Until(moment)));
  ASSERT_CODE(kOk, PutFor("touched", "2", hours(1)));
  ASSERT_CODE(kOk, kv_->Touch("touched", Until(moment)));
  ASSERT_CODE(kOk, PutFor("large", std::string(300'000, 'l'), Until(moment)));
  ASSERT_CODE(kOk, PutFor("last", "4", Until(kMaxExpiry)));
  Advance(hours(9));
  ASSERT_CODE(kOk, PutFor("late", "5", Until(moment)));
  for (const char* key : {"early", "touched", "large", "late"}) {
    EXPECT_CODE(kOk, GetStatus(key));
    const auto left = kv_->Ttl(key);
    ASSERT_CODE(kOk, left.status());
    ASSERT_TRUE(left->has_value());
    EXPECT_LE(**left, hours(1)) << key;
    EXPECT_GT(**left, milliseconds(0)) << key;
  }
  Advance(hours(1));
  for (const char* key : {"early", "touched", "large", "late"}) EXPECT_CODE(kNotFound, GetStatus(key));
  EXPECT_EQ(Get("last"), "4");
}

TEST_P(Expiry, AMomentThatIsOverIsRejected) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  const auto over = static_cast<std::uint64_t>(store().clock().UnixMillis() - 1);
  EXPECT_CODE(kOutOfRange, PutFor("key", "other", Until(over)));
  EXPECT_CODE(kOutOfRange, PutFor("key", "other", Until(1)));
  EXPECT_CODE(kOutOfRange, kv_->Touch("key", Until(over)));
  EXPECT_CODE(kOutOfRange, PutFor("absent", "other", Until(over)));
  EXPECT_CODE(kInvalidArgument, PutFor("key", "other", Until(0))) << "which would be for ever";
  EXPECT_CODE(kInvalidArgument, PutFor("key", "other", Until(kMaxExpiry + 1)));
  EXPECT_EQ(Get("key"), "value");
  EXPECT_CODE(kNotFound, GetStatus("absent"));
  EXPECT_FALSE(kv_->Ttl("key")->has_value());
}

TEST_P(Expiry, ComesForTheSameKeyByNoOther) {
  START();
  ASSERT_CODE(kOk, PutFor("soon", "1", hours(1)));
  ASSERT_CODE(kOk, PutFor("late", "2", hours(100)));
  ASSERT_CODE(kOk, Put("never", "3"));
  ASSERT_CODE(kOk, PutFor("never either", "4", kNeverExpires));
  Advance(hours(2));
  EXPECT_CODE(kNotFound, GetStatus("soon"));
  EXPECT_EQ(Get("late"), "2");
  Advance(hours(24) * 365);
  EXPECT_CODE(kNotFound, GetStatus("late"));
  EXPECT_EQ(Get("never"), "3");
  EXPECT_EQ(Get("never either"), "4");
}

TEST_P(Expiry, AnExpiredKeyIsMissingForAllOperations) {
  START();
  ASSERT_CODE(kOk, PutFor("key", "value", hours(1)));
  Advance(hours(1));
  EXPECT_CODE(kNotFound, Delete("key"));
  EXPECT_CODE(kNotFound, kv_->Touch("key", hours(1)));
  EXPECT_CODE(kNotFound, kv_->Persist("key"));
  EXPECT_CODE(kNotFound, kv_->Ttl("key").status());
  ASSERT_CODE(kOk, Put("key", "again"));
  EXPECT_EQ(Get("key"), "again");
  EXPECT_EQ(keys(), 1u);
  EXPECT_CODE(kOk, Delete("key"));
  EXPECT_CODE(kNotFound, GetStatus("key"));
  EXPECT_EQ(keys(), 0u);
}

TEST_P(Expiry, IsSaidAnewByEachPut) {
  START();
  ASSERT_CODE(kOk, PutFor("dropped", "1", hours(1)));
  ASSERT_CODE(kOk, Put("dropped", "2"));
  ASSERT_CODE(kOk, Put("given", "1"));
  ASSERT_CODE(kOk, PutFor("given", "2", hours(1)));
  Advance(hours(1));
  EXPECT_EQ(Get("dropped"), "2");
  EXPECT_CODE(kNotFound, GetStatus("given"));
}

TEST_P(Expiry, IsMovedByTouchAndTakenAwayByPersist) {
  START();
  ASSERT_CODE(kOk, PutFor("touched", "value", hours(2)));
  ASSERT_CODE(kOk, PutFor("persisted", std::string(100'000, 'v'), hours(2)));
  ASSERT_CODE(kOk, Put("shortened", "value"));
  Advance(hours(1));
  ASSERT_CODE(kOk, kv_->Touch("touched", hours(5)));
  ASSERT_CODE(kOk, kv_->Persist("persisted"));
  ASSERT_CODE(kOk, kv_->Touch("shortened", hours(1)));
  EXPECT_EQ(Get("shortened"), "value");
  Advance(hours(3));
  EXPECT_EQ(Get("touched"), "value");
  EXPECT_CODE(kNotFound, GetStatus("shortened"));
  Advance(hours(100));
  EXPECT_CODE(kNotFound, GetStatus("touched"));
  EXPECT_EQ(Get("persisted"), std::string(100'000, 'v'));
  EXPECT_CODE(kNotFound, kv_->Touch("missing", hours(1)));
  EXPECT_EQ(store().Read(Metric::kTouches), 3u);
}

TEST_P(Expiry, IsToldByTtl) {
  START();
  EXPECT_CODE(kNotFound, kv_->Ttl("key").status());
  ASSERT_CODE(kOk, Put("key", "value"));
  auto ttl = kv_->Ttl("key");
  ASSERT_CODE(kOk, ttl.status());
  EXPECT_EQ(*ttl, std::nullopt);
  ASSERT_CODE(kOk, PutFor("key", "value", hours(10)));
  Advance(hours(4));
  ttl = kv_->Ttl("key");
  ASSERT_CODE(kOk, ttl.status());
  ASSERT_TRUE(ttl->has_value());
  EXPECT_LE(**ttl, hours(6)) << "never longer than it is";
  EXPECT_GT(**ttl, hours(5)) << "the test did not take an hour";
}

TEST_P(Expiry, ComesByDefaultWhereTheServerSaysSo) {
  START({.default_ttl = hours(2)});
  ASSERT_CODE(kOk, Put("default", "1"));
  ASSERT_CODE(kOk, PutFor("own", "2", hours(4)));
  ASSERT_CODE(kOk, PutFor("never", "3", kNeverExpires));
  ASSERT_CODE(kOk, Put("persisted", "4"));
  ASSERT_CODE(kOk, kv_->Persist("persisted"));
  EXPECT_EQ(Get("default"), "1");
  Advance(hours(3));
  EXPECT_CODE(kNotFound, GetStatus("default"));
  EXPECT_EQ(Get("own"), "2");
  Advance(hours(3));
  EXPECT_CODE(kNotFound, GetStatus("own"));
  EXPECT_EQ(Get("never"), "3");
  EXPECT_EQ(Get("persisted"), "4");
}

TEST_P(Expiry, IsRejectedWhenItIsNoTime) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  for (const milliseconds ttl : {milliseconds(0), milliseconds(-1), milliseconds::min(),
                                 kMaxTtl + milliseconds(1), kNeverExpires - milliseconds(1)}) {
    EXPECT_CODE(kInvalidArgument, PutFor("key", "other", ttl)) << ttl.count();
    EXPECT_CODE(kInvalidArgument, kv_->Touch("key", ttl)) << ttl.count();
  }
  EXPECT_EQ(Get("key"), "value");
  EXPECT_CODE(kOk, PutFor("key", "longest", kMaxTtl));
  EXPECT_EQ(Get("key"), "longest");
  EXPECT_CODE(kOk, PutFor("key", "shortest", milliseconds(1)));
}

TEST_P(Expiry, HoldsAcrossARestart) {
  START({.durability = Durability::kLogged});
  ASSERT_CODE(kOk, PutFor("soon", "1", hours(1)));
  ASSERT_CODE(kOk, PutFor("late", "2", hours(10)));
  ASSERT_CODE(kOk, Put("touched", "3"));
  ASSERT_CODE(kOk, kv_->Touch("touched", hours(5)));
  ASSERT_CODE(kOk, PutFor("persisted", "4", hours(1)));
  ASSERT_CODE(kOk, kv_->Persist("persisted"));
  Restart();
  EXPECT_EQ(Get("soon"), "1");
  Advance(hours(2));
  EXPECT_CODE(kNotFound, GetStatus("soon"));
  EXPECT_EQ(Get("late"), "2");
  kv_.reset();
  deployment_->Stop();
  Advance(hours(4));
  Restart();
  EXPECT_EQ(Get("late"), "2");
  EXPECT_CODE(kNotFound, GetStatus("touched"));
  EXPECT_EQ(Get("persisted"), "4");
  EXPECT_EQ(keys(), 2u);
  Restart();
  EXPECT_EQ(expired(), 0u) << "what a restart skipped is on disk no more";
}

// Nobody reads, and they go.
TEST_P(Expiry, NeedsNoReader) {
  START();
  for (int i = 0; i < 500; ++i) ASSERT_CODE(kOk, PutFor("key" + std::to_string(i), "value", hours(1)));
  ASSERT_CODE(kOk, Put("stays", "value"));
  Advance(hours(1));
  // The server sleeps until what it thought was the time: somebody comes.
  while (keys() > 1) {
    if (remote()) {
      ASSERT_CODE(kOk, kv_->client()->Ping());
    } else {
      store().RunMaintenance();
    }
  }
  EXPECT_EQ(expired(), 500u);
  EXPECT_EQ(Get("stays"), "value");
}

// --- What a client knows of the server's clock, under a virtual one ---------------------------------------

struct Drift {
  std::int64_t ppm;
};

class ExpiryBetweenClocks : public testing::TestWithParam<Drift> {
 protected:
  void SetUp() override {
    std::string why_not;
    deployment_ = Deployment::Create(DeploymentKind::kSim, {.drift_ppm = GetParam().ppm}, &why_not);
    kv_ = *deployment_->Connect({.location_cache_bytes = 0});
  }
  std::int64_t server_ms() { return deployment_->store().clock().UnixMillis(); }
  const ClientCounters& counters() { return kv_->client()->counters(); }

  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<KeyValue> kv_;
};

INSTANTIATE_TEST_SUITE_P(OfRates, ExpiryBetweenClocks,
                         testing::Values(Drift{-1000}, Drift{-300}, Drift{0}, Drift{300}, Drift{1000}),
                         [](const auto& test) {
                           const std::int64_t ppm = test.param.ppm;
                           return (ppm < 0 ? "minus_" : "plus_") + std::to_string(std::abs(ppm)) + "_ppm";
                         });

// The server's clock alone says when a record expires, to the millisecond. A value is returned only if it had
// not when the GET began, a miss only if it had when the GET ended.
TEST_P(ExpiryBetweenClocks, AGetIsRightToTheMillisecond) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam().ppm + 5000));
  int hits = 0;
  int misses = 0;
  for (int round = 0; round < 300; ++round) {
    const milliseconds ttl(1 + static_cast<std::int64_t>(random() % (round % 3 == 0 ? 50 : 50'000)));
    ASSERT_TRUE(kv_->Put("key", "value", {.ttl = ttl}).ok());
    const auto left = deployment_->store().Ttl("key");
    if (!left.ok()) continue;  // a round trip of the simulation takes its time, too
    const std::int64_t expiry = server_ms() + (*left)->count();
    // To a moment near the end, and on from there in small steps.
    const std::int64_t ahead = (*left)->count() - static_cast<std::int64_t>(random() % 100);
    if (ahead > 0) deployment_->Advance(milliseconds(ahead));
    for (int step = 0; step < 30; ++step) {
      const std::int64_t before = server_ms();
      std::string value;
      const absl::Status status = kv_->Get("key", &value);
      const std::int64_t after = server_ms();
      ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
      if (status.ok()) {
        ASSERT_LT(before, expiry) << "served after its expiry";
        ++hits;
      } else {
        ASSERT_GE(after, expiry) << "missed before its expiry";
        ++misses;
      }
      deployment_->Advance(microseconds(random() % 10'000));
    }
  }
  EXPECT_GT(hits, 1000);
  EXPECT_GT(misses, 1000);
  // Both ways were taken: most were clear, some were for the server to say.
  EXPECT_GT(counters().locates, 100u);
  EXPECT_LT(counters().locates, static_cast<std::uint64_t>(hits + misses) / 2);
}

TEST_P(ExpiryBetweenClocks, ARecordThatNeverExpiresCostsNothing) {
  ASSERT_TRUE(kv_->Put("key", "value", {}).ok());
  const ClientCounters before = counters();
  std::string value;
  for (int i = 0; i < 10; ++i) {
    deployment_->Advance(hours(1));
    ASSERT_TRUE(kv_->Get("key", &value).ok());
  }
  EXPECT_EQ(counters().requests, before.requests);
  EXPECT_EQ(counters().reads, before.reads + 20);
}

TEST_P(ExpiryBetweenClocks, ARecordThatExpiresLaterCostsARequestAMinute) {
  ASSERT_TRUE(kv_->Put("key", "value", {.ttl = hours(100)}).ok());
  const std::uint64_t before = counters().requests;
  std::string value;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(kv_->Get("key", &value).ok());
  EXPECT_EQ(counters().requests, before);
  for (int minute = 1; minute <= 10; ++minute) {
    deployment_->Advance(seconds(61));
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(kv_->Get("key", &value).ok());
    ASSERT_EQ(counters().requests, before + static_cast<std::uint64_t>(minute));
  }
}

}  // namespace
}  // namespace remora
