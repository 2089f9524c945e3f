// Connections that are cut, and servers that are killed, at every step of a write. Each write is done once,
// or its client is told that nobody knows, and then it was done once or not at all. Additions tell it best.
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "store/base/check.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/server_thread.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

/// A write that can be told from itself done twice, and from not done.
struct Case {
  std::string name;
  /// Value of the key before; nothing: it is not there.
  std::optional<std::string> before;
  /// Value of the key when the write was done once.
  std::optional<std::string> after;
  /// Does it; `version` is that of the key's last write, and gets that of this one.
  absl::Status (*write)(Client& client, const std::string& key, std::uint64_t* version);
  bool is_large = false;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::string LargeValue() { return std::string(2 * kMiB, 'v') + "end"; }

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"Increment", "10", "15",
       [](Client& client, const std::string& key, std::uint64_t* version) {
         PutOptions options;
         options.version = version;
         const auto sum = client.Increment(key, 5, options);
         if (!sum.ok()) return sum.status();
         return *sum == 15 ? absl::OkStatus() : absl::InternalError("the sum is " + std::to_string(*sum));
       }},
      {"Append", "ab", "abc",
       [](Client& client, const std::string& key, std::uint64_t* version) {
         PutOptions options;
         options.version = version;
         const auto size = client.Append(key, "c", options);
         if (!size.ok()) return size.status();
         return *size == 3 ? absl::OkStatus() : absl::InternalError("the size is " + std::to_string(*size));
       }},
      {"PutOfAVersion", "old", "new",
       [](Client& client, const std::string& key, std::uint64_t* version) {
         const Condition condition = Condition::Version(*version);
         return client.Put(key, "new", {.ttl = std::nullopt, .condition = condition, .version = version});
       }},
      {"PutIfAbsent", std::nullopt, "new",
       [](Client& client, const std::string& key, std::uint64_t* version) {
         return client.Put(key, "new",
                           {.ttl = std::nullopt, .condition = Condition::Absent(), .version = version});
       }},
      {"Delete", "old", std::nullopt,
       [](Client& client, const std::string& key, std::uint64_t* version) {
         WriteOptions options;
         options.version = version;
         return client.Delete(key, options);
       }},
      {"TouchOfAVersion", "old", "old",
       [](Client& client, const std::string& key, std::uint64_t* version) {
         WriteOptions options;
         options.condition = Condition::Version(*version);
         options.version = version;
         return client.Touch(key, std::chrono::hours(1), options);
       }},
      {"Batch", std::nullopt, "new",
       [](Client& client, const std::string& key, std::uint64_t* version) {
         WriteBatch batch;
         batch.Put(key, "new", {.condition = Condition::Absent()});
         batch.Put(key + " too", "new", {.condition = Condition::Absent()});
         return client.Apply(batch, version);
       }},
      {"LargePutIfAbsent", std::nullopt, LargeValue(),
       [](Client& client, const std::string& key, std::uint64_t* version) {
         return client.Put(key, LargeValue(),
                           {.ttl = std::nullopt, .condition = Condition::Absent(), .version = version});
       },
       /*is_large=*/true},
  };
  return cases;
}

class LostAnswers : public SimServed, public testing::TestWithParam<Case> {
 protected:
  LostAnswers() : SimServed(/*seed=*/7) { network_.set_piece_size(256); }

  ServerOptions Options() {
    ServerOptions options;
    options.store.memory_size = 64 * kMiB;
    options.store.clock = &network_.clock();
    return options;
  }

  void SetBefore(Client& client, const std::string& key, std::uint64_t* version) {
    *version = 0;
    if (!GetParam().before) return;
    PutOptions options;
    options.version = version;
    ASSERT_CODE(kOk, client.Put(key, *GetParam().before, options));
  }

  static std::optional<std::string> Read(Client& client, const std::string& key, std::uint64_t* version) {
    std::string value;
    const absl::Status status = client.Get(key, &value, version);
    if (absl::IsNotFound(status)) return std::nullopt;
    EXPECT_CODE(kOk, status);
    return value;
  }

  /// Lets messages arrive that were in flight when a connection was cut, if they do.
  void LetTheLateCome() {
    for (int i = 0; i < 2 * SimNetwork::kLate; ++i) server_->Step();
  }

  /// The write was done once, as its client was told: and nothing comes behind it.
  void ExpectDoneOnce(Client& client, const std::string& key, std::uint64_t version) {
    LetTheLateCome();
    std::uint64_t now = version;
    const std::optional<std::string> value = Read(client, key, &now);
    EXPECT_TRUE(value == GetParam().after) << value.value_or("nothing").substr(0, 100);
    EXPECT_EQ(now, version) << "it was written again";
  }
  ServerStore& store() { return server_->store(); }
  void CutAtAnyStep();
};

