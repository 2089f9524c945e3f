#include "tests/conformance/deployment.h"

#include <atomic>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/scan.h"
#include "store/watch.h"
#include "tests/simulation/seeded_read_pool.h"
#include "tests/simulation/sim_transport.h"
#include "tests/support/server_thread.h"
#include "tests/support/test_clock.h"
#include "tests/support/tls_files.h"

namespace remora {
namespace {

// No two machines agree about the date, least of all these.
constexpr std::chrono::hours kAhead{5};

/// Returns a folder with a certificate "server" for the host of FreshAddress.
const TlsFolder& Certificates() {
  static const TlsFolder& folder = []() -> const TlsFolder& {
    static const TlsFolder made;
    made.Sign("server", "IP:127.0.0.1");
    return made;
  }();
  return folder;
}

template <typename Scan>
class KeyScanOf final : public KeyScan {
 public:
  explicit KeyScanOf(std::unique_ptr<Scan> scan) : scan_(std::move(scan)) {}
  static absl::StatusOr<std::unique_ptr<KeyScan>> Of(absl::StatusOr<std::unique_ptr<Scan>> scan) {
    if (!scan.ok()) return scan.status();
    return std::make_unique<KeyScanOf>(*std::move(scan));
  }
  bool Next() override { return scan_->Next(); }
  std::string_view key() const override { return scan_->key(); }
  std::string_view value() const override { return scan_->value(); }
  std::uint64_t version() const override { return scan_->version(); }
  std::uint64_t expiry_ms() const override { return scan_->expiry_ms(); }
  const absl::Status& status() const override { return scan_->status(); }
  std::string resume_token() const override { return scan_->resume_token(); }

 private:
  const std::unique_ptr<Scan> scan_;
};

template <typename Watch>
class KeyWatchOf final : public KeyWatch {
 public:
  explicit KeyWatchOf(std::unique_ptr<Watch> watch) : watch_(std::move(watch)) {}
  static absl::StatusOr<std::unique_ptr<KeyWatch>> Of(absl::StatusOr<std::unique_ptr<Watch>> watch) {
    if (!watch.ok()) return watch.status();
    return std::make_unique<KeyWatchOf>(*std::move(watch));
  }
  absl::StatusOr<bool> Next(std::chrono::milliseconds wait) override { return watch_->Next(wait); }
  ChangeKind kind() const override { return watch_->kind(); }
  std::string_view key() const override { return watch_->key(); }
  std::string_view value() const override { return watch_->value(); }
  std::uint64_t version() const override { return watch_->version(); }
  std::uint64_t expiry_ms() const override { return watch_->expiry_ms(); }
  std::uint64_t sequence() const override { return watch_->sequence(); }
  std::string resume_token() const override { return watch_->resume_token(); }

 private:
  const std::unique_ptr<Watch> watch_;
};

class RemoteKeyValue final : public KeyValue {
 public:
  explicit RemoteKeyValue(std::unique_ptr<Client> client) : client_(std::move(client)) {}
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version) override {
    return client_->Get(key, value, version);
  }
  absl::Status Visit(std::string_view key, absl::FunctionRef<void(std::string_view)> show,
                     std::uint64_t* version) override {
    return client_->Visit(key, show, version);
  }
  absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) override {
    return client_->MultiGet(keys, results);
  }
  absl::Status Apply(const WriteBatch& batch, std::uint64_t* version) override {
    return client_->Apply(batch, version);
  }
  absl::StatusOr<bool> Exists(std::string_view key) override { return client_->Exists(key); }
  absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options) override {
    return client_->Put(key, value, options);
  }
  absl::Status Delete(std::string_view key, const WriteOptions& options) override {
    return client_->Delete(key, options);
  }
  absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl,
                     const WriteOptions& options) override {
    return client_->Touch(key, ttl, options);
  }
  absl::Status Persist(std::string_view key, const WriteOptions& options) override {
    return client_->Persist(key, options);
  }
  absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta,
                                         const PutOptions& options) override {
    return client_->Increment(key, delta, options);
  }
  absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes,
                                     const PutOptions& options) override {
    return client_->Append(key, bytes, options);
  }
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key) override {
    return client_->Ttl(key);
  }
  absl::StatusOr<std::unique_ptr<KeyScan>> Scan(const ScanOptions& options) override {
    return KeyScanOf<ClientScan>::Of(client_->Scan(options));
  }
  absl::StatusOr<std::unique_ptr<KeyWatch>> Watch(const WatchOptions& options) override {
    return KeyWatchOf<ClientWatch>::Of(client_->Watch(options));
  }
  absl::StatusOr<std::uint64_t> Count() override { return client_->Count(); }
  absl::StatusOr<std::uint64_t> Count(const RangeOptions& range) override { return client_->Count(range); }
  absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range) override {
    return client_->DeleteRange(range);
  }
  absl::StatusOr<std::uint64_t> DeleteAll() override { return client_->DeleteAll(); }
  Client* client() override { return client_.get(); }

 private:
  const std::unique_ptr<Client> client_;
};

