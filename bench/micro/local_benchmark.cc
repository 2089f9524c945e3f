// A GET over the local transport, from a server on another thread, beside three floors. These are the READs
// that it consists of, the two dependent memory accesses that no such design can avoid, and a hash map in
// this very process.
//
//   REMORA_BENCHMARK_KEYS=N   keys, 1,000,000 when not set
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "bench/kvbench/floor/raw_path.h"
#include "bench/kvbench/load/records.h"
#include "bench/kvbench/load/target.h"
#include "bench/micro/benchmark_keys.h"
#include "client/client.h"
#include "client/client_pool.h"
#include "rdma/transport.h"
#include "server/server.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

// --- What is asked for -----------------------------------------------------------------------------------

/// Things drawn uniformly, made before the clock runs and stored in the order in which they are used, so that
/// taking the next one costs no cache miss.
template <typename Thing>
class Drawn {
 public:
  template <typename Make>
  explicit Drawn(const Make& make) {
    Random random(1);
    // As many as there are records, so that a small set-up is quick.
    const std::uint64_t draws = std::clamp<std::uint64_t>(BenchmarkKeys(), 1024, kMaxDraws);
    for (std::uint64_t i = 0; i < draws; ++i) items_.push_back(make(random));
  }
  const Thing& Next() {
    if (++next_ >= items_.size()) next_ = 0;
    return items_[next_];
  }

 private:
  static constexpr std::uint64_t kMaxDraws = std::uint64_t{1} << 20;
  std::vector<Thing> items_;
  std::size_t next_ = 0;
};

Drawn<KeyText> PresentKeys() {
  return Drawn<KeyText>([](Random& random) { return KeyText(random.NextBelow(BenchmarkKeys())); });
}

Drawn<KeyText> MissingKeys() {
  return Drawn<KeyText>(
      [](Random& random) { return KeyText(BenchmarkKeys() + random.NextBelow(BenchmarkKeys())); });
}

// --- The server ------------------------------------------------------------------------------------------

/// A server with all records, on a thread of its own, and a client.
class Served {
 public:
  static absl::StatusOr<std::unique_ptr<Served>> Start(std::size_t value_size) {
    std::unique_ptr<Served> served(new Served(value_size));
    std::promise<absl::Status> listening;
    std::future<absl::Status> listens = listening.get_future();
    served->thread_ = std::thread([&served = *served, &listening] { served.Serve(listening); });
    REMORA_RETURN_IF_ERROR(listens.get());
    REMORA_ASSIGN_OR_RETURN(served->client_, Client::Connect(served->address_, {}, served->clock_));
    REMORA_ASSIGN_OR_RETURN(served->pool_, ClientPool::Create(served->address_, {}, {}, served->clock_));
    REMORA_ASSIGN_OR_RETURN(served->raw_path_,
                            RawPath::Create(served->client_->connection(), served->clock_));
    return served;
  }

  ~Served() {
    raw_path_.reset();
    pool_.reset();
    client_.reset();
    if (server_ != nullptr) server_->Stop();
    stopped_.set_value();
    if (thread_.joinable()) thread_.join();
    std::error_code left;  // the socket and its lock file
    std::filesystem::remove_all(directory_, left);
  }

  std::size_t value_size() const { return value_size_; }
  Client& client() { return *client_; }
  ClientPool& pool() { return *pool_; }
  RawPath& raw_path() { return *raw_path_; }

 private:
  explicit Served(std::size_t value_size) : value_size_(value_size) {
    char directory[] = "/tmp/remora-bench-XXXXXX";
    if (::mkdtemp(directory) != nullptr) directory_ = directory;
    address_ = absl::StrCat("local://", directory_, "/socket");
  }

