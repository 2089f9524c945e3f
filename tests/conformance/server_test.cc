// Behaviour of clients and the server beside operations: their cost, connections that end, strangers that
// connect.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rdma/adaptive_poll.h"
#include "store/format/memory/metric_registry.h"
#include "store/format/memory/shown_metrics.h"
#include "store/format/wire/messages.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

INSTANTIATE_TEST_SUITE_P(On, RemoteBehaviour,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

// --- Cost -----------------------------------------------------------------------------------------------

TEST_P(RemoteBehaviour, GetsAreNoWorkForTheServer) {
  START();
  for (int i = 0; i < 100; ++i)
    ASSERT_CODE(kOk, Put("key " + std::to_string(i), "value " + std::to_string(i)));
  // A ping behind them: the server has answered everything, and may go to sleep, which is no wake-up. It may
  // be woken once more, though, by the last completion of its own replies, at any later time: then the second
  // round shows it.
  ASSERT_CODE(kOk, kv_->client()->Ping());
  const std::uint64_t receives = store().Read(Metric::kReceiveCompletions);
  std::uint64_t wakeups = 1;
  for (int round = 0; round < 2 && wakeups > 0; ++round) {
    const std::uint64_t before = store().Read(Metric::kWakeups);
    for (int i = 0; i < 10000; ++i) {
      const std::string n = std::to_string(i % 100);
      ASSERT_EQ(Get("key " + n), "value " + n);
    }
    for (int i = 0; i < 1000; ++i) ASSERT_CODE(kNotFound, GetStatus("missing " + std::to_string(i)));
    wakeups = store().Read(Metric::kWakeups) - before;
  }
  EXPECT_EQ(wakeups, 0u);
  EXPECT_EQ(store().Read(Metric::kReceiveCompletions) - receives, 0u);
}

TEST_P(RemoteBehaviour, ReadsThatThreadsOfTheServerAnswerAreCounted) {
  constexpr std::size_t kValueSize = 100'000;
  START();
  ASSERT_CODE(kOk, Put("key", std::string(kValueSize, 'v')));
  const std::uint64_t before = store().Read(Metric::kTcpReads);
  const std::uint64_t bytes_before = store().Read(Metric::kTcpReadBytes);
  const bool is_tcp = GetParam() == DeploymentKind::kTcp || GetParam() == DeploymentKind::kTls;
  const TimePoint deadline = deployment_->clock().Now() + std::chrono::seconds(60);
  std::uint64_t gets = 0;
  do {
    ASSERT_EQ(Get("key").size(), kValueSize);
    ++gets;
  } while (is_tcp && deployment_->clock().Now() < deadline &&
           (store().Read(Metric::kTcpReads) - before < 10 || store().Read(Metric::kTcpCpuTime) == 0));
  const std::uint64_t reads = store().Read(Metric::kTcpReads) - before;
  const std::uint64_t bytes = store().Read(Metric::kTcpReadBytes) - bytes_before;
  if (!is_tcp) {
    EXPECT_EQ(reads, 0u);
    return;
  }
  EXPECT_GE(reads, 10u);
  EXPECT_LE(reads, 3 * gets);                 // a generation, a bucket, a record
  EXPECT_GE(bytes, (gets - 1) * kValueSize);  // the last answer may be told later
  EXPECT_GT(store().Read(Metric::kTcpCpuTime), 0u);
}

TEST_P(RemoteBehaviour, AColdGetIsTwoReadsAMissIsOneAPutIsOneRequest) {
  // A client that is held up for the grace period reads again.
  START({.grace = std::chrono::seconds(10)}, {.location_cache_bytes = 0});
  ASSERT_CODE(kOk, Put("key", "value"));
  const ClientCounters& counters = kv_->client()->counters();
  EXPECT_EQ(counters.requests, 1u);
  const std::uint64_t before = counters.reads;
  ASSERT_EQ(Get("key"), "value");
  EXPECT_EQ(counters.reads - before, 2u);
  ASSERT_CODE(kNotFound, GetStatus("missing"));
  EXPECT_EQ(counters.reads - before, 3u);
  ASSERT_CODE(kOk, Delete("key"));
  EXPECT_EQ(counters.requests, 2u);
  EXPECT_EQ(counters.retries, 0u);
}

TEST_P(RemoteBehaviour, StatsAreTheServersCounters) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  ASSERT_CODE(kOk, kv_->client()->Ping());
  const auto stats = kv_->client()->Stats();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->size(), ShownMetrics(std::vector<std::uint64_t>(kMetricPlaces)).size());
  EXPECT_THAT(*stats, testing::Contains(testing::Pair("keys", 1u)));
  EXPECT_THAT(*stats, testing::Contains(testing::Pair("pings", 1u)));
  EXPECT_THAT(*stats, testing::Contains(testing::Pair("connections", 1u)));
  std::uint64_t of_transports = 0;
  for (const auto& [name, value] : *stats) {
    if (name == "connections_local" || name == "connections_tcp" || name == "connections_tls" ||
        name == "connections_verbs") {
      of_transports += value;
    }
  }
  EXPECT_EQ(of_transports, 1u);
  EXPECT_THAT(*stats, testing::Contains(testing::Pair("commit_time_count", 1u)));
}

