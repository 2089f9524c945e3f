// docs/reference/operations.md says what each operation costs. Here that is counted.
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

struct Cost {
  std::uint64_t reads = 0;
  std::uint64_t messages = 0;
  friend bool operator==(const Cost&, const Cost&) = default;
  friend void PrintTo(const Cost& cost, std::ostream* out) {
    *out << cost.reads << " READs, " << cost.messages << " messages";
  }
};

// Of lines like: | `Get` | 2 | 0 |
std::map<std::string, Cost> Documented() {
  std::ifstream file(REMORA_SOURCE_DIR "/docs/reference/operations.md");
  std::map<std::string, Cost> costs;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    if (line.substr(0, 3) != "| `" || cells.size() != 3) continue;
    const bool added =
        costs.emplace(cells[0].substr(2), Cost{std::stoull(cells[1]), std::stoull(cells[2])}).second;
    EXPECT_TRUE(added) << line;
  }
  return costs;
}

class Costs : public testing::TestWithParam<std::tuple<DeploymentKind, Durability>> {
 protected:
  DeploymentKind kind() const { return std::get<0>(GetParam()); }
  bool logged() const { return std::get<1>(GetParam()) == Durability::kLogged; }

  static std::string KeyOf(int i) { return "key " + std::to_string(i); }
  void Put(const std::string& key, const std::string& value) { ASSERT_CODE(kOk, client_->Put(key, value)); }

  void Start(std::chrono::milliseconds grace) {
    kv_.reset();
    std::string why_not;
    deployment_ = Deployment::Create(kind(),
                                     {.durability = std::get<1>(GetParam()),
                                      .memory_size = kMinMemorySize,
                                      .eviction = Eviction::kLeastUsed,
                                      .grace = grace},
                                     &why_not);
    if (deployment_ == nullptr) {
      ASSERT_EQ(std::getenv("REMORA_REQUIRE_VERBS"), nullptr) << why_not;
      GTEST_SKIP() << why_not;
    }
    Connect({.location_cache_bytes = 0});
  }
  void Connect(const ClientOptions& options) {
    kv_ = *deployment_->Connect(options);
    client_ = kv_->client();
  }

  void CountCallsOfOneKey() {
    std::vector<std::byte> memory(4096);
    const std::unique_ptr<RegisteredBuffer> buffer = *client_->Register(memory);
    std::string value;
    counted_["`Get`, of another key"] = Of([&] { ASSERT_CODE(kOk, client_->Get("key 1", &value)); });
    counted_["`Get`, of a key that is not there"] =
        Of([&] { ASSERT_CODE(kNotFound, client_->Get("none", &value)); });
    counted_["`Get`, into a registered buffer"] =
        Of([&] { ASSERT_TRUE(client_->Get("key 1", *buffer).ok()); });
    counted_["`Put`, from a registered buffer"] =
        Of([&] { ASSERT_CODE(kOk, client_->Put("from", *buffer)); });
    ASSERT_CODE(kOk, client_->Delete("from"));
    counted_["`Exists`, of a key that is there"] = Of([&] { ASSERT_TRUE(client_->Exists("key 1").value()); });
    counted_["`Exists`, of a key that is not there"] =
        Of([&] { ASSERT_FALSE(client_->Exists("none").value()); });
    counted_["`Ttl`"] = Of([&] { ASSERT_TRUE(client_->Ttl("key 1").ok()); });
  }

  void CountMultiGets() {
    std::vector<std::string> missing_names;
    for (int i = 0; i < 16; ++i) missing_names.push_back("missing " + std::to_string(i));
    const std::vector<std::string_view> keys(names_.begin(), names_.end());
    const std::vector<std::string_view> missing(missing_names.begin(), missing_names.end());
    std::vector<GetResult> results(16);
    counted_["`MultiGet`, of 16 keys"] = Of([&] {
      ASSERT_CODE(kOk, client_->MultiGet(keys, results));
      for (const GetResult& result : results) ASSERT_CODE(kOk, result.status);
    });
    counted_["`MultiGet`, of 16 keys that are not there"] = Of([&] {
      ASSERT_CODE(kOk, client_->MultiGet(missing, results));
      for (const GetResult& result : results) ASSERT_CODE(kNotFound, result.status);
    });
  }

