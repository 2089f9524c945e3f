// Values that are read into memory of the caller's, and put from it, without a copy: on every transport, side
// by side, ended early, and cut off at every step.
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/coroutine_client.h"
#include "store/format/wire/messages.h"
#include "tests/conformance/async_fixture.h"
#include "tests/conformance/async_sim_fixture.h"
#include "tests/support/random_bytes.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kSizes[] = {0,           1,
                                  100,         kMinZeroCopyBytes - 1,
                                  4000,        kMinZeroCopyBytes,
                                  100'000,     kMaxSmallValueSize,
                                  kMiB,        kMaxSmallValueSize + 1,
                                  5 * kMiB + 3};

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
void Fill(std::span<std::byte> bytes, const std::string& value) {
  std::memcpy(bytes.data(), value.data(), value.size());
}

class Registered : public Async {
 protected:
  /// Memory of so many bytes, registered with the client for many operations, and with the other one.
  void Register(std::size_t size) {
    ConnectAsync({}, {.timeout = std::chrono::minutes(1)});  // megabytes are in flight together
    memory_.assign(size, std::byte{'m'});
    buffer_ = *async_->Register(memory_);
    sync_buffer_ = *kv_->client()->Register(memory_);
  }
  void TearDown() override {
    buffer_.reset();
    sync_buffer_.reset();
    Async::TearDown();
  }
  Outcome AsyncGetInto(std::string_view key, const RegisteredBytes& into) {
    return Do([&](AsyncClient::Done done) { return async_->Get(key, into, std::move(done)); });
  }
  Outcome AsyncPutFrom(std::string_view key, const RegisteredBytes& value, const PutOptions& options = {}) {
    return Do([&](AsyncClient::Done done) { return async_->Put(key, value, options, std::move(done)); });
  }

  std::vector<std::byte> memory_;
  std::unique_ptr<RegisteredBuffer> buffer_;
  std::unique_ptr<RegisteredBuffer> sync_buffer_;
};

INSTANTIATE_TEST_SUITE_P(On, Registered,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Registered, ValuesOfAnySizeAreReadToWhereTheyAreWanted) {
  START({.memory_size = 64 * kMiB});
  Register(6 * kMiB);
  for (const std::size_t size : kSizes) {
    const std::string value = RandomBytes(size, size + 1);
    ASSERT_CODE(kOk, Put("key", value));
    for (const std::size_t offset : {std::size_t{0}, std::size_t{77}}) {
      const RegisteredBytes into = buffer_->Part(offset, size);
      const Outcome got = AsyncGetInto("key", into);
      ASSERT_OUTCOME(kOk, got);
      EXPECT_EQ(got.version, AsyncGet("key").version);
      EXPECT_TRUE(got.value == value) << size;
      EXPECT_TRUE(TextOf(into.bytes()) == value) << size;
      EXPECT_EQ(kv_->client()->Get("key", sync_buffer_->Part(offset + 1, size)).value_or(~0u), size);
      EXPECT_TRUE(TextOf(std::span(memory_).subspan(offset + 1, size)) == value) << size;
    }
  }
  EXPECT_OUTCOME(kNotFound, AsyncGetInto("none", *buffer_));
  EXPECT_CODE(kInvalidArgument, async_->Get("", *buffer_, {}).status());
}

