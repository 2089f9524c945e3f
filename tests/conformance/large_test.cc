// Values that are too large for a staging buffer, in every deployment.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "store/format/wire/messages.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/random_bytes.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class Large : public Behaviour {
 protected:
  /// Not with EXPECT_EQ: nobody wants to see megabytes.
  void ExpectValue(KeyValue& kv, std::string_view key, const std::string& value) {
    const std::string got = Get(kv, key);
    EXPECT_EQ(got.size(), value.size()) << got.substr(0, 200);
    EXPECT_TRUE(got == value) << key;
  }
  void ExpectValue(std::string_view key, const std::string& value) { ExpectValue(*kv_, key, value); }
};

INSTANTIATE_TEST_SUITE_P(On, Large,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Large, ValuesComeBackWhole) {
  START({.memory_size = 64 * kMiB});
  for (const std::size_t size :
       {kMaxSmallValueSize, kMaxSmallValueSize + 1, kMiB - 1, kMiB, kMiB + 1, 5 * kMiB + 3}) {
    const std::string value = RandomBytes(size, size);
    ASSERT_CODE(kOk, Put("key", value));
    ExpectValue("key", value);
    const std::string long_key(kMaxKeySize, 'k');
    ASSERT_CODE(kOk, Put(long_key, value));
    ExpectValue(long_key, value);
  }
  EXPECT_EQ(store().Read(Metric::kKeys), 2u);
}

TEST_P(Large, TheLargestValueComesBackWhole) {
  START({.memory_size = 96 * kMiB});
  const std::string value = RandomBytes(kMaxValueSize, 1);
  ASSERT_CODE(kOk, Put("key", value));
  ExpectValue("key", value);
  EXPECT_CODE(kInvalidArgument, Put("key", value + "v"));
  ASSERT_CODE(kOk, Delete("key"));
  // Its memory comes back: there would not be space for two.
  ASSERT_CODE(kOk, Put("other", value));
  ExpectValue("other", value);
}

TEST_P(Large, OverwritingTouchingDeletingAndExpiring) {
  START({.memory_size = 64 * kMiB});
  const std::string first = RandomBytes(3 * kMiB, 1);
  const std::string second = RandomBytes(2 * kMiB, 2);
  ASSERT_CODE(kOk, Put("key", first));
  ASSERT_CODE(kOk, Put("key", second));
  ExpectValue("key", second);
  ASSERT_CODE(kOk, Put("key", "small"));
  EXPECT_EQ(Get("key"), "small");
  ASSERT_CODE(kOk, Put("key", first));
  ASSERT_CODE(kOk, kv_->Touch("key", std::chrono::hours(1)));
  ExpectValue("key", first);
  const auto left = kv_->Ttl("key");
  ASSERT_TRUE(left.ok() && left->has_value()) << left.status();
  EXPECT_LE(**left, std::chrono::hours(1));
  deployment_->Advance(std::chrono::hours(1) + milliseconds(10));
  EXPECT_CODE(kNotFound, GetStatus("key"));
  ASSERT_CODE(kOk, kv_->Put("key", second, {.ttl = std::chrono::hours(2)}));
  ExpectValue("key", second);
  ASSERT_CODE(kOk, kv_->Persist("key"));
  deployment_->Advance(std::chrono::hours(3));
  ExpectValue("key", second);
  ASSERT_CODE(kOk, Delete("key"));
  EXPECT_CODE(kNotFound, GetStatus("key"));
  EXPECT_EQ(store().Read(Metric::kKeys), 0u);
}

TEST_P(Large, ValuesSurviveARestart) {
  START({.durability = Durability::kLogged, .memory_size = 64 * kMiB});
  std::vector<std::string> values;
  for (std::size_t i = 0; i < 6; ++i) {
    values.push_back(RandomBytes(kMiB / 2 + i * kMiB, i));
    ASSERT_CODE(kOk, Put("key " + std::to_string(i), values.back()));
    ASSERT_CODE(kOk, Put("small " + std::to_string(i), std::to_string(i)));
  }
  ASSERT_CODE(kOk, Delete("key 5"));
  Restart();
  for (std::size_t i = 0; i < 5; ++i) ExpectValue("key " + std::to_string(i), values[i]);
  EXPECT_CODE(kNotFound, GetStatus("key 5"));
  EXPECT_EQ(Get("small 3"), "3");
}

TEST_P(Large, AValueLargerThanTheMemoryIsRejectedWithAdvice) {
  START({.memory_size = 32 * kMiB});
  ASSERT_CODE(kOk, Put("key", "value"));
  const absl::Status status = Put("key", std::string(40 * kMiB, 'v'));
  EXPECT_CODE(kResourceExhausted, status);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("open with more memory"));
  EXPECT_EQ(Get("key"), "value");
  ASSERT_CODE(kOk, Put("key", std::string(10 * kMiB, 'v')));
}

TEST_P(Large, AFullStoreRejectsAndTakesThemAgainWhenThereIsSpace) {
  START({.memory_size = 32 * kMiB});
  const std::string value = RandomBytes(5 * kMiB, 1);
  int put = 0;
  absl::Status status;
  while ((status = Put("key " + std::to_string(put), value)).ok()) ASSERT_LT(++put, 7);
  EXPECT_CODE(kResourceExhausted, status);
  EXPECT_GE(put, 4);
  for (int i = 0; i < put; ++i) ExpectValue("key " + std::to_string(i), value);
  ASSERT_CODE(kOk, Put("small", "value"));
  ASSERT_CODE(kOk, Delete("key 0"));
  ASSERT_CODE(kOk, Put("another", value));
  ExpectValue("another", value);
}

