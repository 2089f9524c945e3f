// MultiPut.
#include "store/format/wire/multi_put.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/format/memory/layout.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/hand_client.h"
#include "tests/support/self_describing.h"
#include "tests/support/tampered_connection.h"

namespace remora {
namespace {

class MultiPut : public Behaviour {
 protected:
  static std::string KeyOf(std::size_t i) { return "key " + std::to_string(i); }

  absl::Status PutAll(const std::vector<PutRequest>& requests) {
    results_.resize(requests.size());
    return kv_->client()->MultiPut(requests, results_);
  }
  std::vector<PutResult> results_;  // used again
};
INSTANTIATE_TEST_SUITE_P(On, MultiPut,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(MultiPut, SaysOfEachWriteWhatAPutWould) {
  START();
  ASSERT_CODE(kOk, Put("there", "1"));
  std::uint64_t version = 0;
  PutOptions absent;
  absent.condition = Condition::Absent();
  PutOptions noted;
  noted.version = &version;
  const std::string long_key(kMaxKeySize + 1, 'k');
  ASSERT_CODE(kOk,
              PutAll({{"a", "1"}, {"", "2"}, {"there", "3", absent}, {long_key, "4"}, {"b", "", noted}}));
  EXPECT_CODE(kOk, results_[0].status);
  EXPECT_CODE(kInvalidArgument, results_[1].status);
  EXPECT_CODE(kAlreadyExists, results_[2].status);
  EXPECT_CODE(kInvalidArgument, results_[3].status);
  EXPECT_CODE(kOk, results_[4].status);
  EXPECT_EQ(results_[4].version, version);
  EXPECT_EQ(results_[4].version, results_[0].version + 1);
  EXPECT_EQ(Get("a") + Get("there") + Get("b"), "11");
  // Again into the same results: the earlier ones are not in the way.
  ASSERT_CODE(kOk, PutAll({{"a", "5"}, {"c", "6"}, {"d", "7"}, {"e", "8"}, {"f", "9"}}));
  for (const PutResult& result : results_) EXPECT_CODE(kOk, result.status);
}

TEST_P(MultiPut, OfNothingAndOfUnequalNumbers) {
  START();
  EXPECT_CODE(kOk, PutAll({}));
  const std::vector<PutRequest> requests(2);
  std::vector<PutResult> results(1);
  EXPECT_CODE(kInvalidArgument, kv_->client()->MultiPut(requests, results));
}

// More than there are credits for, more than the staging buffer holds, and a large one in the middle; in
// their order.
TEST_P(MultiPut, OfManySizesInOrder) {
  START({.memory_size = std::size_t{64} << 20});
  std::vector<std::string> keys, values;
  for (std::size_t i = 0; i < 150; ++i) {
    keys.push_back(KeyOf(i % 50));
    const std::size_t size = i == 75 ? 700'000 : i % 9 == 0 ? kMaxSmallValueSize - i : i * 97;
    values.push_back(MakeValue(keys.back(), i, size));
  }
  std::vector<PutRequest> requests;
  for (std::size_t i = 0; i < keys.size(); ++i) requests.push_back({keys[i], values[i]});
  for (int round = 0; round < 2; ++round) {
    ASSERT_CODE(kOk, PutAll(requests));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_CODE(kOk, results_[i].status);
      if (i > 0) {
        EXPECT_EQ(results_[i].version, results_[i - 1].version + 1) << i;
      }
      if (i >= 100) {
        EXPECT_TRUE(Get(keys[i]) == values[i]) << i;
      }
    }
  }
}

// Small ones share messages, as far as they are alike; and the server keeps what each says of itself.
TEST_P(MultiPut, SmallOnesShareMessages) {
  START({.durability = Durability::kLogged});
  const auto requests_for = [this](const std::vector<PutRequest>& puts) {
    const std::uint64_t before = kv_->client()->counters().requests;
    EXPECT_CODE(kOk, PutAll(puts));
    for (const PutResult& result : results_) EXPECT_CODE(kOk, result.status);
    return kv_->client()->counters().requests - before;
  };
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 40; ++i) keys.push_back(KeyOf(i));
  std::vector<PutRequest> puts;
  for (const std::string& key : keys) puts.push_back({key, key});
  EXPECT_EQ(requests_for(puts), 3u);
  for (const std::string& key : keys) EXPECT_EQ(Get(key), key);
  EXPECT_EQ(requests_for({{"a", "1"}}), 1u);