class EmbeddedKeyValue final : public KeyValue {
 public:
  explicit EmbeddedKeyValue(ServerStore& store) : store_(store) {}
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version) override {
    return store_.Get(key, value, version);
  }
  absl::Status Visit(std::string_view key, absl::FunctionRef<void(std::string_view)> show,
                     std::uint64_t* version) override {
    return store_.Visit(key, show, version);
  }
  absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) override {
    return store_.MultiGet(keys, results);
  }
  absl::Status Apply(const WriteBatch& batch, std::uint64_t* version) override {
    return store_.Apply(batch, version);
  }
  absl::StatusOr<bool> Exists(std::string_view key) override { return store_.Exists(key); }
  absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options) override {
    return store_.Put(key, value, options);
  }
  absl::Status Delete(std::string_view key, const WriteOptions& options) override {
    return store_.Delete(key, options);
  }
  absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl,
                     const WriteOptions& options) override {
    return store_.Touch(key, ttl, options);
  }
  absl::Status Persist(std::string_view key, const WriteOptions& options) override {
    return store_.Persist(key, options);
  }
  absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta,
                                         const PutOptions& options) override {
    return store_.Increment(key, delta, options);
  }
  absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes,
                                     const PutOptions& options) override {
    return store_.Append(key, bytes, options);
  }
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key) override {
    return store_.Ttl(key);
  }
  absl::StatusOr<std::unique_ptr<KeyScan>> Scan(const ScanOptions& options) override {
    return KeyScanOf<StoreScan>::Of(store_.Scan(options));
  }
  absl::StatusOr<std::unique_ptr<KeyWatch>> Watch(const WatchOptions& options) override {
    return KeyWatchOf<StoreWatch>::Of(store_.Watch(options));
  }
  absl::StatusOr<std::uint64_t> Count() override { return store_.Count(); }
  absl::StatusOr<std::uint64_t> Count(const RangeOptions& range) override { return store_.Count(range); }
  absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range) override {
    return store_.DeleteRange(range);
  }
  absl::StatusOr<std::uint64_t> DeleteAll() override { return store_.DeleteAll(); }

 private:
  ServerStore& store_;
};

class EmbeddedDeployment final : public Deployment {
 public:
  explicit EmbeddedDeployment(const StoreOptions& options, std::int64_t drift_ppm)
      : server_clock_(clock_, kAhead, drift_ppm), options_(options) {
    options_.clock = &server_clock_;
  }
  absl::StatusOr<std::unique_ptr<KeyValue>> Connect(const ClientOptions& /*options*/) override {
    return std::make_unique<EmbeddedKeyValue>(*store_);
  }
  absl::Status Restart() override {
    store_.reset();
    REMORA_ASSIGN_OR_RETURN(store_, ServerStore::Open(options_));
    return absl::OkStatus();
  }
  void Stop() override { store_.reset(); }
  absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> Dial() override {
    return absl::UnimplementedError("an embedded store has no connections");
  }
  ServerStore& store() override { return *store_; }
  const Clock& clock() const override { return clock_; }
  void Advance(Duration duration) override { clock_.Advance(duration); }

 private:
  ShiftedClock clock_;
  const OtherClock server_clock_;
  StoreOptions options_;
  std::unique_ptr<ServerStore> store_;
};