// Small values are spread over all of the memory, and most of them deleted: nowhere is a run of its own.
TEST_P(Large, ARunIsMadeWhereSmallValuesAre) {
  START({.memory_size = 32 * kMiB});
  const std::string filling(100'000, 'f');
  int count = 0;
  while (Put("small " + std::to_string(count), filling).ok()) ASSERT_LT(++count, 400);
  for (int i = 0; i < count; ++i) {
    if (i % 4 != 0) {
      ASSERT_CODE(kOk, Delete("small " + std::to_string(i)));
    }
  }
  const std::string value = RandomBytes(12 * kMiB, 1);
  ASSERT_CODE(kOk, Put("large", value));
  ExpectValue("large", value);
  for (int i = 0; i < count; i += 4) ASSERT_EQ(Get("small " + std::to_string(i)), filling) << i;
  EXPECT_GT(store().Read(Metric::kBytesMoved), 0u);
}

TEST_P(Large, SpaceIsAccountedFor) {
  START({.memory_size = 64 * kMiB});
  const std::uint64_t free = store().Read(Metric::kMemoryBytesFree);
  for (int i = 0; i < 20; ++i) ASSERT_CODE(kOk, Put("key", RandomBytes(8 * kMiB, 1)));
  EXPECT_GT(store().Read(Metric::kLogBytesUsed), 8 * kMiB);
  ASSERT_CODE(kOk, Delete("key"));
  // Small writes, until the dead records' memory can be used again.
  for (int i = 0; i < 10; ++i) {
    deployment_->Advance(milliseconds(250));
    ASSERT_CODE(kOk, Put("small", "value"));
  }
  EXPECT_TRUE(Await([&] { return store().Read(Metric::kMemoryBytesFree) == free - kSegmentSize; }))
      << store().Read(Metric::kMemoryBytesFree) << " are free, of " << free
      << ", but for the head of the log";
  EXPECT_TRUE(Await([&] { return store().Read(Metric::kLogBytesUsed) < kMiB; }));
}

// --- What only a client has -----------------------------------------------------------------------------

class LargeRemote : public Large {};
INSTANTIATE_TEST_SUITE_P(On, LargeRemote,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(LargeRemote, AGetIntoARegisteredBufferTakesAnySize) {
  START({.memory_size = 64 * kMiB});
  Client& client = *kv_->client();
  std::vector<std::byte> memory(6 * kMiB);
  const auto buffer = client.Register(memory);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4000}, std::size_t{100'000},
                                 kMaxSmallValueSize, kMaxSmallValueSize + 1, 5 * kMiB + 3, 6 * kMiB}) {
    const std::string value = RandomBytes(size, size + 1);
    ASSERT_CODE(kOk, Put("key", value));
    for (int warm = 0; warm < 2; ++warm) {
      const auto got = client.Get("key", **buffer);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(*got, size);
      ASSERT_TRUE(std::string_view(reinterpret_cast<const char*>(memory.data()), size) == value) << size;
    }
  }
  EXPECT_CODE(kNotFound, client.Get("missing", **buffer).status());
  EXPECT_CODE(kInvalidArgument, client.Get("", **buffer).status());
}

TEST_P(LargeRemote, ASmallValueIntoABufferCostsAsManyReadsAsAnyGet) {
  // A client that is held up for the grace period reads again.
  START({.memory_size = 64 * kMiB, .grace = std::chrono::seconds(10)}, {.location_cache_bytes = 0});
  Client& client = *kv_->client();
  std::vector<std::byte> memory(1000);
  const auto buffer = client.Register(memory);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  ASSERT_CODE(kOk, Put("key", std::string(1000, 'v')));
  const std::uint64_t before = client.counters().reads;
  ASSERT_TRUE(client.Get("key", **buffer).ok());
  EXPECT_EQ(client.counters().reads - before, 2u);
}

TEST_P(LargeRemote, ABufferThatIsTooSmallIsToldTheSize) {
  START({.memory_size = 64 * kMiB});
  Client& client = *kv_->client();
  std::vector<std::byte> memory(1000, std::byte{'m'});
  const auto buffer = client.Register(std::span(memory).first(900));
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  for (const std::size_t size : {std::size_t{901}, std::size_t{50'000}, 2 * kMiB}) {
    ASSERT_CODE(kOk, Put("key", RandomBytes(size, size)));
    const absl::Status status = client.Get("key", **buffer).status();
    EXPECT_CODE(kOutOfRange, status);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::to_string(size)));
  }
  for (std::size_t i = 900; i < 1000; ++i) ASSERT_EQ(memory[i], std::byte{'m'}) << "behind the buffer";
  ASSERT_CODE(kOk, Put("key", "fits"));
  EXPECT_EQ(client.Get("key", **buffer).value(), 4u);
}

TEST_P(LargeRemote, TwoClientsWriteLargeValuesInTurns) {
  START({.memory_size = 64 * kMiB});
  const auto other = Connect();
  for (std::uint64_t i = 0; i < 6; ++i) {
    const std::string value = RandomBytes(2 * kMiB, i);
    ASSERT_CODE(kOk, (i % 2 == 0 ? *kv_ : *other).Put("key", value));
    ExpectValue(*kv_, "key", value);
    ExpectValue(*other, "key", value);
  }
}

}  // namespace
}  // namespace remora
