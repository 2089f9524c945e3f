// How operations of an AsyncClient end before their time: cancelled, late, with the client, with the
// connection, or because the server talks nonsense. In one thread, with a server that works when it is told
// to.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "store/format/wire/messages.h"
#include "tests/conformance/async_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/tampered_connection.h"

namespace remora {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class AsyncEnd : public testing::Test, protected SimServed {
 protected:
  using Outcome = AsyncOutcome;

  AsyncEnd() : SimServed(/*seed=*/1) {
    Serve({.store = {.memory_size = std::size_t{16} << 20, .clock = &network_.clock()}, .log = {}});
    network_.set_step([this] {
      if (server_ != nullptr && !server_rests_) server_->Step();
    });
    client_ = NewClient({});
    other_ = Connect({});
  }

  std::unique_ptr<AsyncClient> NewClient(const AsyncOptions& async,
                                         const ClientOptions& options = {.location_cache_bytes = 0}) {
    auto connection = std::make_unique<TamperedConnection>(network_.Dial(), tampering_);
    auto client = AsyncClient::Connect(std::move(connection), options, async, network_.clock());
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  static AsyncClient::Done Into(Outcome& outcome) { return outcome.Taker(); }
  AsyncClient::OperationId BeginGet(std::string_view key, Outcome& outcome) {
    const AsyncClient::Begun begun = client_->Get(key, Into(outcome));
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun.value_or(0);
  }
  /// Condition of a put that is to share no message.
  static constexpr Condition kAlone = Condition::Absent();
  AsyncClient::OperationId BeginPut(std::string_view key, std::string_view value, Outcome& outcome,
                                    const CallOptions& call = {}, Condition condition = {}) {
    const AsyncClient::Begun begun = client_->Put(key, value, {.condition = condition}, Into(outcome), call);
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun.value_or(0);
  }
  void WaitAll() {
    const absl::Status all = client_->WaitAll(network_.clock().Now() + seconds(60));
    ASSERT_TRUE(all.ok()) << all;
  }
  /// Most READs that an AsyncClient has in flight (AsyncReads::kMaxReadsInFlight).
  static constexpr std::size_t kMostReads = 32;
  /// Begins as many GETs as may have a READ in flight, and holds these READs back. A lookup that begins
  /// behind them plans its READ, and does not post it.
  void FillReads() {
    fillers_ = std::vector<Outcome>(kMostReads);
    tampering_.hold_reads = true;
    for (std::size_t i = 0; i < fillers_.size(); ++i) BeginGet("none " + std::to_string(i), fillers_[i]);
    client_->Poll();
    ASSERT_EQ(tampering_.held, fillers_.size());
  }
  /// Begins a GET and cancels it: with a READ that is planned and not posted, or while that is in flight.
  void CancelAGet(std::string_view key, bool is_posted) {
    if (!is_posted && fillers_.empty()) FillReads();
    Outcome outcome;
    const AsyncClient::OperationId id = BeginGet(key, outcome);
    tampering_.hold_reads = true;
    client_->Poll();
    ASSERT_TRUE(client_->Cancel(id));
    tampering_.hold_reads = false;
    WaitAll();
    ASSERT_OUTCOME(kCancelled, outcome);
    for (const Outcome& filler : fillers_) ASSERT_OUTCOME(kNotFound, filler);
    fillers_.clear();
    ASSERT_EQ(client_->free_slots(), 64u);
  }
  std::string Get(std::string_view key) {
    Outcome outcome;
    BeginGet(key, outcome);
    WaitAll();
    return outcome.text();
  }
  /// Returns the value of `key`, as another client sees it.
  std::string Seen(std::string_view key) {
    std::string value;
    const absl::Status status = other_->Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }
  void ExpectThatAllIsWell() {
    std::vector<Outcome> outcomes(client_->free_slots());
    EXPECT_EQ(outcomes.size(), 64u);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      BeginPut("well " + std::to_string(i), "it is", outcomes[i]);
    }
    WaitAll();
    for (const Outcome& outcome : outcomes) EXPECT_OUTCOME(kOk, outcome);
    for (std::size_t i = 0; i < outcomes.size(); ++i) BeginGet("well " + std::to_string(i), outcomes[i]);
    WaitAll();
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.text(), "it is");
  }

