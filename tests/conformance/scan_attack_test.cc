// Clients that ask for scans and do not keep to the rules; and pages that are none.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "store/format/memory/hash_order.h"
#include "store/format/memory/record.h"
#include "store/format/wire/scan_messages.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/hand_client.h"

namespace remora {
namespace {

class ScanAttack : public Behaviour {
 protected:
  void StartFilled(const ClientOptions& client = {}, Durability durability = Durability::kLogged) {
    Start({.durability = durability}, client);
    if (IsSkipped() || HasFatalFailure()) return;
    for (int i = 0; i < 300; ++i)
      ASSERT_CODE(kOk, Put("key " + std::to_string(1000 + i), std::string(100, 'v')));
  }
  std::unique_ptr<HandClient> ByHand() {
    auto connection = deployment_->Dial();
    EXPECT_TRUE(connection.ok()) << connection.status();
    return std::make_unique<HandClient>(*std::move(connection), deployment_->clock());
  }
  /// Returns the bytes of a count, which needs no window.
  static std::string Count(const std::string& begin = "", const std::string& end = "") {
    ScanStart start{.kind = ScanKind::kCount};
    start.begin_size = static_cast<std::uint16_t>(begin.size());
    start.end_size = static_cast<std::uint16_t>(end.size());
    return Bytes(start) + begin + end;
  }
  static std::string Bytes(const ScanStart& start) {
    return std::string(reinterpret_cast<const char*>(&start), sizeof(start));
  }
  static std::optional<HandClient::Answer> Ask(HandClient& hand, const std::string& start) {
    hand.Write(hand.hello().staging, 0, start);
    return hand.AskChecked(HandClient::MakeRequest(Operation::kScan, 0, start.size()), start);
  }
  static std::optional<HandClient::Answer> AskNext(HandClient& hand, std::uint64_t cursor,
                                                   std::uint64_t offset = 0, std::size_t size = 0) {
    Request request = HandClient::MakeRequest(Operation::kScanNext, 0, size);
    request.condition = cursor;
    request.payload_offset = offset;
    return hand.Ask(request);
  }
  void ExpectUnharmed() {
    EXPECT_EQ(Get("key 1007"), std::string(100, 'v'));
    EXPECT_EQ(kv_->Count({.prefix = "key"}).value(), 300u);
  }
};
INSTANTIATE_TEST_SUITE_P(On, ScanAttack,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(ScanAttack, ACountByHandIsACount) {
  StartFilled();
  if (IsSkipped() || HasFatalFailure()) return;
  const auto hand = ByHand();
  const auto answer = Ask(*hand, Count("key 1100", "key 1200"));
  ASSERT_ANSWER(kOk, answer);
  EXPECT_EQ(answer->reply.result, 100);
  EXPECT_EQ(answer->reply.version, 0u);
}

TEST_P(ScanAttack, MalformedScansAreInvalid) {
  StartFilled();
  if (IsSkipped() || HasFatalFailure()) return;
  const auto hand = ByHand();
  const RemoteRegion window{.address = 64, .size = 8 * kMinPageSize, .key = 1};
  std::vector<std::string> wrong = {"", "short", Count() + "more", Count("begin").substr(0, 66),
                                    Count(std::string(kMaxBoundSize + 1, 'b'))};
  for (const std::uint32_t kind : {0u, 5u, ~0u})
    wrong.push_back(Bytes({.kind = static_cast<ScanKind>(kind)}));
  wrong.push_back(Bytes({.kind = ScanKind::kCount, .flags = 2}));
  wrong.push_back(Bytes({.page_size = kMinPageSize, .kind = ScanKind::kCount}));
  wrong.push_back(Bytes({.kind = ScanKind::kDelete, .flags = kAnyOrder}));
  ScanStart any_order{
      .window = window, .page_size = kMinPageSize, .kind = ScanKind::kKeys, .flags = kAnyOrder};
  wrong.push_back(Bytes(any_order) + std::string(kMaxKeySize + 1, 'k'));
  any_order.flags = 0;
  wrong.push_back(Bytes(any_order) + "key");
  any_order.flags = kAnyOrder | kReverse;
  wrong.push_back(Bytes(any_order));
  wrong.push_back(Bytes({.kind = ScanKind::kDelete, .limit = 1}));
  wrong.push_back(Bytes({.kind = ScanKind::kEntries}));  // no window
  wrong.push_back(Bytes({.window = window, .page_size = kMinPageSize - 1, .kind = ScanKind::kEntries}));
  wrong.push_back(Bytes({.window = window, .page_size = kMaxPageSize + 1, .kind = ScanKind::kEntries}));
  wrong.push_back(Bytes({.window = window,
                         .page_offset = window.size - kMinPageSize + 1,
                         .page_size = kMinPageSize,
                         .kind = ScanKind::kEntries}));
  wrong.push_back(Bytes({.window = window,
                         .page_offset = ~std::uint64_t{0} - 100,
                         .page_size = kMinPageSize,
                         .kind = ScanKind::kEntries}));
  for (const std::string& bytes : wrong) ASSERT_ANSWER(kInvalid, Ask(*hand, bytes));
  // Not what was summed up.
  hand->Write(hand->hello().staging, 0, Count());
  ASSERT_ANSWER(kCorrupt, hand->Ask(Operation::kScan, 0, Count().size()));
  // Outside of the staging buffer.
  Request outside = HandClient::MakeRequest(Operation::kScan, 0, 64);
  outside.payload_offset = ~std::uint64_t{0} - 8;
  const auto answer = hand->Ask(outside);
  ASSERT_TRUE(answer.has_value());
  EXPECT_NE(static_cast<int>(answer->status()), static_cast<int>(ReplyStatus::kOk));
  EXPECT_EQ(store().Read(Metric::kScanCursors), 0u);
  ExpectUnharmed();
}

TEST_P(ScanAttack, OnlyItsOwnCursorsAreAClients) {
  StartFilled();
  if (IsSkipped() || HasFatalFailure()) return;
  for (int i = 0; i < 5000; ++i) ASSERT_CODE(kOk, Put("more " + std::to_string(i), ""));
  const auto one = ByHand();
  const auto other = ByHand();
  const auto begun = Ask(*one, Count());
  ASSERT_ANSWER(kOk, begun);
  const std::uint64_t cursor = begun->reply.version;
  ASSERT_NE(cursor, 0u) << "this is too much to be counted at once";
  for (const std::uint64_t id : {cursor, cursor + 1, std::uint64_t{0}, ~std::uint64_t{0}}) {
    ASSERT_ANSWER(kNotFound, AskNext(*other, id));
  }
  ASSERT_ANSWER(kNotFound, AskNext(*one, cursor + 1));
  ASSERT_ANSWER(kInvalid, AskNext(*one, cursor, 0, kMinPageSize));
  ASSERT_ANSWER(kOk, AskNext(*one, cursor));
}

// The client says where the pages go: it may lie, and lose its connection for it.
TEST_P(ScanAttack, AForgedWindowBreaksOnlyTheForger) {
  StartFilled();
  if (IsSkipped() || HasFatalFailure()) return;
  const auto hand = ByHand();
  const std::string start = Bytes({.window = {.address = 64, .size = 8 * kMinPageSize, .key = 77},
                                   .page_size = kMinPageSize,
                                   .kind = ScanKind::kEntries});
  EXPECT_FALSE(Ask(*hand, start).has_value());
  ExpectUnharmed();
  EXPECT_EQ(kv_->client()->Ping().code(), absl::StatusCode::kOk);
}

// --- A server that sends nonsense
// ---------------------------------------------------------------------------

/// The memory of this process that has this name.
std::span<std::byte> MemoryCalled(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) == std::string::npos) continue;
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    return {reinterpret_cast<std::byte*>(begin), end - begin};
  }
  return {};
}