  const std::string half(kMaxMultiPutBytes / 2, 'h');
  EXPECT_EQ(requests_for({{"a", half}, {"b", "1"}, {"c", half}, {"d", "2"}}), 2u);
  EXPECT_EQ(Get("b") + Get("d"), "12");

  PutOptions present, synced, brief;
  present.condition = Condition::Present();
  synced.durability = Durability::kSynced;
  brief.ttl = std::chrono::hours(1);
  EXPECT_EQ(requests_for({{"a", "1"}, {"b", "2", brief}, {"c", "3", present}, {"d", "4"}, {"e", "5"}}), 3u);
  EXPECT_EQ(requests_for({{"a", "6"}, {"b", "7", brief}, {"c", "8", synced}, {"d", "9", synced}}), 2u);
  EXPECT_EQ(Get("a") + Get("b") + Get("c") + Get("d") + Get("e"), "67895");
  EXPECT_EQ(kv_->Ttl("a").value(), std::nullopt);
  EXPECT_GT(kv_->Ttl("b").value(), std::chrono::minutes(59));
}

// Each waits for the disk; those of a list whose keys were synced just before, though they need not be.
TEST_P(MultiPut, ThatTheDiskIsToHave) {
  START({.durability = Durability::kLogged, .memory_size = std::size_t{32} << 20});
  PutOptions synced;
  synced.durability = Durability::kSynced;
  std::vector<std::string> keys, values;
  for (std::size_t i = 0; i < 100; ++i) {
    keys.push_back(KeyOf(i % 10));
    values.push_back(std::to_string(i));
  }
  std::vector<PutRequest> puts;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    puts.push_back({keys[i], values[i], i / 20 % 2 == 0 ? synced : PutOptions()});
  }
  const std::uint64_t before = store().Read(Metric::kSyncedWrites);
  ASSERT_CODE(kOk, PutAll(puts));
  for (std::size_t i = 0; i < puts.size(); ++i) {
    ASSERT_CODE(kOk, results_[i].status);
    if (i > 0) {
      EXPECT_EQ(results_[i].version, results_[i - 1].version + 1) << i;
    }
  }
  EXPECT_GE(store().Read(Metric::kSyncedWrites) - before, 60u);
  for (std::size_t i = 90; i < keys.size(); ++i) EXPECT_EQ(Get(keys[i]), values[i]);
}

// Again and again what was overwritten has to be retired for long enough before there is space for more, in
// the middle of a list, too.
TEST_P(MultiPut, WaitsForSpaceInTheMiddle) {
  START({.memory_size = kMinMemorySize});
  auto other = Connect();
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 160; ++i) keys.push_back(KeyOf(i % 7));
  const std::string value(900, 'v');
  std::vector<PutRequest> requests;
  for (const std::string& key : keys) requests.push_back({key, value});
  const auto put_off = [this] { return store().Read(Metric::kWritesPutOff); };
  std::uint64_t last = 0;
  const int least = slow() ? 300 : 1000;
  for (int round = 0; round < least || (put_off() < 2 && round < 100 * least); ++round) {
    ASSERT_CODE(kOk, PutAll(requests));
    for (const PutResult& result : results_) {
      ASSERT_CODE(kOk, result.status);
      ASSERT_EQ(result.version, last == 0 ? result.version : last + 1);
      last = result.version;
    }
  }
  EXPECT_GE(put_off(), 2u);
  EXPECT_EQ(store().Read(Metric::kPuts), 0u + store().Read(Metric::kLastVersion));
}

