// The registry of metrics: each number that a server exports, with its name, type, unit and meaning. The
// values are in the superblock (layout.h), at the places that the registry says; clients READ them there.
//
// `kvctl stats`, /metrics, docs/operating/metrics.md and docs/man/remora_metrics.7 show what the registry has
// (tools/metrics-pages writes the two documents). To add a metric: append an entry, count it
// (store/engine/metrics.h), and run tools/metrics-pages.
//
//   R1 The registry only grows, at its end: an entry never moves, and is never removed. So a client and a
//      server of different releases agree on each entry that both know, and the number of entries is no
//      part of the layout's signature. Its capacity is.
//   R2 The superblock says how many places the server has (`metric_count`), and the client reads no
//      more. Places that the client does not know are no error.
//   R3 A counter and a gauge have one place, a histogram has kHistogramPlaces (histogram.h), one behind the
//      other.
//   R4 A time is in nanoseconds here, and in seconds for Prometheus.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "store/format/memory/histogram.h"

namespace remora {

/// A counter only grows while the server lives; a gauge goes up and down. A histogram counts times by their
/// length.
enum class MetricType : std::uint8_t { kCounter = 1, kGauge, kHistogram };
/// Returns how many places a metric of this type takes (R3).
constexpr std::uint32_t MetricPlaces(MetricType type) {
  return type == MetricType::kHistogram ? kHistogramPlaces : 1;
}
/// Unit of a metric. kNone: a number of things, or a switch.
enum class MetricUnit : std::uint8_t { kNone = 1, kBytes, kSeconds };

/// One entry of the registry.
struct MetricEntry {
  const char* name;             // as `kvctl stats` shows it
  const char* prometheus_name;  // as Prometheus' conventions have it: the unit, and _total of a counter, last
  MetricType type;
  MetricUnit unit;
  const char* help;
  std::uint32_t place;  // its first one
};

// Enumerator, names, type, unit, help. Dashboards use the two names, so these stay as they were when an
// enumerator changes: disk_refuses is kDiskRejects. Each refused_* counts one reason; connections_refused
// counts all.
// NAME{label=value}: entries with the same NAME, wherever they are, become one metric of Prometheus, whose
// help ends at the colon.
#define REMORA_METRICS(X)                                                                                    \
  X(kKeys, "keys", "remora_keys", kGauge, kNone,                                                             \
    "Keys in the store, cold and expired ones included; while the store loads, those loaded so far")         \
  X(kLoading, "loading", "remora_loading", kGauge, kNone,                                                    \
    "1 while the store loads its keys after a start, else 0")                                                \
  X(kKeysLoaded, "keys_loaded", "remora_keys_loaded_total", kCounter, kNone,                                 \
    "Keys that the load after the start has read")                                                           \
  X(kPuts, "puts", "remora_puts_total", kCounter, kNone, "Values written, also by append and incr")          \
  X(kDeletes, "deletes", "remora_deletes_total", kCounter, kNone, "Keys deleted by clients")                 \
  X(kTouches, "touches", "remora_touches_total", kCounter, kNone, "Expiries set by touch and persist")       \
  X(kExpired, "expired", "remora_expired_keys_total", kCounter, kNone,                                       \
    "Expired keys that the store has removed")                                                               \
  X(kColdKeys, "cold_keys", "remora_cold_keys", kGauge, kNone, "Keys whose value is only on disk")           \
  X(kEvictions, "evictions", "remora_evictions_total", kCounter, kNone,                                      \
    "Values that left memory: the key became cold or, without a disk, was removed")                          \
  X(kFetches, "fetches", "remora_fetches_total", kCounter, kNone,                                            \
    "Values of cold keys that came back to memory")                                                          \
  X(kReadsReported, "reads_reported", "remora_reads_reported_total", kCounter, kNone,                        \
    "Reads that clients reported; others read in place and report nothing")                                  \
  X(kLocates, "locates", "remora_locates_total", kCounter, kNone,                                            \
    "Requests for the place of a record, which the client could not find alone")                             \
  X(kPings, "pings", "remora_pings_total", kCounter, kNone, "Pings answered")                                \
  X(kScans, "scans", "remora_scans_total", kCounter, kNone, "Scans begun")                                   \
  X(kScanCursors, "scan_cursors", "remora_scan_cursors", kGauge, kNone, "Open cursors of scans and watches") \
  X(kScanCursorsIdle, "scan_cursors_idle", "remora_scan_cursors_idle_total", kCounter, kNone,                \
    "Cursors closed because no client used them for long")                                                   \
  X(kScanCursorsPushedOut, "scan_cursors_pushed_out", "remora_scan_cursors_pushed_out_total", kCounter,      \
    kNone, "Cursors closed because their client opened too many")                                            \
  X(kScanPages, "scan_pages", "remora_scan_pages_total", kCounter, kNone, "Pages sent to scans and watches") \
  X(kScanBufferBytes, "scan_buffer_bytes", "remora_scan_buffer_bytes", kGauge, kBytes,                       \
    "Memory of the pages that are being sent")                                                               \
  X(kWatches, "watches", "remora_watches_total", kCounter, kNone, "Watches begun")                           \
  X(kChangesEnd, "changes_end", "remora_changes_end", kGauge, kNone,                                         \
    "Place in the log up to which watches may read")                                                         \
  X(kCommitGroups, "commit_groups", "remora_commit_groups_total", kCounter, kNone,                           \
    "Groups of writes committed together")                                                                   \
  X(kSyncedWrites, "synced_writes", "remora_synced_writes_total", kCounter, kNone,                           \
    "Writes at level synced that are on disk")                                                               \
  X(kWritesUnsynced, "writes_unsynced", "remora_writes_unsynced", kGauge, kNone,                             \
    "Writes that wait for the disk, not visible yet")                                                        \
  X(kSyncs, "syncs", "remora_syncs_total", kCounter, kNone, "Calls of fsync")                                \
  X(kDiskFailures, "disk_failures", "remora_disk_failures_total", kCounter, kNone,                           \
    "Commit groups and fsyncs that the disk failed")                                                         \
  X(kDiskRejects, "disk_refuses", "remora_disk_refuses", kGauge, kNone,                                      \
    "1 while writes are rejected because of the disk, else 0")                                               \
  X(kLogTorn, "log_torn", "remora_log_torn", kGauge, kNone,                                                  \
    "1 if the start found a torn log and dropped writes that were not synced, else 0")                       \
  X(kRejectedRequests, "rejected_requests", "remora_rejected_requests_total", kCounter, kNone,               \
    "Requests out of bounds, or malformed")                                                                  \
  X(kIndexBytes, "index_bytes", "remora_index_bytes", kGauge, kBytes, "Memory of the index")                 \
  X(kIndexBuckets, "index_buckets", "remora_index_buckets", kGauge, kNone, "Main buckets of the index")      \
  X(kOverflowBuckets, "overflow_buckets", "remora_overflow_buckets", kGauge, kNone,                          \
    "Overflow buckets of the index")                                                                         \
  X(kMemoryBytes, "memory_bytes", "remora_memory_bytes", kGauge, kBytes,                                     \
    "Memory of index and records: --memory without the clients' share")                                      \
  X(kMemoryBytesFree, "memory_bytes_free", "remora_memory_free_bytes", kGauge, kBytes,                       \
    "Memory in segments without index or records")                                                           \
  X(kLargePageBytes, "large_page_bytes", "remora_large_page_bytes", kGauge, kBytes,                          \
    "Memory that the server has got in huge pages at its request")                                           \
  X(kRegisteredBytes, "registered_bytes", "remora_registered_bytes", kGauge, kBytes,                         \
    "Memory that clients reach: the region, and that of each connected client")                              \
  X(kLogBytesUsed, "log_bytes_used", "remora_log_used_bytes", kGauge, kBytes,                                \
    "Memory of records, live and dead")                                                                      \
  X(kLogBytesDead, "log_bytes_dead", "remora_log_dead_bytes", kGauge, kBytes,                                \
    "Memory of dead records, which cleaning will free")                                                      \
  X(kSegmentsCleaned, "segments_cleaned", "remora_segments_cleaned_total", kCounter, kNone,                  \
    "Segments emptied by cleaning")                                                                          \
  X(kBytesMoved, "bytes_moved", "remora_moved_bytes_total", kCounter, kBytes,                                \
    "Bytes of live records copied by cleaning")                                                              \
  X(kBytesWritten, "bytes_written", "remora_written_bytes_total", kCounter, kBytes,                          \
    "Bytes of records written for clients")                                                                  \
  X(kWritesPutOff, "writes_put_off", "remora_writes_put_off_total", kCounter, kNone,                         \
    "Times that writes waited until memory could be used again")                                             \
  X(kLastVersion, "last_version", "remora_last_version", kGauge, kNone, "Version of the latest write")       \
  X(kConnections, "connections", "remora_connections", kGauge, kNone, "Connected clients")                   \
  X(kConnectionsAccepted, "connections_accepted", "remora_connections_accepted_total", kCounter, kNone,      \
    "Connections accepted")                                                                                  \
  X(kConnectionsBroken, "connections_broken", "remora_connections_broken_total", kCounter, kNone,            \
    "Connections ended because the client broke the protocol")                                               \
  X(kConnectionsRejected, "connections_refused", "remora_connections_refused_total", kCounter, kNone,        \
    "Connections rejected, for any reason")                                                                  \
  X(kHandshakesDropped, "handshakes_dropped", "remora_handshakes_dropped_total", kCounter, kNone,            \
    "Handshakes that were malformed, too slow, or too many at a time")                                       \
  X(kRejectedVersion, "refused_version", "remora_refusals_total{reason=version}", kCounter, kNone,           \
    "Connections rejected: a client of another release, or no Remora client")                                \
  X(kRejectedFull, "refused_full", "remora_refusals_total{reason=full}", kCounter, kNone,                    \
    "Connections rejected: too many clients")                                                                \
  X(kRejectedToken, "refused_token", "remora_refusals_total{reason=token}", kCounter, kNone,                 \
    "Connections rejected: no auth token, or a wrong one")                                                   \
  X(kRejectedTokenFull, "refused_token_full", "remora_refusals_total{reason=token_full}", kCounter, kNone,   \
    "Connections rejected: too many clients with that auth token")                                           \
  X(kChallenges, "challenges", "remora_challenges_total", kCounter, kNone,                                   \
    "Challenges sent to clients that have to prove an auth token")                                           \
  X(kTokens, "tokens", "remora_tokens", kGauge, kNone, "Auth tokens in force")                               \
  X(kStagingBuffersBound, "staging_buffers_bound", "remora_staging_buffers_bound", kGauge, kNone,            \
    "Connected clients whose staging buffer no other client can write")                                      \
  X(kStagingBuffersUnbound, "staging_buffers_unbound", "remora_staging_buffers_unbound", kGauge, kNone,      \
    "Connected clients whose staging buffer others can write if they know or guess its key")                 \
  X(kRequestsDenied, "requests_denied", "remora_requests_denied_total", kCounter, kNone,                     \
    "Requests denied to clients that may only read")                                                         \
  X(kRequestsDelayed, "requests_delayed", "remora_requests_delayed_total", kCounter, kNone,                  \
    "Requests delayed because they exceeded the rate of their auth token")                                   \
  X(kClientsRemembered, "clients_remembered", "remora_clients_remembered", kGauge, kNone,                    \
    "Clients, connected or not, whose last writes the server knows")                                         \
  X(kClientsForgotten, "clients_forgotten", "remora_clients_forgotten_total", kCounter, kNone,               \
    "Clients that returned after the server had forgotten their last writes")                                \
  X(kCompletionsTold, "completions_told", "remora_completions_told_total", kCounter, kNone,                  \
    "Completion records found for clients that had lost the answer to a write")                              \
  X(kCompletionsUnknown, "completions_unknown", "remora_completions_unknown_total", kCounter, kNone,         \
    "Completion records asked for that the server no longer had")                                            \
  X(kReceiveCompletions, "receive_completions", "remora_receive_completions_total", kCounter, kNone,         \
    "Messages received from clients")                                                                        \
  X(kWakeups, "wakeups", "remora_wakeups_total", kCounter, kNone,                                            \
    "Times that a client woke the sleeping server")                                                          \
  X(kConnectionsLocal, "connections_local", "remora_transport_connections{transport=local}", kGauge, kNone,  \
    "Connected clients: over the local transport")                                                           \
  X(kConnectionsTcp, "connections_tcp", "remora_transport_connections{transport=tcp}", kGauge, kNone,        \
    "Connected clients: over TCP, without TLS")                                                              \
  X(kConnectionsTls, "connections_tls", "remora_transport_connections{transport=tls}", kGauge, kNone,        \
    "Connected clients: over TLS")                                                                           \
  X(kConnectionsVerbs, "connections_verbs", "remora_transport_connections{transport=verbs}", kGauge, kNone,  \
    "Connected clients: over RDMA")                                                                          \
  X(kCommitTime, "commit_time", "remora_commit_seconds", kHistogram, kSeconds,                               \
    "Time from the start of a commit group until its answers are sent; writes that wait for the disk are "   \
    "answered later")                                                                                        \
  X(kSyncTime, "sync_time", "remora_sync_seconds", kHistogram, kSeconds,                                     \
    "Time of a sync of the log (fsync)")                                                                     \
  X(kRocksdbWriteTime, "rocksdb_write_time", "remora_rocksdb_write_seconds", kHistogram, kSeconds,           \
    "Time of a write to RocksDB: of a commit group or, with a commit log, of many groups")                   \
  X(kScanPageTime, "scan_page_time", "remora_scan_page_seconds", kHistogram, kSeconds,                       \
    "Time to fill and send a page of a scan or watch")                                                       \
  X(kCommitLogUnapplied, "commit_log_unapplied_bytes", "remora_commit_log_unapplied_bytes", kGauge, kBytes,  \
    "Bytes of the commit log that RocksDB does not have yet")                                                \
  X(kCommitLogUnpersisted, "commit_log_unpersisted_bytes", "remora_commit_log_unpersisted_bytes", kGauge,    \
    kBytes,                                                                                                  \
    "Bytes of the commit log that tables of RocksDB do not have yet; writers are slowed when they "          \
    "exceed half of --commit_log")                                                                           \
  X(kCommitLogLag, "commit_log_lag_ns", "remora_commit_log_lag_seconds", kGauge, kSeconds,                   \
    "Time for which the oldest group of the commit log has waited for RocksDB, at most")                     \
  X(kCommitLogSlowed, "commit_log_slowed", "remora_commit_log_slowed_total", kCounter, kNone,                \
    "Times that a writer slept because the commit log was filling up")                                       \
  X(kCommitLogSlowedTime, "commit_log_slowed_ns", "remora_commit_log_slowed_seconds_total", kCounter,        \
    kSeconds, "Total time for which writers slept because the commit log was filling up")                    \
  X(kColdReads, "cold_reads", "remora_cold_reads_total", kCounter, kNone,                                    \
    "Reads of RocksDB that threads of --read_threads did for GETs and writes")                               \
  X(kColdReadsRepeated, "cold_reads_repeated", "remora_cold_reads_repeated_total", kCounter, kNone,          \
    "Reads of them that were done again, because the key had changed meanwhile")                             \
  X(kColdReadsInFlight, "cold_reads_in_flight", "remora_cold_reads_in_flight", kGauge, kNone,                \
    "Reads of RocksDB by threads of --read_threads that a GET or a write waits for")                         \
  X(kColdReadTime, "cold_read_time", "remora_cold_read_seconds", kHistogram, kSeconds,                       \
    "Time of a read of RocksDB by a thread of --read_threads")                                               \
  X(kTcpReads, "tcp_reads", "remora_tcp_reads_total", kCounter, kNone,                                       \
    "READs that threads of --tcp_threads answered")                                                          \
  X(kTcpReadBytes, "tcp_read_bytes", "remora_tcp_read_bytes_total", kCounter, kBytes,                        \
    "Bytes of the answers to READs over TCP")                                                                \
  X(kTcpCpuTime, "tcp_cpu_ns", "remora_tcp_cpu_seconds_total", kCounter, kSeconds,                           \
    "CPU time of the threads of --tcp_threads; each adds its own when it answers READs, once in 0.1 s")      \
  X(kRejectedForgotten, "refused_forgotten", "remora_refusals_total{reason=forgotten}", kCounter, kNone,     \
    "Connections rejected: a client that the server has forgotten")                                          \
  X(kMemoryRejects, "memory_refuses", "remora_memory_refuses", kGauge, kNone,                                \
    "1 while writes are rejected because the system gives the server no memory, else 0")                     \
  X(kTcpServed, "tcp_served", "remora_tcp_served_total", kCounter, kNone,                                    \
    "Times that a thread of --tcp_threads served requests, as the server's thread slept")                    \
  X(kRejectedNotServing, "refused_not_serving", "remora_refusals_total{reason=not_serving}", kCounter,       \
    kNone, "Connections rejected: the server follows a primary, or waits for its followers")                 \
  X(kReplicationRole, "replication_role", "remora_replication_role", kGauge, kNone,                          \
    "0: no replication; 1: a follower; 2: a primary that waits for its followers before it serves; "         \
    "3: a primary that serves")                                                                              \
  X(kReplicationEpoch, "replication_epoch", "remora_replication_epoch", kGauge, kNone,                       \
    "Number of the last promotion in the history that the server follows or leads; 0: none")                 \
  X(kFollowers, "followers", "remora_followers", kGauge, kNone,                                              \
    "Followers that are connected and have answered lately (--replicate_to)")                                \
  X(kFollowersAway, "followers_away", "remora_followers_away", kGauge, kNone,                                \
    "Followers of --replicate_to that are not connected, or do not answer; writes wait for them")            \
  X(kGroupsShipped, "groups_shipped", "remora_groups_shipped_total", kCounter, kNone,                        \
    "Groups of writes that the server has handed to the links of its followers")                             \
  X(kGroupsAcknowledged, "groups_acknowledged", "remora_groups_acknowledged_total", kCounter, kNone,         \
    "Groups of writes that all followers have acknowledged")                                                 \
  X(kGroupsApplied, "groups_applied", "remora_groups_applied_total", kCounter, kNone,                        \
    "Groups of writes of its primary that a follower has applied")                                           \
  X(kReplicationPending, "replication_pending_bytes", "remora_replication_pending_bytes", kGauge, kBytes,    \
    "Bytes of the groups that not all followers have acknowledged")                                          \
  X(kReplicationBuffer, "replication_buffer_bytes", "remora_replication_buffer_bytes", kGauge, kBytes,       \
    "Bytes of unacknowledged groups at which writes are rejected (--replication_buffer); 0: none are sent")  \
  X(kClusterMembers, "cluster_members", "remora_cluster_members", kGauge, kNone,                             \
    "Members of the shard that this server leads (--etcd), itself included; 0: it leads none")               \
  X(kClusterInSync, "cluster_members_in_sync", "remora_cluster_members_in_sync", kGauge, kNone,              \
    "Of these, members that have each acknowledged write, the primary included")                             \
  X(kClusterMinInSync, "cluster_min_in_sync", "remora_cluster_min_in_sync", kGauge, kNone,                   \
    "Members in sync below which no write is acknowledged (--min_in_sync); 0: it leads no shard")            \
  X(kCopyBytesSent, "copy_bytes_sent", "remora_copy_sent_bytes_total", kCounter, kBytes,                     \
    "Bytes of copies of its data that this primary has sent to members that could not go on from their own") \
  X(kCopyBytesTaken, "copy_bytes_taken", "remora_copy_taken_bytes_total", kCounter, kBytes,                  \
    "Bytes of copies of a primary's data that this member has taken; 0 again behind a start")                \
  X(kOrderedIndexBytes, "ordered_index_bytes", "remora_ordered_index_bytes", kGauge, kBytes,                 \
    "Memory of the ordered index (--ordered=memory), most of it in --memory; 0: there is none")              \
  X(kScanSavedBytes, "scan_saved_bytes", "remora_scan_saved_bytes", kGauge, kBytes,                          \
    "Memory of records that changed and that open scans have yet to show, as they were (--ordered=memory)")  \
  X(kScansOvertaken, "scans_overtaken", "remora_scans_overtaken_total", kCounter, kNone,                     \
    "Scans whose moment was given up because too much was written meanwhile (--ordered=memory)")             \
  X(kChangeLogBytes, "change_log_bytes", "remora_change_log_bytes", kGauge, kBytes,                          \
    "Bytes of the change log in memory (--change_log) that the changes in it take; 0: there is none")        \
  X(kChangesBegin, "changes_begin", "remora_changes_begin", kGauge, kNone,                                   \
    "Place of the oldest change in the change log in memory (--change_log); changes_end is the newest")      \
  X(kWatchesOvertaken, "watches_overtaken", "remora_watches_overtaken_total", kCounter, kNone,               \
    "Watches that ended, or did not resume, because their next change was not kept any more")                \
  X(kMovedRequests, "moved_requests", "remora_moved_requests_total", kCounter, kNone,                        \
    "Writes, and requests for the place of a record, of keys of other slots than --slots; nothing was done") \
  X(kOwnedSlots, "slots", "remora_slots", kGauge, kNone,                                                     \
    "Slots of a cluster for whose keys the server works (--slots); 16384: all")                              \
  X(kOwnedSlotsChecksum, "slots_checksum", "remora_slots_checksum", kGauge, kNone,                           \
    "Checksum of the numbers of these slots: servers of the same slots have the same")                       \
  X(kColdReadsAtOnce, "cold_reads_at_once", "remora_cold_reads_at_once_total", kCounter, kNone,              \
    "Reads of RocksDB for GETs and writes that needed no thread, as the system's page cache had the data")   \
  X(kSlotMoves, "slot_moves", "remora_slot_moves", kGauge, kNone,                                            \
    "Moves of slots in which the server takes part, as source or destination")                               \
  X(kSlotCopyRecords, "slot_copy_records", "remora_slot_copy_records_total", kCounter, kNone,                \
    "Records that the server has copied to give slots away; one that is written meanwhile counts again")     \
  X(kSlotCopyBytes, "slot_copy_bytes", "remora_slot_copy_bytes_total", kCounter, kBytes,                     \
    "Bytes of these copies")                                                                                 \
  X(kColdReadsPassed, "cold_reads_passed", "remora_cold_reads_passed_total", kCounter, kNone,                \
    "Reads of RocksDB whose value went to the client alone, as the record is used too rarely for memory")

/// The metrics, by their places in the superblock.
enum class Metric : std::uint32_t {
// The second enumerator is the last place, behind which the next metric begins.
#define REMORA_METRIC_ENUMERATOR(place, name, prometheus_name, type, unit, help) \
  place, place##Last = place + MetricPlaces(MetricType::type) - 1,
  REMORA_METRICS(REMORA_METRIC_ENUMERATOR)
#undef REMORA_METRIC_ENUMERATOR
};

/// The registry's entries, in its order.
inline constexpr MetricEntry kMetrics[] = {
#define REMORA_METRIC_ENTRY(place, name, prometheus_name, type, unit, help) \
  {name,                                                                    \
   prometheus_name,                                                         \
   MetricType::type,                                                        \
   MetricUnit::unit,                                                        \
   help,                                                                    \
   static_cast<std::uint32_t>(Metric::place)},
    REMORA_METRICS(REMORA_METRIC_ENTRY)
#undef REMORA_METRIC_ENTRY
};

inline constexpr std::size_t kMetricCount = std::size(kMetrics);
/// Places that the metrics take.
inline constexpr std::size_t kMetricPlaces =
    kMetrics[kMetricCount - 1].place + MetricPlaces(kMetrics[kMetricCount - 1].type);
/// Places that the superblock has space for.
inline constexpr std::size_t kMetricCapacity = 256;
static_assert(kMetricPlaces <= kMetricCapacity);

/// Returns how many metrics, from the first on, this program may show of a server that says it has
/// `server_places` (R2). The server's number may be anything: a client does not trust it.
constexpr std::size_t SharedMetricCount(std::uint64_t server_places) {
  std::size_t count = 0;
  while (count < kMetricCount &&
         kMetrics[count].place + MetricPlaces(kMetrics[count].type) <= server_places) {
    ++count;
  }
  return count;
}

}  // namespace remora