// Bytes of the window change between the arrival of a page and its entries' turn.
TEST_P(ScanAttack, AKeyOutOfTheOrderOfHashesIsAnError) {
  StartFilled({.scan_window_bytes = 2 * kMinPageSize}, Durability::kMemory);
  if (IsSkipped() || HasFatalFailure()) return;
  const std::span<std::byte> window = MemoryCalled("memfd:remora-scan-window");
  std::mt19937 random(9);
  int rejected = 0;
  for (int round = 0; round < (slow() ? 50 : 500); ++round) {
    auto scan = kv_->Scan({.any_order = true});
    ASSERT_CODE(kOk, scan.status());
    std::string last;
    while ((*scan)->Next()) {
      ASSERT_TRUE(last.empty() || ComesBeforeByHash(last, (*scan)->key()));
      last = (*scan)->key();
      window[random() % window.size()] ^= std::byte{1};
    }
    if (!(*scan)->status().ok()) {
      EXPECT_CODE(kInternal, (*scan)->status());
      ++rejected;
    }
  }
  EXPECT_GT(rejected, 0);
  ExpectUnharmed();
}

TEST_P(ScanAttack, APageThatIsNoneIsAnErrorAndNoCrash) {
  StartFilled({.scan_window_bytes = 2 * kMinPageSize});
  if (IsSkipped() || HasFatalFailure()) return;
  const std::span<std::byte> window = MemoryCalled("memfd:remora-scan-window");
  ASSERT_EQ(window.size(), 2 * kMinPageSize);
  std::mt19937 random(9);
  int rejected = 0;
  for (int round = 0; round < (slow() ? 50 : 1000); ++round) {
    const bool reverse = round % 2 == 0;
    auto scan = kv_->Scan({.reverse = reverse});
    ASSERT_CODE(kOk, scan.status());
    std::string last;
    int shown = 0;
    while ((*scan)->Next()) {
      ASSERT_LE((*scan)->key().size(), kMaxKeySize);
      if (!last.empty()) {
        ASSERT_TRUE(reverse ? (*scan)->key() < last : (*scan)->key() > last);
      }
      last = (*scan)->key();
      // Of a header mostly: sizes that are far too large, or somewhat.
      if (++shown % 20 == round % 20) {
        const std::size_t at = random() % (window.size() - 8);
        const std::uint64_t noise = random() % 2 == 0 ? random() : ~std::uint64_t{0};
        std::memcpy(window.data() + at, &noise, 1 + random() % 8);
      }
      if (shown % 50 == 0) {
        window[random() % window.size()] ^= std::byte{1};
      }
    }
    if (!(*scan)->status().ok()) {
      EXPECT_CODE(kInternal, (*scan)->status());
      ++rejected;
    }
  }
  EXPECT_GT(rejected, 0);
  ExpectUnharmed();
}

}  // namespace
}  // namespace remora
