#include "tests/simulation/sim_client.h"

#include <chrono>
#include <utility>

#include "client/async_client.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "tests/conformance/deployment.h"
#include "tests/linearizability/async_workload.h"
#include "tests/linearizability/watcher.h"
#include "tests/linearizability/workload.h"

namespace remora {
namespace {

using std::chrono::microseconds;

template <typename Worker>
class BlockingClient : public SimClient {
 public:
  BlockingClient(const linear::WorkloadOptions& options, std::uint32_t number, linear::WorkloadShared& shared,
                 std::function<linear::Time()> now)
      : worker_(options, number, shared, std::move(now)) {}

  absl::Status Connect(Client::Dialer dialer, const ClientOptions& options, const Clock& clock) override {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                            Client::Connect(std::move(dialer), options, clock));
    kv_ = KeyValueOf(std::move(client));
    return absl::OkStatus();
  }
  void Disconnect() override { kv_.reset(); }
  bool is_connected() const override { return kv_ != nullptr; }
  void Do() override { worker_.Do(*kv_); }
  void ReadAll() override { worker_.ReadAll(*kv_); }
  void Settle() override {}
  bool has_more() const override { return false; }
  linear::Recorder& notes() override { return worker_; }

 protected:
  Worker worker_;
  std::unique_ptr<KeyValue> kv_;
};

class WatchingClient final : public BlockingClient<linear::Watcher> {
 public:
  using BlockingClient::BlockingClient;
  void Disconnect() override {
    worker_.Leave();
    BlockingClient::Disconnect();
  }
};

class ManyAtOnce final : public SimClient {
 public:
  ManyAtOnce(const linear::WorkloadOptions& options, std::uint32_t number, linear::WorkloadShared& shared,
             std::function<linear::Time()> now)
      : worker_(options, number, shared, std::move(now)) {}

  absl::Status Connect(Client::Dialer dialer, const ClientOptions& options, const Clock& clock) override {
    REMORA_ASSIGN_OR_RETURN(client_,
                            AsyncClient::Connect(std::move(dialer), options, {.depth = kDepth}, clock));
    worker_.UseMemoryOf(*client_);
    return absl::OkStatus();
  }
  void Disconnect() override { client_.reset(); }
  bool is_connected() const override { return client_ != nullptr; }
  void Do() override {
    worker_.Do(*client_);
    Pause();
  }
  void ReadAll() override { REMORA_CHECK(false); }
  void Settle() override {
    client_->Poll();
    Pause();
  }
  bool has_more() const override { return client_ != nullptr && client_->in_flight() > 0; }
  linear::Recorder& notes() override { return worker_; }

 private:
  static constexpr std::size_t kDepth = 24;

  /// Where there is no connection, nothing waits but who polls.
  void Pause() {
    if (!client_->status().ok()) client_->clock().Sleep(microseconds(10));
  }

  linear::AsyncWorker worker_;
  std::unique_ptr<AsyncClient> client_;  // which calls back when it is destroyed
};

}  // namespace

std::unique_ptr<SimClient> NewBlockingClient(const linear::WorkloadOptions& options, std::uint32_t number,
                                             linear::WorkloadShared& shared,
                                             std::function<linear::Time()> now) {
  return std::make_unique<BlockingClient<linear::Worker>>(options, number, shared, std::move(now));
}

std::unique_ptr<SimClient> NewWatchingClient(const linear::WorkloadOptions& options, std::uint32_t number,
                                             linear::WorkloadShared& shared,
                                             std::function<linear::Time()> now) {
  return std::make_unique<WatchingClient>(options, number, shared, std::move(now));
}

std::unique_ptr<SimClient> NewAsyncClient(const linear::WorkloadOptions& options, std::uint32_t number,
                                          linear::WorkloadShared& shared, std::function<linear::Time()> now) {
  return std::make_unique<ManyAtOnce>(options, number, shared, std::move(now));
}

}  // namespace remora
