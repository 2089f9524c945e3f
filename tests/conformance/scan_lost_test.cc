// Scans whose connection is cut, at every step: each key is shown once, in order.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/format/memory/hash_order.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

class ScanLost : public SimServed, public testing::Test {
 protected:
  explicit ScanLost(Durability durability = Durability::kLogged, bool ordered_index = false)
      : SimServed(/*seed=*/5) {
    ServerOptions options;
    options.store.ordered_index = ordered_index;
    options.store.memory_size = std::size_t{32} << 20;
    options.store.clock = &network_.clock();
    options.store.durability = durability;
    if (durability != Durability::kMemory) options.store.data_dir = dir_.path() + "/data";
    Serve(options);
    network_.set_piece_size(1024);
    const std::unique_ptr<Client> writer = Connect();
    for (int i = 0; i < 120; ++i) {
      keys_.push_back("key " + std::to_string(1000 + i));
      // Some come in pieces of several pages, and some may have expired by then.
      const std::string value = keys_.back() + std::string(i % 40 == 7 ? 10'000 : 100, 'v');
      PutOptions put;
      if (i % 10 == 3) put.ttl = std::chrono::hours(1000);
      EXPECT_CODE(kOk, writer->Put(keys_.back(), value, put));
    }
  }
  std::unique_ptr<Client> Connect() { return SimServed::Connect({.scan_window_bytes = 8192}); }

  /// Shows all; or, if it ends with Aborted, some first ones.
  void ExpectAll(ClientScan& scan, bool reverse, bool may_abort) {
    std::size_t shown = 0;
    while (scan.Next()) {
      network_.Advance(pause_);
      ASSERT_LT(shown, keys_.size());
      const std::string& key = keys_[reverse ? keys_.size() - 1 - shown : shown];
      ASSERT_EQ(scan.key(), key);
      ASSERT_EQ(scan.value().substr(0, key.size() + 1), key + "v");
      ++shown;
    }
    if (may_abort && absl::IsAborted(scan.status())) return;
    EXPECT_CODE(kOk, scan.status());
    EXPECT_EQ(shown, keys_.size());
  }
  /// How many scans went on over another connection.
  int Sweep(const ScanOptions& options) {
    int reconnects = 0;
    bool all = false;
    for (std::uint64_t event = 1; !all; ++event) {
      SCOPED_TRACE(event);
      const std::unique_ptr<Client> client = Connect();
      network_.CutAt(event, event % 2 == 0 ? SimNetwork::Cut::kBoth : SimNetwork::Cut::kClient);
      {
        const auto scan = client->Scan(options);
        EXPECT_CODE(kOk, scan.status());
        if (scan.ok()) ExpectAll(**scan, options.reverse, options.one_moment);
      }
      all = network_.is_cut_due();
      network_.CutAt(0, SimNetwork::Cut::kBoth);
      reconnects += static_cast<int>(client->counters().reconnects);
      if (HasFailure()) return reconnects;
    }
    return reconnects;
  }

  Duration pause_{0};  // between two entries
  const TempDir dir_;
  std::vector<std::string> keys_;
};

TEST_F(ScanLost, GoesOnWhereItWas) { EXPECT_GT(Sweep({}), 20); }
TEST_F(ScanLost, GoesOnBackwards) { EXPECT_GT(Sweep({.reverse = true}), 20); }
class OneSidedLost : public ScanLost {
 protected:
  OneSidedLost() : ScanLost(Durability::kLogged, /*ordered_index=*/true) {}
};
TEST_F(OneSidedLost, GoesOnWhereItWas) { EXPECT_GT(Sweep({.one_sided = true}), 20); }
TEST_F(OneSidedLost, GoesOnBackwards) { EXPECT_GT(Sweep({.reverse = true, .one_sided = true}), 20); }

TEST_F(ScanLost, IsOfOneMomentOrAborted) { EXPECT_GT(Sweep({.one_moment = true}), 5); }

/// In memory, where keys have the order of their hashes.
class AnyOrderLost : public ScanLost {
 protected:
  AnyOrderLost() : ScanLost(Durability::kMemory) { std::sort(keys_.begin(), keys_.end(), ComesBeforeByHash); }
};
TEST_F(AnyOrderLost, GoesOnWhereItWas) { EXPECT_GT(Sweep({.any_order = true}), 20); }
TEST_F(AnyOrderLost, GoesOnWhereItWasInDoubt) {
  pause_ = std::chrono::seconds(61);
  EXPECT_GT(Sweep({.any_order = true}), 20);
}

// Its knowledge of the server's clock is too old each time, so it asks whether an entry has expired.
TEST_F(ScanLost, GoesOnWhereItWasInDoubt) {
  pause_ = std::chrono::seconds(61);
  EXPECT_GT(Sweep({}), 20);
}

TEST_F(ScanLost, TwoThatTakeTurnsGoOn) {
  bool all = false;
  for (std::uint64_t event = 1; !all; event += 3) {
    SCOPED_TRACE(event);
    const std::unique_ptr<Client> client = Connect();
    {
      const auto one = client->Scan({});
      const auto other = client->Scan({.reverse = true, .keys_only = true});
      ASSERT_TRUE(one.ok() && other.ok());
      network_.CutAt(event, SimNetwork::Cut::kBoth);
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        ASSERT_TRUE((*one)->Next()) << (*one)->status();
        ASSERT_EQ((*one)->key(), keys_[i]);
        ASSERT_TRUE((*other)->Next()) << (*other)->status();
        ASSERT_EQ((*other)->key(), keys_[keys_.size() - 1 - i]);
      }
      EXPECT_FALSE((*one)->Next());
      EXPECT_FALSE((*other)->Next());
      EXPECT_CODE(kOk, (*one)->status());
      EXPECT_CODE(kOk, (*other)->status());
    }
    all = network_.is_cut_due();
    network_.CutAt(0, SimNetwork::Cut::kBoth);
  }
}

TEST_F(ScanLost, ACountBeginsAgain) {
  bool all = false;
  for (std::uint64_t event = 1; !all; ++event) {
    const std::unique_ptr<Client> client = Connect();
    network_.CutAt(event, SimNetwork::Cut::kClient);
    const absl::StatusOr<std::uint64_t> count = client->Count({.prefix = "key "});
    all = network_.is_cut_due();
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, keys_.size());
  }
}

TEST_F(ScanLost, WithoutAnotherConnectionItEnds) {
  const auto client = SimServed::Connect({.scan_window_bytes = 8192, .reconnect = false});
  const auto scan = client->Scan({});
  ASSERT_TRUE(scan.ok());
  network_.CutAt(1, SimNetwork::Cut::kBoth);
  while ((*scan)->Next()) {
  }
  EXPECT_CODE(kUnavailable, (*scan)->status());
}

}  // namespace
}  // namespace remora
