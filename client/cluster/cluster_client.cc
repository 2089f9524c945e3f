#include "client/cluster/cluster_client.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cluster/batch_slot.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/many_keys.h"
#include "client/session/argument_checks.h"
#include "client/session/retry_pause.h"
#include "store/base/moved.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/slot.h"

namespace remora {
namespace {

const absl::Status& StatusIn(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusIn(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace

// --- Connections ------------------------------------------------------------------------------------------

ClusterClient::ClusterClient(const Topology& topology, const ClientOptions& options, const Clock& clock)
    : topology_(topology), options_(options), clock_(clock), timeout_(options.timeout) {
  for (std::size_t i = 0; i < topology_.shards().size(); ++i) {
    shards_.push_back(
        std::make_unique<ClusterShard>(topology_.shards()[i], OptionsOfShard(topology_, i, options), clock));
  }
  clients_.resize(shards_.size());
  parts_ = std::make_unique<Parts>(*this);
}

ClusterClient::~ClusterClient() = default;

absl::StatusOr<std::unique_ptr<ClusterClient>> ClusterClient::Connect(const Topology& topology,
                                                                      const ClientOptions& options,
                                                                      const Clock& clock) {
  std::unique_ptr<ClusterClient> client(new ClusterClient(topology, options, clock));
  REMORA_RETURN_IF_ERROR(client->ConnectAll(options, clock));
  return client;
}

absl::Status ClusterClient::ConnectAll(const ClientOptions& options, const Clock& clock) {
  const TimePoint deadline = clock.Now() + options.connect_timeout;
  absl::Status gone;
  std::size_t connected = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto left = std::chrono::floor<std::chrono::milliseconds>(deadline - clock.Now());
    const auto part = left / static_cast<std::int64_t>(shards_.size() - i);
    const absl::Status status = ConnectShard(i, std::max(part, std::chrono::milliseconds(1))).status();
    connected += status.ok() ? 1 : 0;
    if (status.ok()) continue;
    if (!IsServerGone(status)) return status;
    if (gone.ok()) gone = status;
  }
  return connected > 0 ? absl::OkStatus() : gone;
}

absl::StatusOr<Client*> ClusterClient::ConnectShard(std::size_t index, std::chrono::milliseconds timeout) {
  ClusterShard& shard = *shards_[index];
  REMORA_RETURN_IF_ERROR(shard.Connect(timeout));
  for (const std::unique_ptr<ClusterShard>& other : shards_) {
    if (other.get() == &shard || other->incarnation() == 0) continue;
    if (other->incarnation() != shard.incarnation()) continue;
    shard.Drop();
    return shard.Named(absl::FailedPreconditionError(
        absl::StrCat("connect: the server there is that of shard ", other->place().name, " (",
                     other->place().addresses, "); correct the address of one of them in the topology")));
  }
  clients_[index] = shard.client();
  return clients_[index];
}

absl::StatusOr<Client*> ClusterClient::shard(std::size_t index) {
  if (clients_[index] != nullptr) return clients_[index];
  return ConnectShard(index, timeout_);
}

bool ClusterClient::TriesAgain(const absl::Status& status, MovedTries* tries) {
  if (!IsMoved(status) || topology_.path().empty()) return false;
  if (tries->count++ == 0) {
    tries->deadline = clock_.Now() + timeout_;
  } else {
    const Duration pause = MovedPause(tries->count);
    if (clock_.Now() + pause >= tries->deadline) return false;
    clock_.Sleep(pause);
    if (clock_.IsInterrupted()) return false;
  }
  return Refresh();
}

template <typename Call>
auto ClusterClient::WhileNothingMoves(absl::string_view operation, const Call& call) {
  using Result = std::invoke_result_t<const Call&>;
  const TimePoint deadline = clock_.Now() + timeout_;
  Refresh();
  for (int tries = 1;; ++tries) {
    const std::uint64_t before = divisions_;
    Result result = call();
    Refresh();
    if (!IsMoved(StatusIn(result)) && divisions_ == before) return result;
    const Duration pause = MovedPause(tries);
    const bool is_over = clock_.Now() + pause >= deadline;
    if (!is_over) clock_.Sleep(pause);
    if (!is_over && !clock_.IsInterrupted()) continue;
    if (!StatusIn(result).ok()) return result;
    return Result(MovedError(absl::StrCat(operation, ": slots moved again and again meanwhile; try again")));
  }
}

template <typename Call>
auto ClusterClient::On(std::string_view key, const Call& call) {
  using Result = std::invoke_result_t<const Call&, Client&>;
  MovedTries tries;
  for (;;) {
    const std::size_t index = topology_.ShardOfSlot(SlotOf(key));
    if (clients_[index] == nullptr) [[unlikely]] {
      if (absl::Status fault = CheckKey(key); !fault.ok()) return Result(std::move(fault));
      if (absl::Status status = shard(index).status(); !status.ok()) {
        NoteSilence(status);
        return Result(std::move(status));
      }
    }
    Result result = call(*clients_[index]);
    if (result.ok()) [[likely]]
      return result;
    if (TriesAgain(StatusIn(result), &tries)) continue;
    NoteSilence(StatusIn(result));
    return Result(shards_[index]->Named(StatusIn(result)));
  }
}

// --- Calls of one key -------------------------------------------------------------------------------------

absl::Status ClusterClient::Get(std::string_view key, std::string* value, std::uint64_t* version) {
  return On(key, [&](Client& client) { return client.Get(key, value, version); });
}

absl::StatusOr<std::string> ClusterClient::Get(std::string_view key) {
  return On(key, [&](Client& client) { return client.Get(key); });
}

absl::Status ClusterClient::Visit(std::string_view key, absl::FunctionRef<void(std::string_view value)> show,
                                  std::uint64_t* version) {
  return On(key, [&](Client& client) { return client.Visit(key, show, version); });
}

absl::StatusOr<bool> ClusterClient::Exists(std::string_view key) {
  return On(key, [&](Client& client) { return client.Exists(key); });
}

absl::StatusOr<std::optional<std::chrono::milliseconds>> ClusterClient::Ttl(std::string_view key) {
  return On(key, [&](Client& client) { return client.Ttl(key); });
}

absl::Status ClusterClient::Put(std::string_view key, std::string_view value) { return Put(key, value, {}); }

absl::Status ClusterClient::Put(std::string_view key, std::string_view value, const PutOptions& options) {
  return On(key, [&](Client& client) { return client.Put(key, value, options); });
}

absl::Status ClusterClient::Delete(std::string_view key, const WriteOptions& options) {
  return On(key, [&](Client& client) { return client.Delete(key, options); });
}

absl::Status ClusterClient::Touch(std::string_view key, std::chrono::milliseconds ttl,
                                  const WriteOptions& options) {
  return On(key, [&](Client& client) { return client.Touch(key, ttl, options); });
}

absl::Status ClusterClient::Persist(std::string_view key, const WriteOptions& options) {
  return On(key, [&](Client& client) { return client.Persist(key, options); });
}

absl::StatusOr<std::int64_t> ClusterClient::Increment(std::string_view key, std::int64_t delta,
                                                      const PutOptions& options) {
  return On(key, [&](Client& client) { return client.Increment(key, delta, options); });
}

absl::StatusOr<std::size_t> ClusterClient::Append(std::string_view key, std::string_view bytes,
                                                  const PutOptions& options) {
  return On(key, [&](Client& client) { return client.Append(key, bytes, options); });
}

// --- Calls of several keys --------------------------------------------------------------------------------

absl::Status ClusterClient::MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) {
  if (keys.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat("multi-get: ", keys.size(), " keys, but ", results.size(),
                                                   " results; pass one result for each key"));
  }
  if (keys.empty()) return absl::OkStatus();
  const absl::Status status = parts_->Get(keys, results);
  NoteSilence(status);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!IsMoved(results[i].status)) continue;
    results[i].status = Get(keys[i], &results[i].value, &results[i].version);
  }
  return status;
}