TEST_P(Registered, ValuesOfAnySizeArePutFromWhereTheyAre) {
  START({.memory_size = 64 * kMiB});
  Register(6 * kMiB);
  for (const std::size_t size : kSizes) {
    const std::string value = RandomBytes(size, size + 1);
    Fill(std::span(memory_).subspan(77, size), value);
    std::uint64_t version = 0;
    PutOptions options;
    options.version = &version;
    const Outcome put = AsyncPutFrom("async", buffer_->Part(77, size), options);
    ASSERT_OUTCOME(kOk, put);
    EXPECT_EQ(put.version, version);
    EXPECT_TRUE(Get("async") == value) << size;
    ASSERT_CODE(kOk, kv_->client()->Put("sync", sync_buffer_->Part(77, size), options));
    EXPECT_GT(version, put.version);
    EXPECT_TRUE(Get("sync") == value) << size;
    EXPECT_TRUE(TextOf(std::span(memory_).subspan(77, size)) == value) << "it was written to";
  }
  const RegisteredBytes some = buffer_->Part(0, 5000);
  EXPECT_OUTCOME(kAlreadyExists, AsyncPutFrom("sync", some, {.condition = Condition::Absent()}));
  EXPECT_CODE(kInvalidArgument, async_->Put("", some, {}, {}).status());
  EXPECT_CODE(kAlreadyExists,
              kv_->client()->Put("sync", sync_buffer_->Part(0, 5000), {.condition = Condition::Absent()}));
}

