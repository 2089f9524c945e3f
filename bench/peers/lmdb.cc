// LMDB in this process.
#include <lmdb.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "bench/peers/peers.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

absl::Status StatusOf(int code) {
  switch (code) {
    case MDB_SUCCESS:
      return absl::OkStatus();
    case MDB_NOTFOUND:
      return absl::NotFoundError("no such key");
    case MDB_MAP_FULL:
      return absl::ResourceExhaustedError(mdb_strerror(code));
    case MDB_BAD_VALSIZE:
    case EINVAL:
      return absl::InvalidArgumentError(mdb_strerror(code));
    case EFBIG:
      return MarkedAsShortage(absl::UnavailableError(
          absl::StrCat("lmdb: ", mdb_strerror(code), "; raise the limit of the size of files (ulimit -f)")));
    default: {
      const absl::Status status = absl::UnavailableError(mdb_strerror(code));
      return IsShortage(code) ? MarkedAsShortage(status) : status;
    }
  }
}

// LMDB does not write to what it is given.
MDB_val ValueOf(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }
std::string_view TextOf(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

struct EnvironmentDeleter {
  void operator()(MDB_env* environment) const { mdb_env_close(environment); }
};
using Environment = std::unique_ptr<MDB_env, EnvironmentDeleter>;

class LmdbSession final : public BatchSession {
 public:
  // `reading`: a transaction that has been reset.
  LmdbSession(MDB_env* environment, MDB_dbi table, MDB_txn* reading)
      : environment_(environment), table_(table), reading_(reading) {}
  ~LmdbSession() override { mdb_txn_abort(reading_); }

  absl::Status Get(std::string_view key, std::string* value) override {
    return Reading([&] { return GetOne(key, value); });
  }
  absl::Status Put(std::string_view key, std::string_view value) override {
    return Writing([&](MDB_txn* writing) { return PutOne(writing, key, value); });
  }
  absl::Status Scan(std::string_view first, std::uint64_t limit, ScanSink sink) override {
    return Reading([&] {
      MDB_cursor* cursor = nullptr;
      REMORA_RETURN_IF_ERROR(StatusOf(mdb_cursor_open(reading_, table_, &cursor)));
      MDB_val key = ValueOf(first);
      MDB_val value;
      int code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
      for (; code == MDB_SUCCESS && limit > 0; --limit) {
        sink(TextOf(key), TextOf(value));
        code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
      }
      mdb_cursor_close(cursor);
      return code == MDB_NOTFOUND ? absl::OkStatus() : StatusOf(code);
    });
  }

 private:
  void GetAll(std::span<Request* const> requests) override {
    const absl::Status status = Reading([&] {
      for (Request* const request : requests) request->status = GetOne(request->key, request->found);
      return absl::OkStatus();
    });
    if (status.ok()) return;
    for (Request* const request : requests) request->status = status;
  }
  void PutAll(std::span<Request* const> requests) override {
    const absl::Status status = Writing([&](MDB_txn* writing) {
      for (const Request* const request : requests) {
        REMORA_RETURN_IF_ERROR(PutOne(writing, request->key, request->value));
      }
      return absl::OkStatus();
    });
    for (Request* const request : requests) request->status = status;
  }

  absl::Status GetOne(std::string_view key, std::string* value) {
    MDB_val name = ValueOf(key);
    MDB_val found;
    REMORA_RETURN_IF_ERROR(StatusOf(mdb_get(reading_, table_, &name, &found)));
    value->assign(TextOf(found));
    return absl::OkStatus();
  }
  absl::Status PutOne(MDB_txn* writing, std::string_view key, std::string_view value) {
    MDB_val name = ValueOf(key);
    MDB_val content = ValueOf(value);
    return StatusOf(mdb_put(writing, table_, &name, &content, 0));
  }

  // A transaction around it. One that reads is kept, and renewed: LMDB's own advice.
  template <typename Body>
  absl::Status Reading(Body body) {
    REMORA_RETURN_IF_ERROR(StatusOf(mdb_txn_renew(reading_)));
    absl::Status status = body();
    mdb_txn_reset(reading_);
    return status;
  }
  template <typename Body>
  absl::Status Writing(Body body) {
    MDB_txn* writing = nullptr;
    REMORA_RETURN_IF_ERROR(StatusOf(mdb_txn_begin(environment_, nullptr, 0, &writing)));
    if (absl::Status status = body(writing); !status.ok()) {
      mdb_txn_abort(writing);
      return status;
    }
    return StatusOf(mdb_txn_commit(writing));
  }

  MDB_env* const environment_;
  const MDB_dbi table_;
  MDB_txn* const reading_;
};

class LmdbTarget final : public Target {
 public:
  LmdbTarget(Environment environment, MDB_dbi table) : environment_(std::move(environment)), table_(table) {}

  absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t) override {
    MDB_txn* reading = nullptr;
    REMORA_RETURN_IF_ERROR(StatusOf(mdb_txn_begin(environment_.get(), nullptr, MDB_RDONLY, &reading)));
    mdb_txn_reset(reading);
    return std::make_unique<LmdbSession>(environment_.get(), table_, reading);
  }

 private:
  const Environment environment_;
  const MDB_dbi table_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> OpenLmdb(const TargetOptions& options) {
  const std::string& directory = options.store.data_dir;
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return absl::UnavailableError(absl::StrCat("cannot make ", directory, ": ", std::strerror(errno)));
  }
  MDB_env* opened = nullptr;
  REMORA_RETURN_IF_ERROR(StatusOf(mdb_env_create(&opened)));
  Environment environment(opened);
  // Copied pages and the old ones, and half-empty ones: the file only gets as large as it has to.
  REMORA_RETURN_IF_ERROR(StatusOf(mdb_env_set_mapsize(opened, 4 * options.store.memory_size)));
  REMORA_RETURN_IF_ERROR(StatusOf(mdb_env_set_maxreaders(opened, 1100)));
  // A session's reading is its own, whichever thread makes it.
  unsigned flags = MDB_NOTLS | MDB_NORDAHEAD;
  if (options.store.durability != Durability::kSynced) flags |= MDB_WRITEMAP | MDB_NOSYNC;
  REMORA_RETURN_IF_ERROR(StatusOf(mdb_env_open(opened, directory.c_str(), flags, 0666)));
  MDB_txn* opening = nullptr;
  REMORA_RETURN_IF_ERROR(StatusOf(mdb_txn_begin(opened, nullptr, 0, &opening)));
  MDB_dbi table = 0;
  if (absl::Status status = StatusOf(mdb_dbi_open(opening, nullptr, 0, &table)); !status.ok()) {
    mdb_txn_abort(opening);
    return status;
  }
  REMORA_RETURN_IF_ERROR(StatusOf(mdb_txn_commit(opening)));
  return std::make_unique<LmdbTarget>(std::move(environment), table);
}

}  // namespace remora::bench
