// Tokens, over every transport: the clients that are served, and their rights.
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/async_client.h"
#include "tests/conformance/access_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

INSTANTIATE_TEST_SUITE_P(On, Access,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Access, AClientWithATokenIsServed) {
  START(With(Lines()), Holding(kWriter));
  EXPECT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(count(Metric::kTokens), 2u);
  EXPECT_EQ(count(Metric::kChallenges), 1u);
  EXPECT_EQ(count(Metric::kConnectionsRejected), 0u);
  // The whole line is as good as the secret out of it.
  const auto other = Connect(Holding(Lines().substr(0, Lines().find('\n'))));
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(Get(*other, "key"), "value");
}

TEST_P(Access, OthersAreNotAndHearWhy) {
  START(With(Lines()), Holding(kWriter));
  const absl::Status none = ConnectStatus({});
  EXPECT_CODE(kPermissionDenied, none);
  EXPECT_THAT(none.message(), testing::HasSubstr("this client has none"));
  const absl::Status wrong = ConnectStatus(Holding(kStranger));
  EXPECT_CODE(kPermissionDenied, wrong);
  EXPECT_THAT(wrong.message(), testing::HasSubstr("does not accept this client's auth token"));
  const absl::Status bad = ConnectStatus(Holding("secret!"));
  EXPECT_CODE(kInvalidArgument, bad);
  EXPECT_THAT(bad.message(), testing::Not(testing::HasSubstr("secret!")));
  EXPECT_CODE(kOk, kv_->client()->Ping());  // rejections are counted by now
  EXPECT_EQ(count(Metric::kRejectedToken), 2u);
  EXPECT_EQ(count(Metric::kConnections), 1u);
}

TEST_P(Access, AClientWithATokenIsServedByNobodyWhoLacksIt) {
  START();
  const absl::Status open = ConnectStatus(Holding(kWriter));
  EXPECT_CODE(kPermissionDenied, open);
  EXPECT_THAT(open.message(), testing::HasSubstr("impostor"));
  EXPECT_CODE(kOk, Put("key", "value"));  // of who has none
}

TEST_P(Access, AServerMayServeWhoHasNoneToo) {
  Deployment::Options options = With(Lines());
  options.serves_without_token = true;
  START(options, {});
  EXPECT_CODE(kOk, Put("key", "value"));
  const auto reader = Connect(Holding(kReader));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Get(*reader, "key"), "value");
  EXPECT_CODE(kPermissionDenied, reader->Put("key", "other"));
  EXPECT_CODE(kPermissionDenied, ConnectStatus(Holding(kStranger)));
}