  void CountPuts() {
    counted_["`Put`"] = Of([&] { Put("key 2", "another"); });
    counted_["`Put`, on a condition that holds"] =
        Of([&] { ASSERT_CODE(kOk, client_->Put("key 2", "v", {.condition = Condition::Present()})); });
    counted_["`Put`, on a condition that does not hold"] = Of(
        [&] { ASSERT_CODE(kAlreadyExists, client_->Put("key 2", "v", {.condition = Condition::Absent()})); });
    std::vector<PutRequest> puts;
    for (const std::string& name : names_) puts.push_back({name, "another"});
    std::vector<PutResult> put_results(puts.size());
    counted_["`MultiPut`, of 16 keys"] = Of([&] {
      ASSERT_CODE(kOk, client_->MultiPut(puts, put_results));
      for (const PutResult& result : put_results) ASSERT_CODE(kOk, result.status);
    });
    for (PutRequest& put : puts) put.options.condition = Condition::Present();
    counted_["`MultiPut`, of 16 keys, on conditions"] = Of([&] {
      ASSERT_CODE(kOk, client_->MultiPut(puts, put_results));
      for (const PutResult& result : put_results) ASSERT_CODE(kOk, result.status);
    });
  }

  void CountOtherWrites() {
    counted_["`Delete`"] = Of([&] { ASSERT_CODE(kOk, client_->Delete("key 2")); });
    counted_["`Touch`"] = Of([&] { ASSERT_CODE(kOk, client_->Touch("key 3", std::chrono::hours(1))); });
    counted_["`Increment`"] = Of([&] { ASSERT_EQ(client_->Increment("number", 1).value(), 1); });
    counted_["`Append`"] = Of([&] { ASSERT_EQ(client_->Append("number", "0").value(), 2u); });
    counted_["`Apply`, of 100 writes"] = Of([&] {
      WriteBatch batch;
      for (int i = 0; i < 100; ++i) batch.Put(KeyOf(i), "of a batch");
      ASSERT_CODE(kOk, client_->Apply(batch));
    });
  }

  void CountRanges() {
    counted_["`Count`"] = Of([&] { ASSERT_GT(client_->Count().value(), 100u); });
    counted_["`Count`, of a range of 100 keys"] =
        Of([&] { ASSERT_EQ(client_->Count({.prefix = "key "}).value(), 100u); });
    counted_["`Scan`, of 100 keys in any order"] = Of([&] {
      const auto scan = client_->Scan({.prefix = "key ", .any_order = true});
      ASSERT_CODE(kOk, scan.status());
      int shown = 0;
      while ((*scan)->Next()) ++shown;
      ASSERT_EQ(shown, 100);
    });
  }

  /// REQUIRES: logged().
  void CountWatchesAndScans() {
    std::unique_ptr<ClientWatch> watch;
    counted_["`Watch`, from now on (logged)"] = Of([&] {
      auto begun = client_->Watch();
      ASSERT_CODE(kOk, begun.status());
      watch = *std::move(begun);
    });
    for (int i = 0; i < 100; ++i) Put(KeyOf(i), "watched");
    counted_["`ClientWatch::Next`, of 100 changes (logged)"] = Of([&] {
      for (int i = 0; i < 100; ++i) ASSERT_TRUE(watch->Next(std::chrono::seconds(60)).value());
    });
    counted_["`ClientWatch::Next`, where nothing came (logged)"] =
        Of([&] { ASSERT_FALSE(watch->Next(std::chrono::milliseconds(0)).value()); });
    counted_["`Scan`, of 100 keys (logged)"] = Of([&] {
      const auto scan = client_->Scan({.prefix = "key "});
      ASSERT_CODE(kOk, scan.status());
      int shown = 0;
      while ((*scan)->Next()) ++shown;
      ASSERT_EQ(shown, 100);
    });
    counted_["`DeleteRange`, of 54 keys (logged)"] =
        Of([&] { ASSERT_EQ(client_->DeleteRange({.begin = "key 50", .end = "key 9\xff"}).value(), 54u); });
  }

