#include "bench/kvbench/load/target.h"

#include <algorithm>
#include <chrono>

#include "bench/peers/peers.h"
#include "client/async_client.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/topology_source.h"
#include "client/get/record_copy.h"
#include "client/scan.h"
#include "rdma/address_list.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"
#include "store/scan.h"

namespace remora::bench {
namespace {

// Shows what a Client's scan or a Store's finds.
template <typename Scan>
absl::Status ShowAll(const absl::StatusOr<std::unique_ptr<Scan>>& scan, ScanSink sink) {
  if (!scan.ok()) return scan.status();
  while ((*scan)->Next()) sink((*scan)->key(), (*scan)->value());
  return (*scan)->status();
}

/// MultiGet and MultiPut of a Client or a Store. Keeps its memory from one call to the next.
class Together {
 public:
  template <typename Source>
  void Get(Source& source, std::span<Request* const> requests) {
    const std::size_t size = requests.size();
    // Never smaller again: with the results, their values' memory would go.
    if (keys_.size() < size) {
      keys_.resize(size);
      results_.resize(size);
    }
    for (std::size_t i = 0; i < size; ++i) keys_[i] = requests[i]->key;
    const absl::Status status =
        source.MultiGet(std::span(keys_).first(size), std::span(results_).first(size));
    for (std::size_t i = 0; i < size; ++i) {
      requests[i]->status = status.ok() ? results_[i].status : status;
      requests[i]->found->swap(results_[i].value);  // whose memory is used again
    }
  }

  template <typename Target>
  void Put(Target& target, std::span<Request* const> requests) {
    puts_.resize(requests.size());
    put_results_.resize(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      puts_[i].key = requests[i]->key;
      puts_[i].value = requests[i]->value;
    }
    const absl::Status status = target.MultiPut(puts_, put_results_);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i]->status = status.ok() ? put_results_[i].status : status;
    }
  }

 private:
  std::vector<std::string_view> keys_;
  std::vector<GetResult> results_;
  std::vector<PutRequest> puts_;
  std::vector<PutResult> put_results_;
};

// --- A Remora server ----------------------------------------------------------------------------------

class ClientSession final : public BatchSession {
 public:
  ClientSession(std::unique_ptr<Client> client, bool one_sided)
      : client_(std::move(client)), one_sided_(one_sided) {}
  absl::Status Get(std::string_view key, std::string* value) override { return client_->Get(key, value); }
  absl::Status Put(std::string_view key, std::string_view value) override { return client_->Put(key, value); }
  absl::Status Scan(std::string_view first, std::uint64_t limit, ScanSink sink) override {
    return ShowAll(client_->Scan({.begin = first, .limit = limit, .one_sided = one_sided_}), sink);
  }
  absl::StatusOr<CounterList> ServerCounters() override { return client_->Stats(); }
  std::uint64_t Incarnation() override { return client_->incarnation(); }
  ClientCounters OwnCounters() const override { return client_->counters(); }

 private:
  void GetAll(std::span<Request* const> requests) override { together_.Get(*client_, requests); }
  void PutAll(std::span<Request* const> requests) override { together_.Put(*client_, requests); }

  const std::unique_ptr<Client> client_;
  const bool one_sided_;
  Together together_;
};

class AsyncSession final : public Session {
 public:
  // `client`: for what is not done with others in flight.
  AsyncSession(std::unique_ptr<AsyncClient> async, std::unique_ptr<Client> client)
      : async_(std::move(async)), client_(std::move(client)) {}

  absl::Status Get(std::string_view key, std::string* value) override { return client_->Get(key, value); }
  absl::Status Put(std::string_view key, std::string_view value) override { return client_->Put(key, value); }

  void Begin(Request* request) override {
    if (async_ == nullptr) return End(request, {.status = absl::CancelledError("kvbench: it ends")});
    const AsyncClient::Begun begun =
        request->is_put
            ? async_->Put(request->key, request->value,
                          [this, request](const AsyncResult& result) { End(request, result); })
            : async_->Get(request->key, [this, request](const AsyncResult& result) { End(request, result); });
    if (!begun.ok()) End(request, {.status = begun.status()});
  }

