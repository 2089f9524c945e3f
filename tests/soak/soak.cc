// A store that is used hard for as long as one likes. It grows beyond its memory, is overwritten, deleted
// from, its records expire, it is stopped and started again. Every value that is read says itself whether it
// is right.
//
//   soak --on=local --minutes=30      also: embedded; verbs, and verbs_and_local, on the host that
//                                     REMORA_VERBS_HOST names
//
// Exit status: 0 nothing was wrong, 1 something was.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/base/check.h"
#include "tests/conformance/deployment.h"
#include "tests/support/self_describing.h"
#include "tools/command_line/command_line.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint64_t kChurns = 64;
constexpr std::uint64_t kExpires = 64;
constexpr std::uint64_t kMostComes = 60'000;
constexpr std::size_t kStaySize = 2000;  // on average

std::string Stays(std::uint64_t i) { return "stays " + std::to_string(i); }
std::string Churns(std::uint64_t i) { return "churns " + std::to_string(i); }
std::string Comes(std::uint64_t i) { return "comes " + std::to_string(i); }
std::string Expires(std::uint64_t i) { return "expires " + std::to_string(i); }

/// Promises to which readers may hold the store, while the writer writes: each is set after the write was
/// acknowledged, or before a deletion is asked for.
struct Promise {
  std::array<std::atomic<std::uint64_t>, kChurns> churns{};  // a number at least as great is there
  std::atomic<std::uint64_t> stays = 0;                      // as many are there
  std::atomic<std::uint64_t> comes_first = 0;                // from this one on, to the next, are there
  std::atomic<std::uint64_t> comes_next = 0;
  // Of each key that expires: not there at or after the one, there before the other.
  std::array<std::atomic<steady_clock::rep>, kExpires> gone_by{};
  std::array<std::atomic<steady_clock::rep>, kExpires> there_until{};
};

class Soak {
 public:
  /// `fill`: bytes of values that come to stay.
  Soak(Deployment& deployment, std::uint64_t fill) : deployment_(deployment), most_stay_(fill / kStaySize) {}

  /// One life of the server: from its start to its stop.
  void Live(std::chrono::seconds time) {
    const steady_clock::time_point end = steady_clock::now() + time;
    std::atomic<bool> done = false;
    std::vector<std::unique_ptr<KeyValue>> kvs;
    // A machine that has other things to do is slow, not wrong.
    const ClientOptions patient = {.connect_timeout = std::chrono::minutes(1),
                                   .timeout = std::chrono::minutes(1)};
    for (int i = 0; i < 3; ++i) kvs.push_back(*deployment_.Connect(patient));
    std::vector<std::thread> readers;
    for (std::size_t i = 0; i < 2; ++i) {
      readers.emplace_back([&, &kv = *kvs[i], seed = random_()] { Read(kv, seed, done); });
    }
    KeyValue& writer = *kvs[2];
    while (steady_clock::now() < end && wrong_ == 0) {
      for (int i = 0; i < 100 && wrong_ == 0; ++i) Write(writer);
    }
    done = true;
    for (std::thread& reader : readers) reader.join();
    CompareAll(writer);
    for (auto& until : promise_.there_until) until = 0;  // a restart takes its time
    cleaned_ += deployment_.store().Read(Metric::kSegmentsCleaned);
    expired_ += deployment_.store().Read(Metric::kExpired);
    evicted_ += deployment_.store().Read(Metric::kEvictions);
    fetched_ += deployment_.store().Read(Metric::kFetches);
  }

  void Report(std::chrono::seconds so_far) const {
    const ServerStore& store = deployment_.store();
    std::ifstream statm("/proc/self/statm");
    std::uint64_t size = 0, resident = 0;
    statm >> size >> resident;
    std::printf(
        "%6lld s: %llu writes, %llu reads, %llu keys, %llu index buckets, %llu segments cleaned, %llu "
        "expired, %llu evicted, %llu fetched, %llu MB resident, wrong: %llu\n",
        static_cast<long long>(so_far.count()), Number(writes_), Number(reads_.load()),
        Number(store.Read(Metric::kKeys)), Number(store.Read(Metric::kIndexBuckets)), Number(cleaned_),
        Number(expired_), Number(evicted_), Number(fetched_),
        Number(resident * static_cast<std::uint64_t>(getpagesize()) >> 20), Number(wrong_.load()));
    std::fflush(stdout);
  }

