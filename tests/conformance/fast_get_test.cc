// GETs where a READ is a copy: values that the fast path finds, and others.
#include "client/get/fast_get.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "client/client.h"
#include "client/get/blocking_get.h"
#include "client/session/session.h"
#include "store/base/clock.h"
#include "store/base/tsan.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"
#include "tests/conformance/conformance_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class FastGetTest : public testing::Test {
 protected:
  static constexpr milliseconds kGrace{kMinGraceMs};  // so that memory is soon used again

  void SetUp() override {
    std::string why_not;
    deployment_ = Deployment::Create(
        DeploymentKind::kLocal,
        {.durability = Durability::kMemory, .memory_size = kMinMemorySize, .grace = kGrace}, &why_not);
    ASSERT_NE(deployment_, nullptr) << why_not;
    client_ = Connect({});
    ASSERT_NE(client_, nullptr);
  }

  std::unique_ptr<Client> Connect(ClientOptions options) {
    options.location_cache_bytes = 0;
    auto client = Client::Connect([this](TimePoint) { return deployment_->Dial(); }, options, clock_);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  /// READs that it took.
  std::uint64_t Get(std::string_view key, std::string_view expected) {
    const std::uint64_t before = client_->counters().reads;
    std::string value = "before";
    std::uint64_t version = 0;
    EXPECT_CODE(kOk, client_->Get(key, &value, &version));
    EXPECT_EQ(value, expected);
    EXPECT_GT(version, 0u);
    return client_->counters().reads - before;
  }

  const SteadyClock clock_{};
  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<Client> client_;
};

TEST_F(FastGetTest, TakesTwoReads) {
  ASSERT_CODE(kOk, client_->Put("key", "value"));
  Get("key", "value");  // from here on, it knows the index
  EXPECT_EQ(Get("key", "value"), 2u);
  ASSERT_CODE(kOk, client_->Put("key", "longer than before"));
  EXPECT_EQ(Get("key", "longer than before"), 2u);
  ASSERT_CODE(kOk, client_->Put("key", ""));
  EXPECT_EQ(Get("key", ""), 2u);
}

TEST_F(FastGetTest, ADelayedReaderSearchesAgainAfterReuseOfMemory) {
  constexpr std::string_view kKey = "a key that stays where it is";
  // Among others that stay, so that nobody moves it away.
  const std::string filling(1000, 'f');
  for (int i = 0; i < 3000; ++i) {
    ASSERT_CODE(kOk, client_->Put(i == 1500 ? std::string(kKey) : "stays " + std::to_string(i), filling));
  }
  const absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Start(deployment_->Dial().value(), {}, ClientOptions{.location_cache_bytes = 0}, clock_);
  ASSERT_CODE(kOk, session.status());
  const std::uint64_t hash = HashKey(kKey);
  FastGet look;
  ASSERT_TRUE(FastGet::IsFor(**session));
  RecordFacts facts;
  std::string value;
  ASSERT_CODE(kOk, (*session)->BeginCall());
  ASSERT_CODE(kOk, BlockingGets(**session).Get(kKey, &value, &facts));  // it knows the index now
  const auto find = [&] { return look.FindLine(**session, hash) && look.FindRecord(**session, hash); };
  LiveRecord record;
  const auto verify = [&] {
    return ReadLiveRecord(kKey, hash, look.bytes(), look.place(**session), &record) &&
           (*session)->region().ServerIsAlive();
  };
  ASSERT_TRUE(find());
  // Held up for whatever else: its record is as good as ever.
  for (int i = 0; i < 100; ++i) ASSERT_CODE(kOk, client_->Put("another", std::to_string(i)));
  clock_.Sleep(3 * kGrace);
  EXPECT_TRUE(verify() && look.IsUnchanged(**session));
  const auto use_memory_again = [&] {
    const std::uint64_t before = (*session)->region().ReuseEpoch();
    const std::string large(100'000, 'l');
    const TimePoint deadline = clock_.Now() + std::chrono::seconds(60);
    while ((*session)->region().ReuseEpoch() == before && clock_.Now() < deadline) {
      ASSERT_CODE(kOk, client_->Put("another", large));
    }
    ASSERT_NE((*session)->region().ReuseEpoch(), before) << "the test means memory to be used again";
  };
  ASSERT_TRUE(find());
  ASSERT_NO_FATAL_FAILURE(use_memory_again());
  EXPECT_FALSE(verify() && look.IsUnchanged(**session)) << "it might have been this record's";
  ASSERT_TRUE(find() && verify());
  ASSERT_NO_FATAL_FAILURE(use_memory_again());
  EXPECT_FALSE(look.IsUnchanged(**session)) << "what was copied might be something else";
  EXPECT_TRUE(find() && verify() && look.IsUnchanged(**session));
}

// The fast path leaves a search that it does not do as a whole.
TEST_F(FastGetTest, SpecialRecordsLeaveTheFastPath) {
  std::string value;
  EXPECT_CODE(kNotFound, client_->Get("missing", &value));
  ASSERT_CODE(kOk, client_->Put("expires", "value", {.ttl = std::chrono::hours(1)}));
  Get("expires", "value");
  ASSERT_CODE(kOk, client_->Put("expired", "value", {.ttl = milliseconds(1)}));
  clock_.Sleep(milliseconds(50));
  EXPECT_CODE(kNotFound, client_->Get("expired", &value));
  const std::string large(std::size_t{1} << 20, 'l');
  ASSERT_CODE(kOk, client_->Put("large", large));
  Get("large", large);
  ASSERT_CODE(kOk, client_->Delete("large"));
  EXPECT_CODE(kNotFound, client_->Get("large", &value));
}

// In overflow buckets, behind others with the same fingerprint, in buckets that were split since: with so
// many keys there are some of each.
TEST_F(FastGetTest, EveryKeyIsFoundWhileTheIndexGrows) {
  const auto reader = Connect({});  // which learns of it by what it reads alone
  ASSERT_NE(reader, nullptr);
  std::string value;
  constexpr int kKeys = 20'000;
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_CODE(kOk, client_->Put("key " + std::to_string(i), std::to_string(i)));
    for (const int j : {i, i / 2, i / 3}) {
      ASSERT_CODE(kOk, reader->Get("key " + std::to_string(j), &value));
      ASSERT_EQ(value, std::to_string(j));
    }
  }
  EXPECT_GT(reader->counters().reads, 2u * 3 * kKeys) << "no key needed a search";
  EXPECT_LT(reader->counters().reads, 3u * 3 * kKeys);
}

