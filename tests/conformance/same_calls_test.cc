// A program that was written for a client compiles for a store, and the other way round.
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/format/memory/metric_registry.h"
#include "store/format/memory/shown_metrics.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

class SameCalls : public Behaviour {
 protected:
  /// Calls `use` with the store where it is embedded, else with the client.
  template <typename Use>
  void With(const Use& use) {
    kv_->client() != nullptr ? use(*kv_->client()) : use(store());
  }
};
INSTANTIATE_TEST_SUITE_P(On, SameCalls,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(SameCalls, OfAStoreAndAClient) {
  START({.durability = Durability::kLogged});
  With([](auto& kv) {
    EXPECT_CODE(kNotFound, kv.Get("a").status());
    EXPECT_CODE(kInvalidArgument, kv.Get("").status());
    auto watch = kv.Watch({.prefix = "a"});
    ASSERT_CODE(kOk, watch.status());
    EXPECT_CODE(kOk, kv.Put("a", "1"));
    std::uint64_t version = 0;
    EXPECT_CODE(kOk, kv.Put("a", "2", {.condition = Condition::Present(), .version = &version}));
    EXPECT_EQ(kv.Get("a").value_or("none"), "2");
    std::string value;
    std::uint64_t got = 0;
    EXPECT_CODE(kOk, kv.Get("a", &value, &got));
    EXPECT_EQ(got, version);
    EXPECT_TRUE(kv.Exists("a").value_or(false));
    const std::array<std::string_view, 2> keys{"a", "none"};
    std::array<GetResult, 2> results;
    EXPECT_CODE(kOk, kv.MultiGet(keys, results));
    EXPECT_EQ(results[0].value, "2");
    EXPECT_CODE(kNotFound, results[1].status);

    EXPECT_CODE(kOk, kv.Touch("a", std::chrono::hours(1)));
    EXPECT_TRUE(kv.Ttl("a").value().has_value());
    EXPECT_CODE(kOk, kv.Persist("a"));
    EXPECT_EQ(kv.Increment("n", 3).value_or(0), 3);
    EXPECT_EQ(kv.Append("n", "0").value_or(0), 2u);
    EXPECT_CODE(kOk, kv.Delete("n"));
    WriteBatch batch;
    batch.Put("b", "1", {.ttl = std::chrono::hours(1), .condition = Condition::Absent()});
    batch.Delete("a", {.condition = Condition::Present()});
    EXPECT_CODE(kOk, kv.Apply(batch, &version, Durability::kLogged));

    auto scan = kv.Scan({.prefix = "b"});
    ASSERT_CODE(kOk, scan.status());
    ASSERT_TRUE((*scan)->Next());
    EXPECT_EQ((*scan)->key(), "b");
    EXPECT_EQ(absl::StatusOr<std::uint64_t>(kv.Count()).value_or(0), 1u);
    EXPECT_EQ(kv.Count({.prefix = "b"}).value_or(0), 1u);
    EXPECT_EQ(kv.DeleteRange({.prefix = "b"}).value_or(0), 1u);
    EXPECT_EQ(kv.DeleteAll().value_or(7), 0u);
    const auto stats = absl::StatusOr<std::vector<std::pair<std::string, std::uint64_t>>>(kv.Stats());
    ASSERT_CODE(kOk, stats.status());
    EXPECT_EQ(stats->size(), ShownMetrics(std::vector<std::uint64_t>(kMetricPlaces)).size());
    EXPECT_EQ(stats->front().first, kMetrics[0].name);
  });
}

TEST_P(SameCalls, MultiPutsWritesAreEachForItself) {
  START();
  With([](auto& kv) {
    EXPECT_CODE(kOk, kv.Put("there", "old"));
    std::uint64_t version = 0;
    const std::array<PutRequest, 4> puts{{{"a", "1", {.version = &version}},
                                          {"", "out of bounds"},
                                          {"there", "new", {.condition = Condition::Absent()}},
                                          {"b", "2"}}};
    std::array<PutResult, 4> results;
    EXPECT_CODE(kOk, kv.MultiPut(puts, results));
    EXPECT_CODE(kOk, results[0].status);
    EXPECT_GT(version, 0u);
    EXPECT_EQ(version, results[0].version);
    EXPECT_CODE(kInvalidArgument, results[1].status);
    EXPECT_CODE(kAlreadyExists, results[2].status);
    EXPECT_CODE(kOk, results[3].status);
    EXPECT_GT(results[3].version, version);
    EXPECT_EQ(kv.Get("a").value_or(""), "1");
    EXPECT_EQ(kv.Get("there").value_or(""), "old");
    EXPECT_EQ(kv.Get("b").value_or(""), "2");
    EXPECT_CODE(kInvalidArgument, kv.MultiPut(puts, std::span(results).first(3)));
    EXPECT_CODE(kOk, kv.MultiPut({}, {}));
  });
}

}  // namespace
}  // namespace remora