  std::uint64_t wrong() const { return wrong_; }

 private:
  static unsigned long long Number(std::uint64_t number) { return number; }
  static steady_clock::rep Ticks(steady_clock::time_point time) { return time.time_since_epoch().count(); }

  void Wrong(const std::string& what) {
    ++wrong_;
    std::fprintf(stderr, "WRONG: %s\n", what.c_str());
  }

  void Put(KeyValue& kv, const std::string& key, std::size_t size, const PutOptions& options = {}) {
    const absl::Status status = kv.Put(key, MakeValue(key, ++number_, size), options);
    if (!status.ok()) Wrong("put " + key + ": " + status.ToString());
    ++writes_;
  }

  void Write(KeyValue& kv) {
    const std::uint64_t dice = random_() % 1000;
    if (dice < 300) {
      const std::uint64_t i = random_() % kChurns;
      // Mostly small, some of the size of a segment's part, some of several segments.
      const std::size_t most = dice < 2 ? std::size_t{4} << 20 : dice < 10 ? kMaxSmallValueSize : 6000;
      Put(kv, Churns(i), random_() % most);
      promise_.churns[i] = number_;
    } else if (dice < 900) {
      Come(kv);
    } else if (dice < 950) {
      Expire(kv);
    } else if (promise_.stays < most_stay_) {
      Put(kv, Stays(promise_.stays), kStaySize / 2 + random_() % kStaySize);
      ++promise_.stays;
    }
  }

  /// They come up to a number, then go down to none, and so on: the index grows, and then is almost empty.
  void Come(KeyValue& kv) {
    if (coming_) {
      Put(kv, Comes(promise_.comes_next), 40 + random_() % 100);
      ++promise_.comes_next;
    } else {
      const std::uint64_t first = promise_.comes_first++;
      const absl::Status status = kv.Delete(Comes(first));
      if (!status.ok()) Wrong("delete " + Comes(first) + ": " + status.ToString());
      ++writes_;
    }
    const std::uint64_t there = promise_.comes_next - promise_.comes_first;
    if (there == kMostComes || there == 0) coming_ = !coming_;
  }

  void Expire(KeyValue& kv) {
    const std::uint64_t i = random_() % kExpires;
    const milliseconds ttl(20 + random_() % 3000);
    // Nothing is promised meanwhile.
    promise_.there_until[i] = 0;
    promise_.gone_by[i] = std::numeric_limits<steady_clock::rep>::max();
    const steady_clock::time_point before = steady_clock::now();
    Put(kv, Expires(i), random_() % 3000, {.ttl = ttl});
    // A millisecond is what an expiry is rounded to.
    promise_.gone_by[i] = Ticks(steady_clock::now() + ttl + milliseconds(1));
    promise_.there_until[i] = Ticks(before + ttl - milliseconds(1));
  }