// One key's bucket may show growth. That must not lead another's search, which has read the bucket of before,
// elsewhere.
TEST_F(FastGetTest, KeysSideBySideAreFoundWhileTheIndexGrows) {
  const auto reader = Connect({});  // which learns of it by what it reads alone
  ASSERT_NE(reader, nullptr);
  const auto key_of = [](int i) { return "key " + std::to_string(i); };
  int keys = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 1000; ++i, ++keys) ASSERT_CODE(kOk, client_->Put(key_of(keys), std::to_string(keys)));
    std::vector<std::string> names;
    for (int i = 0; i < 32; ++i) names.push_back(key_of((round * 7919 + i * 104'729) % keys));
    const std::vector<std::string_view> asked(names.begin(), names.end());
    std::vector<GetResult> results(asked.size());
    ASSERT_CODE(kOk, reader->MultiGet(asked, results));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      ASSERT_CODE(kOk, results[i].status) << asked[i] << " of " << keys;
      ASSERT_EQ("key " + results[i].value, asked[i]);
    }
  }
}

// All bytes of this process's memory that others may map, and that say this. (One of them is the record.)
std::vector<char*> SharedPlacesOf(std::string_view text) {
  std::vector<char*> places;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx rw-s", &begin, &end) != 2 || !absl::StrContains(line, " rw-s "))
      continue;
    char* const last = reinterpret_cast<char*>(end);
    for (char* at = reinterpret_cast<char*>(begin);;) {
      at = std::search(at, last, text.begin(), text.end());
      if (at == last) break;
      places.push_back(at);
      at += text.size();
    }
  }
  return places;
}

TEST_F(FastGetTest, ADamagedRecordIsNotServed) {
#ifdef REMORA_TSAN
  GTEST_SKIP() << "it writes to the server's memory, which is a race";
#endif
  const std::string written = "the value that was written for this key, and no other";
  ASSERT_CODE(kOk, client_->Put("key", written));
  Get("key", written);
  const std::vector<char*> places = SharedPlacesOf(written);
  ASSERT_FALSE(places.empty());
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto flip = [&] {
      for (char* const place : places) place[i] = static_cast<char>(place[i] ^ 1 << i % 8);
    };
    flip();
    std::string value;
    const absl::Status status = client_->Get("key", &value);
    EXPECT_FALSE(status.ok()) << value;
    flip();
  }
  Get("key", written);
}

TEST_F(FastGetTest, AServerThatHasStoppedIsNotRead) {
  ASSERT_CODE(kOk, client_->Put("key", "value"));
  client_ = Connect({.reconnect = false});
  ASSERT_NE(client_, nullptr);
  Get("key", "value");
  deployment_->Stop();
  std::string value = "before";
  EXPECT_CODE(kUnavailable, client_->Get("key", &value));
  EXPECT_EQ(value, "before");
}

}  // namespace
}  // namespace remora