INSTANTIATE_TEST_SUITE_P(Of, LostAnswers, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

void LostAnswers::CutAtAnyStep() {
  int outcomes = 0;
  for (const SimNetwork::Cut cut : {SimNetwork::Cut::kBoth, SimNetwork::Cut::kClient}) {
    bool all = false;
    for (std::uint64_t event = 1; !all; ++event) {
      SCOPED_TRACE(std::to_string(event) + (cut == SimNetwork::Cut::kBoth ? " both" : " client"));
      const auto client = Connect({});
      const std::string key = "key " + std::to_string(static_cast<int>(cut)) + " " + std::to_string(event);
      std::uint64_t version = 0;
      SetBefore(*client, key, &version);
      network_.CutAt(event, cut);
      ASSERT_CODE(kOk, GetParam().write(*client, key, &version));
      all = network_.is_cut_due();
      network_.CutAt(0, cut);
      ASSERT_NO_FATAL_FAILURE(ExpectDoneOnce(*client, key, version));
      const std::uint64_t last = GetParam().name == "Batch" ? version + 1 : version;
      EXPECT_EQ(store().Read(Metric::kLastVersion), last) << "of all that was written";
      EXPECT_LE(client->counters().reconnects, 1u);
      if (GetParam().is_large) {  // space for the next one
        ASSERT_CODE(kOk, client->Delete(key));
        network_.Advance(std::chrono::seconds(1));
      }
      outcomes += static_cast<int>(client->counters().completion_queries);
    }
  }
  EXPECT_GT(outcomes, 2) << "too few answers were lost for this test to tell anything";
  EXPECT_GT(store().Read(Metric::kCompletionsTold), 0u);
  EXPECT_EQ(store().Read(Metric::kCompletionsUnknown), 0u);
}

TEST_P(LostAnswers, AConnectionCutAtAnyStepLeavesTheWriteDoneOnce) {
  Serve(Options());
  CutAtAnyStep();
}

// The disk takes its time: the client may return, and ask, meanwhile.
TEST_P(LostAnswers, AConnectionCutAtAnyStepLeavesASyncedWriteDoneOnce) {
  const TempDir dir;
  ServerOptions options = Options();
  options.store.durability = Durability::kSynced;
  options.store.syncing = Syncing::kInSteps;
  options.store.data_dir = dir.path() + "/data";
  Serve(options);
  int steps = 0;
  network_.set_step([&] {
    server_->Step();
    if (++steps % 200 == 0) server_->store().Sync();
  });
  CutAtAnyStep();
}

TEST_P(LostAnswers, AServerKilledAtAnyStepLeavesALoggedWriteDoneOnce) {
  const TempDir dir;
  ServerOptions options = Options();
  options.store.durability = Durability::kLogged;
  options.store.data_dir = dir.path() + "/data";
  Serve(options);
  bool kill = false;
  network_.set_step([&] {
    if (!kill) server_->Step();
    if (!kill) return;
    // It stood in the middle of a step, or has not yet taken what came.
    kill = false;
    server_.reset();
    auto server = Server::Create(options);
    REMORA_CHECK(server.ok());
    server_ = *std::move(server);
    REMORA_CHECK(server_->AddListener(network_.Listen()).ok());
  });
  int outcomes = 0;
  bool all = false;
  for (std::uint64_t event = 1; !all; event += GetParam().is_large ? 5 : 1) {
    SCOPED_TRACE(event);
    const auto client = Connect({});
    const std::string key = "key " + std::to_string(event);
    std::uint64_t version = 0;
    SetBefore(*client, key, &version);
    network_.CutAt(event, SimNetwork::Cut::kBoth, [&] { kill = true; });
    ASSERT_CODE(kOk, GetParam().write(*client, key, &version));
    all = network_.is_cut_due();
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    ASSERT_NO_FATAL_FAILURE(ExpectDoneOnce(*client, key, version));
    outcomes += static_cast<int>(client->counters().completion_queries);
  }
  EXPECT_GT(outcomes, GetParam().is_large ? 0 : 1);
}

TEST_P(LostAnswers, AServerThatForgotAllSaysSo) {
  bool kill = false;
  int unknown = 0;
  bool all = false;
  for (std::uint64_t event = 1; !all; event += GetParam().is_large ? 5 : 1) {
    SCOPED_TRACE(event);
    server_.reset();
    Serve(Options());
    network_.set_step([&] {
      if (!kill) server_->Step();
      if (!kill) return;
      kill = false;
      server_.reset();
      auto server = Server::Create(Options());
      REMORA_CHECK(server.ok());
      server_ = *std::move(server);
      REMORA_CHECK(server_->AddListener(network_.Listen()).ok());
    });
    const auto client = Connect({});
    std::uint64_t version = 0;
    SetBefore(*client, "key", &version);
    network_.CutAt(event, SimNetwork::Cut::kBoth, [&] { kill = true; });
    const absl::Status status = GetParam().write(*client, "key", &version);
    all = network_.is_cut_due();
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    LetTheLateCome();
    if (absl::IsUnknown(status)) {
      ++unknown;
      EXPECT_EQ(store().Read(Metric::kLastVersion), 0u) << "it was done twice";
      EXPECT_EQ(client->counters().completion_queries, 0u);
    }
    EXPECT_LE(store().Read(Metric::kLastVersion), 2u);
    EXPECT_CODE(kOk, client->Put("next", "value"));
  }
  EXPECT_GT(unknown, GetParam().is_large ? 0 : 1);
}

// --- Writes of one call -----------------------------------------------------------------------------------

class LostMultiPut : public SimServed, public testing::Test {
 protected:
  LostMultiPut() : SimServed(/*seed=*/7) { network_.set_piece_size(256); }
};

// A multi-put does not ask for the outcomes of its writes. Nor does the next call, or it would take them for
// its own.
TEST_F(LostMultiPut, AnOutcomeThatNobodyAskedForIsNotTheNextWrites) {
  ServerOptions options;
  options.store.memory_size = 64 * kMiB;
  options.store.clock = &network_.clock();
  Serve(options);
  const std::string large = LargeValue();
  int lost = 0;
  bool all = false;
  for (std::uint64_t event = 1; !all; ++event) {
    SCOPED_TRACE(event);
    const auto client = Connect({});
    const PutRequest request{.key = "large", .value = large};
    PutResult result;
    network_.CutAt(event, SimNetwork::Cut::kBoth);
    const absl::Status status = client->MultiPut(std::span(&request, 1), std::span(&result, 1));
    all = network_.is_cut_due();
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    const std::string next = "next " + std::to_string(event);
    std::uint64_t version = 0;
    ASSERT_CODE(kOk, client->Put(next, "value", {.condition = Condition::Absent(), .version = &version}));
    std::string value;
    std::uint64_t found = 0;
    ASSERT_CODE(kOk, client->Get(next, &value, &found));
    EXPECT_EQ(value, "value");
    EXPECT_EQ(found, version);
    lost += !status.ok() && client->Exists("large").value_or(false) ? 1 : 0;
    ASSERT_TRUE(client->Delete("large").ok() || !client->Exists("large").value_or(true));
    network_.Advance(std::chrono::seconds(1));  // space for the next one
  }
  EXPECT_GT(lost, 0) << "no answer was lost";
}

// --- Connections cut time and again -----------------------------------------------------------------------

class OftenCut : public SimServed, public testing::TestWithParam<int> {
 protected:
  OftenCut() : SimServed(static_cast<std::uint64_t>(GetParam())) { network_.set_piece_size(64); }
};

INSTANTIATE_TEST_SUITE_P(Seeds, OftenCut, testing::Range(1, 9));

TEST_P(OftenCut, EachWriteIsDoneOnceAndEachReadIsRight) {
  ServerOptions options;
  options.store.memory_size = 64 * kMiB;
  Serve(options);
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  const auto cut_again = [&] {
    const auto cut = random() % 2 == 0 ? SimNetwork::Cut::kBoth : SimNetwork::Cut::kClient;
    network_.CutAt(1 + random() % 40, cut);
  };
  const auto client = Connect({});
  std::int64_t sum = 0;
  std::string text;
  for (int i = 0; i < 1500; ++i) {
    if (!network_.is_cut_due()) cut_again();
    switch (random() % 4) {
      case 0: {
        const auto added = client->Increment("sum", 1);
        ASSERT_TRUE(added.ok()) << added.status();
        ASSERT_EQ(*added, ++sum);
        break;
      }
      case 1: {
        text += static_cast<char>('a' + i % 26);
        const auto size = client->Append("text", text.substr(text.size() - 1));
        ASSERT_TRUE(size.ok()) << size.status();
        ASSERT_EQ(*size, text.size());
        break;
      }
      case 2:
        if (sum > 0) {
          ASSERT_EQ(client->Get("sum").value_or("none"), std::to_string(sum));
        }
        break;
      default:
        if (text.empty()) break;
        const std::vector<std::string_view> keys = {"text", "none"};
        std::vector<GetResult> results(keys.size());
        ASSERT_CODE(kOk, client->MultiGet(keys, results));
        ASSERT_EQ(results[0].value, text);
        ASSERT_CODE(kNotFound, results[1].status);
    }
  }
  EXPECT_GT(client->counters().reconnects, 100u);
  EXPECT_GT(client->counters().completion_queries, 20u);
}

}  // namespace
}  // namespace remora
