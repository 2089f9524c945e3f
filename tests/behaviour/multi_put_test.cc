// What MultiPut does.
#include <string>
#include <string_view>
#include <vector>

#include "store/format/layout.h"
#include "tests/behaviour/behaviour_fixture.h"
#include "tests/sim/sim_served.h"
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
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
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
  // Again into the same results: what was said before is not in the way.
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

// More than there are credits for, more than the slice holds, and a large one in the middle; in their order.
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

TEST_P(MultiPut, OfMoreThanThereIsRoomFor) {
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

// What was answered before the connection broke is known.
TEST_F(MultiPutEnd, RepliesThatAnswerNothingBreakTheConnection) {
  auto client = Client::Connect(std::make_unique<TamperedConnection>(network_.Dial(), tampering_), {},
                                network_.clock());
  ASSERT_TRUE(client.ok()) << client.status();
  int replies = 0;
  tampering_.change_reply = [&](Reply& reply) {
    if (++replies == 5) reply.request_id += 1000;
  };
  const std::vector<PutRequest> requests(10, {"key", "value"});
  std::vector<PutResult> results(10);
  EXPECT_CODE(kUnavailable, (*client)->MultiPut(requests, results));
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(results[i].status.ok(), i < 4) << i;
  EXPECT_CODE(kUnavailable, (*client)->Put("key", "value"));
}

TEST_F(MultiPutEnd, AServerThatHangs) {
  const std::unique_ptr<Client> client = Connect({.timeout = std::chrono::milliseconds(50)});
  network_.set_step([] {});
  const std::vector<PutRequest> requests(40, {"key", "value"});
  std::vector<PutResult> results(40);
  EXPECT_CODE(kDeadlineExceeded, client->MultiPut(requests, results));
  for (const PutResult& result : results) EXPECT_CODE(kDeadlineExceeded, result.status);
}

}  // namespace
}  // namespace remora
