// An AsyncClient whose connection is cut, or whose server is killed, at every step of the operations in
// flight. Each write is done once, in the order in which they were begun, or its callback is told that nobody
// knows.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "store/base/check.h"
#include "tests/conformance/async_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/server_thread.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::seconds;

class AsyncLost : public SimServed, public testing::Test {
 protected:
  using Outcome = AsyncOutcome;

  explicit AsyncLost(std::uint64_t seed = 11) : SimServed(seed) { network_.set_piece_size(256); }

  ServerOptions Options() {
    ServerOptions options;
    options.store.memory_size = 64 * kMiB;
    options.store.clock = &network_.clock();
    return options;
  }
  /// The server ends in the middle of what it does, at the next step, and another takes its place.
  void ServeWithKills(const ServerOptions& options) {
    Serve(options);
    network_.set_step([this, options] {
      if (!kill_) server_->Step();
      if (!kill_) return;
      kill_ = false;
      server_.reset();
      auto server = Server::Create(options);
      REMORA_CHECK(server.ok());
      server_ = *std::move(server);
      REMORA_CHECK(server_->AddListener(network_.Listen()).ok());
    });
  }
  std::unique_ptr<AsyncClient> NewClient(const ClientOptions& options = {}) {
    auto client = AsyncClient::Connect([this](TimePoint) { return network_.Dial(); }, options, {.depth = 32},
                                       network_.clock());
    REMORA_CHECK(client.ok());
    return *std::move(client);
  }
  void WaitAll(AsyncClient& client) {
    const absl::Status all = client.WaitAll(network_.clock().Now() + seconds(60));
    ASSERT_TRUE(all.ok()) << all;
  }
  /// Reads at the server, in this thread, whatever becomes of connections.
  std::string Seen(std::string_view key) {
    std::string value;
    const absl::Status status = server_->store().Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }
  /// Lets messages arrive that were in flight when a connection was cut, if they do.
  void LetTheLateCome() {
    for (int i = 0; i < 2 * SimNetwork::kLate; ++i) server_->Step();
  }