TEST_P(Access, ATokenIsProvenAgainAtEachConnection) {
  START(With(Lines(), {.durability = Durability::kLogged}), Holding(kWriter));
  ASSERT_CODE(kOk, Put("key", "value"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(deployment_->Restart().ok());
    EXPECT_EQ(Get("key"), "value");
    EXPECT_CODE(kOk, Put("key", "value"));
  }
  EXPECT_EQ(kv_->client()->counters().reconnects, 2u);
}

TEST_P(Access, AnAsyncClientProvesItToo) {
  START(With(Lines(), {.durability = Durability::kLogged}), Holding(kWriter));
  const auto dialer = [this](TimePoint) { return deployment_->Dial(); };
  auto made = AsyncClient::Connect(dialer, Holding(kReader), {}, deployment_->clock());
  ASSERT_TRUE(made.ok()) << made.status();
  AsyncClient& async = **made;
  const auto wait = [&] {
    ASSERT_TRUE(async.WaitAll(deployment_->clock().Now() + std::chrono::seconds(60)).ok());
  };
  std::string value(1000, 'v');
  ASSERT_CODE(kOk, Put("key", value));
  std::vector<absl::Status> statuses;
  const auto note = [&](const AsyncResult& result) { statuses.push_back(result.status); };
  for (int round = 0; round < 2; ++round) {
    statuses.clear();
    std::string got;
    ASSERT_TRUE(async.Get("key", [&](const AsyncResult& result) { got = result.value; }).ok());
    ASSERT_TRUE(async.Put("key", "x", note).ok());
    ASSERT_TRUE(async.Put("key", std::string(kMaxSmallValueSize, 'x'), note).ok());
    ASSERT_TRUE(async.Put("key", std::string(kMaxSmallValueSize + 1, 'x'), note).ok());
    ASSERT_TRUE(async.Delete("key", note).ok());
    wait();
    EXPECT_EQ(got, value);
    ASSERT_EQ(statuses.size(), 4u);
    for (const absl::Status& status : statuses) EXPECT_CODE(kPermissionDenied, status);
    ASSERT_TRUE(deployment_->Restart().ok());
  }
}

// --- Reading alone --------------------------------------------------------------------------------------

TEST_P(Access, AReaderReadsEverything) {
  START(With(Lines(), {.durability = Durability::kLogged}), Holding(kWriter));
  const std::string long_key(kMaxKeySize, 'k');
  const std::string large(kMaxSmallValueSize + 5000, 'l');
  ASSERT_CODE(kOk, Put("key", "value"));
  ASSERT_CODE(kOk, Put(long_key, "of a long key"));
  ASSERT_CODE(kOk, Put("large", large));
  const auto reader = Connect(Holding(kReader));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Get(*reader, "key"), "value");
  EXPECT_EQ(Get(*reader, long_key), "of a long key");
  EXPECT_EQ(Get(*reader, "large"), large);
  EXPECT_CODE(kOk, reader->client()->Ping());
  std::string value;
  EXPECT_CODE(kNotFound, reader->Get("missing", &value));
  EXPECT_TRUE(reader->Exists("large").value_or(false));  // asks the server
  EXPECT_EQ(reader->Count().value_or(0), 3u);
  EXPECT_EQ(
      reader
          ->Count(RangeOptions{.begin = std::string(kMaxKeySize, 'j'), .end = std::string(kMaxKeySize, 'l')})
          .value_or(0),
      3u);
  const std::array<std::string_view, 3> keys = {"key", "large", long_key};
  std::array<GetResult, 3> results;
  ASSERT_CODE(kOk, reader->MultiGet(keys, results));
  for (const GetResult& result : results) EXPECT_CODE(kOk, result.status);

  auto scan = reader->Scan({.begin = "k", .end = std::string(kMaxKeySize, 'z')});
  ASSERT_TRUE(scan.ok()) << scan.status();
  std::vector<std::string> found;
  while ((*scan)->Next()) found.emplace_back((*scan)->key());
  EXPECT_CODE(kOk, (*scan)->status());
  EXPECT_THAT(found, testing::ElementsAre("key", long_key, "large"));

  auto watch = reader->Watch({});
  ASSERT_TRUE(watch.ok()) << watch.status();
  ASSERT_CODE(kOk, (*watch)->Next(milliseconds(0)).status());
  ASSERT_CODE(kOk, Put("key", "seen"));
  ASSERT_TRUE((*watch)->Next(milliseconds(20000)).value_or(false));
  EXPECT_EQ((*watch)->value(), "seen");
}

