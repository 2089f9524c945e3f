// Leases of the clients of a primary, with real servers (Q4 to Q7 of store/format/memory/lease_line.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/async_client.h"
#include "client/client.h"
#include "client/scan.h"
#include "client/watch.h"
#include "rdma/transport.h"
#include "store/format/wire/messages.h"
#include "tests/conformance/replicas_fixture.h"
#include "tests/support/patience.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class OnLeases : public ReplicasFixture {
 protected:
  void SetUp() override {
    ReplicasFixture::SetUp();
    if (IsSkipped()) return;
    primary_ = MakeMember("p");
    follower_ = MakeMember("f");
  }
  /// Starts a primary with a follower, and puts key = 1.
  void StartPair() {
    Start(follower_, true);
    Start(primary_, false, {&follower_});
    const auto client = Await(primary_);
    ASSERT_NE(client, nullptr);
    ASSERT_TRUE(client->Put("key", "1").ok());
  }
  /// Returns a client of the primary that never reconnects.
  std::unique_ptr<Client> Old(milliseconds timeout = milliseconds(5000)) {
    ClientOptions options{.connect_timeout = milliseconds(60'000), .timeout = timeout};
    options.reconnect = false;
    auto client = Client::Connect(primary_.server->address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  /// Calls until the status has another code, and returns that status. A busy machine may take longer than
  /// the timeout of a call, which is kDeadlineExceeded.
  static absl::Status Unless(absl::StatusCode code, const std::function<absl::Status()>& call) {
    const auto patience = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
    for (;;) {
      absl::Status status = call();
      if (status.code() != code) return status;
      if (std::chrono::steady_clock::now() > patience) return absl::OkStatus();
    }
  }

  Member primary_{}, follower_{};
};

TEST_P(OnLeases, AReaderOfAReplacedPrimarySeesNothingOld) {  // Q4 to Q7
  // The new primary would be written to before a lease ends, also on a busy machine.
  lease_time_ = milliseconds(2000);
  StartPair();
  // From then on, the time at which the follower began to follow keeps it from a promotion no more.
  const auto steady = std::chrono::steady_clock::now() + lease_time_;
  std::atomic<bool> is_written = false, is_reading = false;
  std::thread reader([&] {
    const auto client = Old();
    ASSERT_NE(client, nullptr);
    const absl::Status ended = Unless(absl::StatusCode::kOk, [&] {
      const bool was_written = is_written.load();
      std::string value;
      const absl::Status status = client->Get("key", &value);
      EXPECT_FALSE(was_written && status.ok()) << "it read " << value << " behind a write at the new primary";
      is_reading = std::chrono::steady_clock::now() > steady;
      return status;
    });
    EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable) << ended;
    EXPECT_THAT(std::string(ended.message()), HasSubstr("may have been replaced"));
  });
  while (!is_reading) std::this_thread::yield();
  const auto promotion = Promote(follower_);
  EXPECT_TRUE(promotion.ok()) << promotion.status();
  const auto client = Await(follower_);
  EXPECT_TRUE(client != nullptr && client->Put("key", "2").ok());
  is_written = true;
  reader.join();
  EXPECT_EQ(Get(*client, "key"), "2");
}

TEST_P(OnLeases, AClientOfBothFindsTheNewPrimary) {
  StartPair();
  const std::string both = absl::StrCat(primary_.server->address(), ",", follower_.server->address());
  const auto client =
      Client::Connect(both, {.connect_timeout = milliseconds(60'000), .timeout = milliseconds(15'000)});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(Get(**client, "key"), "1");
  ASSERT_TRUE(Promote(follower_).ok());
  {
    const auto writer = Await(follower_);
    ASSERT_NE(writer, nullptr);
    ASSERT_TRUE(writer->Put("key", "2").ok());
  }
  EXPECT_EQ(Get(**client, "key"), "2");
  EXPECT_TRUE((*client)->Put("key", "3").ok());
  EXPECT_EQ(Get(**client, "key"), "3");
  EXPECT_GT((*client)->counters().reconnects, 0);
}

TEST_P(OnLeases, AnAsyncClientOfBothFindsTheNewPrimary) {
  StartPair();
  const std::string both = absl::StrCat(primary_.server->address(), ",", follower_.server->address());
  const auto client = AsyncClient::Connect(
      both, {.connect_timeout = milliseconds(60'000), .timeout = milliseconds(15'000)}, {});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto get = [&] {
    std::string seen;
    const auto begun = (*client)->Get("key", [&](const AsyncResult& result) {
      seen = result.status.ok() ? std::string(result.value) : result.status.ToString();
    });
    EXPECT_TRUE(begun.ok());
    while (seen.empty()) {
      EXPECT_TRUE((*client)->Wait(DefaultClock().Now() + std::chrono::seconds(60)).ok());
    }
    return seen;
  };
  EXPECT_EQ(get(), "1");
  ASSERT_TRUE(Promote(follower_).ok());
  const auto writer = Await(follower_);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Put("key", "2").ok());
  EXPECT_EQ(get(), "2");
}

TEST_P(OnLeases, NothingThatIsReadCountsWithoutALease) {  // Q7
  has_order_ = true;
  StartPair();
  follower_.server.reset();
  struct Case {
    std::string_view name;
    std::function<absl::Status(Client&)> call;
  };
  const std::vector<Case> cases = {
      {"get", [](Client& client) { return client.Get("key").status(); }},
      {"miss", [](Client& client) { return client.Get("no such key").status(); }},
      {"exists", [](Client& client) { return client.Exists("key").status(); }},
      {"ttl", [](Client& client) { return client.Ttl("key").status(); }},
      {"visit", [](Client& client) { return client.Visit("key", [](std::string_view) {}); }},
      {"count", [](Client& client) { return client.Count().status(); }},
      {"count of a range", [](Client& client) { return client.Count({.prefix = "k"}).status(); }},
      {"scan", [](Client& client) { return client.Scan({}).status(); }},
      {"one-sided scan",
       [](Client& client) {
         const auto scan = client.Scan({.one_sided = true});
         if (!scan.ok()) return scan.status();
         EXPECT_FALSE((*scan)->Next());
         return (*scan)->status();
       }},
      {"one-sided scan of no key",
       [](Client& client) {
         const auto scan = client.Scan({.prefix = "nothing", .one_sided = true});
         if (!scan.ok()) return scan.status();
         EXPECT_FALSE((*scan)->Next());
         return (*scan)->status();
       }},
      {"watch", [](Client& client) { return client.Watch({}).status(); }},
      {"multi-get",
       [](Client& client) {
         const std::vector<std::string_view> keys = {"key", "no such key"};
         std::vector<GetResult> results(2);
         const absl::Status status = client.MultiGet(keys, results);
         for (const GetResult& result : results) EXPECT_EQ(result.status, status);
         return status;
       }},
      {"rejected put",
       [](Client& client) { return client.Put("key", "2", {.condition = Condition::Absent()}); }},
      {"rejected delete", [](Client& client) { return client.Delete("no such key"); }},
      {"rejected multi-put",
       [](Client& client) {
         const std::vector<PutRequest> requests = {
             {.key = "key", .value = "2", .options = {.condition = Condition::Absent()}}};
         std::vector<PutResult> results(1);
         const absl::Status status = client.MultiPut(requests, results);
         EXPECT_EQ(results[0].status, status);
         return status;
       }},
  };
  // No round ends any more that begins behind the first look of a new client.
  for (const Case& one : cases) {
    const absl::Status ended = Unless(absl::StatusCode::kDeadlineExceeded, [&] {
      const auto client = Old(milliseconds(300));
      return client != nullptr ? one.call(*client) : absl::InternalError("no client");
    });
    EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable) << one.name;
  }
}

