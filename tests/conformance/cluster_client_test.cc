// A client of several servers: each call reaches the shard of its key, and a shard that is down concerns no
// other one.
#include "client/cluster/cluster_client.h"

#include <unistd.h>

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/cluster_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(On, Clusters,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

TEST_P(Clusters, EachKeyIsWithItsShardAlone) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  std::vector<std::uint64_t> keys_of_shard(3);
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_CODE(kOk, kv_->Put(key, "value of " + key));
    ++keys_of_shard[kv_->topology().ShardOf(key)];
  }
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key" + std::to_string(i);
    EXPECT_EQ(kv_->Get(key).value_or("none"), "value of " + key);
    for (std::size_t shard = 0; shard < 3; ++shard) {
      const absl::StatusOr<bool> exists = (*kv_->shard(shard))->Exists(key);
      ASSERT_CODE(kOk, exists.status());
      EXPECT_EQ(*exists, shard == kv_->topology().ShardOf(key)) << key;
    }
  }
  for (std::size_t shard = 0; shard < 3; ++shard) {
    EXPECT_GT(keys_of_shard[shard], 0u);
    EXPECT_EQ((*kv_->shard(shard))->Count().value_or(0), keys_of_shard[shard]);
  }
  EXPECT_EQ(kv_->Count().value_or(0), 300u);
}

TEST_P(Clusters, CallsOfOneKeyDoWhatClientsDo) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  for (std::size_t shard = 0; shard < 3; ++shard) {
    const std::string key = KeyOf(shard);
    EXPECT_CODE(kNotFound, kv_->Get(key).status());
    EXPECT_EQ(kv_->Exists(key).value_or(true), false);
    EXPECT_CODE(kNotFound, kv_->Delete(key));
    std::uint64_t version = 0;
    ASSERT_CODE(kOk, kv_->Put(key, "1", {.condition = Condition::Absent(), .version = &version}));
    EXPECT_CODE(kAlreadyExists, kv_->Put(key, "2", {.condition = Condition::Absent()}));
    EXPECT_EQ(kv_->Increment(key, 41).value_or(0), 42);
    EXPECT_CODE(kFailedPrecondition, kv_->Put(key, "2", {.condition = Condition::Version(version)}));
    EXPECT_EQ(kv_->Append(key, "!").value_or(0), 3u);
    std::string value;
    std::uint64_t read_version = 0;
    ASSERT_CODE(kOk, kv_->Get(key, &value, &read_version));
    EXPECT_EQ(value, "42!");
    EXPECT_GT(read_version, version);
    std::string shown;
    std::uint64_t shown_version = 0;
    const auto show = [&](std::string_view bytes) { shown = bytes; };
    ASSERT_CODE(kOk, kv_->Visit(key, show, &shown_version));
    EXPECT_EQ(shown, "42!");
    EXPECT_EQ(shown_version, read_version);
    EXPECT_EQ(kv_->Ttl(key).value_or(milliseconds(1)), std::nullopt);
    ASSERT_CODE(kOk, kv_->Touch(key, std::chrono::hours(1)));
    EXPECT_TRUE(kv_->Ttl(key).value_or(std::nullopt).has_value());
    ASSERT_CODE(kOk, kv_->Persist(key));
    EXPECT_EQ(kv_->Exists(key).value_or(false), true);
    ASSERT_CODE(kOk, kv_->Delete(key, {.condition = Condition::Present()}));
    EXPECT_CODE(kNotFound, kv_->Get(key).status());
    EXPECT_CODE(kNotFound, kv_->Visit(key, show));
  }
  EXPECT_CODE(kInvalidArgument, kv_->Get("").status());
  EXPECT_CODE(kInvalidArgument, kv_->Visit("", [](std::string_view) {}));
  EXPECT_CODE(kInvalidArgument, kv_->Put(std::string(5000, 'k'), "value"));
}