class ThreadedDeployment final : public Deployment {
 public:
  ThreadedDeployment(std::span<const rdma::TransportKind> kinds, const ServerOptions& options,
                     const Deployment::Options& asked)
      : server_clock_(clock_, kAhead, asked.drift_ppm), options_(options), windows_(asked.memory_windows) {
    options_.store.clock = &server_clock_;
    for (const rdma::TransportKind kind : kinds) {
      addresses_.push_back(FreshAddress(kind, sockets_.path()));
      addresses_.back().tls = options_.tls != nullptr;
    }
    if (options_.tls != nullptr) files_.ca = Certificates().ca();
  }
  absl::StatusOr<std::unique_ptr<KeyValue>> Connect(const ClientOptions& options) override {
    ClientOptions with_tls = options;
    if (with_tls.tls.empty()) with_tls.tls = files_;
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                            Client::Connect(NextAddress().ToString(), with_tls, clock_));
    return std::make_unique<RemoteKeyValue>(std::move(client));
  }
  absl::Status Restart() override {
    server_.reset();
    REMORA_ASSIGN_OR_RETURN(server_, ServerThread::Start(options_, addresses_, windows_));
    return absl::OkStatus();
  }
  void Stop() override { server_.reset(); }
  absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> Dial() override {
    return rdma::Dial(NextAddress(), rdma::QueueLimits(), clock_, clock_.Now() + std::chrono::seconds(60),
                      {.files = files_, .secret = ""});
  }
  void ReloadTokens() override { server_->server().ReloadTokens(); }
  ServerStore& store() override { return server_->server().store(); }
  const Clock& clock() const override { return clock_; }
  void Advance(Duration duration) override { clock_.Advance(duration); }

 private:
  const rdma::Address& NextAddress() { return addresses_[connects_++ % addresses_.size()]; }

  ShiftedClock clock_;
  const OtherClock server_clock_;
  ServerOptions options_;
  const rdma::MemoryWindows windows_;
  rdma::TlsFiles files_;  // of clients
  const TempDir sockets_;
  std::vector<rdma::Address> addresses_;
  std::atomic<std::size_t> connects_ = 0;
  std::unique_ptr<ServerThread> server_;
};

class SimDeployment final : public Deployment {
 public:
  explicit SimDeployment(const ServerOptions& options, std::int64_t drift_ppm)
      : options_(options), network_(/*seed=*/1), server_clock_(network_.clock(), kAhead, drift_ppm) {
    options_.store.clock = &server_clock_;
    network_.set_step([this] {
      if (server_ == nullptr) return;
      server_->Step();
      server_->store().Sync();
    });
  }
  absl::StatusOr<std::unique_ptr<KeyValue>> Connect(const ClientOptions& options) override {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                            Client::Connect([this](TimePoint) { return Dial(); }, options, network_.clock()));
    return std::make_unique<RemoteKeyValue>(std::move(client));
  }
  absl::Status Restart() override {
    server_.reset();
    REMORA_ASSIGN_OR_RETURN(server_, Server::Create(options_));
    return server_->AddListener(network_.Listen());
  }
  void Stop() override { server_.reset(); }
  absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> Dial() override { return network_.Dial(); }
  void ReloadTokens() override { server_->ReloadTokens(); }
  ServerStore& store() override { return server_->store(); }
  const Clock& clock() const override { return network_.clock(); }
  void Advance(Duration duration) override { network_.clock().Advance(duration); }
  bool concurrent() const override { return false; }

 private:
  ServerOptions options_;
  SimNetwork network_;
  const OtherClock server_clock_;
  std::unique_ptr<Server> server_;
};

// Adds a data directory of its own to whichever deployment needs one.
class WithDataDir final : public Deployment {
 public:
  WithDataDir(std::unique_ptr<TempDir> dir, std::unique_ptr<Deployment> inner)
      : dir_(std::move(dir)), inner_(std::move(inner)) {}
  absl::StatusOr<std::unique_ptr<KeyValue>> Connect(const ClientOptions& options) override {
    return inner_->Connect(options);
  }
  absl::Status Restart() override { return inner_->Restart(); }
  void Stop() override { inner_->Stop(); }
  absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> Dial() override { return inner_->Dial(); }
  void ReloadTokens() override { inner_->ReloadTokens(); }
  ServerStore& store() override { return inner_->store(); }
  const Clock& clock() const override { return inner_->clock(); }
  void Advance(Duration duration) override { inner_->Advance(duration); }
  bool concurrent() const override { return inner_->concurrent(); }

