// RocksDB in this process, set up for points: whole-key filters, hashed data blocks, all of it cached.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/peers/peers.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

rocksdb::Slice SliceOf(std::string_view text) { return {text.data(), text.size()}; }

absl::Status StatusOf(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.IsNotFound()) return absl::NotFoundError("no such key");
  if (status.IsCorruption()) return absl::DataLossError(status.ToString());
  const std::string text = status.ToString();
  // It has the system's text, and not errno.
  if (text.find(std::strerror(EFBIG)) == std::string::npos) return absl::UnavailableError(text);
  return MarkedAsShortage(absl::UnavailableError(
      absl::StrCat("rocksdb: ", text, "; raise the limit of the size of files (ulimit -f)")));
}

/// Debian's RocksDB aborts the process when its LOG cannot grow: a full disk, or ulimit -f.
class NoInfoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

class RocksdbSession final : public BatchSession {
 public:
  RocksdbSession(rocksdb::DB& db, const rocksdb::WriteOptions& options) : db_(db), options_(options) {}

  absl::Status Get(std::string_view key, std::string* value) override {
    rocksdb::PinnableSlice found(value);
    const rocksdb::Status status = db_.Get({}, db_.DefaultColumnFamily(), SliceOf(key), &found);
    if (status.ok() && found.IsPinned()) value->assign(found.data(), found.size());
    return StatusOf(status);
  }
  absl::Status Put(std::string_view key, std::string_view value) override {
    return StatusOf(db_.Put(options_, SliceOf(key), SliceOf(value)));
  }
  absl::Status Scan(std::string_view first, std::uint64_t limit, ScanSink sink) override {
    const std::unique_ptr<rocksdb::Iterator> at(db_.NewIterator({}));
    for (at->Seek(SliceOf(first)); at->Valid() && limit > 0; at->Next(), --limit) {
      sink({at->key().data(), at->key().size()}, {at->value().data(), at->value().size()});
    }
    return StatusOf(at->status());
  }

 private:
  void GetAll(std::span<Request* const> requests) override {
    std::vector<rocksdb::Slice> keys;
    for (const Request* const request : requests) keys.push_back(SliceOf(request->key));
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_.MultiGet({}, db_.DefaultColumnFamily(), keys.size(), keys.data(), values.data(), statuses.data());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i]->status = StatusOf(statuses[i]);
      if (statuses[i].ok()) requests[i]->found->assign(values[i].data(), values[i].size());
    }
  }
  void PutAll(std::span<Request* const> requests) override {
    rocksdb::WriteBatch batch;
    for (const Request* const request : requests) batch.Put(SliceOf(request->key), SliceOf(request->value));
    const absl::Status status = StatusOf(db_.Write(options_, &batch));
    for (Request* const request : requests) request->status = status;
  }

  rocksdb::DB& db_;
  const rocksdb::WriteOptions options_;
};

class RocksdbTarget final : public Target {
 public:
  RocksdbTarget(std::unique_ptr<rocksdb::DB> db, Durability durability) : db_(std::move(db)) {
    options_.disableWAL = durability == Durability::kMemory;
    options_.sync = durability == Durability::kSynced;
  }
  absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t) override {
    return std::make_unique<RocksdbSession>(*db_, options_);
  }

 private:
  const std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> OpenRocksdb(const TargetOptions& options) {
  rocksdb::Options settings;
  settings.create_if_missing = true;
  settings.info_log = std::make_shared<NoInfoLog>();
  settings.OptimizeForPointLookup(options.store.memory_size >> 20);
  settings.compression = rocksdb::kNoCompression;  // values are noise
  settings.write_buffer_size = std::size_t{64} << 20;
  settings.IncreaseParallelism();
  rocksdb::DB* db = nullptr;
  REMORA_RETURN_IF_ERROR(StatusOf(rocksdb::DB::Open(settings, options.store.data_dir, &db)));
  return std::make_unique<RocksdbTarget>(std::unique_ptr<rocksdb::DB>(db), options.store.durability);
}

}  // namespace remora::bench