  Tampering tampering_;
  std::vector<Outcome> fillers_;  // of FillReads
  bool server_rests_ = false;
  std::unique_ptr<AsyncClient> client_;
  std::unique_ptr<Client> other_;
};

// --- Cancel ---------------------------------------------------------------------------------------------

TEST_F(AsyncEnd, ACancelledReadThatWasNotPostedIsForgotten) {
  Outcome outcome;
  const auto id = BeginGet("key", outcome);
  const std::uint64_t reads = client_->counters().reads;
  EXPECT_TRUE(client_->Cancel(id));
  EXPECT_EQ(outcome.calls, 0) << "callbacks are for Poll";
  EXPECT_FALSE(client_->Cancel(id)) << "once is enough";
  EXPECT_EQ(client_->Poll(), 1u);
  EXPECT_OUTCOME(kCancelled, outcome);
  EXPECT_FALSE(client_->Cancel(id));
  EXPECT_FALSE(client_->Cancel(0));
  EXPECT_FALSE(client_->Cancel(~std::uint64_t{0}));
  EXPECT_EQ(client_->counters().reads, reads);
  ExpectThatAllIsWell();
  EXPECT_EQ(outcome.calls, 1);
}

TEST_F(AsyncEnd, ACancelledReadKeepsItsPlaceUntilTheDeviceIsDone) {
  ASSERT_TRUE(other_->Put("key", "value").ok());
  tampering_.hold_reads = true;
  std::vector<Outcome> outcomes(2);
  const auto id = BeginGet("key", outcomes[0]);
  BeginGet("key", outcomes[1]);
  client_->Poll();
  ASSERT_EQ(tampering_.held, 2u);
  EXPECT_TRUE(client_->Cancel(id));
  EXPECT_EQ(client_->Poll(), 1u);
  EXPECT_OUTCOME(kCancelled, outcomes[0]);
  EXPECT_EQ(client_->free_slots(), 62u) << "its buffer is the device's";
  tampering_.hold_reads = false;
  WaitAll();
  EXPECT_EQ(outcomes[1].text(), "value");
  EXPECT_EQ(outcomes[0].calls, 1);
  ExpectThatAllIsWell();
}

// Lookups share the READ of generations: one that ends leaves it to the others.
TEST_F(AsyncEnd, ACancelledLookupLeavesTheReadOfGenerationsToTheNext) {
  client_ = NewClient({}, {.location_cache_bytes = kDefaultLocationCacheBytes});
  for (const bool is_posted : {false, true}) {
    ASSERT_TRUE(other_->Put("key", "value").ok());
    ASSERT_EQ(Get("key"), "value");
    network_.Advance(seconds(10));  // the last look is too old
    const std::uint64_t looks = client_->counters().generation_reads;
    CancelAGet("key", is_posted);
    ASSERT_EQ(Get("key"), "value");
    EXPECT_EQ(client_->counters().generation_reads, looks + 1) << (is_posted ? "posted" : "planned");
    const std::uint64_t reads = client_->counters().reads;
    ASSERT_EQ(Get("key"), "value");
    EXPECT_EQ(client_->counters().reads, reads + 1) << (is_posted ? "posted" : "planned");
  }
}

// The same of the READs that keep the mirror of the index. The changes are more than one READ takes, so the
// READ in flight leads to another one, which the lookup that has ended must not keep.
TEST_F(AsyncEnd, ACancelledLookupLeavesTheReadsForTheMirrorToTheNext) {
  const auto put_all = [&] {
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(other_->Put(std::to_string(i), "value").ok());
  };
  put_all();
  for (const bool is_posted : {false, true}) {
    client_.reset();  // with its mirror
    client_ = NewClient({}, {.location_cache_bytes = 0, .index_mirror_bytes = std::size_t{1} << 20});
    for (int i = 0; i < 3; ++i) {
      if (!is_posted) FillReads();  // while no READ for the mirror is due
      put_all();
      network_.Advance(milliseconds(101));
      CancelAGet("7", is_posted);
      const std::uint64_t upkeep = client_->counters().mirror_reads;
      ASSERT_EQ(Get("8"), "value");
      EXPECT_GT(client_->counters().mirror_reads, upkeep) << (is_posted ? "posted" : "planned");
    }
  }
}

