#include "store/durable/wal/wal_archive.h"

#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "store/durable/format.h"
#include "store/durable/wal/wal_scan.h"

namespace remora {
namespace {

namespace fs = std::filesystem;

/// Bytes of the list of openings, which begins a log that an opening has begun. They do not count for the
/// retention, so that the list pushes out no changes.
constexpr std::uint64_t kListBytes = kOpenings * sizeof(Opening);

std::string ArchiveOf(const std::string& path) { return path + "/archive"; }

class Trimmer final : public rocksdb::EventListener {
 public:
  explicit Trimmer(const LogRetention& retention) : retention_(retention) {}
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo&) override {
    TrimLogArchive(db->GetName(), retention_);
  }

 private:
  const LogRetention retention_;
};

}  // namespace

void TrimLogArchive(const std::string& path, const LogRetention& retention) {
  const auto logs = LogsIn(ArchiveOf(path));
  if (!logs) return;  // no log was archived so far
  const fs::file_time_type since = fs::file_time_type::clock::now() - retention.time;
  std::uint64_t newer = 0;
  std::size_t kept = 0;
  for (; kept < logs->size(); ++kept) {
    const std::string& log = (*logs)[logs->size() - 1 - kept];
    std::error_code error;
    const fs::file_time_type written = fs::last_write_time(log, error);
    const bool is_wanted = newer < retention.bytes && kept < kOpenings;  // no feed can name an older log
    if (!error && !is_wanted && (retention.time.count() == 0 || written < since)) break;
    const std::uint64_t size = fs::file_size(log, error);
    if (!error) newer += size - std::min(size, kListBytes);
  }
  for (const std::string& log : std::span(*logs).first(logs->size() - kept)) ::unlink(log.c_str());
}

void DropDamagedLogs(const std::string& path) {
  const auto logs = LogsIn(ArchiveOf(path));
  if (!logs) return;
  for (const std::string& log : *logs) {
    const std::optional<LogState> state = CheckLog(log);
    if (state && state->damaged_at) ::unlink(log.c_str());
  }
}

std::shared_ptr<rocksdb::EventListener> LogArchiveTrimmer(const LogRetention& retention) {
  return std::make_shared<Trimmer>(retention);
}

}  // namespace remora