TEST_P(MultiPut, OfMoreThanThereIsSpaceFor) {
  START({.memory_size = kMinMemorySize});
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 300; ++i) keys.push_back(KeyOf(i));
  const std::string value(100'000, 'v');
  std::vector<PutRequest> requests;
  for (const std::string& key : keys) requests.push_back({key, value});
  ASSERT_CODE(kOk, PutAll(requests));
  EXPECT_CODE(kOk, results_.front().status);
  EXPECT_CODE(kResourceExhausted, results_.back().status);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(Get(keys[i]) == value, results_[i].status.ok()) << i;
  }
}

TEST_P(MultiPut, OfMoreSmallOnesThanThereIsSpaceFor) {
  START({.memory_size = kMinMemorySize});
  const std::size_t count = kMinMemorySize / 512;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(KeyOf(i));
  const std::string value(900, 'v');
  std::vector<PutRequest> requests;
  for (const std::string& key : keys) requests.push_back({key, value});
  ASSERT_CODE(kOk, PutAll(requests));
  EXPECT_CODE(kOk, results_.front().status);
  std::size_t rejected = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 97 == 0 || rejected == 1) {
      EXPECT_EQ(Get(keys[i]) == value, results_[i].status.ok()) << i;
    }
    if (results_[i].status.ok()) continue;
    ++rejected;
    EXPECT_CODE(kResourceExhausted, results_[i].status);
    EXPECT_NE(results_[i].status.message().find("the memory is full"), absl::string_view::npos) << i;
  }
  EXPECT_GT(rejected, 0u);
  EXPECT_LT(rejected, count);
}

TEST_P(MultiPut, SaysThatTheServerIsGone) {
  START();
  deployment_->Stop();
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(PutAll({{"a", "1"}, {"", "2"}, {"b", "3"}}).ok());
    EXPECT_FALSE(results_[0].status.ok());
    EXPECT_CODE(kInvalidArgument, results_[1].status);
    EXPECT_FALSE(results_[2].status.ok());
  }
}

class MultiPutEnd : public testing::Test, protected SimServed {
 protected:
  MultiPutEnd() : SimServed(/*seed=*/1) {
    Serve({.store = {.memory_size = std::size_t{16} << 20, .clock = &network_.clock()}, .log = {}});
  }
  Tampering tampering_;
};

// Puts that were answered before the connection broke have their results.
TEST_F(MultiPutEnd, RepliesThatAnswerNothingBreakTheConnection) {
  auto client = Client::Connect(std::make_unique<TamperedConnection>(network_.Dial(), tampering_), {},
                                network_.clock());
  ASSERT_TRUE(client.ok()) << client.status();
  int replies = 0;
  tampering_.change_reply = [&](Reply& reply) {
    if (++replies == 5) reply.request_id += 1000;
  };
  const std::size_t count = 10 * kMaxPutsPerMessage;
  const std::vector<PutRequest> requests(count, {"key", "value"});
  std::vector<PutResult> results(count);
  EXPECT_CODE(kUnavailable, (*client)->MultiPut(requests, results));
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(results[i].status.ok(), i < 4 * kMaxPutsPerMessage) << i;
  EXPECT_CODE(kUnavailable, (*client)->Put("key", "value"));
}

TEST_F(MultiPutEnd, OutcomesThatAreTooFewBreakTheConnection) {
  auto client = Client::Connect(std::make_unique<TamperedConnection>(network_.Dial(), tampering_), {},
                                network_.clock());
  ASSERT_TRUE(client.ok()) << client.status();
  tampering_.change_reply = [](Reply& reply) { --reply.behind_size; };
  const std::vector<PutRequest> requests(3, {"key", "value"});
  std::vector<PutResult> results(3);
  EXPECT_CODE(kUnavailable, (*client)->MultiPut(requests, results));
  for (const PutResult& result : results) EXPECT_CODE(kUnavailable, result.status);
}

