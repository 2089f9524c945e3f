#include "store/durable/rocksdb_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace remora {
namespace {

rocksdb::CompressionType Compression() {
  // LZ4 costs little compared with the disk writes that it saves. A build of RocksDB may lack it.
  const std::vector<rocksdb::CompressionType> supported = rocksdb::GetSupportedCompressions();
  return std::find(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != supported.end()
             ? rocksdb::kLZ4Compression
             : rocksdb::kNoCompression;
}

// The lowest format that RocksDB writes and reads on all supported releases of Debian. So a data directory
// can be used on an older release again.
constexpr std::uint32_t kTableFormat = 5;

rocksdb::ColumnFamilyOptions FamilyOptions(std::size_t write_buffer_size,
                                           rocksdb::BlockBasedTableOptions table) {
  table.format_version = kTableFormat;
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = write_buffer_size;
  options.compression = Compression();
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

/// Discards RocksDB's info log, since the important messages come as a status. Some builds of RocksDB,
/// including Debian's, abort the process when the file of the info log cannot grow.
class NoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

rocksdb::ColumnFamilyOptions DataOptions(std::size_t block_cache_bytes, std::size_t write_buffer_bytes) {
  rocksdb::BlockBasedTableOptions table;
  // The filter saves the read of a file that does not have the key. Files without a filter, from earlier
  // versions, can still be read.
  constexpr double kBitsPerKey = 10;  // one in a hundred files is read in vain
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBitsPerKey));
  // Filters and indexes stay outside the cache. Inside, they would evict each other as soon as they are
  // larger than the cache, and each Get would read three blocks.
  table.cache_index_and_filter_blocks = false;
  table.no_block_cache = block_cache_bytes == 0;
  if (!table.no_block_cache) table.block_cache = rocksdb::NewLRUCache(block_cache_bytes);
  rocksdb::ColumnFamilyOptions options = FamilyOptions(write_buffer_bytes, table);
  // So does a memtable's, where a search is a dozen misses of the CPU's caches. This share of its memory is
  // 16 bits for a key with a small value.
  options.memtable_prefix_bloom_size_ratio = 0.02;
  options.memtable_whole_key_filtering = true;
  return options;
}

rocksdb::ColumnFamilyOptions MetaOptions(std::size_t write_buffer_bytes) {
  // The store reads this family once, at the start, so it needs no filter and no cache.
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  // Completion records replace each other in the memtable, so few of them reach a file. The memtable is a
  // vector that is sorted when it is full: a sorted list would cost each write several times as much
  // (decision 0021).
  rocksdb::ColumnFamilyOptions options = FamilyOptions(write_buffer_bytes / 4, table);

  options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
  return options;
}

int MaxOpenTables(std::size_t descriptors) {
  if (descriptors == 0) {
    rlimit limit = {};
    descriptors = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 0;
  }
  // Other descriptors: logs and the spare one (files.h), the manifest, directories, files being written,
  // change feeds and backups.
  constexpr std::size_t kOthers = 64;
  constexpr std::size_t kMin = 20;  // the least that RocksDB accepts
  // So many tables of 64 MiB are 4 TB. With descriptors for all of them, RocksDB opens every table at the
  // start, and keeps it open.
  constexpr std::size_t kAll = 65536;
  if (descriptors >= 2 * kAll + kOthers) return -1;
  // Two for each table (F5 of files.h).
  return static_cast<int>(std::max((std::max(descriptors, kOthers) - kOthers) / 2, kMin));
}

rocksdb::DBOptions DatabaseOptions(bool fresh, const LogRetention& log_retention, bool has_own_log) {
  rocksdb::DBOptions options;
  // A store that lost its files is damaged, not new.
  options.create_if_missing = fresh;
  options.create_missing_column_families = fresh;
  // A killed process may leave the last record of the log incomplete; that record was not acknowledged.
  // wal_recovery.h decides about all other damage.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Each write is in the page cache before it is acknowledged.
  options.manual_wal_flush = false;
  options.allow_concurrent_memtable_write = false;  // one writer; the meta family's memtable requires it
  // A flush persists all families in one step. So a group that skips the log (Log::kSkipped) survives as a
  // whole, or not at all.
  options.atomic_flush = true;
  // A family with few writes, like meta, would keep old log files for long. This bounds their bytes, and so
  // the bytes that a restart replays.
  // RocksDB allocates as much on disk for each log file, also for one that stays empty.
  options.max_total_wal_size = std::uint64_t{has_own_log ? 256u : 1u} << 20;
  // Log files that are no longer needed go to the archive, for slow change feeds. RocksDB deletes none
  // there; LogArchiveTrimmer does.
  options.WAL_ttl_seconds = std::numeric_limits<std::uint64_t>::max();
  options.listeners.push_back(LogArchiveTrimmer(log_retention));
  // The log files have all data, so closing the database needs no flush.
  options.avoid_flush_during_shutdown = true;
  options.skip_stats_update_on_db_open = true;
  options.max_file_opening_threads = 1;  // the caller's: RocksDB ends the process if it cannot start more
  options.info_log = std::make_shared<NoLog>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

rocksdb::ReadOptions ReadOnce() {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  return options;
}

rocksdb::ReadOptions ReadThrough(std::uint64_t bytes) {
  rocksdb::ReadOptions options = ReadOnce();
  options.readahead_size = bytes < kReadAhead ? 0 : kReadAhead;
  return options;
}

}  // namespace remora
