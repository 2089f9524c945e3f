// Large values under the simulated transport. Clients write while they must not be able to, at each moment of
// a commit. READs take longer than memory stays retired.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/client.h"
#include "store/format/memory/record.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/hand_client.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr char kLargeVictim[] = "victim";

/// The network's clock, which lets somebody act whenever the server looks at it.
class NosyClock final : public Clock {
 public:
  explicit NosyClock(const Clock& inner) : inner_(inner) {}
  TimePoint Now() const override {
    if (act_) act_();
    return inner_.Now();
  }
  std::int64_t UnixMillis() const override { return inner_.UnixMillis(); }
  void set_act(std::function<void()> act) { act_ = std::move(act); }

 private:
  const Clock& inner_;
  std::function<void()> act_;
};

class LargeAttack : public SimServed, public testing::Test {
 protected:
  LargeAttack() : SimServed(/*seed=*/7) {}

  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = 32 * kMiB;
    options.store.clock = &clock_;
    ASSERT_NO_FATAL_FAILURE(Serve(options));
    network_.set_piece_size(4096);
    writer_ = Connect({.location_cache_bytes = 0});
    reader_ = Connect({.location_cache_bytes = 0});
  }
  ~LargeAttack() override { server_.reset(); }  // before its clock

  void Put(std::string_view key, std::string_view value) {
    const absl::Status status = writer_->Put(key, value);
    ASSERT_TRUE(status.ok()) << status;
  }
  /// "" when it is `value`.
  std::string Difference(const std::string& value) {
    std::string got;
    const absl::Status status = reader_->Get(kLargeVictim, &got);
    if (!status.ok()) return status.ToString();
    return got == value ? "" : "another value, that of " + got.substr(0, 20);
  }

  NosyClock clock_{network_.clock()};
  std::unique_ptr<Client> writer_;
  std::unique_ptr<Client> reader_;
};

// At each look at the clock that the server takes from the commit's arrival on; some are before it verifies,
// some when it has published.
TEST_F(LargeAttack, NobodyWritesWhatIsPublished) {
  const std::string value(kMiB, 'v');
  int rejected = 0;
  for (int look = 1; look <= 12; ++look) {
    HandClient hand(network_.Dial(), network_.clock());
    const auto reserved = hand.Reserve(kLargeVictim, value);
    ASSERT_TRUE(reserved.has_value());
    const RemoteRegion grant = reserved->grant();
    ASSERT_GT(grant.size, 0u);
    hand.Fill(grant, kLargeVictim, value);
    hand.Post(HandClient::MakeRequest(Operation::kFinishLargePut, sizeof(kLargeVictim) - 1, value.size()));
    int looks = 0;
    clock_.set_act([&] {
      if (++looks == look) hand.Write(grant, 1000, "evil");
    });
    const bool answered = hand.Await().has_value();
    clock_.set_act({});
    rejected += answered ? 0 : 1;
    EXPECT_EQ(Difference(value), "") << look;
  }
  EXPECT_GT(rejected, 0);
}

TEST_F(LargeAttack, BytesWrittenAfterTheChecksumAreNotStored) {
  const std::string value(kMiB, 'v');
  HandClient hand(network_.Dial(), network_.clock());
  const auto reserved = hand.Reserve(kLargeVictim, value);
  ASSERT_TRUE(reserved.has_value());
  hand.Fill(reserved->grant(), kLargeVictim, value);
  hand.Write(reserved->grant(), 1000, "evil");
  const auto committed = hand.Commit(kLargeVictim, value);
  ASSERT_TRUE(committed.has_value());
  EXPECT_EQ(committed->status(), ReplyStatus::kCorrupt);
  EXPECT_EQ(Difference(value), "NOT_FOUND: no such key");
}

// --- READs that take long ------------------------------------------------------------------------------

// Two values of one hash. XXH3 sums up, for each eighth word of a block of 1024 bytes, two things. One is the
// word itself, the other the product of the halves of the word after it was mixed with a secret. Where a half
// is the secret's, the product is 0, and only the sum is left.
std::pair<std::string, std::string> Colliding(std::size_t size) {
  std::string one(size, 'v');
  std::string other = one;
  const std::size_t block = size / 2 / 1024 * 1024;
  for (const std::size_t stripe : {std::size_t{3}, std::size_t{9}}) {
    std::uint64_t secret = 0;
    std::memcpy(&secret, XXH3_kSecret + stripe * 8, sizeof(secret));
    const std::uint64_t low = secret & 0xffffffff;
    const std::uint64_t moved = stripe == 3 ? 1000 + 1 : 1000 - 1;
    const std::uint64_t first = std::uint64_t{1000} << 32 | low;
    const std::uint64_t second = moved << 32 | low;
    std::memcpy(one.data() + block + stripe * 64, &first, sizeof(first));
    std::memcpy(other.data() + block + stripe * 64, &second, sizeof(second));
  }
  return {one, other};
}

