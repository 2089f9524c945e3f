#include "store/durable/tier_log/log_batch.h"

#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/write_batch_base.h>

#include <array>

namespace remora {

rocksdb::Status AddToBatch(const LogEntry& entry, const LogFamilies& families,
                           rocksdb::WriteBatchBase* batch) {
  const rocksdb::Slice key(entry.key.data(), entry.key.size());
  const rocksdb::Slice value(entry.value.data(), entry.value.size());
  if (entry.kind == LogEntryKind::kDelete) return batch->Delete(families.entries, key);
  if (entry.kind == LogEntryKind::kMeta) {
    return value.empty() ? batch->Delete(families.meta, key) : batch->Put(families.meta, key, value);
  }
  const StoredHeader header{entry.version, entry.expiry_ms};
  const std::array<rocksdb::Slice, 2> stored = {
      rocksdb::Slice(reinterpret_cast<const char*>(&header), sizeof(header)), value};
  return batch->Put(families.entries, {&key, 1}, {stored.data(), static_cast<int>(stored.size())});
}

}  // namespace remora