TEST_F(AsyncEnd, ACancelledWriteMayBeDone) {
  server_rests_ = true;
  std::vector<Outcome> outcomes(20);
  std::vector<AsyncClient::OperationId> ids;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    ids.push_back(BeginPut(std::to_string(i), "v", outcomes[i], {}, kAlone));
  client_->Poll();
  // The first ones were sent; those behind the last credit wait for one.
  for (const std::size_t i : {std::size_t{0}, std::size_t{15}, std::size_t{16}, std::size_t{19}}) {
    EXPECT_TRUE(client_->Cancel(ids[i]));
  }
  EXPECT_EQ(client_->Poll(), 4u);
  EXPECT_EQ(client_->free_slots(), 48u) << "what was sent keeps no place";
  server_rests_ = false;
  WaitAll();
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const bool cancelled = i == 0 || i == 15 || i == 16 || i == 19;
    EXPECT_EQ(outcomes[i].status.code(), cancelled ? absl::StatusCode::kCancelled : absl::StatusCode::kOk)
        << i;
    EXPECT_EQ(outcomes[i].calls, 1) << i;
    EXPECT_EQ(Seen(std::to_string(i)), i == 16 || i == 19 ? "NOT_FOUND" : "v") << i;
  }
  ExpectThatAllIsWell();
}

TEST_F(AsyncEnd, OfPutsThatShareAMessageEachEndsByItself) {
  server_rests_ = true;
  std::vector<Outcome> outcomes(7);
  std::vector<AsyncClient::OperationId> ids;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const CallOptions call = {.timeout = i == 3 ? milliseconds(50) : seconds(10)};
    ids.push_back(BeginPut(std::to_string(i), "v", outcomes[i], call));
  }
  client_->Poll();
  EXPECT_TRUE(client_->Cancel(ids[2]));
  EXPECT_EQ(client_->Poll(), 1u);
  EXPECT_TRUE(client_->Wait(network_.clock().Now() + seconds(1)).ok());
  EXPECT_OUTCOME(kDeadlineExceeded, outcomes[3]);
  EXPECT_TRUE(client_->Cancel(ids[6]));
  EXPECT_EQ(client_->free_slots(), 64u - 5) << "one has not been called back";
  server_rests_ = false;
  WaitAll();
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const absl::StatusCode wanted = i == 3             ? absl::StatusCode::kDeadlineExceeded
                                    : i == 2 || i == 6 ? absl::StatusCode::kCancelled
                                                       : absl::StatusCode::kOk;
    EXPECT_EQ(outcomes[i].status.code(), wanted) << i;
    EXPECT_EQ(outcomes[i].calls, 1) << i;
    EXPECT_EQ(Seen(std::to_string(i)), "v") << "it was sent";
  }
  ExpectThatAllIsWell();
}

TEST_F(AsyncEnd, CallbacksBeginAndCancel) {
  std::vector<Outcome> outcomes(3);
  const auto victim = BeginGet("victim", outcomes[0]);
  int chain = 0;
  std::function<void(const AsyncResult&)> next = [&](const AsyncResult& result) {
    EXPECT_TRUE(result.status.ok()) << result.status;
    if (++chain < 1000) {
      EXPECT_TRUE(client_->Put("chain", std::to_string(chain), [&](const AsyncResult& r) { next(r); }).ok());
    }
  };
  ASSERT_TRUE(client_->Cancel(victim));
  ASSERT_TRUE(client_
                  ->Ping([&](const AsyncResult& result) {
                    next(result);
                    const auto id = BeginPut("cancelled", "v", outcomes[1]);
                    EXPECT_TRUE(client_->Cancel(id));
                    BeginPut("begun", "v", outcomes[2]);
                  })
                  .ok());
  WaitAll();
  EXPECT_EQ(chain, 1000);
  EXPECT_OUTCOME(kCancelled, outcomes[0]);
  EXPECT_OUTCOME(kCancelled, outcomes[1]);
  EXPECT_OUTCOME(kOk, outcomes[2]);
  EXPECT_EQ(Seen("chain"), "999");
  ExpectThatAllIsWell();
}