  void Read(KeyValue& kv, std::uint64_t seed, const std::atomic<bool>& done) {
    std::mt19937_64 random(seed);
    while (!done && wrong_ == 0) {
      const std::uint64_t dice = random() % 5;
      if (dice == 0) {
        const std::uint64_t i = random() % kChurns;
        const std::uint64_t oldest = promise_.churns[i];
        Expect(kv, Churns(i), oldest > 0, oldest);
      } else if (dice == 1 && promise_.stays > 0) {
        Expect(kv, Stays(random() % promise_.stays), true, 0);
      } else if (dice == 2) {
        const std::uint64_t next = promise_.comes_next;
        const std::uint64_t first = promise_.comes_first;
        if (next <= first) continue;
        const std::uint64_t i = first + random() % (next - first);
        std::string value;
        const absl::Status status = kv.Get(Comes(i), &value);
        Judge(Comes(i), status, value, /*there=*/i >= promise_.comes_first, 0);
      } else if (dice == 3) {
        ReadExpiring(kv, random() % kExpires);
      } else {
        std::string value;
        const std::string key = "never " + std::to_string(random() % 10'000);
        if (!absl::IsNotFound(kv.Get(key, &value))) Wrong("found what was never there: " + key);
      }
      ++reads_;
    }
  }

  void ReadExpiring(KeyValue& kv, std::uint64_t i) {
    // Gone is gone since before the read; there is there until after it. And it was the same promise all
    // along.
    const steady_clock::rep gone_by = promise_.gone_by[i];
    const bool gone = gone_by != 0 && Ticks(steady_clock::now()) >= gone_by;
    std::string value;
    const absl::Status status = kv.Get(Expires(i), &value);
    const bool there = Ticks(steady_clock::now()) < promise_.there_until[i];
    if (promise_.gone_by[i] != gone_by) return;
    if (status.ok() && gone) return Wrong(Expires(i) + " was served after it had expired");
    Judge(Expires(i), status, value, there, 0);
  }

  void Expect(KeyValue& kv, const std::string& key, bool there, std::uint64_t oldest) {
    std::string value;
    const absl::Status status = kv.Get(key, &value);
    Judge(key, status, value, there, oldest);
  }

  void Judge(const std::string& key, const absl::Status& status, const std::string& value, bool there,
             std::uint64_t oldest) {
    if (absl::IsNotFound(status)) {
      if (there) Wrong("lost: " + key);
    } else if (!status.ok()) {
      Wrong("get " + key + ": " + status.ToString());
    } else if (const auto number = NumberOf(key, value); !number) {
      Wrong("torn or foreign: " + key + " = " + value.substr(0, 100));
    } else if (*number < oldest) {
      Wrong("stale: " + key);
    }
  }

  /// Nobody writes now: all of it, and no more.
  void CompareAll(KeyValue& kv) {
    for (std::uint64_t i = 0; i < kChurns; ++i) {
      if (promise_.churns[i] > 0) Expect(kv, Churns(i), true, promise_.churns[i]);
    }
    for (std::uint64_t i = 0; i < promise_.stays; ++i) Expect(kv, Stays(i), true, 0);
    for (std::uint64_t i = promise_.comes_first; i < promise_.comes_next; ++i) Expect(kv, Comes(i), true, 0);
    std::string value;
    for (std::uint64_t i = 1; i < 1000 && i <= promise_.comes_first; ++i) {
      const std::string key = Comes(promise_.comes_first - i);
      if (!absl::IsNotFound(kv.Get(key, &value))) Wrong("deleted, and there: " + key);
    }
  }

  Deployment& deployment_;
  const std::uint64_t most_stay_;
  std::mt19937_64 random_{std::random_device{}()};
  Promise promise_;
  std::uint64_t number_ = 0;
  std::uint64_t writes_ = 0;
  std::uint64_t cleaned_ = 0;
  std::uint64_t expired_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint64_t fetched_ = 0;
  bool coming_ = true;
  std::atomic<std::uint64_t> reads_ = 0;
  std::atomic<std::uint64_t> wrong_ = 0;
};

int Main(int argc, char** argv) {
  command_line::CommandLine line("soak: uses a store hard, and checks every value that it reads.");
  DeploymentKind kind = DeploymentKind::kLocal;
  line.AddChoice("--on", kind,
                 {{"embedded", DeploymentKind::kEmbedded},
                  {"local", DeploymentKind::kLocal},
                  {"verbs", DeploymentKind::kVerbs},
                  {"verbs_and_local", DeploymentKind::kVerbsAndLocal}},
                 "embedded, local, verbs, verbs_and_local");
  double minutes = 1;
  line.Add("--minutes", minutes).ShowDefault().Positive();
  std::size_t memory_size = std::size_t{48} << 20;
  line.Add("--memory", memory_size, "The store's; the smaller, the busier the cleaner").Size();
  double fill = 2;
  line.Add("--fill", fill,
           "What comes to stay, in sizes of the memory: with more than a half, some has to leave it")
      .ShowDefault();
  int lives = 4;
  line.Add("--lives", lives, "How often the server is started").ShowDefault();
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;

  std::string why_not;
  const std::unique_ptr<Deployment> deployment = Deployment::Create(
      kind, {.durability = Durability::kLogged, .memory_size = memory_size, .eviction = Eviction::kLeastUsed},
      &why_not);
  if (deployment == nullptr) {
    std::fprintf(stderr, "soak: %s\n", why_not.c_str());
    return 1;
  }
  Soak soak(*deployment, static_cast<std::uint64_t>(fill * static_cast<double>(memory_size)));
  const auto start = steady_clock::now();
  const std::chrono::seconds life(std::max(1, static_cast<int>(minutes * 60 / lives)));
  for (int i = 0; i < lives && soak.wrong() == 0; ++i) {
    if (i > 0) REMORA_CHECK(deployment->Restart().ok());
    soak.Live(life);
    soak.Report(std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - start));
  }
  return soak.wrong() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