TEST_P(Access, AReaderGetsWhatIsOnDiskOnly) {
  START(With(Lines(), {.durability = Durability::kLogged,
                       .memory_size = kMinMemorySize,
                       .eviction = Eviction::kLeastUsed,
                       .grace = milliseconds(kMinGraceMs)}),
        Holding(kWriter));
  const std::string value(20'000, 'v');
  // Up to the longest: several slots of a message ring, and sixteen of them at once more than it has.
  const auto key_of = [](int i) {
    return std::to_string(i) + " " + std::string(i % 3 == 0 ? 4080 : static_cast<std::size_t>(i) % 300, 'k');
  };
  constexpr int kKeys = 1200;
  for (int i = 0; i < kKeys; ++i) ASSERT_CODE(kOk, Put(key_of(i), value + std::to_string(i)));
  ASSERT_GT(count(Metric::kColdKeys), 100u);
  const auto reader = Connect(Holding(kReader));
  ASSERT_NE(reader, nullptr);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(Get(*reader, key_of(i)), value + std::to_string(i));
  for (int i = kKeys - 200; i < kKeys; ++i) ASSERT_EQ(Get(*reader, key_of(i)), value + std::to_string(i));
  EXPECT_GT(reader->client()->counters().cold, 50u);
  // The client reports its reads of memory with its next question, if the answer before came while memory was
  // filling.
  for (int i = 0; i < 2000 && count(Metric::kReadsReported) == 0; ++i) {
    ASSERT_CODE(kOk, Put("more", value + std::to_string(i)));
    ASSERT_EQ(Get(*reader, "more"), value + std::to_string(i));
    ASSERT_EQ(Get(*reader, key_of(i % 200)), value + std::to_string(i % 200));
  }
  EXPECT_GT(count(Metric::kReadsReported), 0u);

  const auto dialer = [this](TimePoint) { return deployment_->Dial(); };
  auto async = AsyncClient::Connect(dialer, Holding(kReader), {.depth = 64}, deployment_->clock());
  ASSERT_TRUE(async.ok()) << async.status();
  int right = 0;
  for (int i = 0; i < 300; ++i) {
    while ((*async)->free_slots() == 0) {
      ASSERT_TRUE((*async)->Wait(deployment_->clock().Now() + std::chrono::seconds(60)).ok());
    }
    ASSERT_TRUE((*async)
                    ->Get(key_of(i),
                          [&, i](const AsyncResult& result) {
                            EXPECT_CODE(kOk, result.status);
                            right += result.value == value + std::to_string(i);
                          })
                    .ok());
  }
  ASSERT_TRUE((*async)->WaitAll(deployment_->clock().Now() + std::chrono::seconds(60)).ok());
  EXPECT_EQ(right, 300);
  EXPECT_GT((*async)->counters().cold, 50u);
}

TEST_P(Access, AReaderChangesNothing) {
  START(With(Lines(), {.durability = Durability::kLogged}), Holding(kWriter));
  ASSERT_CODE(kOk, Put("key", "1"));
  const std::uint64_t version = count(Metric::kLastVersion);
  const auto reader = Connect(Holding(kReader));
  ASSERT_NE(reader, nullptr);
  const absl::Status denied = reader->Put("key", "2");
  EXPECT_CODE(kPermissionDenied, denied);
  EXPECT_THAT(denied.message(), testing::HasSubstr("for reading alone"));
  for (const std::size_t size : {std::size_t{0}, kMaxSmallValueSize, kMaxSmallValueSize + 1}) {
    EXPECT_CODE(kPermissionDenied, reader->Put("key", std::string(size, 'x')));
  }
  EXPECT_CODE(kPermissionDenied, reader->Delete("key"));
  EXPECT_CODE(kPermissionDenied, reader->Touch("key", std::chrono::hours(1)));
  EXPECT_CODE(kPermissionDenied, reader->Increment("key", 1).status());
  EXPECT_CODE(kPermissionDenied, reader->Append("key", "x").status());
  WriteBatch batch;
  batch.Put("key", "3");
  batch.Delete("other");
  EXPECT_CODE(kPermissionDenied, reader->Apply(batch));
  EXPECT_CODE(kPermissionDenied, reader->DeleteAll().status());
  EXPECT_CODE(kPermissionDenied, reader->DeleteRange({.begin = "a"}).status());
  EXPECT_CODE(kPermissionDenied, reader->client()->Backup(7).status());
  EXPECT_CODE(kPermissionDenied, reader->client()->Settings().status());
  const std::string large(100'000, 'x');
  const std::vector<PutRequest> puts = {{"key", "4"}, {"other", large}, {"third", "5"}, {"fourth", "6"}};
  std::vector<PutResult> results(puts.size());
  EXPECT_CODE(kOk, reader->client()->MultiPut(puts, results));
  for (const PutResult& result : results) EXPECT_CODE(kPermissionDenied, result.status);
  EXPECT_EQ(Get(*reader, "key"), "1");
  EXPECT_EQ(count(Metric::kLastVersion), version);
  EXPECT_EQ(count(Metric::kKeys), 1u);
  EXPECT_EQ(kv_->client()->counters().reconnects, 0u);
}

// --- Tokens change, and have limits ---------------------------------------------------------------------

TEST_P(Access, TokensAreReadAnew) {
  START(With(Lines()), Holding(kWriter));
  ASSERT_CODE(kOk, Put("key", "value"));
  auto reader = Connect(Holding(kReader));
  ASSERT_NE(reader, nullptr);
  const auto reload = [&](const std::string& lines) {
    ASSERT_NO_FATAL_FAILURE(WriteTokens(lines));
    deployment_->ReloadTokens();
    ASSERT_CODE(kOk, kv_->client()->Ping());  // one step was done by the time that this came back
    ASSERT_CODE(kOk, kv_->client()->Ping());
  };
  // A wrong file changes nothing.
  reload("writer read-write " + std::string(kWriter) + "\nreader read-only short\n");
  EXPECT_EQ(Get(*reader, "key"), "value");
  EXPECT_EQ(reader->client()->counters().reconnects, 0u);
  // The writer's is as it was, the reader's is gone.
  reload("writer read-write " + std::string(kWriter) + "\nthird read-only " + kStranger + "\n");
  EXPECT_EQ(kv_->client()->counters().reconnects, 0u);
  EXPECT_EQ(count(Metric::kConnections), 1u);
  std::string value;
  EXPECT_CODE(kPermissionDenied, reader->Get("key", &value));
  EXPECT_CODE(kPermissionDenied, reader->client()->Ping());
  EXPECT_CODE(kOk, ConnectStatus(Holding(kStranger)));
  // It comes back, and may write.
  reload("writer read-write " + std::string(kWriter) + "\nreader read-write " + kReader + "\n");
  EXPECT_CODE(kOk, reader->Put("key", "mine"));
  EXPECT_EQ(Get("key"), "mine");
  EXPECT_EQ(count(Metric::kTokens), 2u);
}

TEST_P(Access, ATokenMayHaveSoManyConnections) {
  START(With(std::string("one read-write ") + kWriter + " connections=2\nmore read-only " + kReader + "\n"),
        Holding(kWriter));
  auto second = Connect(Holding(kWriter));
  const absl::Status third = ConnectStatus(Holding(kWriter));
  EXPECT_CODE(kFailedPrecondition, third);
  EXPECT_THAT(third.message(), testing::HasSubstr("one has 2 connections"));
  EXPECT_CODE(kOk, ConnectStatus(Holding(kReader)));
  ASSERT_CODE(kOk, kv_->client()->Ping());
  EXPECT_EQ(count(Metric::kRejectedTokenFull), 1u);
  second.reset();
  second = nullptr;
  // The server notices when it looks.
  for (int i = 0; i < 1000 && !ConnectStatus(Holding(kWriter)).ok(); ++i) {
    ASSERT_CODE(kOk, kv_->client()->Ping());
    deployment_->clock().Sleep(milliseconds(1));
  }
  EXPECT_CODE(kOk, Put("key", "value"));
}

TEST_P(Access, AClientAboveItsRateWaitsAndOthersDoNot) {
  START(With(std::string("slow read-write ") + kWriter + " requests_per_second=50\nfast read-write " +
             kReader + " requests_per_second=1000000\n"),
        Holding(kWriter));
  const auto fast = Connect(Holding(kReader));
  ASSERT_NE(fast, nullptr);
  const TimePoint start = deployment_->clock().Now();
  // Side by side, and 16 to a message, of which each counts: puts that wait keep their order.
  constexpr int kPuts = 40;
  std::vector<PutRequest> puts(kPuts);
  for (PutRequest& put : puts) put = {"key", "value"};
  std::vector<PutResult> results(puts.size());
  ASSERT_CODE(kOk, kv_->client()->MultiPut(puts, results));
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_CODE(kOk, results[i].status);
    if (i > 0) {
      EXPECT_GT(results[i].version, results[i - 1].version);
    }
  }
  // A tenth of a second may come at once, and the last ones are not waited for.
  EXPECT_GE(deployment_->clock().Now() - start, milliseconds(32 * 20 - 100 - 2 * 20));
  EXPECT_GT(count(Metric::kRequestsDelayed), 0u);
  // While some wait.
  const auto dialer = [this](TimePoint) { return deployment_->Dial(); };
  auto slow = AsyncClient::Connect(dialer, Holding(kWriter), {}, deployment_->clock());
  ASSERT_TRUE(slow.ok()) << slow.status();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE((*slow)
                    ->Put("key", "value", [](const AsyncResult& result) { EXPECT_CODE(kOk, result.status); })
                    .ok());
  }
  (*slow)->Poll();
  for (int i = 0; i < 200; ++i) ASSERT_CODE(kOk, fast->Put("other", "value"));
  ASSERT_TRUE((*slow)->WaitAll(deployment_->clock().Now() + std::chrono::seconds(60)).ok());
  EXPECT_LE(count(Metric::kRequestsDelayed), puts.size() + 10);
  EXPECT_EQ(Get("key"), "value");
}

}  // namespace
}  // namespace remora
