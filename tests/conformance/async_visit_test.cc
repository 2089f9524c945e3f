// Visits by an AsyncClient: in place, inside the call, where a READ is a copy; of copies elsewhere.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/coroutine_client.h"
#include "tests/conformance/async_fixture.h"
#include "tests/support/random_bytes.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class AsyncVisits : public Async {
 protected:
  static bool shows_in_place() { return GetParam() == DeploymentKind::kLocal; }
  /// Has the client get the key, so that it knows the index from here on.
  void ReadIndex(std::string_view key) { ASSERT_OUTCOME(kOk, AsyncGet(key)); }
  /// Begins a visit. The first call of the function runs `during` between two looks at the value.
  template <typename During>
  AsyncClient::Begun Begin(std::string_view key, Outcome& outcome, During during) {
    shown_.clear();
    still_shown_ = true;
    const auto show = [this, during](std::string_view value) {
      shown_.emplace_back(value);
      if (shown_.size() == 1) during();
      still_shown_ = value == shown_.back();
    };
    return async_->Visit(key, show, Into(outcome));
  }
  template <typename During>
  Outcome Visit(std::string_view key, const During& during) {
    Outcome outcome;
    const AsyncClient::Begun begun = Begin(key, outcome, during);
    EXPECT_CODE(kOk, begun.status());
    EXPECT_EQ(outcome.calls, 0) << "callbacks come in Poll";
    WaitAll();
    EXPECT_EQ(outcome.calls, 1);
    EXPECT_EQ(outcome.value, "");
    return outcome;
  }
  Outcome Visit(std::string_view key) {
    return Visit(key, [] {});
  }

  std::vector<std::string> shown_;  // in each call
  bool still_shown_ = true;         // the last call saw the same bytes at its end
};

INSTANTIATE_TEST_SUITE_P(On, AsyncVisits,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(AsyncVisits, ShowAValueOnceAndWhole) {
  // A busy machine may take longer than the usual grace period, and then a value is shown again.
  START({.memory_size = 64 * kMiB, .grace = std::chrono::seconds(10)});
  ConnectAsync({}, {.metrics = true});
  std::uint64_t bytes = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5000},
                                 kMaxSmallValueSize, kMaxSmallValueSize + 1, 3 * kMiB + 7}) {
    const std::string value = RandomBytes(size, size);
    const Outcome put = AsyncPut("key", value);
    ASSERT_OUTCOME(kOk, put);
    ReadIndex("key");
    Outcome visited;
    ASSERT_CODE(kOk, Begin("key", visited, [] {}).status());
    EXPECT_EQ(shown_.size(), shows_in_place() ? 1u : 0u) << "in place, a visit does not wait";
    WaitAll();
    ASSERT_OUTCOME(kOk, visited);
    ASSERT_EQ(shown_.size(), 1u);
    EXPECT_TRUE(shown_[0] == value && still_shown_) << size << " bytes";
    EXPECT_EQ(visited.version, put.version);
    bytes += 2 * size;
    EXPECT_EQ(async_->metrics()[ClientMetric::kValueBytesRead], bytes);
  }
}

TEST_P(AsyncVisits, ShowNothingThatCannotBe) {
  START();
  ConnectAsync({.depth = 1});
  ASSERT_OUTCOME(kOk, AsyncPut("key", "value"));
  ReadIndex("key");
  EXPECT_OUTCOME(kNotFound, Visit("none"));
  Outcome outcome;
  EXPECT_CODE(kInvalidArgument, Begin("", outcome, [] {}).status());
  EXPECT_CODE(kInvalidArgument, Begin(std::string(kMaxKeySize + 1, 'k'), outcome, [] {}).status());
  ASSERT_CODE(kOk, async_->Ping({}).status());
  EXPECT_CODE(kResourceExhausted, Begin("key", outcome, [] {}).status());
  WaitAll();
  EXPECT_TRUE(shown_.empty());
  EXPECT_EQ(outcome.calls, 0);
  EXPECT_OUTCOME(kOk, Visit("key"));
  ASSERT_CODE(kOk, async_->Visit("key", [](std::string_view) {}, {}).status()) << "without a callback";
  WaitAll();
}