TEST_P(OnLeases, AOneSidedScanShowsNothingOnceItsLeaseHasEnded) {  // N3 of client/scan/leaf_scan.h
  has_order_ = true;
  StartPair();
  const auto client = Old();
  ASSERT_NE(client, nullptr);
  const auto scan = client->Scan({.one_sided = true});
  ASSERT_TRUE(scan.ok()) << scan.status();
  follower_.server.reset();
  std::this_thread::sleep_for(3 * lease_time_);  // no lease lasts as long
  EXPECT_FALSE((*scan)->Next());
  EXPECT_FALSE((*scan)->status().ok());
}

TEST_P(OnLeases, NothingThatAnAsyncClientReadsCountsWithoutALease) {  // Q7
  StartPair();
  follower_.server.reset();
  ClientOptions options{.connect_timeout = milliseconds(60'000), .timeout = milliseconds(300)};
  options.reconnect = false;
  const std::vector<std::function<AsyncClient::Begun(AsyncClient&, AsyncClient::Done)>> calls = {
      [](AsyncClient& client, AsyncClient::Done done) { return client.Get("key", std::move(done)); },
      [](AsyncClient& client, AsyncClient::Done done) { return client.Get("no such key", std::move(done)); },
      [](AsyncClient& client, AsyncClient::Done done) { return client.Exists("key", std::move(done)); },
      [](AsyncClient& client, AsyncClient::Done done) {
        return client.Delete("no such key", std::move(done));
      },
      [](AsyncClient& client, AsyncClient::Done done) {
        return client.Put("key", "2", {.condition = Condition::Absent()}, std::move(done));
      },
      [](AsyncClient& client, AsyncClient::Done done) {
        EXPECT_TRUE(client.Get("key", {}).ok());
        client.Poll();  // from here on, the client knows the index, where it shows a value in place
        return client.Visit(
            "key", [](std::string_view) {}, std::move(done));
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const absl::Status ended = Unless(absl::StatusCode::kDeadlineExceeded, [&] {
      const auto client = AsyncClient::Connect(primary_.server->address(), options, {});
      if (!client.ok()) return absl::InternalError(client.status().message());
      absl::Status status;
      EXPECT_TRUE(calls[i](**client, [&](const AsyncResult& result) { status = result.status; }).ok());
      while ((*client)->in_flight() > 0)
        (void)(*client)->Wait(DefaultClock().Now() + std::chrono::seconds(60));
      return status;
    });
    EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable) << i << " " << ended;
  }
}

TEST_P(OnLeases, ReadsGoOnOnceTheFollowerIsBack) {
  StartPair();
  const auto client = Old(milliseconds(20'000));
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(Get(*client, "key"), "1");
  follower_.server.reset();
  Start(follower_, true);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Get(*Await(primary_), "key"), "1");
}

TEST_P(OnLeases, AClientThatKnowsNoLeasesIsRejected) {
  StartPair();
  const SteadyClock clock;
  const TimePoint deadline = clock.Now() + std::chrono::seconds(60);
  const auto reply = [&](std::uint8_t flags, const Member& member) {
    auto connection = rdma::Dial(member.address, rdma::QueueLimits(), clock, deadline, {});
    EXPECT_TRUE(connection.ok());
    HelloRequest hello;
    hello.flags = flags;
    const absl::Status connected = (*connection)->Connect(AsBytes(hello), deadline);
    if (connected.ok()) {
      HelloReply accepted;
      EXPECT_TRUE(FromBytes((*connection)->peer_data(), &accepted));
      return absl::StrCat("lease ", (accepted.flags & ReplyFlag::kHasLease) != 0);
    }
    HelloRejection rejection;
    EXPECT_TRUE(FromBytes((*connection)->peer_data(), &rejection));
    EXPECT_EQ(rejection.reason, RejectionReason::kVersion);
    return std::string(rejection.text);
  };
  EXPECT_THAT(reply(0, primary_), HasSubstr("use a client of this release"));
  EXPECT_EQ(reply(HelloFlag::kKnowsLease, primary_), "lease 1");
  EXPECT_EQ(reply(HelloFlag::kIsAdmin, primary_), "lease 1");
  ASSERT_TRUE(Promote(follower_).ok());
  EXPECT_EQ(reply(0, follower_), "lease 0") << "it has no follower that might replace it";
}

TEST_P(OnLeases, APrimaryHasNoLongerLeaseTimeThanItsFollowers) {  // Q5
  Start(follower_, true);
  lease_time_ = milliseconds(401);
  Start(primary_, false, {&follower_});
  EXPECT_TRUE(primary_.events->Await(LogEvent::kFollowerRejected, "give both the same --lease_time"));
  EXPECT_EQ(Connect(primary_).status().code(), absl::StatusCode::kUnavailable);
  primary_.server.reset();
  lease_time_ = milliseconds(399);
  Start(primary_, false, {&follower_});
  EXPECT_NE(Await(primary_), nullptr);
}

INSTANTIATE_TEST_SUITE_P(On, OnLeases,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp,
                                         rdma::TransportKind::kVerbs),
                         [](const auto& one) { return NameOf(one.param); });

}  // namespace
}  // namespace remora