// The server's text is about the first that was not done, and stands for those that ended as that one did.
TEST_F(MultiPutEnd, SeveralReasonsInOneList) {
  auto client = Client::Connect(std::make_unique<TamperedConnection>(network_.Dial(), tampering_), {},
                                network_.clock());
  ASSERT_TRUE(client.ok()) << client.status();
  tampering_.change_behind = [](const Reply& reply, std::span<std::byte> behind) {
    std::string_view bytes(reinterpret_cast<const char*>(behind.data()), reply.behind_size);
    MultiPutOutcomes outcomes;
    ASSERT_TRUE(outcomes.Decode(5, &bytes));
    outcomes.Set(1, {ReplyStatus::kFull, 0, 0});
    outcomes.Set(2, {ReplyStatus::kDurableTier, 0, 0});
    outcomes.Set(3, {ReplyStatus::kFull, 0, 0});
    outcomes.Encode(reinterpret_cast<char*>(behind.data()));
  };
  const std::vector<PutRequest> requests(5, {"key", "value"});
  std::vector<PutResult> results(5);
  EXPECT_CODE(kOk, (*client)->MultiPut(requests, results));
  EXPECT_CODE(kOk, results[0].status);
  EXPECT_CODE(kResourceExhausted, results[1].status);
  EXPECT_CODE(kUnavailable, results[2].status);
  EXPECT_NE(results[2].status.message().find("another reason"), absl::string_view::npos);
  EXPECT_CODE(kResourceExhausted, results[3].status);
  EXPECT_EQ(results[3].status.message(), results[1].status.message());
  EXPECT_CODE(kOk, results[4].status);
  EXPECT_EQ(results[4].version, results[0].version + 4);
}

TEST_F(MultiPutEnd, AServerThatHangs) {
  const std::unique_ptr<Client> client = Connect({.timeout = std::chrono::milliseconds(50)});
  network_.set_step([] {});
  const std::vector<PutRequest> requests(40, {"key", "value"});
  std::vector<PutResult> results(40);
  EXPECT_CODE(kDeadlineExceeded, client->MultiPut(requests, results));
  for (const PutResult& result : results) EXPECT_CODE(kDeadlineExceeded, result.status);
}

// --- By hand --------------------------------------------------------------------------------------------