absl::Status ClusterClient::MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results) {
  if (requests.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat("multi-put: ", requests.size(), " requests, but ",
                                                   results.size(),
                                                   " results; pass one result for each request"));
  }
  if (requests.empty()) return absl::OkStatus();
  const absl::Status status = parts_->Put(requests, results);
  NoteSilence(status);
  for (std::size_t i = 0; i < requests.size(); ++i) {  // in the caller's order
    if (!IsMoved(results[i].status)) continue;
    PutOptions options = requests[i].options;
    options.version = &results[i].version;
    results[i].status = Put(requests[i].key, requests[i].value, options);
  }
  return status;
}

absl::Status ClusterClient::Apply(const WriteBatch& batch, std::uint64_t* version,
                                  std::optional<Durability> durability) {
  REMORA_RETURN_IF_ERROR(SlotOfBatch(batch).status());
  if (batch.count() == 0) return CheckDurability(durability);
  std::string_view rest = batch.bytes();
  const std::string_view key = TakeBatchWrite(&rest)->key;
  return On(key, [&](Client& client) { return client.Apply(batch, version, durability); });
}

template <typename Call>
absl::StatusOr<std::uint64_t> ClusterClient::Sum(const Call& call) {
  return WhileNothingMoves("count", [&]() -> absl::StatusOr<std::uint64_t> {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      REMORA_ASSIGN_OR_RETURN(Client* const client, shard(i));
      const absl::StatusOr<std::uint64_t> count = call(*client);
      if (!count.ok()) return shards_[i]->Named(count.status());
      sum += *count;
    }
    return sum;
  });
}