  absl::StatusOr<std::unique_ptr<Server>> Open() const {
    ServerOptions options;
    options.store.memory_size = EmbeddedMemoryFor(BenchmarkKeys(), kKeySize, value_size_);
    options.huge_pages = true;
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Create(options));
    ValueMaker values(value_size_);
    for (std::uint64_t record = 0; record < BenchmarkKeys(); ++record) {
      REMORA_RETURN_IF_ERROR(server->store().Put(KeyText(record).view(), values.Make(record, record)));
    }
    REMORA_ASSIGN_OR_RETURN(const rdma::Address address, rdma::ParseAddress(address_));
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<rdma::Listener> listener, rdma::Listen(address, {}, clock_));
    REMORA_RETURN_IF_ERROR(server->AddListener(std::move(listener)));
    return server;
  }

  // All of the server's life is this thread's, as its listener asks for.
  void Serve(std::promise<absl::Status>& listening) {
    absl::StatusOr<std::unique_ptr<Server>> server = Open();
    if (!server.ok()) return listening.set_value(server.status());
    server_ = server->get();
    listening.set_value(absl::OkStatus());
    server_->Run().IgnoreError();
    // Stop may still be at work on the server.
    stopped_.get_future().wait();
  }

  const std::size_t value_size_;
  const SteadyClock clock_;
  std::string directory_;
  std::string address_;
  std::thread thread_;
  Server* server_ = nullptr;  // set before `listening` is; used until the thread is joined
  std::promise<void> stopped_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<ClientPool> pool_;
  std::unique_ptr<RawPath> raw_path_;
};

// One at a time, kept from one benchmark to the next when the size is the same: loading takes seconds.
Served* ServedWith(benchmark::State& state) {
  static std::unique_ptr<Served> served;
  const auto value_size = static_cast<std::size_t>(state.range(0));
  if (served != nullptr && served->value_size() == value_size) return served.get();
  served.reset();
  absl::StatusOr<std::unique_ptr<Served>> started = Served::Start(value_size);
  if (!started.ok()) {
    state.SkipWithError(started.status().ToString().c_str());
    return nullptr;
  }
  served = *std::move(started);
  return served.get();
}

void ClientGet(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  Drawn<KeyText> keys = PresentKeys();
  std::string value;
  const std::uint64_t reads = served->client().counters().reads;
  for (auto _ : state) {
    const absl::Status status = served->client().Get(keys.Next().view(), &value);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    benchmark::DoNotOptimize(value.data());
  }
  state.counters["READs"] = benchmark::Counter(static_cast<double>(served->client().counters().reads - reads),
                                               benchmark::Counter::kAvgIterations);
}

// Keys side by side, against as many one after the other: the times are of all of them.
constexpr std::size_t kManyKeys = 16;

void ClientMultiGet(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  Drawn<KeyText> drawn = PresentKeys();
  std::array<std::string_view, kManyKeys> keys;
  std::array<GetResult, kManyKeys> results;
  for (auto _ : state) {
    for (std::string_view& key : keys) key = drawn.Next().view();
    const absl::Status status = served->client().MultiGet(keys, results);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    for (const GetResult& result : results) {
      if (!result.status.ok()) return state.SkipWithError(result.status.ToString().c_str());
    }
    benchmark::DoNotOptimize(results.data());
  }
}

void ClientManyGets(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  Drawn<KeyText> drawn = PresentKeys();
  std::array<std::string_view, kManyKeys> keys;
  std::array<std::string, kManyKeys> values;
  for (auto _ : state) {
    for (std::string_view& key : keys) key = drawn.Next().view();
    for (std::size_t i = 0; i < kManyKeys; ++i) {
      const absl::Status status = served->client().Get(keys[i], &values[i]);
      if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    }
    benchmark::DoNotOptimize(values.data());
  }
}

void ClientGetMissing(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  Drawn<KeyText> keys = MissingKeys();
  std::string value;
  for (auto _ : state) {
    const absl::Status status = served->client().Get(keys.Next().view(), &value);
    if (status.code() != absl::StatusCode::kNotFound) return state.SkipWithError("a missing key was found");
  }
}

Drawn<Place> PresentPlaces(Served& served) {
  return Drawn<Place>([&served](Random& random) {
    const absl::StatusOr<Place> place =
        served.raw_path().Find(KeyText(random.NextBelow(BenchmarkKeys())).view());
    REMORA_CHECK(place.ok());  // it was loaded, and nobody else is here
    return *place;
  });
}

// The two READs of a GET, bare.
void RawReads(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  Drawn<Place> places = PresentPlaces(*served);
  for (auto _ : state) {
    const Place& place = places.Next();
    absl::Status status = served->raw_path().ReadBucket(place);
    if (status.ok()) status = served->raw_path().ReadRecord(place);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  }
}

