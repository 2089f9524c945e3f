#include "store/durable/rocksdb_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
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
  // LZ4 costs little next to the disk writes that it saves. No build of RocksDB must have it.
  const std::vector<rocksdb::CompressionType> supported = rocksdb::GetSupportedCompressions();
  return std::find(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != supported.end()
             ? rocksdb::kLZ4Compression
             : rocksdb::kNoCompression;
}

// The least that all releases of Debian which Remora runs on write and read, so that data go back to an older
// one.
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

/// RocksDB's own diary, which nobody asked for: what matters comes as a status. Some builds of RocksDB,
/// Debian's among them, abort the process when the file that they write it to cannot grow.
class NoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

rocksdb::ColumnFamilyOptions DataOptions(std::size_t block_cache_bytes, std::size_t write_buffer_bytes) {
  rocksdb::BlockBasedTableOptions table;
  // A file that does not have the key is not read for it. Files from before there were filters are read as
  // they are.
  constexpr double kBitsPerKey = 10;  // one in a hundred files is read in vain
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBitsPerKey));
  // Filters and indexes stay outside of the cache: there they would push each other out as soon as they are
  // larger than it, and each Get would read three blocks.
  table.cache_index_and_filter_blocks = false;
  table.no_block_cache = block_cache_bytes == 0;
  if (!table.no_block_cache) table.block_cache = rocksdb::NewLRUCache(block_cache_bytes);
  return FamilyOptions(write_buffer_bytes, table);
}

rocksdb::ColumnFamilyOptions MetaOptions(std::size_t write_buffer_bytes) {
  // Read once, at the start: no filter, no cache.
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  // Outcomes of writes take each other's place here, so that little of this reaches a file. They are put
  // behind each other, and sorted when that is full: a sorted list costs each write 2.5 us instead of 0.4.
  rocksdb::ColumnFamilyOptions options = FamilyOptions(write_buffer_bytes / 4, table);

  options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
  return options;
}

int MaxOpenTables(std::size_t descriptors) {
  if (descriptors == 0) {
    rlimit limit = {};
    descriptors = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 0;
  }
  // Logs, the manifest, folders, what is being written, and what is set aside; change feeds and backups.
  constexpr std::size_t kOthers = 64;
  constexpr std::size_t kLeast = 20;  // of RocksDB's
  // Of tables of 64 MiB: 4 TB. They all stay open, and are opened at the start, in parallel.
  constexpr std::size_t kAll = 65536;
  if (descriptors >= kAll + kOthers) return -1;
  return static_cast<int>(std::max(descriptors, kLeast + kOthers) - kOthers);
}

rocksdb::DBOptions DatabaseOptions(bool fresh, const LogRetention& log_retention) {
  rocksdb::DBOptions options;
  // A store that lost its files is damaged, not new.
  options.create_if_missing = fresh;
  options.create_missing_column_families = fresh;
  // A killed process may leave the last record of the log incomplete; that one was not acknowledged. Whether
  // other damage is to be expected, wal_recovery.h decides.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Each write is with the system before it is acknowledged.
  options.manual_wal_flush = false;
  options.allow_concurrent_memtable_write = false;  // there is one writer, and the meta family wants it
  // Writes that skip the log (Log::kSkipped) are kept with what was written along with them, or not at all.
  options.atomic_flush = true;
  // The meta family is written seldom, and would keep old log files from being deleted until this many bytes
  // of them are there. It also bounds what a restart has to replay.
  options.max_total_wal_size = std::uint64_t{256} << 20;
  // For change feeds that are behind, they go to the archive; RocksDB itself deletes none there.
  options.WAL_ttl_seconds = std::numeric_limits<std::uint64_t>::max();
  options.listeners.push_back(LogArchiveTrimmer(log_retention));
  // The log files have all of it, so a stop takes no time.
  options.avoid_flush_during_shutdown = true;
  options.skip_stats_update_on_db_open = true;
  options.max_file_opening_threads = 1;  // the caller: RocksDB ends the process where it cannot start more
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