// Through a mapping, a GET ends in the Poll that posts it: for a caller that begins another in each
// callback, Poll still returns.
TEST_F(AsyncEnd, PollReturnsThoughCallbacksNeverStop) {
  std::uint64_t ended = 0;
  bool stop = false;
  std::function<void(const AsyncResult&)> again = [&](const AsyncResult&) {
    ++ended;
    if (!stop) {
      EXPECT_TRUE(client_->Get("key", [&](const AsyncResult& r) { again(r); }).ok());
    }
  };
  again({});
  for (int i = 0; i < 100; ++i) EXPECT_LE(client_->Poll(), 64u);
  EXPECT_GT(ended, 100u);
  stop = true;
  WaitAll();
}

// --- Deadlines ------------------------------------------------------------------------------------------

TEST_F(AsyncEnd, AServerThatHangsCostsTheOperationsAlone) {
  ASSERT_TRUE(other_->Put("key", "value").ok());
  server_rests_ = true;
  std::vector<Outcome> outcomes(20);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    BeginPut(std::to_string(i), "v", outcomes[i], {.timeout = milliseconds(i % 2 == 0 ? 200 : 400)}, kAlone);
  }
  ASSERT_TRUE(client_->next_deadline().has_value());
  EXPECT_LE(*client_->next_deadline(), network_.clock().Now() + milliseconds(200) + Clock::kCoarseness);
  Outcome got;
  BeginGet("key", got);
  EXPECT_TRUE(client_->Wait(network_.clock().Now() + milliseconds(10)).ok());
  EXPECT_EQ(got.text(), "value") << "READs need no server";
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_->Wait(network_.clock().Now() + milliseconds(10)).status()));
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.calls, 0);

  const TimePoint begun = network_.clock().Now();
  std::size_t ended = 0;
  while (ended < 10) ended += *client_->Wait(begun + seconds(10));
  EXPECT_GE(network_.clock().Now() - begun, milliseconds(100));
  for (std::size_t i = 0; i < outcomes.size(); ++i) EXPECT_EQ(outcomes[i].calls, i % 2 == 0 ? 1 : 0) << i;
  WaitAll();
  for (const Outcome& outcome : outcomes) EXPECT_OUTCOME(kDeadlineExceeded, outcome);
  EXPECT_EQ(client_->next_deadline(), std::nullopt);
  EXPECT_TRUE(client_->status().ok());

  server_rests_ = false;
  ExpectThatAllIsWell();
  // The put that was sent was done, late; the one that waited for a credit was not.
  EXPECT_EQ(Seen("0"), "v");
  EXPECT_EQ(Seen("15"), "v");
  EXPECT_EQ(Seen("16"), "NOT_FOUND");
}

TEST_F(AsyncEnd, AReadThatIsLate) {
  tampering_.hold_reads = true;
  Outcome outcome;
  ASSERT_TRUE(client_->Get("key", Into(outcome), {.timeout = milliseconds(50)}).ok());
  WaitAll();
  EXPECT_OUTCOME(kDeadlineExceeded, outcome);
  tampering_.hold_reads = false;
  client_->Poll();
  ExpectThatAllIsWell();
}

// Each reads for longer than the server keeps memory for readers, asks it, reads for too long at the place of
// the answer, and asks again. There is always something to do for one of them.
TEST_F(AsyncEnd, GetsThatAreAlwaysTooLateEndAllTheSame) {
  constexpr int kGets = 8;
  for (int i = 0; i < kGets; ++i) ASSERT_TRUE(other_->Put(std::to_string(i), "value").ok());
  network_.set_interference([this] { network_.Advance(milliseconds(300)); }, 1);
  std::vector<Outcome> outcomes(kGets);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    ASSERT_TRUE(client_->Get(std::to_string(i), Into(outcomes[i]), {.timeout = seconds(300)}).ok());
  }
  WaitAll();
  for (const Outcome& outcome : outcomes) EXPECT_OUTCOME(kDeadlineExceeded, outcome);
  network_.set_interference({}, 1);
  ExpectThatAllIsWell();
}

// --- The client's end, and the connection's ---------------------------------------------------------------