class MultiPutMessages : public Behaviour {
 protected:
  /// Returns the server's answer to these bytes.
  HandClient::Answer Send(std::string_view bytes, std::size_t count,
                          const std::function<void(Request*)>& change = nullptr) {
    auto connection = deployment_->Dial();
    EXPECT_TRUE(connection.ok());
    HandClient client(*std::move(connection), deployment_->clock());
    client.Write(client.hello().staging, 0, bytes);
    Request request = HandClient::MakeRequest(Operation::kMultiPut, 0, bytes.size());
    request.put_count = static_cast<std::uint8_t>(count);
    request.request_id = 1;
    request.payload_checksum = PayloadChecksum(request, HashKey({}), HashValue(bytes.data(), bytes.size()));
    if (change != nullptr) change(&request);
    const auto answer = client.Ask(request);
    EXPECT_TRUE(answer.has_value());
    return answer.value_or(HandClient::Answer());
  }
  static std::string Bytes(std::size_t count) {
    WriteBatch list;
    for (std::size_t i = 0; i < count; ++i) list.Put("key " + std::to_string(i), "value");
    return std::string(list.bytes());
  }
};
INSTANTIATE_TEST_SUITE_P(On, MultiPutMessages,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(MultiPutMessages, TheReplySaysWhatBecameOfEach) {
  START();
  WriteBatch list;
  list.Put("a", "1");
  list.Put("b", "2", {.condition = Condition::Present()});
  list.Put("c", "3");
  const HandClient::Answer answer = Send(list.bytes(), 3);
  ASSERT_EQ(answer.status(), ReplyStatus::kOk);
  MultiPutOutcomes outcomes;
  std::string_view behind = answer.behind;
  ASSERT_TRUE(outcomes.Decode(3, &behind));
  EXPECT_EQ(outcomes[0].status, ReplyStatus::kOk);
  EXPECT_EQ(outcomes[1].status, ReplyStatus::kNotFound);
  EXPECT_EQ(outcomes[2].status, ReplyStatus::kOk);
  EXPECT_EQ(outcomes[2].later, 1u);
  EXPECT_EQ(behind, "no such key");
  EXPECT_EQ(Get("a") + Get("c"), "13");
  EXPECT_CODE(kNotFound, GetStatus("b"));
}

// The server reads a list again where it goes on with it. It can answer the puts that it has done only as
// those of the list that was sent.
TEST_P(MultiPutMessages, AClientThatChangesOneInFlightIsDisconnected) {
  if (GetParam() == DeploymentKind::kSim) GTEST_SKIP() << "nothing is in flight there while nobody waits";
  START({.memory_size = kMinMemorySize, .grace = std::chrono::milliseconds(1500)});
  WriteBatch list;
  for (std::size_t i = 0; i < kMaxPutsPerMessage; ++i) list.Put("key", std::string(900, 'v'));
  const std::string_view bytes = list.bytes();
  const auto put_off = [this] { return store().Read(Metric::kWritesPutOff); };
  int ends = 0;
  for (int round = 0; round < 20 && ends == 0; ++round) {
    auto connection = deployment_->Dial();
    ASSERT_TRUE(connection.ok());
    HandClient client(*std::move(connection), deployment_->clock());
    client.Write(client.hello().staging, 0, bytes);
    for (bool done = true; done;) {
      Request request = HandClient::MakeRequest(Operation::kMultiPut, 0, bytes.size());
      request.put_count = kMaxPutsPerMessage;
      const std::uint64_t before = put_off();
      client.PostChecked(request, bytes);
      std::optional<HandClient::Answer> answer;
      while (put_off() == before && !answer) answer = client.Await(std::chrono::milliseconds(1));
      done = answer.has_value();
    }
    client.Write(client.hello().staging, 0, std::string(bytes.size(), 'x'));
    const auto answer = client.Await();
    if (!answer) ++ends;  // else it was put off as a whole, or went on just before
  }
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(Get("key"), std::string(900, 'v'));
}

TEST_P(MultiPutMessages, BytesThatAreNoneAreInvalid) {
  START();
  EXPECT_EQ(Send(Bytes(kMaxPutsPerMessage), kMaxPutsPerMessage).status(), ReplyStatus::kOk);
  const std::uint64_t done = store().Read(Metric::kPuts);
  EXPECT_EQ(Send(Bytes(kMaxPutsPerMessage + 1), kMaxPutsPerMessage + 1).status(), ReplyStatus::kInvalid);
  EXPECT_EQ(Send(Bytes(3), 0).status(), ReplyStatus::kInvalid);
  EXPECT_EQ(Send(Bytes(3), 2).status(), ReplyStatus::kInvalid);
  EXPECT_EQ(Send(Bytes(3), 4).status(), ReplyStatus::kInvalid);
  EXPECT_EQ(Send(Bytes(3).substr(1), 3).status(), ReplyStatus::kInvalid);
  WriteBatch with_delete;
  with_delete.Put("key 0", "value");
  with_delete.Delete("key 0");
  EXPECT_EQ(Send(with_delete.bytes(), 2).status(), ReplyStatus::kInvalid);
  WriteBatch large;
  large.Put("key 0", std::string(kMaxMultiPutBytes, 'x'));
  EXPECT_EQ(Send(large.bytes(), 1).status(), ReplyStatus::kInvalid);
  const auto with = [&](const std::function<void(Request*)>& change) {
    return Send(Bytes(3), 3, change).status();
  };
  EXPECT_EQ(with([](Request* request) { ++request->payload_checksum; }), ReplyStatus::kCorrupt);
  EXPECT_EQ(with([](Request* request) { request->ttl_ms = 1000; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](Request* request) { request->key_size = 1; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](Request* request) { request->put_ids = 2; }), ReplyStatus::kInvalid);
  EXPECT_EQ(with([](Request* request) { request->condition = Condition::Present().Encode(); }),
            ReplyStatus::kInvalid);
  EXPECT_EQ(store().Read(Metric::kPuts), done) << "nothing was done";
}

}  // namespace
}  // namespace remora
