// A store that lives: its index grows and its memory is used again and again while it is read.
#include <atomic>
#include <bit>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/index/index.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/self_describing.h"

namespace remora {
namespace {

// --- Under the adversary: one thread, virtual time, READs that come in pieces -----------------------------

struct Adversary {
  std::size_t piece_size;
  std::uint32_t gap;  // pieces between two acts, on average
  unsigned seed;
};

/// The contents that the store must have, and a writer that does all it can between two pieces of a READ.
class LivingAdversary : public SimServed, public testing::TestWithParam<Adversary> {
 protected:
  LivingAdversary() : SimServed(GetParam().seed) {}

  static constexpr std::uint64_t kStays = 200;
  static constexpr std::uint64_t kChurns = 30;
  static constexpr std::uint64_t kCome = 30'000;

  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = kMinMemorySize;
    options.store.eviction = Eviction::kNone;
    options.store.clock = &network_.clock();
    ASSERT_NO_FATAL_FAILURE(Serve(options));
    network_.set_piece_size(GetParam().piece_size);
    reader_ = Connect();
    writer_ = Connect();
    for (std::uint64_t i = 0; i < kStays; ++i) ASSERT_TRUE(Write(Stays(i), 80));
    for (std::uint64_t i = 0; i < kChurns; ++i) ASSERT_TRUE(Write(Churns(i), 3000));
    network_.set_interference([this] { Act(); }, GetParam().gap);
  }

  std::unique_ptr<Client> Connect() {
    ClientOptions options;
    options.timeout = std::chrono::minutes(5);  // time flies here
    options.location_cache_bytes = GetParam().seed % 2 == 0 ? 0 : std::size_t{1} << 14;
    return SimServed::Connect(options);
  }

  static std::string Stays(std::uint64_t i) { return "stays " + std::to_string(i); }
  static std::string Churns(std::uint64_t i) { return "churns " + std::to_string(i); }
  static std::string Comes(std::uint64_t i) { return "comes " + std::to_string(i); }

  bool Write(const std::string& key, std::size_t size) {
    const absl::Status status = writer_->Put(key, MakeValue(key, ++number_, size));
    EXPECT_TRUE(status.ok()) << status;
    written_[key] = number_;
    return status.ok();
  }

  void Act() {
    std::mt19937_64& random = network_.random();
    for (int writes = 0; writes < 4; ++writes) {
      const std::uint64_t dice = random() % 100;
      if (dice < 60) {
        if (come_ < kCome) Write(Comes(come_++), 40);
      } else if (dice < 90) {
        Write(Churns(random() % kChurns), 500 + random() % 8'000);
      } else if (come_ > 0) {
        const std::string key = Comes(random() % come_);
        const absl::Status status = writer_->Delete(key);
        EXPECT_EQ(status.ok(), written_.erase(key) == 1) << status;
      }
    }
    // Mostly nothing; sometimes what takes a reader beyond the grace period, or beyond twice that.
    const std::uint64_t dice = random() % 100;
    if (dice < 1) network_.Advance(std::chrono::milliseconds(random() % 300));
    if (dice < 30) server_->Step();
  }

  /// A GET, and whether what it says was so at some moment of it.
  void Read(const std::string& key) {
    const auto before = written_.find(key);
    const bool was_there = before != written_.end();
    const std::uint64_t oldest = was_there ? before->second : 0;
    std::string value;
    const absl::Status status = reader_->Get(key, &value);
    Judge(key, was_there, oldest, status, value);
  }

  /// Reads some keys side by side, and judges each.
  void Read(const std::vector<std::string>& keys) {
    struct Before {
      bool was_there;
      std::uint64_t oldest;
    };
    std::vector<Before> before;
    std::vector<std::string_view> views(keys.begin(), keys.end());
    for (const std::string& key : keys) {
      const auto found = written_.find(key);
      before.push_back({found != written_.end(), found != written_.end() ? found->second : 0});
    }
    std::vector<GetResult> results(keys.size());
    const absl::Status status = reader_->MultiGet(views, results);
    ASSERT_TRUE(status.ok()) << status;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      Judge(keys[i], before[i].was_there, before[i].oldest, results[i].status, results[i].value);
    }
  }

  void Judge(const std::string& key, bool was_there, std::uint64_t oldest, const absl::Status& status,
             const std::string& value) {
    const bool is_there = written_.contains(key);
    if (absl::IsNotFound(status)) {
      ASSERT_FALSE(was_there && is_there) << key << " was there all the time";
      return;
    }
    ASSERT_TRUE(status.ok()) << status;
    const std::optional<std::uint64_t> seen = NumberOf(key, value);
    ASSERT_TRUE(seen.has_value()) << "torn or foreign: " << value;
    ASSERT_TRUE(was_there || is_there) << key << " was never there";
    if (was_there) {
      ASSERT_GE(*seen, oldest) << "stale";
    }
    ASSERT_LE(*seen, number_);
    ++found_;
  }