 private:
  const std::unique_ptr<TempDir> dir_;
  const std::unique_ptr<Deployment> inner_;
};

std::unique_ptr<Deployment> Make(DeploymentKind kind, const ServerOptions& options,
                                 const Deployment::Options& asked) {
  using rdma::TransportKind;
  static constexpr TransportKind kBoth[] = {TransportKind::kVerbs, TransportKind::kLocal};
  static constexpr TransportKind kTcp = TransportKind::kTcp;
  switch (kind) {
    case DeploymentKind::kEmbedded:
      return std::make_unique<EmbeddedDeployment>(options.store, asked.drift_ppm);
    case DeploymentKind::kLocal:
      return std::make_unique<ThreadedDeployment>(std::span(kBoth).last(1), options, asked);
    case DeploymentKind::kTcp:
      return std::make_unique<ThreadedDeployment>(std::span(&kTcp, 1), options, asked);
    case DeploymentKind::kTls: {
      ServerOptions with_tls = options;
      with_tls.tls = rdma::ServerTls::Create(Certificates().Files("server", false)).value();
      return std::make_unique<ThreadedDeployment>(std::span(&kTcp, 1), with_tls, asked);
    }
    case DeploymentKind::kVerbs:
      return std::make_unique<ThreadedDeployment>(std::span(kBoth).first(1), options, asked);
    case DeploymentKind::kVerbsAndLocal:
      return std::make_unique<ThreadedDeployment>(std::span(kBoth), options, asked);
    case DeploymentKind::kSim:
      return std::make_unique<SimDeployment>(options, asked.drift_ppm);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<KeyValue> KeyValueOf(std::unique_ptr<Client> client) {
  return std::make_unique<RemoteKeyValue>(std::move(client));
}

std::string NameOf(DeploymentKind kind) {
  switch (kind) {
    case DeploymentKind::kEmbedded:
      return "embedded";
    case DeploymentKind::kLocal:
      return "local";
    case DeploymentKind::kTcp:
      return "tcp";
    case DeploymentKind::kTls:
      return "tls";
    case DeploymentKind::kVerbs:
      return "verbs";
    case DeploymentKind::kVerbsAndLocal:
      return "verbs_and_local";
    case DeploymentKind::kSim:
      return "sim";
  }
  return "none";
}

std::unique_ptr<Deployment> Deployment::Create(DeploymentKind kind, const Options& options,
                                               std::string* why_not) {
  if (kind == DeploymentKind::kVerbs || kind == DeploymentKind::kVerbsAndLocal) {
    const absl::StatusOr<std::string> host = VerbsHost();
    if (!host.ok()) {
      *why_not = std::string(host.status().message());
      return nullptr;
    }
  }
  ServerOptions server;
  server.store.memory_size = options.memory_size;
  server.store.durability = options.durability;
  server.store.eviction = options.eviction;
  server.store.ordered_index = options.ordered_index;
  server.store.grace = options.grace;
  server.store.default_ttl = options.default_ttl;
  server.store.loading = options.loading;
  server.store.watch_retention_bytes = options.watch_retention_bytes;
  server.store.watch_retention = options.watch_retention;
  server.store.commit_log_bytes = options.commit_log_bytes;
  server.store.change_log_bytes = options.change_log_bytes;
  server.slots = options.slots;
  server.tokens_file = options.tokens_file;
  server.serves_without_token = options.serves_without_token;
  server.read_threads = 4;
  if (kind == DeploymentKind::kSim) {
    server.store.syncing = Syncing::kInSteps;
    server.make_read_pool = SeededReadPool::FactoryOf(/*seed=*/1);
  }
  server.max_clients = options.max_clients;
  std::unique_ptr<Deployment> deployment;
  if (options.durability == Durability::kMemory) {
    deployment = Make(kind, server, options);
  } else {
    auto dir = std::make_unique<TempDir>();
    server.store.data_dir = dir->path() + "/data";
    std::unique_ptr<Deployment> inner = Make(kind, server, options);
    deployment = std::make_unique<WithDataDir>(std::move(dir), std::move(inner));
  }
  const absl::Status started = deployment->Restart();
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.ToString().c_str());
    REMORA_CHECK(started.ok());
  }
  return deployment;
}

}  // namespace remora
