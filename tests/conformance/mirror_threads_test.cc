// Threads whose clients have one mirror of the index. To be run under ThreadSanitizer, too (tools/check).
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/self_describing.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

const ClientOptions kThreadsMirror{.index_mirror_bytes = std::size_t{1} << 20};

class MirrorThreads : public Behaviour {};
INSTANTIATE_TEST_SUITE_P(On, MirrorThreads,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp,
                                         DeploymentKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

// Memory comes round many times, and readers come and go. A GET that begins after a write has ended sees it,
// or a later one.
TEST_P(MirrorThreads, NoGetIsStaleWhileMemoryIsUsedAgain) {
  START({.memory_size = kMinMemorySize, .grace = std::chrono::milliseconds(kMinGraceMs)});
  constexpr std::uint64_t kKeys = 40;
  const std::uint64_t writes = slow() ? 200 : 1500;
  const auto key_of = [](std::uint64_t i) { return "key " + std::to_string(10 + i); };
  std::array<std::atomic<std::uint64_t>, kKeys> ended{};
  std::atomic<bool> is_over = false;
  std::atomic<std::uint64_t> hits = 0;
  const auto write = [&](std::uint64_t number) {
    const std::uint64_t i = number % kKeys;
    const std::string key = key_of(i);
    ASSERT_CODE(kOk, Put(key, MakeValue(key, number, 20'000 * (1 + number % 5))));
    ended[i].store(number);
  };
  for (std::uint64_t number = 1; number <= kKeys; ++number) write(number);
  std::vector<std::thread> readers;
  for (unsigned reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&, reader] {
      std::mt19937 random(reader);
      while (!is_over) {
        const std::unique_ptr<KeyValue> kv = Connect(kThreadsMirror);
        for (int round = 0; round < 200 && !is_over; ++round) {
          const std::uint64_t i = random() % kKeys;
          const std::uint64_t oldest = ended[i].load();
          const std::optional<std::uint64_t> seen = NumberOf(key_of(i), Get(*kv, key_of(i)));
          ASSERT_TRUE(seen.has_value()) << key_of(i);
          ASSERT_GE(*seen, oldest);
        }
        hits += kv->client()->counters().mirror_hits;
      }
    });
  }
  for (std::uint64_t number = kKeys + 1; number <= writes && !HasFailure(); ++number) write(number);
  EXPECT_TRUE(Await([&] { return hits > 0 || HasFailure(); }));
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(store().Read(Metric::kSegmentsCleaned), 5u);
}

// Whichever of them READ the buckets.
TEST_P(MirrorThreads, ThoseThatConnectAtOnceHaveAWholeMirror) {
  START({.memory_size = std::size_t{64} << 20});
  const int keys = slow() ? 300 : 1000;  // so few that the index does not grow
  const auto key_of = [](int i) { return "key " + std::to_string(i); };
  for (int i = 0; i < keys; ++i) ASSERT_CODE(kOk, Put(key_of(i), key_of(i)));
  constexpr int kClients = 4;
  std::atomic<int> ready = 0;
  std::array<std::unique_ptr<KeyValue>, kClients> clients;
  std::vector<std::thread> threads;
  for (std::unique_ptr<KeyValue>& client : clients) {
    threads.emplace_back([&] {
      ++ready;
      while (ready.load() < kClients) std::this_thread::yield();
      client = Connect(kThreadsMirror);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::unique_ptr<KeyValue>& client : clients) {
    ASSERT_NE(client, nullptr);
    for (int i = 0; i < keys; ++i) ASSERT_EQ(Get(*client, key_of(i)), key_of(i));
    EXPECT_GE(client->client()->counters().mirror_hits * 100, static_cast<std::uint64_t>(keys) * 98);
  }
}

// A server may tell the incarnation of another one. So clients that dialled differently share nothing (H1 of
// client/mirror/shared_mirrors.h), though this is one server.
TEST(MirrorsOfAddresses, ClientsThatDialDifferentlyHaveTheirOwn) {
  const TempDir dir;
  const std::array addresses{FreshAddress(rdma::TransportKind::kLocal, dir.path()),
                             FreshAddress(rdma::TransportKind::kLocal, dir.path())};
  ServerOptions options;
  options.store.memory_size = kMinMemorySize;
  const auto server = ServerThread::Start(options, addresses);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto first = Client::Connect(addresses[0].ToString(), kThreadsMirror);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto same = Client::Connect(addresses[0].ToString(), kThreadsMirror);
  ASSERT_TRUE(same.ok()) << same.status();
  const auto other = Client::Connect(addresses[1].ToString(), kThreadsMirror);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*first)->incarnation(), (*other)->incarnation());
  EXPECT_GT((*first)->counters().mirror_reads, 0u);
  EXPECT_EQ((*same)->counters().mirror_reads, 0u);
  EXPECT_GT((*other)->counters().mirror_reads, 0u);
}

}  // namespace
}  // namespace remora