TEST_P(Clusters, MultiPutAndMultiGetKeepTheCallersOrder) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  std::vector<std::string> keys, values;
  for (int i = 0; i < 500; ++i) {
    keys.push_back("key" + std::to_string(i));
    values.push_back("value" + std::to_string(i) + std::string(static_cast<std::size_t>(i), '.'));
  }
  std::vector<PutRequest> requests;
  for (std::size_t i = 0; i < keys.size(); ++i) requests.push_back({keys[i], values[i], {}});
  std::uint64_t version = 0;
  requests[7].options.version = &version;
  requests[8].key = "";                                // a fault of its own
  requests.push_back({keys[0], "the later one", {}});  // of the same key
  std::vector<PutResult> puts(requests.size());
  ASSERT_CODE(kOk, kv_->MultiPut(requests, puts));
  for (std::size_t i = 0; i < puts.size(); ++i) {
    EXPECT_EQ(puts[i].status.code(), i == 8 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk)
        << i;
  }
  EXPECT_EQ(version, puts[7].version);
  values[0] = "the later one";

  std::vector<std::string_view> wanted(keys.begin(), keys.end());
  wanted.emplace_back("missing");
  wanted.emplace_back("");
  std::vector<GetResult> gets(wanted.size());
  for (int round = 0; round < 3; ++round) {
    ASSERT_CODE(kOk, kv_->MultiGet(wanted, gets));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i == 8) {
        EXPECT_CODE(kNotFound, gets[i].status);
        continue;
      }
      ASSERT_CODE(kOk, gets[i].status) << i;
      EXPECT_EQ(gets[i].value, values[i]) << i;
      EXPECT_EQ(gets[i].version, puts[i == 0 ? keys.size() : i].version) << i;
    }
    EXPECT_CODE(kNotFound, gets[keys.size()].status);
    EXPECT_CODE(kInvalidArgument, gets[keys.size() + 1].status);
  }
  EXPECT_CODE(kInvalidArgument, kv_->MultiGet(wanted, std::span(gets).first(3)));
  EXPECT_CODE(kInvalidArgument, kv_->MultiPut(requests, std::span(puts).first(3)));
  EXPECT_CODE(kOk, kv_->MultiGet({}, {}));
}

TEST_P(Clusters, MultiGetForgetsEarlierResults) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("key" + std::to_string(i));
  keys.push_back("{tag}:of a key");
  std::vector<std::string_view> wanted(keys.begin(), keys.end());
  std::vector<GetResult> results(keys.size());
  for (GetResult& result : results) result.value = "earlier";
  ASSERT_CODE(kOk, kv_->MultiGet(wanted, results));
  for (const GetResult& result : results) EXPECT_CODE(kNotFound, result.status);
  for (const std::string& key : keys) ASSERT_CODE(kOk, kv_->Put(key, "value of " + key));
  ASSERT_CODE(kOk, kv_->MultiGet(wanted, results));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_CODE(kOk, results[i].status) << keys[i];
    EXPECT_EQ(results[i].value, "value of " + keys[i]);
  }
}

TEST_P(Clusters, CallsWithKeysOfOneShardAreThatShards) {
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  StopServer(1);
  kv_ = NewClient();
  ASSERT_NE(kv_, nullptr);
  for (const std::size_t shard : {0u, 1u}) {
    const std::string first = KeyOf(shard), second = KeyOf(shard, "other");
    const PutRequest requests[] = {{first, "1", {}}, {second, "2", {}}, {second, "3", {}}};
    PutResult puts[3];
    const std::string_view keys[] = {second, first};
    GetResult gets[2];
    const absl::StatusCode code = shard == 0 ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable;
    EXPECT_EQ(kv_->MultiPut(requests, puts).code(), code);
    EXPECT_EQ(kv_->MultiGet(keys, gets).code(), code);
    EXPECT_EQ(puts[2].status.code(), code);
    EXPECT_EQ(gets[1].status.code(), code);
    if (shard == 0) {
      EXPECT_EQ(gets[0].value + gets[1].value, "31");
    } else {
      EXPECT_THAT(TextOf(gets[1].status), HasSubstr(NameOfShard(1)));
      EXPECT_THAT(TextOf(puts[1].status), HasSubstr(NameOfShard(1)));
    }
  }
}