TEST_F(LargeAttack, ASlowReadIsProvenByTheGenerations) {
  const std::string value(3 * kMiB, 'v');
  Put(kLargeVictim, value);
  network_.set_interference([&] { network_.Advance(milliseconds(30)); }, /*gap=*/30);
  const TimePoint start = network_.clock().Now();
  EXPECT_EQ(Difference(value), "");
  EXPECT_GT(network_.clock().Now() - start, milliseconds(300)) << "it should have been slow";
  EXPECT_LE(reader_->counters().retries, 8u);
}

// The values beside it share its segments, and are overwritten all the time.
TEST_F(LargeAttack, ASlowReadDoesNotBeginAgainBecauseOfItsNeighbours) {
  const std::string beside(300 * 1024, 'b');
  const std::string value(1300 * 1024, 'v');
  Put("before", beside);
  Put(kLargeVictim, value);
  Put("behind", beside);
  const auto place_of = [&](std::string_view key) {
    return DecodeSlot(server_->store().Locate(key)->slot).offset_bytes();
  };
  const auto victim = place_of(kLargeVictim);
  ASSERT_EQ(place_of("before") / kSegmentSize, (victim + value.size()) / kSegmentSize);
  ASSERT_EQ((place_of("behind") + beside.size()) / kSegmentSize, victim / kSegmentSize);
  int updates = 0;
  network_.set_interference(
      [&] {
        network_.Advance(milliseconds(30));
        if (++updates % 2 == 0) Put(updates % 4 == 0 ? "before" : "behind", beside);
      },
      /*gap=*/30);
  const TimePoint start = network_.clock().Now();
  EXPECT_EQ(Difference(value), "");
  EXPECT_GT(network_.clock().Now() - start, milliseconds(300)) << "it should have been slow";
  EXPECT_GT(updates, 4);
  EXPECT_EQ(reader_->counters().retries, 0u);
}

// While it is read, the value is overwritten, its memory is retired, and is used for another key's value of
// the same hash. Nothing but the generations tells.
TEST_F(LargeAttack, MemoryThatIsUsedAnewUnderASlowReadIsNotTheValue) {
  const auto values = Colliding(2 * kMiB);
  const std::string& value = values.first;
  const std::string& evil = values.second;
  ASSERT_EQ(HashValue(value.data(), value.size()), HashValue(evil.data(), evil.size()));
  ASSERT_NE(value, evil);
  int attacks = 0;
  for (std::uint64_t when = 1; when < 12; ++when) {
    Put(kLargeVictim, value);
    const std::uint64_t place = DecodeSlot(server_->store().Locate(kLargeVictim)->slot).offset_units;
    const std::uint64_t begin = network_.pieces_delivered();
    bool attacked = false;
    network_.set_interference(
        [&] {
          if (attacked || network_.pieces_delivered() - begin < when * 20) return;
          attacked = true;
          Put(kLargeVictim, "good 2");
          network_.Advance(milliseconds(250));
          Put("rictim", evil);
          const auto there = server_->store().Locate("rictim");
          if (there.ok() && DecodeSlot(there->slot).offset_units == place) ++attacks;
          Put(kLargeVictim, "good 3");
        },
        /*gap=*/1);
    std::string got;
    const absl::Status status = reader_->Get(kLargeVictim, &got);
    network_.set_interference(nullptr, 1);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(got == value || got == "good 3") << when << ": " << got.size();
    ASSERT_TRUE(writer_->Delete("rictim").ok());
    network_.Advance(milliseconds(250));
  }
  EXPECT_GT(attacks, 5) << "the memory should have been used again";
}

// A value that is overwritten under each READ of it, for ever: there is an answer all the same.
TEST_F(LargeAttack, AReaderThatIsAlwaysTooSlowIsTold) {
  Put(kLargeVictim, std::string(kMiB, 'v'));
  std::uint64_t number = 0;
  network_.set_interference(
      [&] {
        network_.Advance(milliseconds(60));
        Put(kLargeVictim, std::string(kMiB, static_cast<char>('a' + ++number % 26)));
      },
      /*gap=*/50);
  std::string got;
  const absl::Status status = reader_->Get(kLargeVictim, &got);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  network_.set_interference(nullptr, 1);
  EXPECT_EQ(Difference(std::string(kMiB, static_cast<char>('a' + number % 26))), "");
}

}  // namespace
}  // namespace remora