TEST_P(Registered, ASmallBufferFailsWithTheSizeAndIsNotExceeded) {
  START({.memory_size = 64 * kMiB});
  Register(1000);
  for (const std::size_t size : {std::size_t{901}, std::size_t{50'000}, 2 * kMiB}) {
    ASSERT_CODE(kOk, Put("key", RandomBytes(size, size)));
    const Outcome got = AsyncGetInto("key", buffer_->Part(0, 900));
    EXPECT_OUTCOME(kOutOfRange, got);
    EXPECT_THAT(std::string(got.status.message()), testing::HasSubstr(std::to_string(size)));
    EXPECT_OUTCOME(kOutOfRange, AsyncGetInto("key", buffer_->Part(0, 0)));
  }
  for (std::size_t i = 900; i < 1000; ++i) ASSERT_EQ(memory_[i], std::byte{'m'}) << "behind it";
}

TEST_P(Registered, AGetCostsTheReadsOfAnyOther) {
  START({.memory_size = 64 * kMiB});
  async_ = NewAsync({}, {.location_cache_bytes = 1 << 20});
  memory_.resize(1000);
  buffer_ = *async_->Register(memory_);
  ASSERT_CODE(kOk, Put("key", std::string(1000, 'v')));
  for (const std::uint64_t most : {3u, 1u}) {  // a look, bucket and record; where it was
    const ClientCounters before = async_->counters();
    ASSERT_OUTCOME(kOk, AsyncGetInto("key", *buffer_));
    const ClientCounters cost = async_->counters() - before;
    EXPECT_LE(cost.reads, most);
    EXPECT_EQ(cost.requests, 0u);
  }
}

TEST_P(Registered, ManyAreInFlightSideBySide) {
  START({.memory_size = 96 * kMiB});
  constexpr std::size_t kEach = 300'000;
  Register(64 * kEach);
  const auto part = [&](std::size_t i, std::size_t size) { return buffer_->Part(i * kEach, size); };
  for (std::size_t round = 0; round < (slow() ? 1u : 3u); ++round) {
    std::vector<std::string> values;
    std::vector<Outcome> puts(32), gets(64);
    for (std::size_t i = 0; i < puts.size(); ++i) {
      values.push_back(RandomBytes(i % 8 == 0 ? kEach - i : i % 4 == 1 ? 200'000 : 100 * i, i + 99 * round));
      Fill(part(i, kEach).bytes(), values[i]);
      ASSERT_CODE(kOk, async_->Put(std::to_string(i), part(i, values[i].size()), {}, Into(puts[i])).status());
    }
    WaitAll();
    for (std::size_t i = 0; i < gets.size(); ++i) {
      ASSERT_CODE(kOk, async_->Get(std::to_string(i % 32), part(i, kEach), Into(gets[i])).status());
    }
    WaitAll();
    for (std::size_t i = 0; i < gets.size(); ++i) {
      EXPECT_OUTCOME(kOk, puts[i % 32]);
      ASSERT_OUTCOME(kOk, gets[i]);
      EXPECT_TRUE(gets[i].value == values[i % 32]) << i;
    }
  }
  EXPECT_EQ(async_->free_slots(), 64u);
}

TEST_P(Registered, MemoryOfAnotherClientIsRejected) {
  START({.memory_size = 16 * kMiB});
  Register(5000);
  Outcome outcome;
  EXPECT_CODE(kInvalidArgument, async_->Get("key", *sync_buffer_, Into(outcome)).status());
  EXPECT_CODE(kInvalidArgument, async_->Put("key", *sync_buffer_, {}, Into(outcome)).status());
  EXPECT_CODE(kInvalidArgument, kv_->client()->Get("key", *buffer_).status());
  EXPECT_CODE(kInvalidArgument, kv_->client()->Put("key", *buffer_));
  EXPECT_EQ(outcome.calls, 0);
  EXPECT_EQ(async_->free_slots(), 64u);
  EXPECT_CODE(kNotFound, GetStatus("key"));
}

TEST_P(Registered, ItMayOutliveItsClient) {
  START({.memory_size = 16 * kMiB});
  Register(5000);
  ASSERT_CODE(kOk, Put("key", "value"));
  Outcome got;
  ASSERT_CODE(kOk, async_->Get("key", *buffer_, Into(got)).status());
  async_.reset();
  EXPECT_OUTCOME(kCancelled, got);
  async_ = NewAsync();
  EXPECT_CODE(kInvalidArgument, async_->Get("key", *buffer_, Into(got)).status());
  buffer_.reset();
}

TEST_P(Registered, CoroutinesTakeItToo) {
  START({.memory_size = 64 * kMiB});
  CoroutineClient kv(NewAsync());
  std::vector<std::byte> memory(2 * kMiB);
  const auto buffer = *kv.client().Register(memory);
  const std::string value = RandomBytes(kMiB, 7);
  Fill(memory, value);
  bool done = false;
  const auto copy = [](CoroutineClient& in, const RegisteredBuffer& bytes, bool& ended) -> Task<void> {
    std::uint64_t version = 0;
    EXPECT_CODE(kOk, co_await in.Put("key", bytes.Part(0, kMiB)));
    const absl::StatusOr<std::size_t> got = co_await in.Get("key", bytes.Part(kMiB, kMiB), &version);
    EXPECT_EQ(got.value_or(0), kMiB);
    EXPECT_GT(version, 0u);
    ended = true;
  };
  kv.Start(copy(kv, *buffer, done));
  EXPECT_CODE(kOk, kv.Run(Soon()));
  EXPECT_TRUE(done);
  EXPECT_TRUE(TextOf(std::span(memory).subspan(kMiB)) == value);
}

// --- Ended early, in one thread, with a server that works when it is told to -----------------------------

class RegisteredEnd : public AsyncSim {
 protected:
  RegisteredEnd() : AsyncSim(/*seed=*/5), memory_(4 * kMiB) {}

  /// Until so many completions are held.
  void PollUntilHeld(AsyncClient& client) {
    for (int i = 0; i < 1000 && tampering_.held == 0; ++i) client.Poll();
    ASSERT_GT(tampering_.held, 0u);
  }
  /// Says, when it is called, how many connections there are.
  AsyncClient::Done Taker(Outcome& outcome, int& connections) {
    return [this, &connections, take = outcome.Taker()](const AsyncResult& result) mutable {
      connections = tampering_.connections;
      take(result);
    };
  }

  std::vector<std::byte> memory_;
};

INSTANTIATE_TEST_SUITE_P(With, RegisteredEnd, testing::Bool(),
                         [](const auto& test) { return test.param ? "grants" : "parts"; });

TEST_P(RegisteredEnd, ACancelledGetEndsWhenTheDeviceIsDone) {
  for (const std::size_t size : {std::size_t{100}, kMiB}) {
    const auto client = NewClient();
    const auto buffer = *client->Register(memory_);
    ASSERT_TRUE(server_->store().Put("key", RandomBytes(size, 1)).ok());
    Outcome ping, got;
    ASSERT_TRUE(client->Exists("none", ping.Taker()).ok());  // the directory is known then
    WaitAll(*client);
    const auto id = client->Get("key", *buffer, got.Taker());
    ASSERT_TRUE(id.ok());
    tampering_.hold_reads = true;
    PollUntilHeld(*client);
    EXPECT_TRUE(client->Cancel(*id));
    EXPECT_FALSE(client->Cancel(*id)) << "once is enough";
    for (int i = 0; i < 100; ++i) EXPECT_EQ(client->Poll(), 0u);
    EXPECT_EQ(got.calls, 0) << "the device may still write there";
    EXPECT_EQ(client->in_flight(), 1u);
    tampering_.hold_reads = false;
    WaitAll(*client);
    EXPECT_OUTCOME(kCancelled, got);
    EXPECT_EQ(got.calls, 1);
    EXPECT_EQ(client->free_slots(), 16u);
  }
}

TEST_P(RegisteredEnd, APutThatIsLateEndsWhenTheDeviceIsDone) {
  for (const std::size_t size : {std::size_t{5000}, kMiB}) {
    const auto client = NewClient();
    const auto buffer = *client->Register(memory_);
    Outcome put;
    // A small one is written at once.
    if (size < kMiB) tampering_.hold_sends = true;
    ASSERT_TRUE(
        client->Put("key", buffer->Part(0, size), {}, put.Taker(), {.timeout = milliseconds(100)}).ok());
    tampering_.wrote = [&] { tampering_.hold_reads = tampering_.hold_sends = true; };
    PollUntilHeld(*client);
    tampering_.wrote = nullptr;
    network_.Advance(seconds(10));
    for (int i = 0; i < 100; ++i) EXPECT_EQ(client->Poll(), 0u);
    EXPECT_EQ(put.calls, 0) << "the device may still read there";
    tampering_.hold_reads = tampering_.hold_sends = false;
    WaitAll(*client);
    EXPECT_OUTCOME(kDeadlineExceeded, put);
    Outcome ping;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(client->Ping(ping.Taker()).ok());
      WaitAll(*client);
    }
    EXPECT_EQ(client->free_slots(), 16u);
    EXPECT_EQ(client->counters().reconnects, 0u);
  }
}

// Nobody tells when the device is done with what a broken connection had in flight: so that ends first.
TEST_P(RegisteredEnd, WithoutAConnectionItEndsWhenTheDeviceCanNotBeThere) {
  for (const bool reconnects : {false, true}) {
    const auto client = NewClient({.reconnect = reconnects});
    const auto buffer = *client->Register(memory_);
    ASSERT_TRUE(server_->store().Put("key", RandomBytes(kMiB, 1)).ok());
    Outcome got, put;
    int at_get = -1, at_put = -1;
    ASSERT_TRUE(client->Get("key", buffer->Part(0, kMiB), Taker(got, at_get)).ok());
    ASSERT_TRUE(client->Put("other", buffer->Part(kMiB, 5000), {}, Taker(put, at_put)).ok());
    tampering_.hold_reads = tampering_.hold_sends = true;
    PollUntilHeld(*client);
    no_more_ = true;
    network_.CutAt(1, SimNetwork::Cut::kBoth);
    Outcome ping;
    ASSERT_TRUE(client->Ping(ping.Taker()).ok());
    ASSERT_FALSE(client->status().ok()) << "it could not be sent";
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    WaitAll(*client);
    EXPECT_OUTCOME(kUnavailable, got);
    EXPECT_EQ(at_get, 0);
    EXPECT_OUTCOME(kUnavailable, put);
    EXPECT_EQ(at_put, 0);
    tampering_.hold_reads = tampering_.hold_sends = no_more_ = false;
  }
}

TEST_P(RegisteredEnd, TheClientGoesInTheMiddle) {
  ASSERT_TRUE(server_->store().Put("there", RandomBytes(kMiB, 1)).ok());
  for (int polls = 0; polls < 20; ++polls) {
    auto client = NewClient();
    const auto buffer = *client->Register(memory_);
    Outcome put, small, get;
    int at_put = 0, at_small = 0, at_get = 0;
    ASSERT_TRUE(client->Put("small", buffer->Part(0, 5000), {}, Taker(small, at_small)).ok());
    ASSERT_TRUE(client->Put("key", buffer->Part(0, kMiB), {}, Taker(put, at_put)).ok());
    ASSERT_TRUE(client->Get("there", buffer->Part(kMiB, kMiB), Taker(get, at_get)).ok());
    for (int i = 0; i < polls; ++i) client->Poll();
    client.reset();
    EXPECT_EQ(put.calls + small.calls + get.calls, 3);
    EXPECT_TRUE(put.status.ok() || (absl::IsCancelled(put.status) && at_put == 0)) << put.status;
    EXPECT_TRUE(small.status.ok() || (absl::IsCancelled(small.status) && at_small == 0)) << small.status;
    EXPECT_TRUE(get.status.ok() || (absl::IsCancelled(get.status) && at_get == 0)) << get.status;
  }
}

TEST_P(RegisteredEnd, MemoryChangedDuringAPutIsNotStored) {
  for (const std::size_t size : {std::size_t{5000}, kMaxSmallValueSize}) {
    SCOPED_TRACE(size);
    const auto client = NewClient();
    const auto buffer = *client->Register(memory_);
    auto sync = Client::Connect(Dialer(), {}, network_.clock());
    ASSERT_TRUE(sync.ok());
    const auto sync_buffer = *(*sync)->Register(memory_);
    // The checksum is of what is there later.
    tampering_.wrote = [&] { memory_[17] ^= std::byte{1}; };
    Outcome put;
    ASSERT_TRUE(client->Put("key", buffer->Part(0, size), {}, put.Taker()).ok());
    WaitAll(*client);
    EXPECT_OUTCOME(kDataLoss, put);
    EXPECT_CODE(kDataLoss, (*sync)->Put("key", sync_buffer->Part(0, size)));
    EXPECT_EQ(Seen("key"), "NOT_FOUND");
    tampering_.wrote = nullptr;
    ASSERT_TRUE(client->Put("key", buffer->Part(0, size), {}, put.Taker()).ok());
    WaitAll(*client);
    EXPECT_OUTCOME(kOk, put);
    EXPECT_TRUE(Seen("key") == TextOf(buffer->Part(0, size).bytes()));
    ASSERT_TRUE(server_->store().Delete("key").ok());
  }
}

// --- Cut off --------------------------------------------------------------------------------------------

TEST_P(RegisteredEnd, AConnectionCutAtAnyStepLeavesEachDoneOnce) {
  const std::string value = RandomBytes(400'000, 1);
  const std::string small = RandomBytes(3000, 2);
  Fill(memory_, value);
  Fill(std::span(memory_).subspan(kMiB), small);
  int rounds = 0;
  std::uint64_t cuts = 0;
  for (const SimNetwork::Cut cut : {SimNetwork::Cut::kBoth, SimNetwork::Cut::kClient}) {
    bool all = false;
    for (std::uint64_t event = 1; !all; ++event) {
      SCOPED_TRACE(event);
      const auto client = NewClient();
      const auto buffer = *client->Register(memory_);
      const std::string to = std::to_string(++rounds) + "/";
      Outcome once, little, get, get_little;
      const PutOptions absent{.condition = Condition::Absent()};
      ASSERT_TRUE(client->Put(to + "once", buffer->Part(0, value.size()), absent, once.Taker()).ok());
      ASSERT_TRUE(client->Put(to + "little", buffer->Part(kMiB, small.size()), absent, little.Taker()).ok());
      ASSERT_TRUE(client->Get(to + "once", buffer->Part(2 * kMiB, kMiB), get.Taker()).ok());
      ASSERT_TRUE(client->Get(to + "little", buffer->Part(3 * kMiB, kMiB), get_little.Taker()).ok());
      network_.CutAt(event, cut);
      WaitAll(*client);
      all = network_.is_cut_due();
      network_.CutAt(0, SimNetwork::Cut::kBoth);
      for (int i = 0; i < 2 * SimNetwork::kLate; ++i) server_->Step();
      EXPECT_OUTCOME(kOk, once);
      EXPECT_OUTCOME(kOk, little);
      EXPECT_TRUE(get.text() == "NOT_FOUND" || get.value == value);
      EXPECT_TRUE(get_little.text() == "NOT_FOUND" || get_little.value == small);
      EXPECT_TRUE(Seen(to + "once") == value);
      EXPECT_TRUE(Seen(to + "little") == small);
      cuts += client->counters().reconnects;
      server_->store().Delete(to + "once").IgnoreError();
      PassHalfASecond();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(cuts, 20u);
}

// The same of a client that waits.
TEST_P(RegisteredEnd, AClientThatWaitsGoesOnToo) {
  const std::string value = RandomBytes(400'000, 1);
  const std::string small = RandomBytes(3000, 2);
  Fill(memory_, value);
  Fill(std::span(memory_).subspan(kMiB), small);
  int rounds = 0;
  std::uint64_t cuts = 0;
  bool all = false;
  for (std::uint64_t event = 1; !all; ++event) {
    SCOPED_TRACE(event);
    const auto client = *Client::Connect(Dialer(), {}, network_.clock());
    const auto buffer = *client->Register(memory_);
    const std::string to = std::to_string(++rounds) + "/";
    const PutOptions absent{.condition = Condition::Absent()};
    network_.CutAt(event, SimNetwork::Cut::kBoth);
    EXPECT_CODE(kOk, client->Put(to + "once", buffer->Part(0, value.size()), absent));
    EXPECT_CODE(kOk, client->Put(to + "little", buffer->Part(kMiB, small.size()), absent));
    EXPECT_EQ(client->Get(to + "once", buffer->Part(2 * kMiB, kMiB)).value_or(0), value.size());
    EXPECT_EQ(client->Get(to + "little", buffer->Part(3 * kMiB, kMiB)).value_or(0), small.size());
    EXPECT_TRUE(TextOf(std::span(memory_).subspan(2 * kMiB, value.size())) == value);
    EXPECT_TRUE(TextOf(std::span(memory_).subspan(3 * kMiB, small.size())) == small);
    all = network_.is_cut_due();
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    cuts += client->counters().reconnects;
    server_->store().Delete(to + "once").IgnoreError();
    PassHalfASecond();
    if (HasFailure()) return;
  }
  EXPECT_GT(cuts, 20u);
}

// A call that fails leaves no device behind that writes to, or reads from, what it was given.
TEST_P(RegisteredEnd, ACallThatFailsEndsItsConnection) {
  const auto client =
      *Client::Connect(Dialer(), {.timeout = milliseconds(50), .location_cache_bytes = 0}, network_.clock());
  const auto buffer = *client->Register(memory_);
  ASSERT_TRUE(server_->store().Put("key", RandomBytes(5000, 1)).ok());
  tampering_.hold_reads = true;
  no_more_ = true;
  EXPECT_FALSE(client->Get("key", *buffer).ok());
  EXPECT_EQ(tampering_.connections, 0);
  tampering_.hold_reads = no_more_ = false;
  EXPECT_EQ(client->Get("key", *buffer).value_or(0), 5000u);
  EXPECT_EQ(tampering_.connections, 1);
}

}  // namespace
}  // namespace remora
