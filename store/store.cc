#include "store/store.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/engine/store_engine.h"
#include "store/write/write.h"

namespace remora {
namespace {

PutOptions AsPut(const WriteOptions& options) {
  return {.condition = options.condition, .durability = options.durability};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<StoreEngine> engine, StoreEngine::Open(options, std::nullopt));
  return std::unique_ptr<Store>(new Store(std::move(engine)));
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options, std::span<std::byte> region) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<StoreEngine> engine, StoreEngine::Open(options, region));
  return std::unique_ptr<Store>(new Store(std::move(engine)));
}

Store::Store(std::unique_ptr<StoreEngine> engine) : engine_(std::move(engine)) {}
Store::~Store() = default;

absl::StatusOr<std::string> Store::Get(std::string_view key) const {
  std::string value;
  REMORA_RETURN_IF_ERROR(engine_->reader().Get(key, &value, nullptr));
  return value;
}

absl::Status Store::Get(std::string_view key, std::string* value, std::uint64_t* version) const {
  return engine_->reader().Get(key, value, version);
}

absl::Status Store::Visit(std::string_view key, absl::FunctionRef<void(std::string_view value)> show,
                          std::uint64_t* version) const {
  return engine_->reader().Visit(key, show, version);
}

absl::Status Store::MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) const {
  if (keys.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat("multi-get: ", keys.size(), " keys, but ", results.size(),
                                                   " results; pass one result for each key"));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    results[i].status = engine_->reader().Get(keys[i], &results[i].value, &results[i].version);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Store::Exists(std::string_view key) const {
  const absl::Status status = engine_->reader().Exists(key);
  if (status.ok()) return true;
  if (absl::IsNotFound(status)) return false;
  return status;
}

absl::StatusOr<std::optional<std::chrono::milliseconds>> Store::Ttl(std::string_view key) const {
  return engine_->reader().Ttl(key);
}

absl::Status Store::Put(std::string_view key, std::string_view value, const PutOptions& options) {
  Write write = MakeWrite(Write::Kind::kPut, key, value, options);
  return engine_->pipeline().CommitNow(std::span(&write, 1), options.version);
}

absl::Status Store::MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results) {
  if (requests.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat("multi-put: ", requests.size(), " requests, but ",
                                                   results.size(),
                                                   " results; pass one result for each request"));
  }
  std::vector<Write> writes;
  writes.reserve(requests.size());
  for (const PutRequest& put : requests)
    writes.push_back(MakeWrite(Write::Kind::kPut, put.key, put.value, put.options));
  engine_->pipeline().CommitNow(writes);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    results[i] = {std::move(writes[i].status), writes[i].version};
    if (results[i].status.ok() && requests[i].options.version != nullptr) {
      *requests[i].options.version = results[i].version;
    }
  }
  return absl::OkStatus();
}

absl::Status Store::Delete(std::string_view key, const WriteOptions& options) {
  Write write = MakeWrite(Write::Kind::kDelete, key, {}, AsPut(options));
  return engine_->pipeline().CommitNow(std::span(&write, 1), options.version);
}

absl::Status Store::Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options) {
  PutOptions touch = AsPut(options);
  touch.ttl = ttl;
  Write write = MakeWrite(Write::Kind::kTouch, key, {}, touch);
  return engine_->pipeline().CommitNow(std::span(&write, 1), options.version);
}

absl::Status Store::Persist(std::string_view key, const WriteOptions& options) {
  return Touch(key, kNeverExpires, options);
}

absl::StatusOr<std::int64_t> Store::Increment(std::string_view key, std::int64_t delta,
                                              const PutOptions& options) {
  const std::string_view bytes(reinterpret_cast<const char*>(&delta), sizeof(delta));
  Write write = MakeWrite(Write::Kind::kIncrement, key, bytes, options);
  REMORA_RETURN_IF_ERROR(engine_->pipeline().CommitNow(std::span(&write, 1), options.version));
  return write.result;
}

absl::StatusOr<std::size_t> Store::Append(std::string_view key, std::string_view bytes,
                                          const PutOptions& options) {
  Write write = MakeWrite(Write::Kind::kAppend, key, bytes, options);
  REMORA_RETURN_IF_ERROR(engine_->pipeline().CommitNow(std::span(&write, 1), options.version));
  return static_cast<std::size_t>(write.result);
}

absl::Status Store::Apply(const WriteBatch& batch, std::uint64_t* version,
                          std::optional<Durability> durability) {
  if (const std::string why = batch.fault(); !why.empty()) return absl::InvalidArgumentError(why);
  if (batch.count() == 0) return absl::OkStatus();
  std::vector<Write> writes;
  std::string_view bytes = batch.bytes();
  while (!bytes.empty()) AddWrite(TakeBatchWrite(&bytes).value(), &writes).continues_batch = true;
  writes.back().continues_batch = false;
  writes.front().durability = durability;
  writes.front().begins_batch = true;
  return engine_->pipeline().CommitNow(writes, version);
}

bool Store::RunMaintenance() { return engine_->RunMaintenance(); }
bool Store::loading() const { return engine_->core().is_loading(); }
Duration Store::load_time() const { return engine_->loader().took(); }
absl::Status Store::load_status() const { return engine_->loader().status(); }
absl::Status Store::disk_status() const { return engine_->disk_status(); }
std::string Store::commit_log_description() const {
  return engine_->core().has_tier() ? engine_->core().tier->commit_log_description() : "";
}
std::optional<TimePoint> Store::next_maintenance() const { return engine_->NextMaintenance(); }
std::vector<std::pair<std::string, std::uint64_t>> Store::Stats() const {
  return engine_->core().metrics.ReadAll();
}

}  // namespace remora