TEST_P(RemoteBehaviour, AClientShowsTheMetricsThatItAndTheServerKnow) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  auto& superblock = const_cast<Superblock&>(store().superblock());
  ASSERT_EQ(superblock.metric_count, kMetricPlaces);
  superblock.counters[kMetricPlaces] = 4711;  // of an entry that this client does not know
  for (const std::uint64_t count :
       {std::uint64_t{kMetricPlaces} - 1, std::uint64_t{kMetricPlaces} + 1, std::uint64_t{kMetricCapacity},
        std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{0}}) {
    superblock.metric_count = count;
    const std::unique_ptr<KeyValue> other = Connect();  // another release connects all the same
    for (KeyValue* const client : {kv_.get(), other.get()}) {
      const auto stats = client->client()->Stats();
      ASSERT_CODE(kOk, stats.status());
      const auto known =
          ShownMetrics(std::vector<std::uint64_t>(std::min<std::uint64_t>(count, kMetricPlaces)));
      ASSERT_EQ(stats->size(), known.size()) << count;
      for (std::size_t i = 0; i < stats->size(); ++i) EXPECT_EQ((*stats)[i].first, known[i].first);
      if (count > 0) {
        EXPECT_THAT(*stats, testing::Contains(testing::Pair("puts", 1u)));
      }
    }
  }
  superblock.metric_count = kMetricPlaces;
}

// --- Connections end ------------------------------------------------------------------------------------

TEST_P(RemoteBehaviour, AServerThatStoppedIsReportedAndAnotherClientWorks) {
  START({.durability = Durability::kLogged}, {.reconnect = false});
  ASSERT_CODE(kOk, Put("key", "value"));
  deployment_->Stop();
  EXPECT_CODE(kUnavailable, GetStatus("key"));
  EXPECT_CODE(kUnavailable, Put("key", "lost"));
  EXPECT_CODE(kUnavailable, Delete("key"));
  EXPECT_CODE(kUnavailable, kv_->client()->Ping());
  kv_.reset();
  EXPECT_FALSE(deployment_->Connect({}).ok());
  Restart();
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(RemoteBehaviour, ClientsThatGoAreForgotten) {
  START();
  ASSERT_CODE(kOk, kv_->client()->Ping());  // by then it is counted
  const std::uint64_t registered = store().Read(Metric::kRegisteredBytes);
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<KeyValue> other = Connect();
    ASSERT_CODE(kOk, other->Put("key", std::to_string(i)));
    ASSERT_GT(store().Read(Metric::kRegisteredBytes), registered + kMaxPayloadSize);
  }
  // The server notices an end after it happened: poll it, through a client that stays.
  while (store().Read(Metric::kConnections) != 1) ASSERT_CODE(kOk, kv_->client()->Ping());
  EXPECT_EQ(store().Read(Metric::kConnectionsAccepted), 21u);
  EXPECT_EQ(store().Read(Metric::kRegisteredBytes), registered);
  EXPECT_EQ(Get("key"), "19");
}

