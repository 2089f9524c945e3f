// One-sided scans while leaves change under their READs, with hints that lead elsewhere, and with a server
// that breaks the format.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/format/memory/leaf_block.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/tampered_connection.h"

namespace remora {
namespace {

// READs come piece by piece, in random order, and anything happens in between.
struct LeafAdversary {
  std::size_t piece_size;
  std::uint32_t gap;
};

class TornLeaves : public SimServed, public testing::TestWithParam<LeafAdversary> {
 protected:
  TornLeaves() : SimServed(/*seed=*/GetParam().gap) {}

  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = std::size_t{64} << 20;
    options.store.ordered_index = true;
    ASSERT_NO_FATAL_FAILURE(Serve(options));
    network_.set_piece_size(GetParam().piece_size);
    reader_ = SimServed::Connect({});
    writer_ = SimServed::Connect({});
  }
  void TearDown() override { network_.set_interference(nullptr, 1); }

  static std::string KeyOf(std::uint64_t i) { return "key " + std::to_string(100'000 + i); }
  void Change(const std::string& key, bool puts) {
    const absl::Status status = puts ? writer_->Put(key, "guest") : writer_->Delete(key);
    ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }

  std::unique_ptr<Client> reader_;
  std::unique_ptr<Client> writer_;
};
INSTANTIATE_TEST_SUITE_P(With, TornLeaves,
                         testing::Values(LeafAdversary{8, 40}, LeafAdversary{8, 300}, LeafAdversary{64, 8},
                                         LeafAdversary{64, 40}, LeafAdversary{256, 3}),
                         [](const auto& test) {
                           return "pieces_of_" + std::to_string(test.param.piece_size) + "_every_" +
                                  std::to_string(test.param.gap);
                         });

// Leaves grow, are split, shrink, are joined, freed and used again, while their bytes are on the way.
TEST_P(TornLeaves, HideNoKeyThatStays) {
  constexpr std::uint64_t kKeys = 1500;
  std::vector<std::string> stay;
  for (std::uint64_t i = 0; i < kKeys; i += 50) {
    stay.push_back(KeyOf(i));
    ASSERT_TRUE(writer_->Put(stay.back(), "stays").ok());
  }
  std::uint64_t changes = 0;
  network_.set_interference(
      [&] {
        // Waves of puts and of deletions, in stretches that lie side by side.
        const bool puts = ++changes / 1500 % 2 == 0;
        const std::uint64_t from = network_.random()() % kKeys;
        for (std::uint64_t i = from; i < from + 4; ++i) {
          if (i % 50 == 0) continue;
          ASSERT_NO_FATAL_FAILURE(Change(KeyOf(i), puts));
        }
      },
      GetParam().gap);
  for (int scans = 0; scans < 60 && changes < 20'000; ++scans) {
    const bool reverse = scans % 3 == 2;
    const auto scan = reader_->Scan({.reverse = reverse, .one_sided = true});
    ASSERT_TRUE(scan.ok()) << scan.status();
    std::vector<std::string> seen;
    std::string last;
    while ((*scan)->Next()) {
      const std::string key((*scan)->key());
      ASSERT_TRUE(last.empty() || (reverse ? key < last : key > last));
      last = key;
      if ((*scan)->value() == "stays") seen.push_back(key);
    }
    ASSERT_TRUE((*scan)->status().ok()) << (*scan)->status();
    if (reverse) std::ranges::reverse(seen);
    ASSERT_EQ(seen, stay);
  }
  EXPECT_GT(changes, 100u);
}

// Keys that were acknowledged before the scan began are in it, and those that were deleted before are not.
TEST_P(TornLeaves, ShowWhatWasAcknowledged) {
  std::map<std::string, bool> there;
  network_.set_interference(
      [&] { Change("z" + KeyOf(network_.random()() % 500), network_.random()() % 2 == 0); }, GetParam().gap);
  for (int round = 0; round < 150; ++round) {
    const std::string key = KeyOf(network_.random()() % 300);
    there[key] = network_.random()() % 3 != 0;
    ASSERT_NO_FATAL_FAILURE(Change(key, there[key]));
    const auto scan = reader_->Scan({.begin = key, .end = key + "\x01", .one_sided = true});
    ASSERT_TRUE(scan.ok()) << scan.status();
    ASSERT_EQ((*scan)->Next(), there[key]) << key;
    ASSERT_TRUE((*scan)->status().ok()) << (*scan)->status();
  }
}

// --- Hints that lead elsewhere --------------------------------------------------------------------------

class LeafHints : public SimServed, public testing::Test {
 protected:
  LeafHints() : SimServed(/*seed=*/4) {
    ServerOptions options;
    options.store.memory_size = std::size_t{32} << 20;
    options.store.ordered_index = true;
    Serve(options);
    network_.set_piece_size(kLeafBlockSize);
    const auto dial = [this](TimePoint) -> absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> {
      return std::make_unique<TamperedConnection>(network_.Dial(), tampering_);
    };
    client_ = std::move(Client::Connect(dial, {}, network_.clock())).value();
    writer_ = SimServed::Connect({});
  }
  static std::string KeyOf(int i) { return "key " + std::to_string(100'000 + i); }
  std::size_t CountOneSided(absl::Status* status) {
    const auto scan = client_->Scan({.one_sided = true});
    std::size_t count = 0;
    if (scan.ok()) {
      while ((*scan)->Next()) ++count;
    }
    *status = scan.ok() ? (*scan)->status() : scan.status();
    return count;
  }
  std::size_t CountOneSided() {
    absl::Status status;
    const std::size_t count = CountOneSided(&status);
    EXPECT_TRUE(status.ok()) << status;
    return count;
  }

  Tampering tampering_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Client> writer_;
};

// The client knows leaves whose blocks have other ranges by then.
TEST_F(LeafHints, BlocksThatWereUsedAgainHideNothing) {
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 4000; ++i) ASSERT_TRUE(writer_->Put(KeyOf(i), "value").ok());
    ASSERT_EQ(CountOneSided(), 4000u);
    // All leaves are freed, and the next ones take their blocks in another order.
    for (int i = 0; i < 4000; ++i) ASSERT_TRUE(writer_->Delete(KeyOf(i)).ok());
    for (int i = 3999; i >= 0; --i) ASSERT_TRUE(writer_->Put(KeyOf(i), "value").ok());
    ASSERT_EQ(CountOneSided(), 4000u);
    for (int i = 0; i < 4000; ++i) {
      if (i % 100 == 0) continue;
      ASSERT_TRUE(writer_->Delete(KeyOf(i)).ok());
    }
    ASSERT_EQ(CountOneSided(), 40u);
  }
}

// The server shows the keys that the client cannot READ, however long that lasts.
TEST_F(LeafHints, LeavesThatAreAlwaysTornAreShownByTheServer) {
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(writer_->Put(KeyOf(i), "value").ok());
  tampering_.change_read = [&](std::span<const rdma::Sge> came) {
    for (const rdma::Sge& part : came) {
      if (part.size == kLeafBlockSize) part.data[100] ^= std::byte{1};
    }
  };
  EXPECT_EQ(CountOneSided(), 1000u);
}

TEST_F(LeafHints, ALeafThatBreaksTheFormatIsAnError) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(writer_->Put(KeyOf(i), "value").ok());
  const std::uint64_t incarnation = server_->store().superblock().incarnation;
  const std::uint64_t place = server_->store().FindLeaf("", LeafSide::kOf).value();
  tampering_.change_read = [&](std::span<const rdma::Sge> came) {
    for (const rdma::Sge& part : came) {
      if (part.size != kLeafBlockSize) continue;
      LeafHeader header{};
      header.count = 3;
      header.used = 6;
      std::memcpy(part.data + sizeof(header), "\0\1b\0\1a", 6);
      header.checksum = LeafChecksum(header, {reinterpret_cast<char*>(part.data) + sizeof(header), 6}, "",
                                     place, incarnation);
      std::memcpy(part.data, &header, sizeof(header));
    }
  };
  absl::Status status;
  CountOneSided(&status);
  EXPECT_CODE(kInternal, status);
}

TEST_F(LeafHints, APlaceOutsideOfTheMemoryIsAnError) {
  ASSERT_TRUE(writer_->Put("key", "value").ok());
  tampering_.change_reply = [](Reply& reply) {
    if (reply.slot != 0) reply.slot = std::uint64_t{1} << 50;
  };
  absl::Status status;
  CountOneSided(&status);
  EXPECT_CODE(kInternal, status);
}

// A link leads to a leaf of the range before: nothing is shown twice.
TEST_F(LeafHints, ALinkThatLeadsBackIsNotFollowed) {
  for (int i = 0; i < 4000; ++i) ASSERT_TRUE(writer_->Put(KeyOf(i), "value").ok());
  const std::uint64_t incarnation = server_->store().superblock().incarnation;
  const std::uint64_t first = server_->store().FindLeaf("", LeafSide::kOf).value();
  std::uint64_t place = first;
  tampering_.change_read = [&](std::span<const rdma::Sge> came) {
    for (const rdma::Sge& part : came) {
      if (part.size != kLeafBlockSize) continue;
      LeafHeader header;
      std::memcpy(&header, part.data, sizeof(header));
      if (header.checksum == 0) continue;
      const std::size_t fences = std::size_t{header.low_size} + header.high_size;
      const auto* const bytes = reinterpret_cast<const char*>(part.data);
      const std::string_view entries(bytes + sizeof(header), header.used);
      const std::string_view ends(bytes + kLeafBlockSize - fences, fences);
      // Whose place this is, the checksum says.
      for (place = kSegmentSize;
           LeafChecksum(header, entries, ends, place, incarnation) != header.checksum;) {
        place += kLeafBlockSize;
      }
      header.next = first;
      header.checksum = LeafChecksum(header, entries, ends, place, incarnation);
      std::memcpy(part.data, &header, sizeof(header));
    }
  };
  EXPECT_EQ(CountOneSided(), 4000u);
}

}  // namespace
}  // namespace remora