TEST_F(AsyncEnd, DestroyedWithOperationsInFlight) {
  server_rests_ = true;
  tampering_.hold_reads = true;
  std::vector<Outcome> outcomes(30);
  AsyncClient::Begun in_callback = 0;
  for (std::size_t i = 0; i < 20; ++i) BeginPut(std::to_string(i), "v", outcomes[i]);
  for (std::size_t i = 20; i < 29; ++i) BeginGet(std::to_string(i), outcomes[i]);
  client_->Poll();
  BeginGet("not posted", outcomes[29]);
  ASSERT_TRUE(client_->Ping([&](const AsyncResult&) { in_callback = client_->Ping({}); }).ok());
  // For the callback, the client is still there.
  delete client_.get();
  static_cast<void>(client_.release());
  for (const Outcome& outcome : outcomes) {
    EXPECT_OUTCOME(kCancelled, outcome);
    EXPECT_EQ(outcome.calls, 1);
  }
  EXPECT_CODE(kUnavailable, in_callback.status());
}

TEST_F(AsyncEnd, ABrokenConnectionEndsAll) {
  server_rests_ = true;
  tampering_.hold_reads = true;
  std::vector<Outcome> outcomes(30);
  for (std::size_t i = 0; i < 20; ++i) BeginPut(std::to_string(i), "v", outcomes[i]);
  for (std::size_t i = 20; i < 29; ++i) BeginGet(std::to_string(i), outcomes[i]);
  client_->Poll();
  BeginGet("not posted", outcomes[29]);
  server_.reset();
  tampering_.hold_reads = false;
  WaitAll();
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.calls, 1);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_OUTCOME(kUnavailable, outcomes[i]);
  EXPECT_CODE(kUnavailable, client_->status());
  Outcome later;
  EXPECT_CODE(kUnavailable, client_->Get("key", Into(later)).status());
  EXPECT_CODE(kUnavailable, client_->Put("key", "v", Into(later)).status());
  EXPECT_EQ(client_->Poll(), 0u);
  EXPECT_EQ(later.calls, 0);
}

// --- A server that talks nonsense
// ---------------------------------------------------------------------------

struct Nonsense {
  const char* name;
  std::function<void(Reply&)> change;
};

TEST_F(AsyncEnd, RepliesThatAnswerNothingBreakTheConnection) {
  std::uint64_t last_id = 0;
  const Nonsense all[] = {
      {"of an id that was never sent", [](Reply& reply) { reply.request_id += 1'000'000; }},
      {"of id 0", [](Reply& reply) { reply.request_id = 0; }},
      {"twice of one id",
       [&last_id](Reply& reply) {
         if (last_id != 0) reply.request_id = last_id;
         last_id = reply.request_id;
       }},
      {"with more text than fits", [](Reply& reply) { reply.behind_size = kMaxReplyBehind + 1; }},
      {"with more text than came", [](Reply& reply) { reply.behind_size = 1; }},
  };
  for (const Nonsense& nonsense : all) {
    SCOPED_TRACE(nonsense.name);
    tampering_ = {};
    client_ = NewClient({});
    tampering_.change_reply = nonsense.change;
    std::vector<Outcome> outcomes(10);
    for (std::size_t i = 0; i < outcomes.size(); ++i) BeginPut(std::to_string(i), "v", outcomes[i]);
    WaitAll();
    EXPECT_OUTCOME(kUnavailable, outcomes.back());
    EXPECT_THAT(std::string(client_->status().message()), testing::HasSubstr("answers nothing"));
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.calls, 1);
  }
}

TEST_F(AsyncEnd, ALocatedPlaceThatIsNoneIsAnError) {
  Reply lie;
  tampering_.change_reply = [&](Reply& reply) {
    reply.slot = lie.slot;
    reply.version = lie.version;
  };
  // The server is asked for those of which the client does not know whether they have expired.
  for (const std::size_t size : {std::size_t{100}, std::size_t{400'000}}) {
    ASSERT_TRUE(other_->Put(std::to_string(size), std::string(size, 'v'), {.ttl = hours(1)}).ok());
  }
  network_.Advance(std::chrono::minutes(10));
  // No key's, and out of bounds.
  for (const std::uint64_t slot : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 62 | 77}) {
    lie.slot = slot;
    lie.version = 5;
    for (const char* const key : {"100", "400000"}) {
      Outcome outcome;
      BeginGet(key, outcome);
      WaitAll();
      EXPECT_OUTCOME(kInternal, outcome);
      network_.Advance(std::chrono::minutes(2));
    }
  }
  tampering_ = {};
  ExpectThatAllIsWell();
}

}  // namespace
}  // namespace remora
