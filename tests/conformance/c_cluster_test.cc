// remora_connect_cluster: the calls of remora.h on several servers.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/c/remora.h"
#include "tests/conformance/cluster_fixture.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CClusters : public Clusters {
 protected:
  ~CClusters() override { remora_close(client_); }

  std::string TopologyFile() const { return directory_.path() + "/topology"; }
  /// Writes a topology of the servers, with their addresses in this order.
  void WriteTopology(const std::vector<std::size_t>& servers) const {
    std::vector<std::string> texts;
    for (const std::size_t server : servers) texts.push_back(addresses_[server].ToString());
    const absl::StatusOr<Topology> topology = Topology::Even(texts, cluster_);
    ASSERT_TRUE(topology.ok()) << topology.status();
    std::ofstream(TopologyFile()) << topology->ToText();
  }
  remora_code Connect(const std::string& topology, remora_client** client) const {
    remora_options options;
    remora_options_init(&options);
    options.timeout_ms = 1000;  // no longer than a server that is gone is to be waited for
    options.connect_timeout_ms = 2000;
    return remora_connect_cluster(topology.c_str(), &options, client);
  }
  void StartTwo() {
    ASSERT_NO_FATAL_FAILURE(StartServers(2));
    ASSERT_NO_FATAL_FAILURE(WriteTopology({0, 1}));
    ASSERT_EQ(Connect(TopologyFile(), &client_), REMORA_OK) << remora_message();
    for (std::size_t shard = 0; shard < 2; ++shard) keys_.push_back(KeyOf(TopologyOfServers(), shard));
  }

  remora_code Put(const std::string& key, const std::string& value) const {
    return remora_put(client_, key.data(), key.size(), value.data(), value.size(), nullptr);
  }
  std::string Get(const std::string& key) const { return Get(client_, key); }
  static std::string Get(remora_client* client, const std::string& key) {
    const void* value = nullptr;
    size_t size = 0;
    const remora_code code = remora_get(client, key.data(), key.size(), &value, &size, nullptr);
    if (code != REMORA_OK) return remora_code_name(code);
    return {static_cast<const char*>(value), size};
  }
  static std::string Text(const remora_bytes& bytes) {
    return {static_cast<const char*>(bytes.data), bytes.size};
  }
  static remora_bytes Bytes(const std::string& text) { return {text.data(), text.size()}; }

  remora_client* client_ = nullptr;
  std::vector<std::string> keys_;  // one of each shard
};

