// The work of one request of a scan, a count or a watch, and an error on the way. Time is that of the
// simulated network, so the tests decide how long the last write is ago.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "store/format/wire/scan_messages.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/hand_client.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

constexpr int kStepKeys = 2500;

class ScanSteps : public SimServed, public testing::Test {
 protected:
  ScanSteps() : SimServed(/*seed=*/5) {
    ServerOptions options;
    options.store.memory_size = std::size_t{32} << 20;
    options.store.clock = &network_.clock();
    options.store.durability = Durability::kLogged;
    options.store.data_dir = dir_.path() + "/data";
    Serve(options);
  }
  void Fill(Client& client) {
    for (int i = 0; i < kStepKeys; ++i) ASSERT_CODE(kOk, client.Put("key " + std::to_string(i), "value"));
  }
  std::unique_ptr<Client> Connect() { return SimServed::Connect({}); }
  std::uint64_t Pages() { return server_->store().Read(Metric::kScanPages); }

  /// Shows all keys; writes one behind the first if `writes`. Returns the number of pages.
  std::uint64_t PagesOfAScan(Client& client, bool writes) {
    const std::uint64_t before = Pages();
    const auto scan = client.Scan({});
    EXPECT_CODE(kOk, scan.status());
    int shown = 0;
    while ((*scan)->Next()) {
      if (++shown == 1 && writes) {
        EXPECT_CODE(kOk, client.Put("key 0", "new"));
      }
    }
    EXPECT_CODE(kOk, (*scan)->status());
    EXPECT_EQ(shown, kStepKeys);
    return Pages() - before;
  }

  const TempDir dir_;
};

class WatchSteps : public SimServed, public testing::Test {
 protected:
  WatchSteps() : SimServed(/*seed=*/5) {
    ServerOptions options;
    options.store.memory_size = std::size_t{32} << 20;
    options.store.clock = &network_.clock();
    options.store.change_log_bytes = kMinChangeLogBytes;
    Serve(options);
  }
};

TEST_F(ScanSteps, ACountMakesShortStepsWhileClientsWrite) {
  const std::unique_ptr<Client> writer = Connect();
  ASSERT_NO_FATAL_FAILURE(Fill(*writer));
  HandClient hand(network_.Dial(), network_.clock());
  const ScanStart start{.kind = ScanKind::kCount};
  const std::string bytes(reinterpret_cast<const char*>(&start), sizeof(start));
  hand.Write(hand.hello().staging, 0, bytes);
  auto answer = hand.AskChecked(HandClient::MakeRequest(Operation::kScan, 0, bytes.size()), bytes);
  ASSERT_ANSWER(kOk, answer);
  EXPECT_EQ(answer->reply.result, 2048) << "those writes were before";
  Request next = HandClient::MakeRequest(Operation::kScanNext, 0, 0);
  next.condition = answer->reply.version;
  const auto count = [&]() -> std::int64_t {
    answer = hand.Ask(next);
    return answer && answer->status() == ReplyStatus::kOk ? answer->reply.result : -1;
  };
  ASSERT_CODE(kOk, writer->Put("key 0", "new"));
  EXPECT_EQ(count(), 64);
  EXPECT_EQ(count(), 64) << "another write may come soon";
  network_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(count(), kStepKeys - 2048 - 2 * 64);
  EXPECT_EQ(answer->reply.version, 0u) << "that was all";
}

TEST_F(ScanSteps, PagesAreShortWhileClientsWrite) {
  const std::unique_ptr<Client> client = Connect();
  ASSERT_NO_FATAL_FAILURE(Fill(*client));
  EXPECT_EQ(PagesOfAScan(*client, /*writes=*/false), 3u);
  // Two may have been asked for before the write.
  EXPECT_GE(PagesOfAScan(*client, /*writes=*/true), std::uint64_t{2 + (kStepKeys - 2 * 1024) / 64});
}

// Scans one after the other beside a client that writes: those behind the first know of it.
TEST_F(ScanSteps, TheFirstPageIsShortWhileClientsWrite) {
  const std::unique_ptr<Client> client = Connect();
  ASSERT_NO_FATAL_FAILURE(Fill(*client));
  const auto pages_of = [&](std::uint64_t limit) {
    const std::uint64_t before = Pages();
    const auto scan = client->Scan({.limit = limit});
    EXPECT_CODE(kOk, scan.status());
    std::uint64_t shown = 0;
    while ((*scan)->Next()) ++shown;
    EXPECT_EQ(shown, limit);
    return Pages() - before;
  };
  ASSERT_EQ(PagesOfAScan(*client, /*writes=*/false), 3u);
  ASSERT_CODE(kOk, client->Put("key 0", "new"));
  EXPECT_EQ(pages_of(1000), std::uint64_t{1 + (1000 - 256 + 63) / 64});
  EXPECT_EQ(pages_of(200), 1u) << "short scans are of one page";
  network_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(PagesOfAScan(*client, /*writes=*/false), 3u);
}

// All changes would fit into one page. The log in memory cannot keep the last one.
TEST_F(WatchSteps, TheChangesBeforeAnErrorAreShown) {
  const std::unique_ptr<Client> client = SimServed::Connect({});
  const std::string begin = (*client->Watch())->resume_token();
  for (const std::string_view key : {"a", "b"}) ASSERT_CODE(kOk, client->Put(key, "value"));
  ASSERT_CODE(kOk, client->Put("large", std::string(kMinChangeLogBytes, 'l')));
  const auto watch = client->Watch({.resume_token = begin});
  ASSERT_CODE(kOk, watch.status());
  for (const std::string_view key : {"a", "b"}) {
    const absl::StatusOr<bool> came = (*watch)->Next(std::chrono::seconds(1));
    ASSERT_TRUE(came.ok() && *came) << came.status();
    EXPECT_EQ((*watch)->key(), key);
  }
  EXPECT_CODE(kOutOfRange, (*watch)->Next(std::chrono::seconds(1)).status());
}

}  // namespace
}  // namespace remora