TEST_P(Clusters, ABatchStaysInOneSlot) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  WriteBatch batch;
  batch.Put("user:{42}:name", "Ada");
  batch.Put("user:{42}:mail", "ada@example.org");
  std::uint64_t version = 0;
  ASSERT_CODE(kOk, kv_->Apply(batch, &version));
  EXPECT_GT(version, 0u);
  EXPECT_EQ(kv_->Get("user:{42}:mail").value_or(""), "ada@example.org");
  // Even if both slots are in one shard: they may not stay there.
  const std::string first = KeyOf(0), second = KeyOf(0, "other");
  batch.Clear();
  batch.Put(first, "1");
  batch.Delete(second);
  const absl::Status rejected = kv_->Apply(batch);
  EXPECT_CODE(kInvalidArgument, rejected);
  EXPECT_THAT(TextOf(rejected), HasSubstr("'" + first + "' and '" + second + "' have different slots"));
  EXPECT_THAT(TextOf(rejected), HasSubstr("{tag}"));
  EXPECT_CODE(kNotFound, kv_->Get(first).status());
  EXPECT_CODE(kOk, kv_->Apply(WriteBatch()));
}

TEST_P(Clusters, CountsAndDeletionsAreSums) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  for (int i = 0; i < 200; ++i) {
    ASSERT_CODE(kOk, kv_->Put((i < 150 ? "a" : "b") + std::to_string(i), "value"));
  }
  EXPECT_EQ(kv_->Count().value_or(0), 200u);
  EXPECT_EQ(kv_->Count({.prefix = "a"}).value_or(0), 150u);
  EXPECT_EQ(kv_->DeleteRange({.prefix = "a"}).value_or(0), 150u);
  EXPECT_CODE(kInvalidArgument, kv_->DeleteRange({}).status());
  EXPECT_EQ(kv_->DeleteAll().value_or(0), 50u);
  EXPECT_EQ(kv_->Count().value_or(1), 0u);
}

TEST_P(Clusters, CountersAndMetricsAreSums) {
  ASSERT_NO_FATAL_FAILURE(StartServers(3));
  kv_ = NewClient({.metrics = true});
  ASSERT_NE(kv_, nullptr);
  for (std::size_t shard = 0; shard < 3; ++shard) ASSERT_CODE(kOk, kv_->Put(KeyOf(shard), "value"));
  EXPECT_GE(kv_->counters().requests, 3u);
  EXPECT_EQ(kv_->metrics()[ClientMetric::kValueBytesWritten], 15u);
}

// --- Servers that are down, or others -------------------------------------------------------------------

/// Returns the status of `call`, which is repeated for a minute as long as its server cannot be reached.
template <typename Call>
absl::Status Patiently(const Call& call) {
  for (int i = 0;; ++i) {
    const absl::Status status = call();
    if (i == 6000 || !(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))) return status;
    std::this_thread::sleep_for(milliseconds(10));
  }
}

/// Returns the status of `call`, which is repeated while a server that is well does not answer in time.
template <typename Call>
absl::Status InTime(const Call& call) {
  absl::Status status = call();
  for (int i = 0; i < 100 && absl::IsDeadlineExceeded(status); ++i) status = call();
  return status;
}

/// One key of each shard, and calls with all of them.
class KeyOfEachShard {
 public:
  explicit KeyOfEachShard(std::vector<std::string> keys) : keys_(std::move(keys)) {}
  const std::string& operator[](std::size_t shard) const { return keys_[shard]; }

  absl::Status MultiGet(ClusterClient& kv) {
    const std::vector<std::string_view> wanted(keys_.begin(), keys_.end());
    gets.resize(keys_.size());
    return kv.MultiGet(wanted, gets);
  }
  absl::Status MultiPut(ClusterClient& kv) {
    std::vector<PutRequest> requests;
    for (const std::string& key : keys_) requests.push_back({key, "value", {}});
    puts.resize(keys_.size());
    return kv.MultiPut(requests, puts);
  }

  std::vector<GetResult> gets;
  std::vector<PutResult> puts;

 private:
  std::vector<std::string> keys_;
};

