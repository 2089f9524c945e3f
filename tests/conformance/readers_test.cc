// Readers while writers write: every value whole, none stale, none missing.
#include <atomic>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/self_describing.h"

namespace remora {
namespace {

class Readers : public Behaviour {};
INSTANTIATE_TEST_SUITE_P(On, Readers,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kVerbsAndLocal),
                         [](const auto& test) { return NameOf(test.param); });

constexpr int kReaderKeys = 8;
std::string KeyOf(int i) { return "hot key " + std::to_string(i); }
std::size_t SizeOf(std::uint64_t number) { return 40 + number * 7919 % 1500; }

// Per key, the number of the last write that was acknowledged. A GET that begins later must not see an older
// one.
struct Acknowledged {
  std::atomic<std::uint64_t> number = 0;
};

void ReadUntil(const std::atomic<bool>& done, KeyValue& kv, std::vector<Acknowledged>& acknowledged,
               unsigned seed, std::atomic<std::uint64_t>& gets) {
  std::mt19937 random(seed);
  std::string value;
  std::vector<std::uint64_t> seen(kReaderKeys, 0);
  while (!done.load()) {
    const int i = static_cast<int>(random() % kReaderKeys);
    const auto index = static_cast<std::size_t>(i);
    const std::uint64_t oldest = std::max(acknowledged[index].number.load(), seen[index]);
    const absl::Status status = kv.Get(KeyOf(i), &value);
    ASSERT_TRUE(status.ok()) << status;  // no key is ever deleted here: a miss is a wrong answer
    const std::optional<std::uint64_t> number = NumberOf(KeyOf(i), value);
    ASSERT_TRUE(number.has_value()) << "torn or foreign: " << value;
    ASSERT_GE(*number, oldest) << "stale";
    seen[index] = *number;
    ++gets;
  }
}

TEST_P(Readers, SeeWholeAndFreshValuesWhileKeysAreOverwritten) {
  START({.memory_size = std::size_t{64} << 20});
  // Bounded by operations, so that the log, which only fills, holds them all; fewer where everything is slow.
  const std::uint64_t writes = slow() ? 2000 : 20000;
  std::vector<Acknowledged> acknowledged(kReaderKeys);
  for (int i = 0; i < kReaderKeys; ++i) ASSERT_CODE(kOk, Put(KeyOf(i), MakeValue(KeyOf(i), 0, SizeOf(0))));

  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> gets = 0;
  std::vector<std::unique_ptr<KeyValue>> kvs;
  std::vector<std::thread> readers;
  for (unsigned reader = 0; reader < 2; ++reader) {
    // One that looks for each key anew, one that remembers where it was.
    kvs.push_back(Connect({.location_cache_bytes = reader * kDefaultLocationCacheBytes}));
    readers.emplace_back([&, &kv = *kvs.back(), reader] { ReadUntil(done, kv, acknowledged, reader, gets); });
  }
  std::mt19937 random(99);
  absl::Status status;
  for (std::uint64_t number = 1; number <= writes && status.ok(); ++number) {
    const int i = static_cast<int>(random() % kReaderKeys);
    status = Put(KeyOf(i), MakeValue(KeyOf(i), number, SizeOf(number)));
    if (status.ok()) acknowledged[static_cast<std::size_t>(i)].number = number;
  }
  // Where the readers got no time meanwhile, they get it now: a run in which nobody read shows nothing.
  while (gets.load() < 100 && !HasFailure()) std::this_thread::yield();
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(status.ok()) << status;
}

// Keys that come and go: a GET may find or miss, but what it finds is whole, and keys beside them always are
// found.
TEST_P(Readers, MissNothingThatStaysWhileNeighboursComeAndGo) {
  START({.memory_size = std::size_t{64} << 20});
  const std::uint64_t rounds = slow() ? 1000 : 15000;
  for (int i = 0; i < kReaderKeys; ++i) ASSERT_CODE(kOk, Put(KeyOf(i), MakeValue(KeyOf(i), 1, 60)));
  std::atomic<bool> done = false;
  const std::unique_ptr<KeyValue> reader_kv = Connect();
  std::thread reader([&] {
    std::mt19937 random(5);
    std::string value;
    while (!done.load()) {
      const std::string stays = KeyOf(static_cast<int>(random() % kReaderKeys));
      ASSERT_CODE(kOk, reader_kv->Get(stays, &value));
      ASSERT_EQ(NumberOf(stays, value), 1u);
      const std::string comes = "guest " + std::to_string(random() % 4);
      const absl::Status status = reader_kv->Get(comes, &value);
      ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
      ASSERT_TRUE(!status.ok() || NumberOf(comes, value).has_value()) << value;
    }
  });
  std::mt19937 random(6);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::string key = "guest " + std::to_string(random() % 4);
    const absl::Status status =
        random() % 2 == 0 ? Put(key, MakeValue(key, round, SizeOf(round))) : Delete(key);
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }
  done = true;
  reader.join();
}