TEST_P(RemoteBehaviour, ManyClientsWriteAtOnce) {
  START();
  if (!deployment_->concurrent()) GTEST_SKIP() << "simulated: one thread";
  constexpr int kClients = 8;
  constexpr int kWrites = 200;
  std::vector<std::unique_ptr<KeyValue>> kvs;
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) kvs.push_back(Connect());
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&kv = *kvs[static_cast<std::size_t>(c)], c] {
      for (int i = 0; i < kWrites; ++i) {
        const std::string key = std::to_string(c) + "/" + std::to_string(i);
        ASSERT_CODE(kOk, kv.Put(key, "value of " + key));
        ASSERT_EQ(Get(kv, key), "value of " + key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store().Read(Metric::kKeys), std::uint64_t{kClients * kWrites});
  for (int c = 0; c < kClients; ++c)
    ASSERT_EQ(Get(std::to_string(c) + "/7"), "value of " + std::to_string(c) + "/7");
}

// --- The handshake --------------------------------------------------------------------------------------

// Dials, and asks with `hello` instead of the hello of this build's client. Returns the server's rejection.
absl::StatusOr<HelloRejection> RejectionOf(Deployment& deployment, const HelloRequest& hello) {
  auto connection = deployment.Dial();
  if (!connection.ok()) return connection.status();
  const absl::Status status =
      (*connection)->Connect(AsBytes(hello), deployment.clock().Now() + std::chrono::seconds(60));
  HelloRejection rejection;
  if (!absl::IsFailedPrecondition(status) || !FromBytes((*connection)->peer_data(), &rejection)) {
    return absl::InternalError("not rejected: " + status.ToString());
  }
  return rejection;
}

TEST_P(RemoteBehaviour, AnotherFormatVersionIsRejectedWithBothVersions) {
  START();
  HelloRequest hello;
  hello.format_version = kFormatVersion + 1;
  const auto rejection = RejectionOf(*deployment_, hello);
  ASSERT_TRUE(rejection.ok()) << rejection.status();
  EXPECT_EQ(rejection->reason, RejectionReason::kVersion);
  EXPECT_THAT(rejection->text, testing::HasSubstr("format " + std::to_string(kFormatVersion)));
  EXPECT_THAT(rejection->text, testing::HasSubstr(std::to_string(kFormatVersion + 1)));
}

TEST_P(RemoteBehaviour, AnotherLayoutSignatureIsRejected) {
  START();
  HelloRequest hello;
  ++hello.layout_signature;
  const auto rejection = RejectionOf(*deployment_, hello);
  ASSERT_TRUE(rejection.ok()) << rejection.status();
  EXPECT_EQ(rejection->reason, RejectionReason::kLayout);
  EXPECT_THAT(rejection->text, testing::HasSubstr("layout signature"));
}

TEST_P(RemoteBehaviour, AStrangerIsRejectedAndOthersGoOn) {
  START();
  HelloRequest hello;
  hello.magic = 0x47455420;  // an HTTP client, say
  const auto rejection = RejectionOf(*deployment_, hello);
  ASSERT_TRUE(rejection.ok()) << rejection.status();
  EXPECT_EQ(rejection->reason, RejectionReason::kNotRemora);
  EXPECT_CODE(kOk, Put("key", "value"));
}

TEST_P(RemoteBehaviour, AFullServerSaysSo) {
  START({.max_clients = 1});
  const auto second = deployment_->Connect({});
  EXPECT_CODE(kFailedPrecondition, second.status());
  EXPECT_THAT(std::string(second.status().message()), testing::HasSubstr("max_clients"));
  EXPECT_CODE(kOk, Put("key", "value"));
}

// --- Requests that no client of ours would send -----------------------------------------------------------

// Speaks the protocol by hand.
class RawClient {
 public:
  explicit RawClient(Deployment& deployment) : deployment_(deployment), connection_(*deployment.Dial()) {
    registration_ = *connection_->RegisterMessages(buffer_);
    Check(connection_->PostRecv(0, rdma::MakeSge(*registration_, kReplyAt, kMaxReplySize)));
    Check(connection_->Connect(AsBytes(HelloRequest()), deployment.clock().Now() + std::chrono::seconds(60)));
    EXPECT_TRUE(FromBytes(connection_->peer_data(), &hello_));
  }

  void WritePayload(std::string_view bytes) {
    std::memcpy(buffer_.data(), bytes.data(), bytes.size());
    const rdma::Sge from = rdma::MakeSge(*registration_, 0, bytes.size());
    Check(connection_->PostWritev(std::span(&from, 1), hello_.staging, 0));
  }

  /// Sends `size` bytes that start with `request`. Returns the result: kReceive with a reply, or
  /// kDisconnected.
  rdma::CompletionKind Send(const Request& request, std::size_t size = sizeof(Request)) {
    std::memcpy(buffer_.data() + kRequestAt, &request, sizeof(request));
    Check(connection_->PostSend(0, rdma::MakeSge(*registration_, kRequestAt, size)));
    std::array<rdma::Completion, 4> completions;
    for (;;) {
      const auto count = rdma::PollUntil(*connection_, completions,
                                         deployment_.clock().Now() + std::chrono::seconds(60), spinner_);
      if (!count.ok()) {
        ADD_FAILURE() << count.status();
        return rdma::CompletionKind::kSend;
      }
      for (std::size_t i = 0; i < *count; ++i) {
        if (completions[i].kind == rdma::CompletionKind::kDisconnected) return completions[i].kind;
        if (completions[i].kind == rdma::CompletionKind::kReceive && completions[i].ok)
          return completions[i].kind;
      }
    }
  }

  Reply reply() const {
    Reply reply;
    std::memcpy(&reply, buffer_.data() + kReplyAt, sizeof(reply));
    return reply;
  }

  static Request PutRequest(std::string_view key, std::string_view value) {
    Request request;
    request.operation = Operation::kPut;
    request.request_id = 1;
    request.key_size = static_cast<std::uint16_t>(key.size());
    request.value_size = static_cast<std::uint32_t>(value.size());
    request.payload_checksum = PayloadChecksum(request, HashKey(key), HashValue(value.data(), value.size()));
    return request;
  }

 private:
  static constexpr std::size_t kRequestAt = 512;
  static constexpr std::size_t kReplyAt = 1024;

  static void Check(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; }

  Deployment& deployment_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(2048);
  std::unique_ptr<rdma::ClientConnection> connection_;
  rdma::AdaptivePoller spinner_;
  std::unique_ptr<rdma::Registration> registration_;
  HelloReply hello_;
};

TEST_P(RemoteBehaviour, ARequestByHandIsServedLikeAnyOther) {
  START();
  RawClient raw(*deployment_);
  raw.WritePayload("keyvalue");
  ASSERT_EQ(raw.Send(RawClient::PutRequest("key", "value")), rdma::CompletionKind::kReceive);
  EXPECT_EQ(raw.reply().status, ReplyStatus::kOk);
  EXPECT_EQ(raw.reply().request_id, 1u);
  EXPECT_GT(raw.reply().version, 0u);
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(RemoteBehaviour, APayloadThatDoesNotMatchItsCommitIsNotStored) {
  START();
  ASSERT_CODE(kOk, Put("key", "before"));
  RawClient raw(*deployment_);
  raw.WritePayload("keyvalux");
  ASSERT_EQ(raw.Send(RawClient::PutRequest("key", "value")), rdma::CompletionKind::kReceive);
  EXPECT_EQ(raw.reply().status, ReplyStatus::kCorrupt);
  EXPECT_EQ(Get("key"), "before");
  raw.WritePayload("keyvalue");  // the connection goes on
}

TEST_P(RemoteBehaviour, SizesAndOffsetsOutOfBoundsAreAnsweredAsInvalid) {
  START();
  std::vector<Request> requests(6, RawClient::PutRequest("key", "value"));
  requests[0].key_size = 0;
  requests[1].key_size = kMaxKeySize + 1;
  requests[2].value_size = kMaxValueSize + 1;
  requests[3].payload_offset = kMaxPayloadSize + 4096;  // a staging buffer may be rounded up to a page
  requests[4].payload_offset = ~std::uint64_t{0} - 3;
  requests[5].operation = Operation::kDelete;  // with a value
  // A raw client posts one receive: one request a connection.
  for (const Request& request : requests) {
    RawClient one(*deployment_);
    ASSERT_EQ(one.Send(request), rdma::CompletionKind::kReceive);
    EXPECT_EQ(one.reply().status, ReplyStatus::kInvalid);
  }
  EXPECT_EQ(store().Read(Metric::kKeys), 0u);
  EXPECT_EQ(store().Read(Metric::kRejectedRequests), requests.size());
}

TEST_P(RemoteBehaviour, TimesToLiveOutOfBoundsAreAnsweredAsInvalid) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  std::vector<Request> requests(6, RawClient::PutRequest("key", "value"));
  requests[0].ttl_ms = -1;
  requests[1].ttl_ms = std::numeric_limits<std::int64_t>::min();
  requests[2].ttl_ms = kMaxTtl.count() + 1;
  requests[3].ttl_ms = kNeverExpires.count() - 1;
  requests[4].operation = Operation::kTouch;  // with a value
  requests[5].operation = Operation::kDelete;
  requests[5].value_size = 0;
  requests[5].ttl_ms = 1;
  for (const Request& request : requests) {
    RawClient one(*deployment_);
    ASSERT_EQ(one.Send(request), rdma::CompletionKind::kReceive);
    EXPECT_EQ(one.reply().status, ReplyStatus::kInvalid);
  }
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(RemoteBehaviour, ATimeToLiveIsCoveredByTheCommitsChecksum) {
  START();
  RawClient raw(*deployment_);
  raw.WritePayload("keyvalue");
  Request request = RawClient::PutRequest("key", "value");
  request.ttl_ms = 1000;
  ASSERT_EQ(raw.Send(request), rdma::CompletionKind::kReceive);
  EXPECT_EQ(raw.reply().status, ReplyStatus::kCorrupt);
  EXPECT_CODE(kNotFound, GetStatus("key"));
}

TEST_P(RemoteBehaviour, ConditionsOutOfBoundsAreAnsweredAsInvalid) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  for (const std::uint64_t condition : {kMaxVersion, kMaxVersion + 1, ~std::uint64_t{0} - 2}) {
    RawClient one(*deployment_);
    Request request = RawClient::PutRequest("key", "other");
    request.condition = condition;
    ASSERT_EQ(one.Send(request), rdma::CompletionKind::kReceive);
    EXPECT_EQ(one.reply().status, ReplyStatus::kInvalid);
  }
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(RemoteBehaviour, AConditionIsCoveredByTheCommitsChecksum) {
  START();
  RawClient raw(*deployment_);
  raw.WritePayload("keyvalue");
  Request request = RawClient::PutRequest("key", "value");
  request.condition = Condition::Absent().Encode();
  ASSERT_EQ(raw.Send(request), rdma::CompletionKind::kReceive);
  EXPECT_EQ(raw.reply().status, ReplyStatus::kCorrupt);
  EXPECT_CODE(kNotFound, GetStatus("key"));
}

TEST_P(RemoteBehaviour, AnIncrementHas64Bits) {
  START();
  ASSERT_CODE(kOk, Put("key", "7"));
  for (const std::string_view delta : {"", "1234567", "123456789"}) {
    RawClient one(*deployment_);
    one.WritePayload("key" + std::string(delta));
    Request request = RawClient::PutRequest("key", delta);
    request.operation = Operation::kIncrement;
    request.payload_checksum =
        PayloadChecksum(request, HashKey("key"), HashValue(delta.data(), delta.size()));
    ASSERT_EQ(one.Send(request), rdma::CompletionKind::kReceive);
    EXPECT_EQ(one.reply().status, ReplyStatus::kInvalid);
  }
  EXPECT_EQ(Get("key"), "7");
}

TEST_P(RemoteBehaviour, IncrementsAndAppendsAreVerified) {
  START();
  ASSERT_CODE(kOk, Put("key", "7"));
  for (const Operation operation : {Operation::kIncrement, Operation::kAppend}) {
    RawClient one(*deployment_);
    one.WritePayload("key12345678");
    Request request = RawClient::PutRequest("key", "12345679");
    request.operation = operation;
    request.payload_checksum = PayloadChecksum(request, HashKey("key"), HashValue("12345679", 8));
    ASSERT_EQ(one.Send(request), rdma::CompletionKind::kReceive);
    EXPECT_EQ(one.reply().status, ReplyStatus::kCorrupt);
  }
  EXPECT_EQ(Get("key"), "7");
}

TEST_P(RemoteBehaviour, EveryReplySaysTheServersTime) {
  START();
  RawClient raw(*deployment_);
  raw.WritePayload("keyvalue");
  const std::int64_t before = store().clock().UnixMillis();
  ASSERT_EQ(raw.Send(RawClient::PutRequest("key", "value")), rdma::CompletionKind::kReceive);
  EXPECT_GE(raw.reply().server_ms, before);
  EXPECT_LE(raw.reply().server_ms, store().clock().UnixMillis());
}

TEST_P(RemoteBehaviour, AMalformedRequestEndsOnlyItsOwnConnection) {
  START();
  {
    RawClient raw(*deployment_);
    EXPECT_EQ(raw.Send(Request(), /*size=*/7), rdma::CompletionKind::kDisconnected);
  }
  {
    RawClient raw(*deployment_);
    Request request;
    request.operation = static_cast<Operation>(99);
    EXPECT_EQ(raw.Send(request), rdma::CompletionKind::kDisconnected);
  }
  EXPECT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(Get("key"), "value");
  while (store().Read(Metric::kConnections) != 1) ASSERT_CODE(kOk, kv_->client()->Ping());
}

}  // namespace
}  // namespace remora