void RawBucketRead(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  Drawn<Place> places = PresentPlaces(*served);
  for (auto _ : state) {
    const absl::Status status = served->raw_path().ReadBucket(places.Next());
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  }
}

void ClientPing(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  for (auto _ : state) {
    const absl::Status status = served->client().Ping();
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  }
}

// A lease of a pool and its return, without a call of the client.
void PoolAcquire(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  for (auto _ : state) {
    const absl::StatusOr<ClientPool::Lease> lease = served->pool().Acquire();
    if (!lease.ok()) return state.SkipWithError(lease.status().ToString().c_str());
    benchmark::DoNotOptimize(&**lease);
  }
}

// The same around a GET: to be compared with ClientGet.
void PoolGet(benchmark::State& state) {
  Served* const served = ServedWith(state);
  if (served == nullptr) return;
  Drawn<KeyText> keys = PresentKeys();
  std::string value;
  for (auto _ : state) {
    const absl::StatusOr<ClientPool::Lease> lease = served->pool().Acquire();
    if (!lease.ok()) return state.SkipWithError(lease.status().ToString().c_str());
    const absl::Status status = (*lease)->Get(keys.Next().view(), &value);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    benchmark::DoNotOptimize(value.data());
  }
}

// --- What it is compared with ------------------------------------------------------------------------------

// A bucket's load, and the copy of a record whose place that load tells: arrays as large as an index and a
// log with these records.
void Floor(benchmark::State& state) {
  const auto value_size = static_cast<std::size_t>(state.range(0));
  const std::size_t extent = ExtentUnits(RecordExtentCode(kKeySize, value_size)) * kUnitSize;
  constexpr std::size_t kFill = kSlotsPerBucket / 2;  // records per bucket
  std::vector<Bucket> buckets(BenchmarkKeys() / kFill + 1);
  std::vector<std::byte> log(BenchmarkKeys() * extent, std::byte{1});
  Random random(2);
  for (Bucket& bucket : buckets) {
    for (std::uint64_t& slot : bucket.slots) slot = random.NextBelow(BenchmarkKeys()) * extent;
  }
  struct Choice {
    std::uint32_t bucket;
    std::uint32_t slot;
  };
  Drawn<Choice> choices([&](Random& from) {
    return Choice{static_cast<std::uint32_t>(from.NextBelow(buckets.size())),
                  static_cast<std::uint32_t>(from.NextBelow(kFill))};
  });
  std::vector<std::byte> copy(extent);
  for (auto _ : state) {
    const Choice& choice = choices.Next();
    std::memcpy(copy.data(), log.data() + buckets[choice.bucket].slots[choice.slot], extent);
    benchmark::DoNotOptimize(copy.data());
    benchmark::ClobberMemory();
  }
}

void FlatHashMapGet(benchmark::State& state) {
  ValueMaker values(static_cast<std::size_t>(state.range(0)));
  absl::flat_hash_map<std::string, std::string> map;
  for (std::uint64_t record = 0; record < BenchmarkKeys(); ++record) {
    map.emplace(KeyText(record).view(), values.Make(record, record));
  }
  Drawn<KeyText> keys = PresentKeys();
  std::string value;
  for (auto _ : state) {
    value.assign(map.find(AbslView(keys.Next().view()))->second);
    benchmark::DoNotOptimize(value.data());
  }
}

BENCHMARK(ClientGet)->Arg(64);
BENCHMARK(ClientMultiGet)->Arg(64);
BENCHMARK(ClientManyGets)->Arg(64);
BENCHMARK(ClientGetMissing)->Arg(64);
BENCHMARK(RawReads)->Arg(64);
BENCHMARK(RawBucketRead)->Arg(64);
BENCHMARK(PoolAcquire)->Arg(64);
BENCHMARK(PoolGet)->Arg(64);
BENCHMARK(ClientPing)->Arg(64);
BENCHMARK(Floor)->Arg(64);
BENCHMARK(FlatHashMapGet)->Arg(64);
BENCHMARK(ClientGet)->Arg(1024);
BENCHMARK(RawReads)->Arg(1024);
BENCHMARK(Floor)->Arg(1024);
BENCHMARK(FlatHashMapGet)->Arg(1024);

}  // namespace
}  // namespace remora::bench

BENCHMARK_MAIN();