INSTANTIATE_TEST_SUITE_P(On, CClusters,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(CClusters, CallsOfOneKeyReachItsShard) {
  ASSERT_NO_FATAL_FAILURE(StartTwo());
  for (std::size_t shard = 0; shard < 2; ++shard) {
    const std::string& key = keys_[shard];
    EXPECT_EQ(Get(key), "NOT_FOUND");
    ASSERT_EQ(Put(key, "12"), REMORA_OK) << remora_message();
    remora_client* server = nullptr;
    ASSERT_EQ(remora_connect(addresses_[shard].ToString().c_str(), nullptr, &server), REMORA_OK);
    EXPECT_EQ(Get(server, key), "12");
    remora_close(server);
    int exists = 0;
    EXPECT_EQ(remora_exists(client_, key.data(), key.size(), &exists), REMORA_OK);
    EXPECT_EQ(exists, 1);
    int64_t sum = 0;
    EXPECT_EQ(remora_increment(client_, key.data(), key.size(), 30, &sum, nullptr), REMORA_OK);
    EXPECT_EQ(sum, 42);
    size_t size = 0;
    EXPECT_EQ(remora_append(client_, key.data(), key.size(), "!", 1, &size, nullptr), REMORA_OK);
    EXPECT_EQ(size, 3u);
    EXPECT_EQ(remora_touch(client_, key.data(), key.size(), 3'600'000, nullptr), REMORA_OK);
    int64_t ttl_ms = 0;
    EXPECT_EQ(remora_ttl(client_, key.data(), key.size(), &ttl_ms), REMORA_OK);
    EXPECT_GT(ttl_ms, 0);
    char copy[3];
    EXPECT_EQ(remora_get_copy(client_, key.data(), key.size(), copy, sizeof(copy), &size, nullptr),
              REMORA_OK);
    EXPECT_EQ(std::string(copy, size), "42!");
    std::string shown;
    uint64_t version = 0;
    const auto show = [](void* context, const void* value, size_t value_size) {
      static_cast<std::string*>(context)->assign(static_cast<const char*>(value), value_size);
    };
    EXPECT_EQ(remora_visit(client_, key.data(), key.size(), show, &shown, &version), REMORA_OK);
    EXPECT_EQ(shown, "42!");
    EXPECT_GT(version, 0u);
    EXPECT_EQ(remora_delete(client_, key.data(), key.size(), nullptr), REMORA_OK);
    EXPECT_EQ(remora_visit(client_, key.data(), key.size(), show, &shown, &version), REMORA_NOT_FOUND);
  }
  EXPECT_EQ(Put("", "value"), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(Put(std::string(4097, 'k'), "value"), REMORA_INVALID_ARGUMENT);
}

TEST_P(CClusters, CallsOfManyKeysReachAllShards) {
  ASSERT_NO_FATAL_FAILURE(StartTwo());
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("many" + std::to_string(i));
  std::vector<remora_put_request> puts;
  std::vector<remora_bytes> wanted;
  for (const std::string& key : keys) {
    puts.push_back({Bytes(key), Bytes(key), nullptr});
    wanted.push_back(Bytes(key));
  }
  wanted.push_back({"none", 4});
  std::vector<remora_result> results(wanted.size());
  ASSERT_EQ(remora_multi_put(client_, puts.data(), results.data(), puts.size()), REMORA_OK)
      << remora_message();
  ASSERT_EQ(remora_multi_get(client_, wanted.data(), results.data(), wanted.size()), REMORA_OK);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(results[i].code, REMORA_OK) << results[i].message;
    EXPECT_EQ(Text(results[i].value), keys[i]);
  }
  EXPECT_EQ(results.back().code, REMORA_NOT_FOUND);

  uint64_t count = 0;
  EXPECT_EQ(remora_count(client_, nullptr, &count), REMORA_OK);
  EXPECT_EQ(count, 100u);
  remora_range range = {};
  range.prefix = {"many1", 5};
  EXPECT_EQ(remora_count(client_, &range, &count), REMORA_OK);
  EXPECT_EQ(count, 11u);
  EXPECT_EQ(remora_delete_range(client_, &range, &count), REMORA_OK);
  EXPECT_EQ(count, 11u);
  EXPECT_EQ(remora_delete_all(client_, &count), REMORA_OK);
  EXPECT_EQ(count, 89u);
}

TEST_P(CClusters, BatchesStayInOneSlot) {
  ASSERT_NO_FATAL_FAILURE(StartTwo());
  remora_batch* const batch = remora_batch_new();
  for (const std::string key : {"user:{42}:name", "user:{42}:mail"}) {
    ASSERT_EQ(remora_batch_put(batch, key.data(), key.size(), "x", 1, nullptr), REMORA_OK);
  }
  EXPECT_EQ(remora_apply(client_, batch, nullptr), REMORA_OK) << remora_message();
  EXPECT_EQ(Get("user:{42}:name") + Get("user:{42}:mail"), "xx");
  ASSERT_EQ(remora_batch_put(batch, "user:{43}:name", 14, "y", 1, nullptr), REMORA_OK);
  EXPECT_EQ(remora_apply(client_, batch, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_THAT(remora_message(), HasSubstr("give both the same {tag}"));
  EXPECT_EQ(Get("user:{43}:name"), "NOT_FOUND");
  remora_batch_free(batch);
}

TEST_P(CClusters, ScansMergeTheShards) {
  ASSERT_NO_FATAL_FAILURE(StartTwo());
  std::vector<std::string> keys;
  for (int i = 10; i < 60; ++i) keys.push_back("key" + std::to_string(i));
  for (const std::string& key : keys) ASSERT_EQ(Put(key, "of " + key), REMORA_OK);
  remora_scan_options options;
  remora_scan_options_init(&options);
  remora_scan* scan = nullptr;
  std::vector<std::string> shown;
  std::string token;
  remora_bytes key, value;
  for (options.limit = 20; shown.size() < keys.size(); options.resume_token = token.c_str()) {
    ASSERT_EQ(remora_scan_begin(client_, &options, &scan), REMORA_OK) << remora_message();
    uint64_t version = 0, expiry_ms = 1;
    while (remora_scan_next(scan, &key, &value, &version) == REMORA_OK) {
      shown.push_back(Text(key));
      EXPECT_EQ(Text(value), "of " + shown.back());
      EXPECT_GT(version, 0u);
      EXPECT_EQ(remora_scan_expiry(scan, &expiry_ms), REMORA_OK);
      EXPECT_EQ(expiry_ms, 0u);
    }
    const char* text = nullptr;
    ASSERT_EQ(remora_scan_resume_token(scan, &text), REMORA_OK);
    token = text;
    remora_scan_end(scan);
  }
  EXPECT_EQ(shown, keys);
  remora_scan_options_init(&options);
  options.range.prefix = {nullptr, 1};
  EXPECT_EQ(remora_scan_begin(client_, &options, &scan), REMORA_INVALID_ARGUMENT);
  remora_scan_options_init(&options);
  options.resume_token = "none";
  EXPECT_EQ(remora_scan_begin(client_, &options, &scan), REMORA_INVALID_ARGUMENT);
}

TEST_P(CClusters, ScansMayOutliveTheClient) {
  ASSERT_NO_FATAL_FAILURE(StartTwo());
  ASSERT_EQ(Put(keys_[0], "a"), REMORA_OK);
  ASSERT_EQ(Put(keys_[1], "b"), REMORA_OK);
  remora_scan *first = nullptr, *second = nullptr, *ended = nullptr;
  for (remora_scan** scan : {&first, &second, &ended}) {
    ASSERT_EQ(remora_scan_begin(client_, nullptr, scan), REMORA_OK) << remora_message();
  }
  remora_bytes key;
  ASSERT_EQ(remora_scan_next(first, &key, nullptr, nullptr), REMORA_OK);
  remora_scan_end(ended);
  remora_close(client_);
  client_ = nullptr;
  const char* token = nullptr;
  uint64_t expiry_ms = 0;
  for (remora_scan* scan : {first, second}) {
    EXPECT_EQ(remora_scan_next(scan, &key, nullptr, nullptr), REMORA_FAILED_PRECONDITION);
    EXPECT_THAT(remora_message(), HasSubstr("its client is closed"));
    EXPECT_EQ(remora_scan_resume_token(scan, &token), REMORA_FAILED_PRECONDITION);
    EXPECT_EQ(remora_scan_expiry(scan, &expiry_ms), REMORA_FAILED_PRECONDITION);
    remora_scan_end(scan);
  }
}

TEST_P(CClusters, WatchesShowTheChangesOfAllShards) {
  ASSERT_NO_FATAL_FAILURE(StartTwo());
  remora_watch* watch = nullptr;
  ASSERT_EQ(remora_watch_begin(client_, nullptr, &watch), REMORA_OK) << remora_message();
  const char* text = nullptr;
  ASSERT_EQ(remora_watch_resume_token(watch, &text), REMORA_OK);
  const std::string token = text;
  remora_change change;
  EXPECT_EQ(remora_watch_next(watch, 0, &change), REMORA_NOT_FOUND);
  std::set<std::string> expected;
  for (const std::string& key : keys_) {
    ASSERT_EQ(Put(key, "of " + key), REMORA_OK);
    expected.insert(key + "=of " + key);
  }
  const auto shown = [&] {
    std::set<std::string> changes;
    while (changes.size() < keys_.size() && remora_watch_next(watch, -1, &change) == REMORA_OK) {
      EXPECT_EQ(change.kind, REMORA_CHANGE_PUT);
      changes.insert(Text(change.key) + "=" + Text(change.value));
    }
    return changes;
  };
  EXPECT_EQ(shown(), expected);
  remora_watch_end(watch);
  remora_watch_options options;
  remora_watch_options_init(&options);
  options.resume_token = token.c_str();
  ASSERT_EQ(remora_watch_begin(client_, &options, &watch), REMORA_OK) << remora_message();
  EXPECT_EQ(shown(), expected);
  remora_close(client_);
  client_ = nullptr;
  EXPECT_EQ(remora_watch_next(watch, 0, &change), REMORA_FAILED_PRECONDITION);
  EXPECT_EQ(remora_watch_resume_token(watch, &text), REMORA_OK);
  remora_watch_end(watch);
}

TEST_P(CClusters, CallsOfOneServerSayThatThereAreSeveral) {
  ASSERT_NO_FATAL_FAILURE(StartTwo());
  char memory[100] = {};
  remora_buffer* buffer = nullptr;
  EXPECT_EQ(remora_buffer_register(client_, memory, sizeof(memory), &buffer), REMORA_UNIMPLEMENTED);
  EXPECT_STREQ(remora_message(),
               "register: a client of a cluster does not have this call; connect to the server of a shard "
               "for it");
  EXPECT_EQ(buffer, nullptr);
  remora_client* server = nullptr;
  ASSERT_EQ(remora_connect(addresses_[0].ToString().c_str(), nullptr, &server), REMORA_OK);
  ASSERT_EQ(remora_buffer_register(server, memory, sizeof(memory), &buffer), REMORA_OK);
  size_t size = 0;
  EXPECT_EQ(remora_get_into(client_, "key", 3, buffer, &size, nullptr), REMORA_UNIMPLEMENTED);
  EXPECT_EQ(remora_put_from(client_, "key", 3, buffer, 0, 5, nullptr), REMORA_UNIMPLEMENTED);
  remora_buffer_release(buffer);
  remora_close(server);
  remora_backup_progress progress;
  EXPECT_EQ(remora_backup(client_, 5, &progress), REMORA_UNIMPLEMENTED);
  EXPECT_EQ(remora_ping(client_), REMORA_UNIMPLEMENTED);
  const char* json = nullptr;
  EXPECT_EQ(remora_settings(client_, &json), REMORA_UNIMPLEMENTED);
  std::map<std::string, uint64_t> told;
  const auto each = [](void* context, const char* name, uint64_t number) {
    (*static_cast<std::map<std::string, uint64_t>*>(context))[name] = number;
  };
  EXPECT_EQ(remora_stats(client_, each, &told), REMORA_UNIMPLEMENTED);
  EXPECT_TRUE(told.empty());
  ASSERT_EQ(Put(keys_[0], "a"), REMORA_OK);
  ASSERT_EQ(Put(keys_[1], "b"), REMORA_OK);
  EXPECT_EQ(remora_counters(client_, each, &told), REMORA_OK);
  EXPECT_EQ(told["requests"], 2u) << "one of each shard";
  told.clear();
  EXPECT_EQ(remora_client_metrics(client_, each, &told), REMORA_OK);
  EXPECT_EQ(told["requests"], 2u);
}

TEST_P(CClusters, AShardThatIsGoneConcernsItsKeysAlone) {
  ASSERT_NO_FATAL_FAILURE(StartTwo());
  ASSERT_EQ(Put(keys_[0], "a"), REMORA_OK);
  ASSERT_EQ(Put(keys_[1], "b"), REMORA_OK);
  StopServer(1);
  EXPECT_EQ(Put(keys_[1], "c"), REMORA_UNAVAILABLE);
  EXPECT_THAT(remora_message(), HasSubstr(NameOfShard(1)));
  EXPECT_EQ(Get(keys_[0]), "a");
  const std::vector<remora_bytes> wanted = {Bytes(keys_[1]), Bytes(keys_[0])};
  std::vector<remora_result> results(2);
  EXPECT_EQ(remora_multi_get(client_, wanted.data(), results.data(), 2), REMORA_UNAVAILABLE);
  EXPECT_EQ(results[0].code, REMORA_UNAVAILABLE);
  EXPECT_THAT(results[0].message, HasSubstr(NameOfShard(1)));
  EXPECT_EQ(results[1].code, REMORA_OK);
  EXPECT_EQ(Text(results[1].value), "a");
  uint64_t count = 7;
  EXPECT_EQ(remora_count(client_, nullptr, &count), REMORA_UNAVAILABLE);
  EXPECT_EQ(count, 7u);
  // Another client connects all the same, and finds the server once it is back.
  remora_client* other = nullptr;
  ASSERT_EQ(Connect(TopologyFile(), &other), REMORA_OK) << remora_message();
  EXPECT_EQ(Get(other, keys_[0]), "a");
  EXPECT_EQ(Get(other, keys_[1]), "UNAVAILABLE");
  ASSERT_NO_FATAL_FAILURE(StartServer(1));
  EXPECT_EQ(Get(other, keys_[1]), "b");
  EXPECT_EQ(Get(keys_[1]), "b");
  remora_close(other);
}

TEST_P(CClusters, SayWhyTheyDoNotConnect) {
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  remora_client* client = nullptr;
  EXPECT_EQ(remora_connect_cluster(nullptr, nullptr, &client), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_connect_cluster("file", nullptr, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(Connect(TopologyFile(), &client), REMORA_NOT_FOUND);
  EXPECT_THAT(remora_message(), HasSubstr(TopologyFile()));
  EXPECT_EQ(Connect(directory_.path(), &client), REMORA_INVALID_ARGUMENT) << "it is a directory";
  std::ofstream(TopologyFile()) << "remora-topology 2\nshards none\n";
  EXPECT_EQ(Connect(TopologyFile(), &client), REMORA_INVALID_ARGUMENT);
  EXPECT_THAT(remora_message(), HasSubstr("/topology:2: "));

  ASSERT_NO_FATAL_FAILURE(WriteTopology({1, 0}));
  EXPECT_EQ(Connect(TopologyFile(), &client), REMORA_FAILED_PRECONDITION);
  EXPECT_THAT(remora_message(), HasSubstr("shard 0 of cluster 9f86d081884c7d65 is expected"));
  ASSERT_NO_FATAL_FAILURE(WriteTopology({0, 1}));
  remora_options options;
  remora_options_init(&options);
  options.struct_size = 0;
  EXPECT_EQ(remora_connect_cluster(TopologyFile().c_str(), &options, &client), REMORA_INVALID_ARGUMENT);
  StopServer(0);
  StopServer(1);
  EXPECT_EQ(Connect(TopologyFile(), &client), REMORA_UNAVAILABLE);
  EXPECT_EQ(client, nullptr);
}

}  // namespace
}  // namespace remora
