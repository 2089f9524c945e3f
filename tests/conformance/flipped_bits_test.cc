// READs of a record that bring a bit that is not there, anywhere in it. The client returns the value that was
// written, whichever way it reads. (A bucket's words have no checksum: the record to which a slot leads
// proves it.)
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/async_client.h"
#include "tests/conformance/async_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/tampered_connection.h"

namespace remora {
namespace {

constexpr std::string_view kFlippedKey = "key";
constexpr std::string_view kValue = "the value that was written for this key, and no other";

class FlippedBits : public SimServed, public testing::Test {
 protected:
  FlippedBits() : SimServed(/*seed=*/1) {
    Serve({.store = {.memory_size = std::size_t{16} << 20, .clock = &network_.clock()}, .log = {}});
    EXPECT_TRUE(Connect({})->Put(kFlippedKey, kValue).ok());
    tampering_.change_read = [this](std::span<const rdma::Sge> came) { Take(came); };
  }

  std::unique_ptr<rdma::ClientConnection> Dial() {
    return std::make_unique<TamperedConnection>(network_.Dial(), tampering_);
  }
  std::unique_ptr<Client> ConnectThrough(const ClientOptions& options) {
    return *Client::Connect(Dial(), options, network_.clock());
  }

  /// Flips the bit that is due in the first READ of a record since `bits_` was 0.
  void Take(std::span<const rdma::Sge> came) {
    std::string bytes;
    for (const rdma::Sge& part : came) bytes.append(reinterpret_cast<const char*>(part.data), part.size);
    if (bits_ > 0 || bytes.find(kValue) == std::string::npos) return;
    bits_ = 8 * bytes.size();
    std::size_t bit = due_;
    for (const rdma::Sge& part : came) {
      if (bit < 8 * part.size) {
        part.data[bit / 8] ^= std::byte{1} << bit % 8;
        return;
      }
      bit -= 8 * part.size;
    }
  }

  /// Calls `read`, which says what was served, or why nothing was, with each bit flipped in turn.
  template <typename Read>
  void FlipEach(const Read& read) {
    for (due_ = 0, bits_ = 1; due_ < bits_; ++due_) {
      bits_ = 0;
      ASSERT_EQ(read(), kValue) << "bit " << due_;
      ASSERT_GT(bits_, 0u) << "nothing was read";
    }
    EXPECT_GT(due_, 8 * kValue.size());
  }

  Tampering tampering_;
  std::size_t due_ = 0;
  std::size_t bits_ = 0;
};

TEST_F(FlippedBits, AreNotServedByAColdGet) {
  const auto client = ConnectThrough({.location_cache_bytes = 0});
  FlipEach([&] {
    std::string value;
    const absl::Status status = client->Get(kFlippedKey, &value);
    return status.ok() ? value : status.ToString();
  });
}

TEST_F(FlippedBits, AreNotServedByAWarmGet) {
  const auto client = ConnectThrough({});
  std::string value;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->Get(kFlippedKey, &value).ok());
  FlipEach([&] {
    const absl::Status status = client->Get(kFlippedKey, &value);
    return status.ok() ? value : status.ToString();
  });
  EXPECT_GT(client->counters().location_hits, 0u);
}

TEST_F(FlippedBits, AreNotServedIntoMemoryOfTheCallers) {
  const auto client = ConnectThrough({});
  std::vector<std::byte> memory(256);
  const auto buffer = *client->Register(memory);
  FlipEach([&] {
    const absl::StatusOr<std::size_t> size = client->Get(kFlippedKey, *buffer);
    return size.ok() ? std::string(reinterpret_cast<const char*>(memory.data()), *size)
                     : size.status().ToString();
  });
}

TEST_F(FlippedBits, AreNotServedSideBySide) {
  const auto client = ConnectThrough({});
  const std::vector<std::string_view> keys = {kFlippedKey, "another"};
  FlipEach([&] {
    std::vector<GetResult> results(keys.size());
    EXPECT_TRUE(client->MultiGet(keys, results).ok());
    return results[0].status.ok() ? std::string(results[0].value) : results[0].status.ToString();
  });
}

TEST_F(FlippedBits, AreNotServedByManyAtOnce) {
  const auto client = *AsyncClient::Connect(Dial(), {}, {}, network_.clock());
  FlipEach([&] {
    AsyncOutcome outcome;
    EXPECT_TRUE(client->Get(kFlippedKey, outcome.Taker()).ok());
    EXPECT_TRUE(client->WaitAll(network_.clock().Now() + std::chrono::minutes(1)).ok());
    return outcome.text();
  });
}

}  // namespace
}  // namespace remora
