// The keys of the server.
#pragma once

#include "tools/kvgate/keys/key_store.h"

namespace remora::kvgate {

/// Each operation is one of the client, which begins it before the task waits for the first time.
///
/// Thread safety: that of the client.
class ServerKeys final : public KeyStore {
 public:
  /// `kv` lives longer.
  explicit ServerKeys(CoroutineClient& kv) : kv_(kv) {}

  Task<absl::StatusOr<std::string>> Get(std::string_view key) override { co_return co_await kv_.Get(key); }
  Task<absl::StatusOr<KeyRecord>> GetRecord(std::string_view key) override {
    co_return co_await kv_.GetRecord(key);
  }
  Task<absl::StatusOr<KeyExpiry>> GetExpiry(std::string_view key) override {
    co_return co_await kv_.GetExpiry(key);
  }
  Task<absl::StatusOr<bool>> Exists(std::string_view key) override { co_return co_await kv_.Exists(key); }
  Task<absl::Status> Put(std::string_view key, std::string_view value, PutOptions options) override {
    co_return co_await kv_.Put(key, value, options);
  }
  Task<absl::Status> Delete(std::string_view key, WriteOptions options) override {
    co_return co_await kv_.Delete(key, options);
  }
  Task<absl::Status> Touch(std::string_view key, std::chrono::milliseconds ttl,
                           WriteOptions options) override {
    co_return co_await kv_.Touch(key, ttl, options);
  }
  Task<absl::StatusOr<std::int64_t>> Increment(std::string_view key, std::int64_t delta) override {
    co_return co_await kv_.Increment(key, delta);
  }
  Task<absl::StatusOr<std::size_t>> Append(std::string_view key, std::string_view bytes) override {
    co_return co_await kv_.Append(key, bytes);
  }
  Task<absl::Status> Apply(const WriteBatch& batch) override { co_return co_await kv_.Apply(batch); }
  bool is_connected() const override { return kv_.client().status().ok(); }

 private:
  CoroutineClient& kv_;
};

}  // namespace remora::kvgate
