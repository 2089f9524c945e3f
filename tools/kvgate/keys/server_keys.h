// The keys of the servers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/batch_slot.h"
#include "client/cluster/cluster_shard.h"
#include "tools/kvgate/keys/key_store.h"
#include "tools/kvgate/network/server_links.h"

namespace remora::kvgate {

/// Each operation is one of the client of the key's shard. That begins it before the task waits for the first
/// time, unless operations of the slot wait (SlotOwners). A batch is one of several shards only if all its
/// keys have the same slot.
///
/// Thread safety: that of the clients.
class ServerKeys final : public KeyStore {
 public:
  /// `servers` live longer.
  explicit ServerKeys(ServerLinks& servers) : servers_(servers) {}

  Task<absl::StatusOr<std::string>> Get(std::string_view key) override {
    return On<absl::StatusOr<std::string>>(key, [=](CoroutineClient& kv) { return kv.Get(key); });
  }
  Task<absl::StatusOr<KeyRecord>> GetRecord(std::string_view key) override {
    return On<absl::StatusOr<KeyRecord>>(key, [=](CoroutineClient& kv) { return kv.GetRecord(key); });
  }
  Task<absl::StatusOr<KeyExpiry>> GetExpiry(std::string_view key) override {
    return On<absl::StatusOr<KeyExpiry>>(key, [=](CoroutineClient& kv) { return kv.GetExpiry(key); });
  }
  Task<absl::StatusOr<bool>> Exists(std::string_view key) override {
    return On<absl::StatusOr<bool>>(key, [=](CoroutineClient& kv) { return kv.Exists(key); });
  }
  Task<absl::Status> Put(std::string_view key, std::string_view value, PutOptions options) override {
    return On<absl::Status>(key, [=](CoroutineClient& kv) { return kv.Put(key, value, options); });
  }
  Task<absl::Status> Delete(std::string_view key, WriteOptions options) override {
    return On<absl::Status>(key, [=](CoroutineClient& kv) { return kv.Delete(key, options); });
  }
  Task<absl::Status> Touch(std::string_view key, std::chrono::milliseconds ttl,
                           WriteOptions options) override {
    return On<absl::Status>(key, [=](CoroutineClient& kv) { return kv.Touch(key, ttl, options); });
  }
  Task<absl::StatusOr<std::int64_t>> Increment(std::string_view key, std::int64_t delta) override {
    return On<absl::StatusOr<std::int64_t>>(key,
                                            [=](CoroutineClient& kv) { return kv.Increment(key, delta); });
  }
  Task<absl::StatusOr<std::size_t>> Append(std::string_view key, std::string_view bytes) override {
    return On<absl::StatusOr<std::size_t>>(key, [=](CoroutineClient& kv) { return kv.Append(key, bytes); });
  }
  Task<absl::Status> Apply(const WriteBatch& batch) override {
    if (servers_.topology().shards().size() > 1 && batch.fault().empty() && !SlotOfBatch(batch).ok()) {
      co_return absl::InvalidArgumentError(
          absl::StrCat(kCrossSlot, "; give them the same {tag}, as in {42}:name"));
    }
    std::string_view bytes = batch.bytes();
    const std::optional<BatchWrite> first = TakeBatchWrite(&bytes);
    const std::string_view key = first ? first->key : std::string_view();  // any shard rejects a faulty batch
    co_return co_await On<absl::Status>(key, [&](CoroutineClient& kv) { return kv.Apply(batch); });
  }
  bool is_connected(std::string_view key) const override {
    CoroutineClient* const kv = servers_.client(servers_.ShardOf(key));
    return kv != nullptr && kv->client().status().ok();
  }

 private:
  /// Returns the result of the operation that `begin` begins with the client of the key's shard, again if
  /// the slot is another shard's.
  template <typename Result, typename Begin>
  Task<Result> On(std::string_view key, Begin begin) {
    SlotOwners& owners = servers_.owners();
    SlotOwners::Operation operation = owners.Make(key);
    absl::Status moved;  // of the last attempt
    for (;;) {
      const bool begins = co_await owners.TurnOf(operation);
      if (!begins) co_return moved.ok() ? Stopping() : moved;
      const std::size_t shard = owners.ShardOf(operation);
      CoroutineClient* const kv = servers_.client(shard);
      if (kv == nullptr) co_return Stopping();
      owners.Begin(operation);
      Result result = co_await begin(*kv);
      owners.End(operation);
      if (result.ok()) co_return result;
      absl::Status status = NameShardUnlessOfKey(servers_.topology().shards()[shard], StatusIn(result));
      if (!owners.TriesAgain(status, &operation)) co_return status;
      moved = std::move(status);
    }
  }
  static absl::Status Stopping() {
    return absl::CancelledError("store call: the gate is stopping; connect again later");
  }
  static const absl::Status& StatusIn(const absl::Status& status) { return status; }
  template <typename T>
  static const absl::Status& StatusIn(const absl::StatusOr<T>& result) {
    return result.status();
  }

  ServerLinks& servers_;
};

}  // namespace remora::kvgate