absl::StatusOr<std::uint64_t> ClusterClient::Count() {
  return Sum([](Client& client) { return client.Count(); });
}

absl::StatusOr<std::uint64_t> ClusterClient::Count(const RangeOptions& range) {
  return Sum([&](Client& client) { return client.Count(range); });
}

template <typename Call>
absl::StatusOr<std::uint64_t> ClusterClient::DeleteIn(const Call& call) {
  std::uint64_t deleted = 0;
  return WhileNothingMoves("delete", [&] { return DeleteInAll(call, &deleted); });
}

template <typename Call>
absl::StatusOr<std::uint64_t> ClusterClient::DeleteInAll(const Call& call, std::uint64_t* sum) {
  std::uint64_t& deleted = *sum;
  absl::Status failed;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const absl::StatusOr<Client*> client = shard(i);
    const absl::StatusOr<std::uint64_t> part =
        client.ok() ? call(**client) : absl::StatusOr<std::uint64_t>(client.status());
    if (part.ok()) {
      deleted += *part;
    } else if (absl::IsInvalidArgument(part.status())) {
      return part.status();
    } else if (failed.ok()) {
      failed = client.ok() ? shards_[i]->Named(part.status()) : part.status();
    }
  }
  if (failed.ok()) return deleted;
  if (shards_.size() == 1 || IsMoved(failed)) return failed;
  return absl::Status(failed.code(),
                      absl::StrCat(failed.message(), "; the other shards deleted ", deleted, " keys"));
}

absl::StatusOr<std::uint64_t> ClusterClient::DeleteRange(const RangeOptions& range) {
  return DeleteIn([&](Client& client) { return client.DeleteRange(range); });
}

absl::StatusOr<std::uint64_t> ClusterClient::DeleteAll() {
  return DeleteIn([](Client& client) { return client.DeleteAll(); });
}

absl::StatusOr<std::unique_ptr<ClusterScan>> ClusterClient::Scan(const ScanOptions& options) {
  return WhileNothingMoves("scan", [&]() -> absl::StatusOr<std::unique_ptr<ClusterScan>> {
    std::unique_ptr<ClusterScan> scan(new ClusterScan(*this, options));
    REMORA_RETURN_IF_ERROR(scan->Begin(options.resume_token));
    return scan;
  });
}

absl::StatusOr<std::unique_ptr<ClusterWatch>> ClusterClient::Watch(const WatchOptions& options) {
  return WhileNothingMoves("watch", [&]() -> absl::StatusOr<std::unique_ptr<ClusterWatch>> {
    std::unique_ptr<ClusterWatch> watch(new ClusterWatch(topology_, clock_));
    REMORA_RETURN_IF_ERROR(watch->Begin(*this, options));
    return watch;
  });
}

ClientCounters ClusterClient::counters() const {
  ClientCounters sum;
  for (const std::unique_ptr<ClusterShard>& shard : shards_) shard->AddTo(&sum);
  for (const std::unique_ptr<ClusterShard>& shard : replaced_) shard->AddTo(&sum);
  return sum;
}

ClientMetrics ClusterClient::metrics() const {
  ClientMetrics sum;
  for (const std::unique_ptr<ClusterShard>& shard : shards_) shard->AddTo(&sum);
  for (const std::unique_ptr<ClusterShard>& shard : replaced_) shard->AddTo(&sum);
  return sum;
}

}  // namespace remora
