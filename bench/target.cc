#include "bench/target.h"

#include <algorithm>

#include "store/base/status_macros.h"
#include "store/format/layout.h"

namespace remora::bench {
namespace {

using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;

class ClientSession final : public Session {
 public:
  explicit ClientSession(std::unique_ptr<Client> client) : client_(std::move(client)) {}
  absl::Status Get(std::string_view key, std::string* value) override { return client_->Get(key, value); }
  absl::Status Put(std::string_view key, std::string_view value) override { return client_->Put(key, value); }
  absl::StatusOr<CounterList> ServerCounters() override { return client_->Stats(); }
  ClientCounters OwnCounters() const override { return client_->counters(); }

 private:
  const std::unique_ptr<Client> client_;
};

class ServerTarget final : public Target {
 public:
  ServerTarget(const TargetOptions& options, const Clock& clock)
      : address_(options.address), options_(options.client), clock_(clock) {}

  absl::StatusOr<std::unique_ptr<Session>> NewSession() override {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Connect(address_, options_, clock_));
    return std::make_unique<ClientSession>(std::move(client));
  }

 private:
  const std::string address_;
  const ClientOptions options_;
  const Clock& clock_;
};

class StoreSession final : public Session {
 public:
  explicit StoreSession(Store& store) : store_(store) {}
  absl::Status Get(std::string_view key, std::string* value) override { return store_.Get(key, value); }
  absl::Status Put(std::string_view key, std::string_view value) override { return store_.Put(key, value); }
  absl::StatusOr<CounterList> ServerCounters() override {
    CounterList counters;
    for (std::size_t i = 0; i < kCounterCount; ++i) {
      counters.emplace_back(kCounterNames[i], store_.Read(static_cast<Counter>(i)));
    }
    return counters;
  }
  ClientCounters OwnCounters() const override { return {}; }

 private:
  Store& store_;
};

class EmbeddedTarget final : public Target {
 public:
  explicit EmbeddedTarget(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  absl::StatusOr<std::unique_ptr<Session>> NewSession() override {
    return std::make_unique<StoreSession>(*store_);
  }

 private:
  const std::unique_ptr<Store> store_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> OpenTarget(const TargetOptions& options, const Clock& clock) {
  if (options.address == kEmbeddedTarget) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open(options.store));
    return std::make_unique<EmbeddedTarget>(std::move(store));
  }
  REMORA_RETURN_IF_ERROR(rdma::ParseAddress(options.address).status());
  return std::make_unique<ServerTarget>(options, clock);
}

std::size_t EmbeddedMemoryFor(std::uint64_t records, std::size_t key_size, std::size_t value_size) {
  const std::size_t extent = ExtentUnits(RecordExtentCode(key_size, value_size)) * kUnitSize;
  // A quarter more than the records take, so that cleaning costs little; 24 bytes of index for each, when it
  // has just grown.
  return kMinMemorySize + records * (extent + extent / 4 + 24);
}

}  // namespace remora::bench
