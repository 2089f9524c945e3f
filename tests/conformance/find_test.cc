// FIND: over tcp://, a bucket and the record to which it leads come in one round trip. Nothing that comes so
// is trusted more than what two READs bring.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/async_client.h"
#include "client/client.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/tampered_connection.h"

namespace remora {
namespace {

constexpr int kFindKeys = 200;

class Find : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    deployment_ = Deployment::Create(DeploymentKind::kTcp, {}, &why_not);
    ASSERT_NE(deployment_, nullptr) << why_not;
    writer_ = *deployment_->Connect({});
    for (int i = 0; i < kFindKeys; ++i) ASSERT_CODE(kOk, writer_->Put(KeyOf(i), ValueOf(i)));
    ASSERT_CODE(kOk, writer_->Put("long", std::string(10'000, 'l')));
    ASSERT_CODE(kOk, writer_->Put("huge", std::string(1'000'000, 'h')));
  }
  static std::string KeyOf(int i) { return "key " + std::to_string(i); }
  static std::string ValueOf(int i) { return "the value of " + std::to_string(i); }

  std::unique_ptr<rdma::ClientConnection> Dial() {
    return std::make_unique<TamperedConnection>(*deployment_->Dial(), tampering_);
  }
  std::unique_ptr<Client> Connect() {
    auto client = *Client::Connect(Dial(), {.location_cache_bytes = 0}, deployment_->clock());
    std::string value;
    EXPECT_CODE(kOk, client->Get(KeyOf(0), &value));  // from here on, it knows the index
    tampering_.reads = tampering_.finds = 0;
    return client;
  }
  static std::string Get(Client& client, const std::string& key) {
    std::string value;
    const absl::Status status = client.Get(key, &value);
    return status.ok() ? value : status.ToString();
  }

  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<KeyValue> writer_;
  Tampering tampering_;
};

TEST_F(Find, AColdGetIsOneRoundTrip) {
  const auto client = Connect();
  for (int i = 0; i < kFindKeys; ++i) ASSERT_EQ(Get(*client, KeyOf(i)), ValueOf(i));
  EXPECT_EQ(tampering_.finds, std::size_t{kFindKeys});
  // Two keys of one bucket may have one fingerprint, of 4095.
  EXPECT_LE(tampering_.reads, 4u);
  std::string value;
  EXPECT_CODE(kNotFound, client->Get("none", &value));
  EXPECT_EQ(Get(*client, "long"), std::string(10'000, 'l'));
  EXPECT_EQ(Get(*client, "huge"), std::string(1'000'000, 'h'));
}

TEST_F(Find, SoIsOneOfAnAsyncClient) {
  auto client =
      *AsyncClient::Connect(Dial(), {.location_cache_bytes = 0}, {.depth = 16}, deployment_->clock());
  int right = 0;
  const auto get = [&](int i) {
    const auto begun = client->Get(KeyOf(i), [&, i](const AsyncResult& result) {
      right += result.status.ok() && result.value == ValueOf(i) ? 1 : 0;
    });
    ASSERT_CODE(kOk, begun.status());
  };
  get(0);
  ASSERT_CODE(kOk, client->WaitAll(deployment_->clock().Now() + std::chrono::minutes(1)));
  tampering_.reads = tampering_.finds = 0;
  right = 0;
  for (int i = 0; i < kFindKeys; i += 10) {
    for (int j = i; j < i + 10; ++j) get(j);
    ASSERT_CODE(kOk, client->WaitAll(deployment_->clock().Now() + std::chrono::minutes(1)));
  }
  EXPECT_EQ(right, kFindKeys);
  EXPECT_EQ(tampering_.finds, std::size_t{kFindKeys});
  EXPECT_LE(tampering_.reads, 4u);
}

/// Gets many keys at once. Returns their values, or the errors in place of them.
std::vector<std::string> MultiGet(Client& client, const std::vector<std::string>& keys) {
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<GetResult> results(keys.size());
  EXPECT_CODE(kOk, client.MultiGet(views, results));
  std::vector<std::string> values;
  for (const GetResult& result : results) {
    values.push_back(result.status.ok() ? result.value : result.status.ToString());
  }
  return values;
}

TEST_F(Find, SoIsAMultiGet) {
  const auto client = Connect();
  std::vector<std::string> keys, values;
  for (int i = 0; i < kFindKeys; ++i) {
    keys.push_back(KeyOf(i));
    values.push_back(ValueOf(i));
  }
  EXPECT_EQ(MultiGet(*client, keys), values);
  EXPECT_EQ(tampering_.finds, std::size_t{kFindKeys});
  EXPECT_LE(tampering_.reads, 4u);
  EXPECT_EQ(client->counters().locates, 0u);
}

// Records that the buffers of a MultiGet have no space for are READ, and those of missing keys do not come.
TEST_F(Find, AMultiGetReadsTheLongRecords) {
  const auto client = Connect();
  const std::vector<std::string> keys = {KeyOf(1), "long", "none", "huge", KeyOf(2), "long"};
  const std::vector<std::string> values = MultiGet(*client, keys);
  EXPECT_EQ(values[0], ValueOf(1));
  EXPECT_EQ(values[1], std::string(10'000, 'l'));
  EXPECT_EQ(values[2], absl::NotFoundError("no such key").ToString());
  EXPECT_EQ(values[3], std::string(1'000'000, 'h'));
  EXPECT_EQ(values[4], ValueOf(2));
  EXPECT_EQ(values[5], std::string(10'000, 'l'));
  EXPECT_EQ(tampering_.finds, keys.size());
}

// The records of FINDs that are in flight together are each other's neighbours in one buffer.
TEST_F(Find, AMultiGetServesNoRecordWithAFlippedBitNorOfAnotherKey) {
  const auto client = Connect();
  const std::vector<std::string> keys = {KeyOf(5), KeyOf(6), KeyOf(7)};
  const std::vector<std::string> values = {ValueOf(5), ValueOf(6), ValueOf(7)};
  std::vector<std::byte> first;
  int number = 0;
  std::size_t bits = 1;
  for (std::size_t due = 0; due < bits; ++due) {
    number = 0;
    tampering_.change_found = [&](std::span<std::byte>, std::span<std::byte> record, rdma::FoundRecord&) {
      ++number;
      if (number == 1) first.assign(record.begin(), record.end());
      if (number != 2) return;
      bits = 8 * record.size();
      record[due / 8] ^= std::byte{1} << due % 8;
    };
    ASSERT_EQ(MultiGet(*client, keys), values) << "bit " << due;
    ASSERT_GE(number, 3);
  }
  number = 0;
  tampering_.change_found = [&](std::span<std::byte>, std::span<std::byte> record, rdma::FoundRecord&) {
    if (++number == 2) std::copy_n(first.begin(), std::min(first.size(), record.size()), record.begin());
  };
  EXPECT_EQ(MultiGet(*client, keys), values);
}

// Flips each bit of the record in turn, as flipped_bits_test.cc does over a simulated transport.
TEST_F(Find, ARecordWithAFlippedBitIsNotServed) {
  const auto client = Connect();
  std::size_t bits = 1;
  for (std::size_t due = 0; due < bits; ++due) {
    bool is_first = true;
    tampering_.change_found = [&](std::span<std::byte>, std::span<std::byte> record, rdma::FoundRecord&) {
      if (!std::exchange(is_first, false)) return;
      bits = 8 * record.size();
      record[due / 8] ^= std::byte{1} << due % 8;
    };
    ASSERT_EQ(Get(*client, KeyOf(7)), ValueOf(7)) << "bit " << due;
    ASSERT_FALSE(is_first);
  }
  EXPECT_GT(bits, 8 * ValueOf(7).size());
}

// The server's words on what it found.
TEST_F(Find, ARecordOfAnotherPlaceIsNotTaken) {
  const auto client = Connect();
  using Change = std::function<void(rdma::FoundRecord&)>;
  for (const Change& change : {Change([](rdma::FoundRecord& found) { found.offset += 64; }),
                               Change([](rdma::FoundRecord& found) { found.offset = 0; }),
                               Change([](rdma::FoundRecord& found) { found.size -= 1; }),
                               Change([](rdma::FoundRecord& found) { found.size = 1; }),
                               Change([](rdma::FoundRecord& found) { found = {}; })}) {
    tampering_.change_found = [&](std::span<std::byte>, std::span<std::byte>, rdma::FoundRecord& found) {
      change(found);
    };
    tampering_.reads = 0;
    EXPECT_EQ(Get(*client, KeyOf(7)), ValueOf(7));
    EXPECT_GE(tampering_.reads, 1u) << "the record was taken, and not READ";
  }
}

// The slot in the bucket that came names another place than that which was followed.
TEST_F(Find, TheBucketThatCameDecides) {
  const auto client = Connect();
  tampering_.change_found = [&](std::span<std::byte>, std::span<std::byte> record, rdma::FoundRecord&) {
    // The bytes before the key was written.
    std::fill(record.begin(), record.end(), std::byte{0});
  };
  std::string value;
  const absl::Status status = client->Get(KeyOf(7), &value);
  // It is never served; the server is asked in the end.
  if (status.ok()) {
    EXPECT_EQ(value, ValueOf(7));
  }
  EXPECT_GT(client->counters().retries, 0u);
}

// A GET that begins behind a write sees it: nothing of an earlier FIND is used again.
TEST_F(Find, EachGetSeesTheWriteBeforeIt) {
  const auto client = Connect();
  for (int i = 0; i < 500; ++i) {
    const std::string value = "version " + std::to_string(i);
    ASSERT_CODE(kOk, writer_->Put(KeyOf(i % 3), value));
    ASSERT_EQ(Get(*client, KeyOf(i % 3)), value);
    if (i % 50 != 0) continue;
    ASSERT_CODE(kOk, writer_->Delete(KeyOf(i % 3)));
    std::string none;
    EXPECT_CODE(kNotFound, client->Get(KeyOf(i % 3), &none));
  }
}

}  // namespace
}  // namespace remora