  void Advance(bool wait, std::vector<Request*>* ended) override {
    // All end at their own deadlines, so that waiting has an end; or it is not to wait any more (BenchClock).
    if (ended_.empty() && wait && !async_->Wait(TimePoint::max()).ok()) Abandon();
    if (ended_.empty() && !wait) async_->Poll();
    ended->insert(ended->end(), ended_.begin(), ended_.end());
    ended_.clear();
  }

  absl::StatusOr<CounterList> ServerCounters() override { return client_->Stats(); }
  std::uint64_t Incarnation() override { return client_->incarnation(); }
  ClientCounters OwnCounters() const override {
    ClientCounters sum = async_ != nullptr ? async_->counters() : last_counters_;
    sum += client_->counters();
    return sum;
  }

 private:
  /// Ends what is in flight, with Cancelled.
  void Abandon() {
    last_counters_ = async_->counters();
    async_.reset();
  }

  void End(Request* request, const AsyncResult& result) {
    request->status = result.status;
    if (!request->is_put && result.status.ok()) Assign(result.value, request->found);
    ended_.push_back(request);
  }

  std::vector<Request*> ended_;  // not yet reported; declared before async_, whose destructor calls back
  ClientCounters last_counters_;
  std::unique_ptr<AsyncClient> async_;  // null: abandoned
  const std::unique_ptr<Client> client_;
};

class ClusterSession final : public BatchSession {
 public:
  ClusterSession(std::unique_ptr<ClusterClient> client, bool one_sided)
      : client_(std::move(client)), one_sided_(one_sided) {}
  absl::Status Get(std::string_view key, std::string* value) override { return client_->Get(key, value); }
  absl::Status Put(std::string_view key, std::string_view value) override { return client_->Put(key, value); }
  absl::Status Scan(std::string_view first, std::uint64_t limit, ScanSink sink) override {
    return ShowAll(client_->Scan({.begin = first, .limit = limit, .one_sided = one_sided_}), sink);
  }
  /// Returns the sums over the shards. Percentiles and maxima have none, and are those of the last shard.
  absl::StatusOr<CounterList> ServerCounters() override {
    CounterList sum;
    for (std::size_t shard = 0; shard < client_->size(); ++shard) {
      REMORA_ASSIGN_OR_RETURN(Client* const client, client_->shard(shard));
      REMORA_ASSIGN_OR_RETURN(CounterList counters, client->Stats());
      if (sum.size() != counters.size()) sum = CounterList(counters.size());
      for (std::size_t i = 0; i < counters.size(); ++i) {
        const std::string& name = counters[i].first;
        const bool adds = name == sum[i].first && !name.ends_with("_p50_ns") && !name.ends_with("_p99_ns") &&
                          !name.ends_with("_max_ns");
        if (adds) counters[i].second += sum[i].second;
        sum[i] = std::move(counters[i]);
      }
    }
    return sum;
  }
  /// Returns the sum over the shards: another one after a start of any of them.
  std::uint64_t Incarnation() override {
    std::uint64_t sum = 0;
    for (std::size_t shard = 0; shard < client_->size(); ++shard) {
      const absl::StatusOr<Client*> client = client_->shard(shard);
      if (!client.ok() || (*client)->incarnation() == 0) return 0;
      sum += (*client)->incarnation();
    }
    return sum;
  }
  ClientCounters OwnCounters() const override { return client_->counters(); }

 private:
  void GetAll(std::span<Request* const> requests) override { together_.Get(*client_, requests); }
  void PutAll(std::span<Request* const> requests) override { together_.Put(*client_, requests); }

  const std::unique_ptr<ClusterClient> client_;
  const bool one_sided_;
  Together together_;
};

class ClusterTarget final : public Target {
 public:
  ClusterTarget(Topology topology, const TargetOptions& options, const Clock& clock)
      : topology_(std::move(topology)), options_(options), clock_(clock) {}

  absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t) override {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<ClusterClient> client,
                            ClusterClient::Connect(topology_, options_.client, clock_));
    return std::make_unique<ClusterSession>(std::move(client), options_.one_sided);
  }

 private:
  const Topology topology_;
  const TargetOptions options_;
  const Clock& clock_;
};

class ServerTarget final : public Target {
 public:
  ServerTarget(const TargetOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t depth) override {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                            Client::Connect(options_.address, options_.client, clock_));
    if (depth == 1 || options_.batch)
      return std::make_unique<ClientSession>(std::move(client), options_.one_sided);
    REMORA_ASSIGN_OR_RETURN(
        std::unique_ptr<AsyncClient> async,
        AsyncClient::Connect(options_.address, options_.client, AsyncOptions{.depth = depth}, clock_));
    return std::make_unique<AsyncSession>(std::move(async), std::move(client));
  }

 private:
  const TargetOptions options_;
  const Clock& clock_;
};

// --- A store in this process --------------------------------------------------------------------------

class StoreSession final : public BatchSession {
 public:
  explicit StoreSession(Store& store) : store_(store) {}
  absl::Status Get(std::string_view key, std::string* value) override { return store_.Get(key, value); }
  absl::Status Put(std::string_view key, std::string_view value) override { return store_.Put(key, value); }
  absl::Status Scan(std::string_view first, std::uint64_t limit, ScanSink sink) override {
    return ShowAll(store_.Scan({.begin = first, .limit = limit}), sink);
  }
  absl::StatusOr<CounterList> ServerCounters() override { return store_.Stats(); }

 private:
  void GetAll(std::span<Request* const> requests) override { together_.Get(store_, requests); }
  void PutAll(std::span<Request* const> requests) override { together_.Put(store_, requests); }

  Store& store_;
  Together together_;
};

class EmbeddedTarget final : public Target {
 public:
  explicit EmbeddedTarget(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t) override {
    return std::make_unique<StoreSession>(*store_);
  }

 private:
  const std::unique_ptr<Store> store_;
};

}  // namespace

absl::Status Session::Scan(std::string_view, std::uint64_t, ScanSink) {
  return absl::UnimplementedError("scan: this target has no scans; of YCSB's workloads, all but E can run");
}

void BatchSession::Advance(bool, std::vector<Request*>* ended) {
  if (!gets_.empty()) GetAll(gets_);
  if (!puts_.empty()) PutAll(puts_);
  for (std::vector<Request*>* done : {&gets_, &puts_}) {
    ended->insert(ended->end(), done->begin(), done->end());
    done->clear();
  }
}

bool IsInProcess(std::string_view address) {
  return address == kEmbeddedTarget || address == kRocksdbTarget || address == kLmdbTarget;
}

absl::StatusOr<std::unique_ptr<Target>> OpenTarget(const TargetOptions& options, const Clock& clock) {
  if (options.address == kEmbeddedTarget) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open(options.store));
    return std::make_unique<EmbeddedTarget>(std::move(store));
  }
  if (IsPeer(options.address)) return OpenPeer(options);
  if (options.address.starts_with(kClusterScheme)) {
    const std::string source =
        IsOfServers(options.address) ? options.address : options.address.substr(kClusterScheme.size());
    REMORA_ASSIGN_OR_RETURN(Topology topology, ReadTopology(source, options.client, clock));
    return std::make_unique<ClusterTarget>(std::move(topology), options, clock);
  }
  REMORA_RETURN_IF_ERROR(rdma::ParseAddresses(options.address).status());
  return std::make_unique<ServerTarget>(options, clock);
}

std::size_t EmbeddedMemoryFor(std::uint64_t records, std::size_t key_size, std::size_t value_size) {
  const std::size_t extent = ExtentUnits(RecordExtentCode(key_size, value_size)) * kUnitSize;
  // A quarter more than the records take, so that cleaning costs little; 24 bytes of index for each, when it
  // has just grown.
  return kMinMemorySize + records * (extent + extent / 4 + 24);
}

}  // namespace remora::bench