TEST_P(Clusters, AShardThatIsDownConcernsItsKeysAlone) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  KeyOfEachShard keys({KeyOf(0), KeyOf(1), KeyOf(2)});
  ASSERT_CODE(kOk, keys.MultiPut(*kv_));
  kv_ = NewClient({.timeout = milliseconds(200)});
  ASSERT_NE(kv_, nullptr);
  ASSERT_CODE(kOk, Patiently([&] { return keys.MultiPut(*kv_); }));
  ASSERT_CODE(kOk, Patiently([&] { return keys.MultiGet(*kv_); }));
  StopServer(1);

  for (const absl::Status& status :
       {kv_->Get(keys[1]).status(), kv_->Put(keys[1], "value"), kv_->shard(1).value()->Ping(),
        InTime([&] { return keys.MultiGet(*kv_); }), InTime([&] { return keys.MultiPut(*kv_); })}) {
    EXPECT_CODE(kUnavailable, status);
  }
  const std::string name = NameOfShard(1) + addresses_[1].ToString() + ")";
  EXPECT_THAT(TextOf(kv_->Get(keys[1]).status()), HasSubstr(name));
  EXPECT_CODE(kUnavailable, InTime([&] { return kv_->Count().status(); }));
  for (const std::size_t shard : {0u, 2u}) {
    EXPECT_CODE(kOk, Patiently([&] { return kv_->Put(keys[shard], "value"); }));
    EXPECT_CODE(kOk, Patiently([&] { return kv_->Get(keys[shard]).status(); }));
    EXPECT_CODE(kOk, Patiently([&] {
                  EXPECT_CODE(kUnavailable, InTime([&] { return keys.MultiGet(*kv_); }));
                  return keys.gets[shard].status;
                }));
    EXPECT_EQ(keys.gets[shard].value, "value");
    EXPECT_CODE(kOk, Patiently([&] {
                  EXPECT_CODE(kUnavailable, InTime([&] { return keys.MultiPut(*kv_); }));
                  return keys.puts[shard].status;
                }));
    EXPECT_CODE(kUnavailable, keys.gets[1].status);
    EXPECT_CODE(kUnavailable, keys.puts[1].status);
    EXPECT_THAT(TextOf(keys.gets[1].status), HasSubstr(name));
    EXPECT_THAT(TextOf(keys.puts[1].status), HasSubstr(name));
  }

  ASSERT_NO_FATAL_FAILURE(StartServer(1));
  EXPECT_CODE(kOk, Patiently([&] { return kv_->Get(keys[1]).status(); }));
  EXPECT_CODE(kOk, Patiently([&] { return keys.MultiPut(*kv_); }));
  EXPECT_CODE(kOk, Patiently([&] { return keys.MultiGet(*kv_); }));
}

TEST_P(Clusters, ADeletionGoesOnWithoutAShardThatIsDown) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(3));
  for (std::size_t shard = 0; shard < 3; ++shard) ASSERT_CODE(kOk, kv_->Put(KeyOf(shard), "value"));
  StopServer(1);
  const absl::Status dropped = kv_->DeleteAll().status();
  EXPECT_CODE(kUnavailable, dropped);
  EXPECT_THAT(TextOf(dropped), HasSubstr(NameOfShard(1)));
  EXPECT_THAT(TextOf(dropped), HasSubstr("the other shards deleted 2 keys"));
}

TEST_P(Clusters, ConnectsWithoutAShardThatIsDown) {
  ASSERT_NO_FATAL_FAILURE(StartServers(3));
  StopServer(2);
  kv_ = NewClient();
  ASSERT_NE(kv_, nullptr);
  ASSERT_CODE(kOk, kv_->Put(KeyOf(0), "value"));
  EXPECT_CODE(kUnavailable, kv_->Put(KeyOf(2), "value"));
  EXPECT_CODE(kInvalidArgument, kv_->Get("").status());
  EXPECT_CODE(kUnavailable, kv_->shard(2).status());
  KeyOfEachShard keys({KeyOf(0), KeyOf(1), KeyOf(2)});
  EXPECT_CODE(kUnavailable, keys.MultiPut(*kv_));
  EXPECT_CODE(kOk, keys.puts[0].status);
  EXPECT_CODE(kOk, keys.puts[1].status);
  EXPECT_CODE(kUnavailable, keys.puts[2].status);
  EXPECT_THAT(TextOf(keys.puts[2].status), HasSubstr(NameOfShard(2)));
  ASSERT_NO_FATAL_FAILURE(StartServer(2));
  EXPECT_CODE(kOk, kv_->Put(KeyOf(2), "value"));
  EXPECT_CODE(kOk, keys.MultiPut(*kv_));
}

