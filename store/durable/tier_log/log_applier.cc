#include "store/durable/tier_log/log_applier.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/durable/format.h"
#include "store/durable/status.h"
#include "store/durable/tier_log/log_batch.h"

namespace remora {
namespace {

constexpr std::string_view kAppliedPlace = "durable tier";

rocksdb::Slice SliceOf(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

std::string_view BytesOfLsn(const Lsn& lsn) {
  return {reinterpret_cast<const char*>(&lsn.value), sizeof(lsn.value)};
}

StoredHeader StoredHeaderOf(const LogEntry& entry) { return {entry.version, entry.expiry_ms}; }

}  // namespace

absl::StatusOr<Lsn> LogApplier::ReadAppliedTo(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta) {
  std::string stored;
  const rocksdb::Status read = db->Get({}, meta, kAppliedToKey, &stored);
  if (read.IsNotFound()) return Lsn{};
  REMORA_RETURN_IF_ERROR(ToStatus(read, kAppliedPlace));
  Lsn lsn;
  if (stored.size() != sizeof(lsn.value)) return DamagedStatus(kAppliedPlace, "applied_to is no LSN");
  std::memcpy(&lsn.value, stored.data(), sizeof(lsn.value));
  return lsn;
}

LogApplier::LogApplier(LogApplierOptions options, Lsn applied_to)
    : options_(std::move(options)), added_to_(applied_to), applied_to_(applied_to) {}

void LogApplier::Add(const LogGroup& group) {
  if (group.end() <= applied_to_) return;
  REMORA_CHECK(Lsn{group.header.lsn} >= added_to_);
  LogEntries entries = group.entries();
  LogEntry entry;
  while (entries.Next(&entry)) {
    LatestEntries& latest = entry.kind == LogEntryKind::kMeta ? meta_ : entries_;
    latest.Set(entry);
    NoteEntry(entry);
  }
  added_to_ = group.end();
}

void LogApplier::NoteEntry(const LogEntry& entry) {
  added_version_ = std::max(added_version_, entry.version);
  if (entry.request.client == 0) return;
  const LoggedCompletion completion(entry);
  meta_.Set(completion.entry());
}

absl::Status LogApplier::ApplyUnlogged(std::span<const LogEntry> entries) {
  REMORA_CHECK(added_to_ == applied_to_ && entries_.empty() && meta_.empty());
  for (const LogEntry& entry : entries) {
    LatestEntries& latest = entry.kind == LogEntryKind::kMeta ? meta_ : entries_;
    latest.SetView(entry);
    NoteEntry(entry);
  }
  const absl::Status status = Write();
  Forget();
  return status;
}

absl::Status LogApplier::Apply() {
  if (added_to_ == applied_to_) return absl::OkStatus();
  REMORA_RETURN_IF_ERROR(Write());
  Forget();
  return absl::OkStatus();
}

absl::Status LogApplier::Write() {
  const LogEntry applied_to = {
      .kind = LogEntryKind::kMeta, .key = kAppliedToKey, .value = BytesOfLsn(added_to_)};
  meta_.Set(applied_to);
  const std::vector<const LogEntry*> entries = entries_.Sorted();
  const std::vector<const LogEntry*> meta = meta_.Sorted();
  REMORA_RETURN_IF_ERROR(options_.way == ApplyWay::kInsert ? Insert(entries, meta) : Ingest(entries, meta));
  applied_to_ = added_to_;
  applied_version_ = added_version_;
  return absl::OkStatus();
}

void LogApplier::Forget() {
  entries_.Clear();
  meta_.Clear();
}

absl::Status LogApplier::Insert(const std::vector<const LogEntry*>& entries,
                                const std::vector<const LogEntry*>& meta) {
  rocksdb::WriteBatch batch;
  const LogFamilies families{.entries = options_.entries, .meta = options_.meta};
  for (const auto* sorted : {&entries, &meta}) {
    for (const LogEntry* entry : *sorted) {
      REMORA_RETURN_IF_ERROR(ToStatus(AddToBatch(*entry, families, &batch), kAppliedPlace));
    }
  }
  rocksdb::WriteOptions how;
  how.disableWAL = true;
  return ToStatus(options_.db->Write(how, &batch), kAppliedPlace);
}

absl::StatusOr<std::optional<std::string>> LogApplier::MakeTable(
    std::string_view name, rocksdb::ColumnFamilyHandle* family,
    const std::vector<const LogEntry*>& sorted) const {
  if (sorted.empty()) return std::nullopt;
  const std::string path = absl::StrCat(options_.dir, "/", AbslView(name));
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_.db->GetOptions(family), family);
  rocksdb::Status status = writer.Open(path);
  std::string value;
  for (const LogEntry* entry : sorted) {
    if (!status.ok()) break;
    if (entry->kind == LogEntryKind::kDelete ||
        (entry->kind == LogEntryKind::kMeta && entry->value.empty())) {
      status = writer.Delete(SliceOf(entry->key));
    } else if (entry->kind == LogEntryKind::kMeta) {
      status = writer.Put(SliceOf(entry->key), SliceOf(entry->value));
    } else {
      const StoredHeader header = StoredHeaderOf(*entry);
      value.assign(reinterpret_cast<const char*>(&header), sizeof(header));
      value.append(entry->value);
      status = writer.Put(SliceOf(entry->key), value);
    }
  }
  if (status.ok()) status = writer.Finish();
  REMORA_RETURN_IF_ERROR(ToStatus(status, kAppliedPlace));
  return path;
}

absl::Status LogApplier::Ingest(const std::vector<const LogEntry*>& entries,
                                const std::vector<const LogEntry*>& meta) {
  std::vector<rocksdb::IngestExternalFileArg> tables;
  absl::Status status;
  for (const auto& [name, family, sorted] : {std::tuple("applied-entries.sst", options_.entries, &entries),
                                             std::tuple("applied-meta.sst", options_.meta, &meta)}) {
    const absl::StatusOr<std::optional<std::string>> made = MakeTable(name, family, *sorted);
    status.Update(made.status());
    if (!made.ok() || !*made) continue;
    rocksdb::IngestExternalFileArg& table = tables.emplace_back();
    table.column_family = family;
    table.external_files = {**made};
    table.options.move_files = true;
    table.options.snapshot_consistency = false;
  }
  if (status.ok()) status = ToStatus(options_.db->IngestExternalFiles(tables), kAppliedPlace);
  // Removes the files if the ingestion failed; otherwise it has moved them.
  for (const auto& table : tables) unlink(table.external_files.front().c_str());
  return status;
}

}  // namespace remora