  std::unique_ptr<Client> reader_;
  std::unique_ptr<Client> writer_;
  std::map<std::string, std::uint64_t> written_;
  std::uint64_t number_ = 0;
  std::uint64_t come_ = 0;
  std::uint64_t found_ = 0;
};

INSTANTIATE_TEST_SUITE_P(With, LivingAdversary,
                         testing::Values(Adversary{1, 300, 1}, Adversary{8, 20, 2}, Adversary{8, 60, 3},
                                         Adversary{64, 3, 4}, Adversary{64, 8, 5}),
                         [](const auto& test) {
                           return "pieces_of_" + std::to_string(test.param.piece_size) + "_every_" +
                                  std::to_string(test.param.gap);
                         });

TEST_P(LivingAdversary, NothingIsWrongStaleOrMissing) {
  std::mt19937_64 random(GetParam().seed);
  while (come_ < kCome || found_ < 1000 || server_->store().Read(Metric::kSegmentsCleaned) < 30) {
    const std::uint64_t dice = random() % 100;
    const std::string key = dice < 30                 ? Stays(random() % kStays)
                            : dice < 60 || come_ == 0 ? Churns(random() % kChurns)
                                                      : Comes(random() % (come_ + come_ / 10 + 1));
    ASSERT_NO_FATAL_FAILURE(Read(key));
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(server_->store().Read(Metric::kIndexBuckets), 1000u);
  EXPECT_GT(reader_->counters().retries, 0u) << "the adversary disturbed nobody";
  // When everything has come to rest, each key is found, by a reader that knew nothing of the growth, too.
  network_.set_interference(nullptr, 1);
  reader_ = Connect();
  for (const auto& [key, number] : written_) {
    std::string value;
    const absl::Status status = reader_->Get(key, &value);
    ASSERT_TRUE(status.ok()) << key << ": " << status;
    ASSERT_EQ(NumberOf(key, value), number);
  }
  EXPECT_EQ(server_->store().Read(Metric::kKeys), written_.size());
}

TEST_P(LivingAdversary, NothingIsWrongStaleOrMissingSideBySide) {
  std::mt19937_64 random(GetParam().seed);
  while (come_ < kCome || found_ < 1000) {
    std::vector<std::string> keys;
    for (std::uint64_t count = 1 + random() % 6; keys.size() < count;) {
      const std::uint64_t dice = random() % 100;
      keys.push_back(dice < 30                 ? Stays(random() % kStays)
                     : dice < 60 || come_ == 0 ? Churns(random() % kChurns)
                                               : Comes(random() % (come_ + come_ / 10 + 1)));
    }
    ASSERT_NO_FATAL_FAILURE(Read(keys));
    ASSERT_FALSE(HasFailure());
  }
}

// Reads of keys in the very bucket that is to be split next.
TEST_P(LivingAdversary, ASplitUnderAReadHidesNothing) {
  constexpr std::uint64_t kKeys = 3000;
  network_.set_interference(nullptr, 1);
  for (std::uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(Write(Comes(i), 40));
  std::uint64_t next = kKeys;
  // As often as that a READ of a bucket meets a few: one that splits it, and one that clears what may be.
  const auto gap = static_cast<std::uint32_t>(sizeof(Bucket) / GetParam().piece_size / 4);
  network_.set_interference(
      [&] {
        Write(Comes(next++), 40);
        if (network_.random()() % 4 != 0) return;
        network_.Advance(std::chrono::milliseconds(250));  // long enough for retired memory to be used again
        server_->Step();
      },
      gap);
  const auto buckets = [&] { return server_->store().Read(Metric::kIndexBuckets); };
  const std::uint64_t first = buckets();
  std::uint64_t skipped = 0;
  for (std::uint64_t i = 0; buckets() < 8 * first; i = (i + 1) % kKeys) {
    const auto level = static_cast<std::uint32_t>(std::bit_width(buckets()) - 1);
    const std::uint64_t split = buckets() - (std::uint64_t{1} << level);
    const std::uint64_t home = BucketAtDepth(HashKey(Comes(i)), level);
    // Any key will do where none is there, or nothing is split: the writer has to go on.
    if (home != split && home != split + 1 && skipped++ < kKeys) continue;
    skipped = 0;
    ASSERT_NO_FATAL_FAILURE(Read(Comes(i)));
  }
}

// Growth costs readers next to nothing: a GET is two READs, a miss is one, and few of either are one more. At
// 1,000 new keys a second, so that retired memory is a small part of what there is, as in a store that is
// large.
class SlowGrowth : public LivingAdversary {};
INSTANTIATE_TEST_SUITE_P(With, SlowGrowth, testing::Values(Adversary{256, 1, 6}));

TEST_P(SlowGrowth, CostsReadersLittle) {
  // From one growth to the next, three times.
  constexpr std::uint64_t kFirst = Index::kPeakLoad << 9;
  constexpr std::uint64_t kKeys = kFirst << 3;
  network_.set_interference(nullptr, 1);
  const ClientCounters& counters = reader_->counters();
  std::uint64_t found_reads = 0;
  std::uint64_t missing_reads = 0;
  std::uint64_t gets = 0;
  std::string value;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_TRUE(Write(Comes(key), 30));
    network_.Advance(std::chrono::milliseconds(1));
    if (key < kFirst || key % 2 != 0) continue;
    const std::uint64_t before = counters.reads;
    ASSERT_TRUE(reader_->Get(Comes(network_.random()() % (key + 1)), &value).ok());
    const std::uint64_t between = counters.reads;
    ASSERT_TRUE(absl::IsNotFound(reader_->Get("missing " + std::to_string(key), &value)));
    found_reads += between - before;
    missing_reads += counters.reads - between;
    ++gets;
  }
  const auto per_get = [&](std::uint64_t reads) {
    return static_cast<double>(reads) / static_cast<double>(gets);
  };
  RecordProperty("reads_per_get", std::to_string(per_get(found_reads)));
  RecordProperty("reads_per_miss", std::to_string(per_get(missing_reads)));
  EXPECT_LT(per_get(found_reads), 2.02);
  EXPECT_LT(per_get(missing_reads), 1.02);
  EXPECT_GE(server_->store().Read(Metric::kIndexBuckets), kKeys / Index::kPeakLoad);
}

// --- For real: threads, and every way to run the store -----------------------------------------------------

class Living : public Behaviour {};
INSTANTIATE_TEST_SUITE_P(On, Living,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs),
                         [](const auto& test) { return NameOf(test.param); });

// Readers beside a writer that fills the index and overwrites the memory many times.
TEST_P(Living, ReadersSeeNothingWrongWhileItGrowsAndCleans) {
  START({.memory_size = kMinMemorySize});
  const std::uint64_t news = slow() ? 5000 : 40'000;
  const std::uint64_t overwrites = slow() ? 2500 : 6000;
  constexpr std::uint64_t kStay = 300;
  constexpr std::uint64_t kChurn = 20;
  for (std::uint64_t i = 0; i < kStay; ++i) {
    ASSERT_CODE(kOk, Put("stays " + std::to_string(i), MakeValue("stays " + std::to_string(i), i, 80)));
  }
  std::vector<std::atomic<std::uint64_t>> acknowledged(kChurn);
  for (std::uint64_t i = 0; i < kChurn; ++i) {
    ASSERT_CODE(kOk, Put("churns " + std::to_string(i), MakeValue("churns " + std::to_string(i), 0, 9000)));
  }
  std::atomic<std::uint64_t> come = 0;
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> gets = 0;
  const auto read = [&](KeyValue& kv, unsigned seed) {
    std::mt19937_64 random(seed);
    std::string value;
    while (!done.load()) {
      const std::string stays = "stays " + std::to_string(random() % kStay);
      ASSERT_CODE(kOk, kv.Get(stays, &value));
      ASSERT_TRUE(NumberOf(stays, value).has_value()) << value;
      const std::uint64_t i = random() % kChurn;
      const std::string churns = "churns " + std::to_string(i);
      const std::uint64_t oldest = acknowledged[i].load();
      ASSERT_CODE(kOk, kv.Get(churns, &value));
      ASSERT_TRUE(NumberOf(churns, value).has_value()) << value.substr(0, 100);
      ASSERT_GE(*NumberOf(churns, value), oldest) << "stale";
      if (const std::uint64_t there = come.load(); there > 0) {
        const std::string comes = "comes " + std::to_string(random() % there);
        ASSERT_CODE(kOk, kv.Get(comes, &value));
        ASSERT_TRUE(NumberOf(comes, value).has_value()) << value;
      }
      ASSERT_CODE(kNotFound, kv.Get("never " + std::to_string(random() % 1000), &value));
      ++gets;
    }
  };
  std::vector<std::unique_ptr<KeyValue>> kvs;
  std::vector<std::thread> readers;
  for (unsigned reader = 0; reader < 2; ++reader) {
    kvs.push_back(Connect({.location_cache_bytes = reader * kDefaultLocationCacheBytes}));
    readers.emplace_back([&, &kv = *kvs.back(), reader] { read(kv, reader); });
  }
  std::mt19937_64 random(99);
  absl::Status status;
  for (std::uint64_t write = 1; write <= overwrites && status.ok() && !HasFailure(); ++write) {
    const std::uint64_t i = random() % kChurn;
    const std::string churns = "churns " + std::to_string(i);
    status = Put(churns, MakeValue(churns, write, 500 + random() % 20'000));
    acknowledged[i] = write;
    for (std::uint64_t j = 0; j < news / overwrites && status.ok(); ++j) {
      const std::string comes = "comes " + std::to_string(come.load());
      status = Put(comes, MakeValue(comes, come.load(), 40));
      ++come;
    }
  }
  while (gets.load() < 100 && !HasFailure()) std::this_thread::yield();
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(store().Read(Metric::kSegmentsCleaned), slow() ? 0u : 20u);
  EXPECT_GT(store().Read(Metric::kIndexBuckets), slow() ? 100u : 1000u);
}

}  // namespace
}  // namespace remora