TEST_P(Clusters, WithoutAnyServerThereIsNoClient) {
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  StopServer(0);
  StopServer(1);
  const auto client = ClusterClient::Connect(TopologyOfServers(), {}, clock_);
  EXPECT_CODE(kUnavailable, client.status());
  EXPECT_THAT(TextOf(client.status()), HasSubstr(NameOfShard(0)));
}

TEST_P(Clusters, TwoShardsWithOneServerAreNoticed) {
  cluster_ = 0;
  ASSERT_NO_FATAL_FAILURE(StartServers(1));
  // The same server, by two names.
  std::vector<std::string> texts = {addresses_[0].ToString(), addresses_[0].ToString()};
  if (GetParam() == rdma::TransportKind::kLocal) {
    const std::string link = directory_.path() + "/link";
    ASSERT_EQ(::symlink(directory_.path().c_str(), link.c_str()), 0);
    texts[1] = "local://" + link + addresses_[0].path.substr(directory_.path().size());
  } else {
    texts[1] = "tcp://localhost:" + std::to_string(addresses_[0].port);
    ASSERT_NE(texts[1], texts[0]);
  }
  const absl::StatusOr<Topology> topology = Topology::Even(texts);
  ASSERT_TRUE(topology.ok()) << topology.status();
  const auto client = ClusterClient::Connect(*topology, {}, clock_);
  EXPECT_CODE(kFailedPrecondition, client.status());
  EXPECT_THAT(TextOf(client.status()), HasSubstr("the server there is that of shard 0"));
}

TEST_P(Clusters, AShardIsStoppedAndStartedUnderLoad) {
  ASSERT_NO_FATAL_FAILURE(StartServers(3));
  const Topology topology = TopologyOfServers();
  constexpr int kThreads = 3;  // one for each shard
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> done[kThreads] = {};
  std::vector<std::map<std::string, std::string>> acknowledged(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t shard = 0; shard < kThreads; ++shard) {
    threads.emplace_back([&, shard] {
      auto client =
          ClusterClient::Connect(topology, {.timeout = milliseconds(shard == 1 ? 50 : 60'000)}, clock_);
      ASSERT_TRUE(client.ok()) << client.status();
      const std::string key = KeyOf(topology, shard);
      for (std::uint64_t i = 0; !stop; ++i) {
        const std::string value = std::to_string(i);
        const absl::Status put = (*client)->Put(key, value);
        const std::string found = (*client)->Get(key).value_or("");
        if (shard != 1) {
          ASSERT_CODE(kOk, put);
          ASSERT_EQ(found, value);
        }
        if (!put.ok()) continue;
        acknowledged[shard][key] = value;
        ++done[shard];
      }
    });
  }
  const auto await_progress = [&](std::size_t shard) {
    const std::uint64_t before = done[shard];
    for (int i = 0; i < 60'000 && done[shard] < before + 20; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_GE(done[shard], before + 20) << shard;
  };
  for (int round = 0; round < 5; ++round) {
    for (std::size_t shard = 0; shard < kThreads; ++shard) await_progress(shard);
    StopServer(1);
    for (const std::size_t shard : {0u, 2u}) await_progress(shard);
    StartServer(1);
  }
  await_progress(1);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  kv_ = NewClient();
  ASSERT_NE(kv_, nullptr);
  // An unanswered put may have been done before the last one that was acknowledged, not behind it.
  for (const auto& values : acknowledged) {
    for (const auto& [key, value] : values) {
      EXPECT_GE(std::stoull(kv_->Get(key).value_or("0")), std::stoull(value));
    }
  }
}

}  // namespace
}  // namespace remora