// --- The adversary: READs come piece by piece, in random order, and anything happens in between -----------

struct Adversary {
  std::size_t piece_size;
  std::uint32_t gap;
  std::size_t location_cache_bytes = 0;
};

class TornReaders : public SimServed, public testing::TestWithParam<Adversary> {
 protected:
  TornReaders() : SimServed(/*seed=*/20) {}

  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = std::size_t{96} << 20;
    ASSERT_NO_FATAL_FAILURE(Serve(options));
    network_.set_piece_size(GetParam().piece_size);
    reader_ = Connect();
    writer_ = Connect();
  }

  std::unique_ptr<Client> Connect() {
    return SimServed::Connect({.location_cache_bytes = GetParam().location_cache_bytes});
  }

  std::unique_ptr<Client> reader_;
  std::unique_ptr<Client> writer_;
};

INSTANTIATE_TEST_SUITE_P(With, TornReaders,
                         testing::Values(Adversary{1, 2}, Adversary{1, 40}, Adversary{1, 300},
                                         Adversary{8, 1}, Adversary{8, 6}, Adversary{8, 50},
                                         Adversary{1, 300, 4096}, Adversary{8, 6, 4096},
                                         Adversary{8, 50, 4096}),
                         [](const auto& test) {
                           return "pieces_of_" + std::to_string(test.param.piece_size) + "_every_" +
                                  std::to_string(test.param.gap) +
                                  (test.param.location_cache_bytes > 0 ? "_warm" : "");
                         });

TEST_P(TornReaders, NeverSeeAMixtureOrAnOldValueOrAMiss) {
  std::vector<std::uint64_t> written(kReaderKeys, 1);
  std::uint64_t number = 1;
  for (int i = 0; i < kReaderKeys; ++i)
    ASSERT_TRUE(writer_->Put(KeyOf(i), MakeValue(KeyOf(i), 1, SizeOf(1))).ok());
  network_.set_interference(
      [&] {
        const auto i = static_cast<std::size_t>(network_.random()() % kReaderKeys);
        const std::string key = KeyOf(static_cast<int>(i));
        ++number;
        ASSERT_TRUE(writer_->Put(key, MakeValue(key, number, SizeOf(number))).ok());
        written[i] = number;
      },
      GetParam().gap);
  std::string value;
  for (int gets = 0; gets < 1000 && number < 30000; ++gets) {
    const auto i = static_cast<std::size_t>(network_.random()() % kReaderKeys);
    const std::string key = KeyOf(static_cast<int>(i));
    const std::uint64_t oldest = written[i];
    const absl::Status status = reader_->Get(key, &value);
    ASSERT_TRUE(status.ok()) << status;
    const std::optional<std::uint64_t> seen = NumberOf(key, value);
    ASSERT_TRUE(seen.has_value()) << "torn or foreign: " << value;
    ASSERT_GE(*seen, oldest);
    ASSERT_LE(*seen, written[i]);
  }
  // The adversary has done its work: readers had to begin again, and some to ask the server.
  EXPECT_GT(reader_->counters().retries, 0u);
}

TEST_P(TornReaders, NeverMissAKeyThatStays) {
  ASSERT_TRUE(writer_->Put("stays", "value").ok());
  // As many as share its bucket's neighbourhood and more: slots all around change while it is read.
  int round = 0;
  network_.set_interference(
      [&] {
        const std::string key = "guest " + std::to_string(network_.random()() % 2000);
        const absl::Status status = ++round % 2 == 0 ? writer_->Put(key, "v") : writer_->Delete(key);
        ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
      },
      GetParam().gap);
  std::string value;
  for (int gets = 0; gets < 500; ++gets) {
    const absl::Status status = reader_->Get("stays", &value);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(value, "value");
  }
}

// With a write before every look, no look is ever sure; the answer comes from the server, and is right.
TEST_P(TornReaders, AskTheServerInTheEnd) {
  ASSERT_TRUE(writer_->Put("key", MakeValue("key", 1, 40)).ok());
  std::uint64_t number = 1;
  network_.set_interference(
      [&] {
        ++number;
        ASSERT_TRUE(writer_->Put("key", MakeValue("key", number, 40)).ok());
      },
      /*gap=*/1);
  std::string value;
  ASSERT_TRUE(reader_->Get("key", &value).ok());
  EXPECT_TRUE(NumberOf("key", value).has_value()) << value;
  EXPECT_GT(reader_->counters().locates, 0u);
}

}  // namespace
}  // namespace remora