  void CountLargeValuesAndTheRest() {
    std::string value;
    counted_["`Ping`"] = Of([&] { ASSERT_CODE(kOk, client_->Ping()); });
    const std::string large(std::size_t{1} << 20, 'v');
    counted_[kind() == DeploymentKind::kLocal
                 ? "`Put`, of 1 MiB, where it does not (local)"
                 : "`Put`, of 1 MiB, where the transport grants (verbs, TCP, simulated)"] =
        Of([&] { Put("large", large); });
    counted_["`Get`, of 1 MiB"] = Of([&] { ASSERT_CODE(kOk, client_->Get("large", &value)); });
    // Also where there is no place for one.
    counted_["`Backup`, each of its calls"] =
        Of([&] { ASSERT_CODE(kFailedPrecondition, client_->Backup(1).status()); });
    counted_["`Settings`, each of its pieces"] =
        Of([&] { ASSERT_CODE(kFailedPrecondition, client_->Settings().status()); });
  }

  void CountGetsOfRememberedPlaces() {
    std::string value;
    Connect({.location_cache_bytes = std::size_t{1} << 16});
    ASSERT_CODE(kOk, client_->Get("key 3", &value));
    ASSERT_CODE(kOk, client_->Get("key 3", &value));
    counted_["`Get`, of a key whose place is remembered"] =
        Of([&] { ASSERT_CODE(kOk, client_->Get("key 3", &value)); });
  }

  Cost OfAColdGet() {
    Start(std::chrono::milliseconds(100));  // for memory to come free
    // More than the memory holds, of which nothing is used again; few keys, so that the index does not grow.
    const std::string some(40'000, 's');
    for (int i = 0; i < 600; ++i) Put("fill " + std::to_string(i), some);
    EXPECT_GT(deployment_->store().Read(Metric::kColdKeys), 0u);
    // The cheapest: now and then the client says what it has read, or is held up and reads again.
    Cost least{1000, 1000};
    std::string value;
    int cold = 0;
    for (int i = 0; i < 600 && cold < 20; ++i) {
      const std::uint64_t fetches = deployment_->store().Read(Metric::kFetches);
      const Cost cost = Of([&] { ASSERT_CODE(kOk, client_->Get("fill " + std::to_string(i), &value)); });
      if (deployment_->store().Read(Metric::kFetches) == fetches) continue;
      ++cold;
      if (cost.reads + cost.messages < least.reads + least.messages) least = cost;
    }
    return least;
  }

  Cost Of(const std::function<void()>& operation) {
    const ClientCounters before = client_->counters();
    operation();
    const ClientCounters did = client_->counters() - before;
    EXPECT_EQ(did.generation_reads, 0u);
    return {did.reads, did.requests};
  }

  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<KeyValue> kv_;
  Client* client_ = nullptr;
  std::vector<std::string> names_;  // of 16 keys
  std::map<std::string, Cost> counted_;
};

INSTANTIATE_TEST_SUITE_P(On, Costs,
                         testing::Combine(testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp,
                                                          DeploymentKind::kTls, DeploymentKind::kVerbs,
                                                          DeploymentKind::kSim),
                                          testing::Values(Durability::kMemory, Durability::kLogged)),
                         [](const auto& test) {
                           const bool logged = std::get<1>(test.param) == Durability::kLogged;
                           return NameOf(std::get<0>(test.param)) + (logged ? "_logged" : "_memory");
                         });

TEST_P(Costs, AreAsDocumented) {
  // A client that is held up for that long reads again.
  Start(std::chrono::seconds(10));
  if (IsSkipped() || HasFatalFailure()) return;
  for (int i = 0; i < 16; ++i) {
    names_.push_back(KeyOf(i));
    Put(names_.back(), "value");
  }
  std::string value;
  ASSERT_CODE(kOk, client_->Get("key 0", &value));  // from here on, it knows the index

  CountCallsOfOneKey();
  CountMultiGets();
  CountPuts();
  CountOtherWrites();
  CountRanges();
  if (logged()) CountWatchesAndScans();
  CountLargeValuesAndTheRest();
  CountGetsOfRememberedPlaces();
  if (logged()) counted_["`Get`, of a key that is only in RocksDB (logged)"] = OfAColdGet();
  if (HasFatalFailure()) return;

  const std::map<std::string, Cost> documented = Documented();
  ASSERT_GT(documented.size(), 20u);
  for (const auto& [operation, cost] : counted_) {
    const auto said = documented.find(operation);
    ASSERT_NE(said, documented.end()) << operation;
    EXPECT_EQ(said->second, cost) << operation;
  }
  // But for one of the two transports' lines, and those of RocksDB.
  EXPECT_EQ(counted_.size() + (logged() ? 1 : 7), documented.size());
}

}  // namespace
}  // namespace remora