TEST_P(AsyncVisits, ThatAreCancelledShowNoCopy) {
  START();
  ConnectAsync();
  ASSERT_OUTCOME(kOk, AsyncPut("key", "value"));
  ReadIndex("key");
  Outcome outcome;
  const AsyncClient::Begun begun = Begin("key", outcome, [] {});
  ASSERT_CODE(kOk, begun.status());
  EXPECT_EQ(async_->Cancel(*begun), !shows_in_place()) << "in place, it has ended already";
  WaitAll();
  EXPECT_EQ(outcome.status.code(), shows_in_place() ? absl::StatusCode::kOk : absl::StatusCode::kCancelled);
  EXPECT_EQ(shown_.size(), shows_in_place() ? 1u : 0u);
}

TEST_P(AsyncVisits, MayBeginInACallback) {
  START();
  ConnectAsync({.depth = 1});
  ASSERT_OUTCOME(kOk, AsyncPut("key", "value"));
  Outcome outcome;
  ASSERT_CODE(
      kOk,
      async_->Get("key", [&](const AsyncResult&) { EXPECT_CODE(kOk, Begin("key", outcome, [] {}).status()); })
          .status());
  WaitAll();
  ASSERT_OUTCOME(kOk, outcome);
  EXPECT_EQ(shown_, std::vector<std::string>{"value"});
}

Task<void> VisitTwice(CoroutineClient& kv, std::string key, std::vector<std::string>& shown) {
  std::uint64_t put = 0, visited = 0;
  EXPECT_CODE(kOk, co_await kv.Put(key, "value", {.version = &put}));
  const auto show = [&](std::string_view value) { shown.emplace_back(value); };
  EXPECT_CODE(kOk, co_await kv.Visit(key, show, &visited));
  EXPECT_EQ(visited, put);
  EXPECT_CODE(kOk, co_await kv.Visit(key, [&](std::string_view value) { shown.emplace_back(value); }));
  EXPECT_CODE(kNotFound, co_await kv.Visit("none", show, &visited));
  EXPECT_CODE(kInvalidArgument, co_await kv.Visit("", show));
  EXPECT_EQ(visited, put);
}

TEST_P(AsyncVisits, OfCoroutines) {
  START();
  CoroutineClient tasks(NewAsync({.depth = 1}));
  std::vector<std::string> shown;
  tasks.Start(VisitTwice(tasks, "a", shown));
  tasks.Start(VisitTwice(tasks, "b", shown));  // which waits for its turn
  ASSERT_CODE(kOk, tasks.Run(Soon()));
  EXPECT_EQ(shown, std::vector<std::string>(4, "value"));
}

TEST_P(AsyncVisits, EndWithAnErrorIfTheServerIsGone) {
  START();
  ConnectAsync({}, {.timeout = std::chrono::seconds(2)});
  ASSERT_OUTCOME(kOk, AsyncPut("key", "value"));
  ReadIndex("key");
  const Outcome visited = Visit("key", [&] { deployment_->Stop(); });
  EXPECT_EQ(shown_, std::vector<std::string>{"value"});
  if (shows_in_place()) {
    EXPECT_FALSE(visited.status.ok()) << "what was shown last may have been of a server that was gone";
  } else {
    EXPECT_OUTCOME(kOk, visited);
  }
  async_.reset();
  kv_.reset();
}

/// Visits beside writes of more than the memory has.
class AsyncVisitsBesideWrites : public AsyncVisits {};

INSTANTIATE_TEST_SUITE_P(On, AsyncVisitsBesideWrites,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(AsyncVisitsBesideWrites, ShowACopyIfTheValuesMemoryWasUsedAgain) {
  START({.memory_size = kMinMemorySize, .grace = milliseconds(kMinGraceMs)});
  ConnectAsync();
  for (const std::size_t size : {std::size_t{100}, kMiB}) {
    const std::string before = RandomBytes(size, 1), after = RandomBytes(size, 2);
    ASSERT_OUTCOME(kOk, AsyncPut("key", before));
    ReadIndex("key");
    const auto use_all_memory_again = [&] {
      ASSERT_CODE(kOk, Put("key", after));
      const std::string filling(100'000, 'f');
      for (std::size_t bytes = 0; bytes < 4 * kMinMemorySize; bytes += filling.size()) {
        ASSERT_CODE(kOk, Put("filling", filling));
      }
      deployment_->Advance(milliseconds(4 * kMinGraceMs));
    };
    ASSERT_OUTCOME(kOk, Visit("key", use_all_memory_again));
    ASSERT_EQ(shown_.size(), shows_in_place() ? 2u : 1u);
    EXPECT_TRUE(shown_.back() == (shows_in_place() ? after : before));
    EXPECT_TRUE(still_shown_) << "the call that counts";
  }
}

}  // namespace
}  // namespace remora