  /// Operations of each kind, that tell themselves done twice, not done, and done in another order.
  struct Batch {
    std::vector<std::unique_ptr<Outcome>> sums, sizes, reads, puts;
    Outcome absent, rejected, removed, applied, touched, pinged, appended;
  };
  void Begin(AsyncClient& client, const std::string& to, Batch& batch) {
    const auto begun = [](const AsyncClient::Begun& one) { ASSERT_TRUE(one.ok()) << one.status(); };
    const auto into = [](std::vector<std::unique_ptr<Outcome>>& outcomes) {
      outcomes.push_back(std::make_unique<Outcome>());
      return outcomes.back()->Taker();
    };
    begun(client.Get(to + "there", into(batch.reads)));
    begun(client.Put(to + "once", "made", {.condition = Condition::Absent()}, batch.absent.Taker()));
    // It is there, and gone when the next one is done: this one is rejected, or has come too late.
    begun(client.Put(to + "there", "late", {.condition = Condition::Absent()}, batch.rejected.Taker()));
    begun(client.Delete(to + "there", batch.removed.Taker()));
    // They share messages. Any of them that is done again is seen: it comes behind what is put behind them.
    for (int i = 0; i < 5; ++i) begun(client.Put(to + "last", std::to_string(i), into(batch.puts)));
    begun(client.Append(to + "last", " and more", batch.appended.Taker()));
    for (int i = 0; i < 4; ++i) {
      begun(client.Increment(to + "sum", 1, into(batch.sums)));
      begun(client.Append(to + "text", std::string(1, static_cast<char>('a' + i)), into(batch.sizes)));
    }
    begun(client.Exists(to + "none", into(batch.reads)));
    WriteBatch writes;
    writes.Put(to + "b1", "1", {.condition = Condition::Absent()});
    writes.Put(to + "b2", std::string(20'000, 'b'), {.condition = Condition::Absent()});
    begun(client.Apply(writes, batch.applied.Taker()));
    begun(client.Touch(to + "once", std::chrono::hours(1), batch.touched.Taker()));
    begun(client.Ping(batch.pinged.Taker()));
  }
  /// Expects each result to be as its callback was told.
  void ExpectDoneOnceInOrder(const std::string& to, const Batch& batch) {
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_OUTCOME(kOk, *batch.sums[i]);
      EXPECT_EQ(batch.sums[i]->number, static_cast<std::int64_t>(i + 1));
      EXPECT_OUTCOME(kOk, *batch.sizes[i]);
      EXPECT_EQ(batch.sizes[i]->number, static_cast<std::int64_t>(i + 1));
    }
    std::uint64_t version = 0;
    for (const auto& put : batch.puts) {
      EXPECT_OUTCOME(kOk, *put);
      EXPECT_GT(put->version, version);
      version = put->version;
    }
    EXPECT_OUTCOME(kOk, batch.appended);
    EXPECT_GT(batch.appended.version, version);
    EXPECT_OUTCOME(kOk, batch.absent);
    EXPECT_OUTCOME(kOk, batch.removed);
    EXPECT_OUTCOME(kOk, batch.applied);
    EXPECT_OUTCOME(kOk, batch.touched);
    EXPECT_OUTCOME(kOk, batch.pinged);
    EXPECT_TRUE(absl::IsAlreadyExists(batch.rejected.status) || absl::IsAborted(batch.rejected.status))
        << batch.rejected.status;
    EXPECT_OUTCOME(kNotFound, *batch.reads[1]);
    EXPECT_TRUE(batch.reads[0]->text() == "it is" || absl::IsNotFound(batch.reads[0]->status));
    LetTheLateCome();
    EXPECT_EQ(Seen(to + "last"), "4 and more");
    EXPECT_EQ(Seen(to + "sum"), "4");
    EXPECT_EQ(Seen(to + "text"), "abcd");
    EXPECT_EQ(Seen(to + "once"), "made");
    EXPECT_EQ(Seen(to + "there"), "NOT_FOUND") << "a rejected write was done behind a later one";
    EXPECT_EQ(Seen(to + "b1"), "1");
    EXPECT_LT(batch.sums[0]->version, batch.sizes[0]->version);
    EXPECT_LT(batch.sizes[3]->version, batch.applied.version);
  }
  /// Cuts at every step of such a batch, by `cut_at`(event); returns how many writes were asked for.
  template <typename CutAt>
  std::uint64_t Sweep(const CutAt& cut_at, std::uint64_t stride) {
    std::uint64_t outcomes = 0;
    bool all = false;
    for (std::uint64_t event = 1; !all; event += stride) {
      SCOPED_TRACE(event);
      const std::unique_ptr<AsyncClient> client = NewClient();
      const std::string to = std::to_string(++batches_) + "/";
      Outcome there;
      EXPECT_TRUE(client->Put(to + "there", "it is", there.Taker()).ok());
      WaitAll(*client);
      EXPECT_OUTCOME(kOk, there);
      Batch batch;
      Begin(*client, to, batch);
      cut_at(event);
      WaitAll(*client);
      all = network_.is_cut_due();
      network_.CutAt(0, SimNetwork::Cut::kBoth);
      kill_ = false;
      ExpectDoneOnceInOrder(to, batch);
      EXPECT_LE(client->counters().reconnects, 1u);
      if (client->status().ok()) {
        EXPECT_EQ(client->free_slots(), 32u);
      }
      outcomes += client->counters().completion_queries;
      if (HasFailure()) return outcomes;
    }
    return outcomes;
  }

  bool kill_ = false;
  int batches_ = 0;
};

TEST_F(AsyncLost, AConnectionCutAtAnyStepLeavesEachWriteDoneOnceAndInOrder) {
  Serve(Options());
  for (const SimNetwork::Cut cut : {SimNetwork::Cut::kBoth, SimNetwork::Cut::kClient}) {
    EXPECT_GT(Sweep([&](std::uint64_t event) { network_.CutAt(event, cut); }, 1), 20u);
  }
  EXPECT_EQ(server_->store().Read(Metric::kCompletionsUnknown), 0u);
}

TEST_F(AsyncLost, AServerKilledAtAnyStepLeavesEachLoggedWriteDoneOnceAndInOrder) {
  const TempDir dir;
  ServerOptions options = Options();
  options.store.durability = Durability::kLogged;
  options.store.data_dir = dir.path() + "/data";
  ServeWithKills(options);
  const auto kill = [&](std::uint64_t event) {
    network_.CutAt(event, SimNetwork::Cut::kBoth, [&] { kill_ = true; });
  };
  EXPECT_GT(Sweep(kill, 3), 5u);
}

TEST_F(AsyncLost, AServerThatForgotAllSaysSo) {
  ServeWithKills(Options());
  int unknown = 0;
  bool all = false;
  for (std::uint64_t event = 1; !all; ++event) {
    SCOPED_TRACE(event);
    const std::unique_ptr<AsyncClient> client = NewClient();
    std::vector<Outcome> sums(4);
    Outcome read;
    for (Outcome& sum : sums) {
      ASSERT_TRUE(client->Increment("sum " + std::to_string(event), 1, sum.Taker()).ok());
    }
    ASSERT_TRUE(client->Get("none", read.Taker()).ok());
    network_.CutAt(event, SimNetwork::Cut::kBoth, [&] { kill_ = true; });
    WaitAll(*client);
    all = network_.is_cut_due();
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    kill_ = false;
    int done = 0;
    for (const Outcome& sum : sums) {
      if (absl::IsUnknown(sum.status)) {
        ++unknown;
      } else {
        EXPECT_OUTCOME(kOk, sum);
        ++done;
      }
    }
    EXPECT_OUTCOME(kNotFound, read);
    LetTheLateCome();
    const std::string seen = Seen("sum " + std::to_string(event));
    EXPECT_LE(seen == "NOT_FOUND" ? 0 : std::stoi(seen), done) << "one that nobody knows of was sent again";
    EXPECT_EQ(client->counters().completion_queries, 0u);
  }
  EXPECT_GT(unknown, 10);
}

// One that waits for the disk stays unanswered, while others come and go: none is sent whose place, among the
// outcomes that the server remembers, will be the first one's.
TEST_F(AsyncLost, NoOutcomeIsPushedOutByThoseBehindIt) {
  const TempDir dir;
  ServerOptions options = Options();
  options.store.durability = Durability::kLogged;
  options.store.syncing = Syncing::kInSteps;
  options.store.data_dir = dir.path() + "/data";
  Serve(options);
  bool syncs = false;
  int steps = 0;
  network_.set_step([&] {
    server_->Step();
    if (syncs && ++steps % 50 == 0) server_->store().Sync();
  });
  int held = 0;
  const auto done = [&] { return server_->store().Read(Metric::kPuts); };
  for (const bool in_lists : {false, true}) {
    bool all = false;
    for (std::uint64_t event = 1; !all; event += in_lists ? 1 : 3) {
      SCOPED_TRACE(event);
      const std::string to = std::to_string(event) + (in_lists ? " in a list/" : "/");
      const std::uint64_t done_before = done();
      Outcome synced;
      std::vector<Outcome> others(31);
      const std::unique_ptr<AsyncClient> client = NewClient();
      ASSERT_TRUE(
          client->Increment(to + "synced", 1, {.durability = Durability::kSynced}, synced.Taker()).ok());
      for (std::size_t i = 0; i < others.size(); ++i) {
        const std::string key = to + std::to_string(i);
        ASSERT_TRUE((in_lists ? client->Put(key, "1", others[i].Taker())
                              : client->Increment(key, 1, others[i].Taker()))
                        .ok());
      }
      network_.CutAt(event, SimNetwork::Cut::kClient);
      for (int i = 0; i < 200; ++i) client->Poll();
      if (synced.calls == 0) ++held;  // now and then the store has the disk asked by itself
      syncs = true;
      WaitAll(*client);
      syncs = false;
      all = network_.is_cut_due();
      network_.CutAt(0, SimNetwork::Cut::kBoth);
      LetTheLateCome();
      EXPECT_EQ(Seen(to + "synced"), "1");
      EXPECT_OUTCOME(kOk, synced);
      for (std::size_t i = 0; i < others.size(); ++i) {
        EXPECT_OUTCOME(kOk, others[i]);
        EXPECT_EQ(Seen(to + std::to_string(i)), "1");
      }
      EXPECT_EQ(done() - done_before, 32u) << "one was done again";
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(held, 20);
}

TEST_F(AsyncLost, WithoutAnotherConnectionOperationsEndAtTheirDeadlines) {
  Serve(Options());
  const std::unique_ptr<AsyncClient> client = NewClient();
  network_.set_step([] {});  // nobody accepts
  network_.CutAt(1, SimNetwork::Cut::kBoth);
  Outcome put, get, late;
  ASSERT_TRUE(client->Put("key", "value", {}, put.Taker(), {.timeout = seconds(1)}).ok());
  ASSERT_TRUE(client->Get("key", get.Taker(), {.timeout = seconds(1)}).ok());
  WaitAll(*client);
  EXPECT_OUTCOME(kUnavailable, put);
  EXPECT_OUTCOME(kUnavailable, get);
  EXPECT_FALSE(client->status().ok());
  network_.set_step([this] { server_->Step(); });
  ASSERT_TRUE(client->Get("key", late.Taker()).ok());
  WaitAll(*client);
  EXPECT_OUTCOME(kNotFound, late);
  EXPECT_TRUE(client->status().ok());
}

TEST_F(AsyncLost, ToldNotToItMakesNoOther) {
  Serve(Options());
  Outcome put, get;
  const std::unique_ptr<AsyncClient> client = NewClient({.reconnect = false});
  ASSERT_TRUE(client->Put("key", "value", put.Taker()).ok());
  ASSERT_TRUE(client->Get("key", get.Taker()).ok());
  network_.CutAt(1, SimNetwork::Cut::kBoth);
  WaitAll(*client);
  EXPECT_OUTCOME(kUnavailable, put);
  EXPECT_OUTCOME(kUnavailable, get);
  EXPECT_CODE(kUnavailable, client->Get("key", {}).status());
  EXPECT_EQ(client->counters().reconnects, 0u);
}

TEST_F(AsyncLost, CancelledAndLateOperationsAreNotSentAgain) {
  Serve(Options());
  for (std::uint64_t event = 1; event < 12; ++event) {
    SCOPED_TRACE(event);
    const std::unique_ptr<AsyncClient> client = NewClient();
    const std::string key = "sum " + std::to_string(event);
    Outcome cancelled, kept;
    const AsyncClient::Begun first = client->Increment(key, 10, cancelled.Taker());
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(client->Increment(key, 1, kept.Taker()).ok());
    network_.CutAt(event, SimNetwork::Cut::kClient);
    while (client->status().ok() && kept.calls == 0) {
      client->Poll();
      server_->Step();
    }
    const bool was_cancelled = client->Cancel(*first);
    WaitAll(*client);
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    LetTheLateCome();
    EXPECT_EQ(absl::IsCancelled(cancelled.status), was_cancelled);
    EXPECT_OUTCOME(kOk, kept);
    EXPECT_EQ(Seen(key), std::to_string(kept.number));
    EXPECT_TRUE(kept.number == 11 || (was_cancelled && kept.number == 1)) << kept.number;
  }
}

// A write that was rejected at its turn is not sent again behind one that was done since. Nor is it sent
// behind one that may have been done, of which nobody asks any more.
TEST_F(AsyncLost, BehindWhatWasCancelledNothingIsSentThatCameBefore) {
  Serve(Options());
  int aborted = 0;
  for (const bool cancels_first : {false, true}) {
    for (std::uint64_t event = 1; event < 24; ++event) {
      SCOPED_TRACE(event);
      const std::unique_ptr<AsyncClient> client = NewClient();
      const std::string key = std::to_string(event) + (cancels_first ? " first" : " then");
      Outcome there, rejected, removed;
      ASSERT_TRUE(client->Put(key, "it is", there.Taker()).ok());
      WaitAll(*client);
      ASSERT_TRUE(client->Put(key, "late", {.condition = Condition::Absent()}, rejected.Taker()).ok());
      const AsyncClient::Begun last = client->Delete(key, removed.Taker());
      ASSERT_TRUE(last.ok());
      if (cancels_first) {  // when both are sent, and neither has come
        network_.set_step([] {});
        client->Poll();
        client->Cancel(*last);
        network_.set_step([this] { server_->Step(); });
      }
      network_.CutAt(event, SimNetwork::Cut::kClient);
      while (client->status().ok() && (rejected.calls == 0 || (!cancels_first && removed.calls == 0))) {
        client->Poll();
        server_->Step();
      }
      client->Cancel(*last);
      WaitAll(*client);
      network_.CutAt(0, SimNetwork::Cut::kBoth);
      LetTheLateCome();
      EXPECT_TRUE(absl::IsAlreadyExists(rejected.status) || absl::IsAborted(rejected.status))
          << rejected.status;
      EXPECT_NE(Seen(key), "late");
      aborted += absl::IsAborted(rejected.status) ? 1 : 0;
    }
  }
  EXPECT_GT(aborted, 2);
}

// --- Connections cut time and again -----------------------------------------------------------------------

class AsyncOftenCut : public AsyncLost, public testing::WithParamInterface<std::uint64_t> {
 protected:
  AsyncOftenCut() : AsyncLost(GetParam()) { network_.set_piece_size(64); }

  AsyncClient::Begun Increment(AsyncClient& client) {
    ++begun_;
    return client.Increment("sum", 1, [this](const AsyncResult& result) {
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.number, ++told_);
    });
  }
  AsyncClient::Begun Append(AsyncClient& client) {
    ++size_;
    return client.Append("text", "x", [this](const AsyncResult& result) {
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.number, static_cast<std::int64_t>(++told_size_));
    });
  }
  AsyncClient::Begun Put(AsyncClient& client) {
    return client.Put("last", std::to_string(++puts_), [this](const AsyncResult& result) {
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_GT(result.version, last_version_);
      last_version_ = result.version;
    });
  }
  AsyncClient::Begun Get(AsyncClient& client) {
    return client.Get("sum", [this, at_least = told_](const AsyncResult& result) {
      if (absl::IsNotFound(result.status)) {
        EXPECT_EQ(at_least, 0);
        return;
      }
      ASSERT_TRUE(result.status.ok()) << result.status;
      const std::int64_t seen = std::stoll(std::string(result.value));
      EXPECT_GE(seen, at_least);
      EXPECT_LE(seen, begun_);
    });
  }

  std::int64_t begun_ = 0, told_ = 0;
  std::size_t size_ = 0, told_size_ = 0;
  std::uint64_t puts_ = 0, last_version_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Seeds, AsyncOftenCut, testing::Range(std::uint64_t{1}, std::uint64_t{9}));

TEST_P(AsyncOftenCut, EachWriteIsDoneOnceAndEachReadIsRight) {
  Serve(Options());
  std::mt19937_64 random(GetParam());
  const std::unique_ptr<AsyncClient> client = NewClient();
  for (int i = 0; i < 3000; ++i) {
    if (!network_.is_cut_due()) {
      const auto cut = random() % 2 == 0 ? SimNetwork::Cut::kBoth : SimNetwork::Cut::kClient;
      network_.CutAt(1 + random() % 60, cut);
    }
    while (client->free_slots() == 0) {
      ASSERT_TRUE(client->Wait(network_.clock().Now() + seconds(60)).ok());
    }
    switch (random() % 5) {
      case 0:
        ASSERT_TRUE(Increment(*client).ok());
        break;
      case 1:
        ASSERT_TRUE(Append(*client).ok());
        break;
      case 2:
      case 3:
        ASSERT_TRUE(Put(*client).ok());
        break;
      default:
        ASSERT_TRUE(Get(*client).ok());
    }
    if (random() % 8 == 0) client->Poll();
    if (HasFailure()) return;
  }
  network_.CutAt(0, SimNetwork::Cut::kBoth);
  WaitAll(*client);
  EXPECT_EQ(told_, begun_);
  EXPECT_EQ(told_size_, size_);
  EXPECT_EQ(Seen("sum"), std::to_string(begun_));
  EXPECT_EQ(Seen("last"), std::to_string(puts_));
  EXPECT_EQ(server_->store().Read(Metric::kPuts), puts_ + size_ + static_cast<std::uint64_t>(begun_));
  EXPECT_GT(client->counters().reconnects, 20u);
  EXPECT_GT(client->counters().completion_queries, 20u);
}

}  // namespace
}  // namespace remora
