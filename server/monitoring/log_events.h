// The events of the server's log. docs/operating/log.md has the same table (tests/endtoend/log_test.py).
//
// The name of an event stays, so that programs can look for it. The text beside it is for people, and may
// change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace remora {

enum class LogLevel : std::uint8_t { kError = 1, kWarning, kInfo };

/// Events of one group share a bound of their lines in a time (rate_limited_log.h). They have the same level:
/// lines that are not written hide none that are.
enum class LogEventGroup : std::uint8_t {
  kUnbounded,
  kClients,
  kStrangers,
  kShortages,
  kBackups,
  kFailedBackups
};
inline constexpr std::size_t kBoundedLogEventGroups = 5;

enum class LogEvent : std::uint8_t {
  kStartFailed,
  kServingFailed,
  kServing,
  kOpenToHost,
  kReady,
  kStopped,
  kClientLimit,
  kMemoryPlan,
  kMemoryScarce,
  kMemoryShort,
  kMemoryRecovered,
  kMemoryExhausted,
  kCheckFailed,
  kHttpServing,
  kWriteBinding,
  kReadyFdFailed,
  kGateReady,
  kGateSaid,
  kGateEnded,
  kGateHung,
  kShardServing,
  kShardEnded,
  kShardHung,
  kTopologyWritten,
  kSlotsMove,
  kMoveFailed,
  kServiceManagerFailed,
  kLogTorn,
  kCommitLog,
  kLoaded,
  kDiskFailed,
  kDiskRecovered,
  kTokensReloaded,
  kTlsReloaded,
  kReloadIgnored,
  kReloadFailed,
  kConfigReloaded,
  kRestartNeeded,
  kClientConnected,
  kClientDisconnected,
  kClientNotRemembered,
  kClientLost,
  kClientRejected,
  kDescriptorsShort,
  kBackupBegun,
  kBackupMade,
  kBackupFailed,
  kReplicationStarted,
  kReplicationServing,
  kFollowing,
  kFollowerConnected,
  kFollowerAway,
  kFollowerRejected,
  kPrimaryRejected,
  kFollowerCopied,
  kCopyTaken,
  kCopyFailed,
  kPromoted,
  kYields,
  kReplicationFailed,
  kClusterChanged,
  kClusterFailed,
  kClusterEnded,
  kLinesLeftOut,
  kWarningsLeftOut,
  kLinesDropped,
};

struct LogEventEntry {
  LogEvent event;
  std::string_view name;
  LogLevel level;
  std::string_view help;
  LogEventGroup group = LogEventGroup::kUnbounded;
};

// clang-format off
inline constexpr auto kLogEvents = std::to_array<LogEventEntry>({
    {LogEvent::kStartFailed, "start_failed", LogLevel::kError, "the server does not start, and why"},
    {LogEvent::kServingFailed, "serving_failed", LogLevel::kError, "the server ends, and why"},
    {LogEvent::kServing, "serving", LogLevel::kInfo, "all addresses accept clients"},
    {LogEvent::kOpenToHost, "open_to_host", LogLevel::kWarning, "every user of this host is served at an address: no tokens"},
    {LogEvent::kReady, "ready", LogLevel::kInfo, "on standard output: the server serves, at these addresses"},
    {LogEvent::kStopped, "stopped", LogLevel::kInfo, "a signal has ended the server"},
    {LogEvent::kClientLimit, "client_limit", LogLevel::kInfo, "clients and files that the descriptors are enough for"},
    {LogEvent::kMemoryPlan, "memory_plan", LogLevel::kInfo, "the shares of `--memory`"},
    {LogEvent::kMemoryScarce, "memory_scarce", LogLevel::kWarning, "less memory is available than `--memory` may take"},
    {LogEvent::kMemoryShort, "memory_short", LogLevel::kError, "the system has no memory left; writes are rejected"},
    {LogEvent::kMemoryRecovered, "memory_recovered", LogLevel::kWarning, "there is memory again; writes are taken"},
    {LogEvent::kMemoryExhausted, "memory_exhausted", LogLevel::kError, "the process ends, as the system has no memory left"},
    {LogEvent::kCheckFailed, "check_failed", LogLevel::kError, "the process ends, as it has found a bug in itself"},
    {LogEvent::kHttpServing, "http_serving", LogLevel::kInfo, "the address of `--http`"},
    {LogEvent::kWriteBinding, "write_binding", LogLevel::kInfo, "whether memory windows bind what clients may write"},
    {LogEvent::kReadyFdFailed, "ready_fd_failed", LogLevel::kWarning, "`--ready_fd` takes no line"},
    {LogEvent::kGateReady, "gate_ready", LogLevel::kInfo, "the gate of `--redis` serves"},
    {LogEvent::kGateSaid, "gate_said", LogLevel::kWarning, "a line that the gate of `--redis` wrote"},
    {LogEvent::kGateEnded, "gate_ended", LogLevel::kWarning, "the gate of `--redis` has ended, and how; it is started again"},
    {LogEvent::kGateHung, "gate_hung", LogLevel::kWarning, "the gate of `--redis` has hung for `--hang_timeout`; it is ended"},
    {LogEvent::kShardServing, "shard_serving", LogLevel::kInfo, "a server of `--shards` serves"},
    {LogEvent::kShardEnded, "shard_ended", LogLevel::kWarning, "a server of `--shards` has ended, and how; it is started again"},
    {LogEvent::kShardHung, "shard_hung", LogLevel::kWarning, "a server of `--shards` has hung for `--hang_timeout`; it is ended"},
    {LogEvent::kTopologyWritten, "topology_written", LogLevel::kInfo, "the file of `--topology` was made, or has other addresses"},
    {LogEvent::kSlotsMove, "slots_move", LogLevel::kInfo, "slots begin to move to another server, or have moved"},
    {LogEvent::kMoveFailed, "move_failed", LogLevel::kWarning, "a move of slots is given up, or waits, and why"},
    {LogEvent::kServiceManagerFailed, "service_manager_failed", LogLevel::kWarning, "the service manager takes no message"},
    {LogEvent::kLogTorn, "log_torn", LogLevel::kWarning, "a power cut took writes that were not synced"},
    {LogEvent::kCommitLog, "commit_log", LogLevel::kInfo, "how the commit log is written"},
    {LogEvent::kLoaded, "loaded", LogLevel::kInfo, "all keys are loaded"},
    {LogEvent::kDiskFailed, "disk_failed", LogLevel::kError, "the disk takes no writes; writes are rejected"},
    {LogEvent::kDiskRecovered, "disk_recovered", LogLevel::kWarning, "the disk takes writes again"},
    {LogEvent::kTokensReloaded, "tokens_reloaded", LogLevel::kInfo, "`--tokens` was read anew"},
    {LogEvent::kTlsReloaded, "tls_reloaded", LogLevel::kInfo, "the files of TLS were read anew"},
    {LogEvent::kReloadIgnored, "reload_ignored", LogLevel::kInfo, "SIGHUP came, and there are no such files"},
    {LogEvent::kReloadFailed, "reload_failed", LogLevel::kWarning, "a file cannot be read anew; all stays as it was"},
    {LogEvent::kConfigReloaded, "config_reloaded", LogLevel::kInfo, "the file of `--config` was read anew, and the settings that changed"},
    {LogEvent::kRestartNeeded, "restart_needed", LogLevel::kWarning, "settings that changed in the file, and need a restart"},
    {LogEvent::kClientConnected, "client_connected", LogLevel::kInfo, "a client has connected", LogEventGroup::kClients},
    {LogEvent::kClientDisconnected, "client_disconnected", LogLevel::kInfo, "a connection has ended, and why", LogEventGroup::kClients},
    {LogEvent::kClientNotRemembered, "client_not_remembered", LogLevel::kInfo, "a restart may forget a client", LogEventGroup::kClients},
    {LogEvent::kClientLost, "client_lost", LogLevel::kInfo, "a client left before it was accepted", LogEventGroup::kStrangers},
    {LogEvent::kClientRejected, "client_refused", LogLevel::kInfo, "a client was rejected, and why", LogEventGroup::kStrangers},
    {LogEvent::kDescriptorsShort, "descriptors_short", LogLevel::kWarning, "clients were rejected as no descriptor is left", LogEventGroup::kShortages},
    {LogEvent::kBackupBegun, "backup_begun", LogLevel::kInfo, "a backup has begun", LogEventGroup::kBackups},
    {LogEvent::kBackupMade, "backup_made", LogLevel::kInfo, "a backup was made", LogEventGroup::kBackups},
    {LogEvent::kBackupFailed, "backup_failed", LogLevel::kWarning, "a backup failed, and why", LogEventGroup::kFailedBackups},
    {LogEvent::kReplicationStarted, "replication_started", LogLevel::kInfo, "the part of the server in replication"},
    {LogEvent::kReplicationServing, "replication_serving", LogLevel::kInfo, "all followers have the data of the primary, which serves clients"},
    {LogEvent::kFollowing, "following", LogLevel::kInfo, "a primary sends its groups to this follower"},
    {LogEvent::kFollowerConnected, "follower_connected", LogLevel::kInfo, "a follower takes groups, and from which one on"},
    {LogEvent::kFollowerAway, "follower_away", LogLevel::kWarning, "a follower cannot be reached, or does not answer; writes wait"},
    {LogEvent::kFollowerRejected, "follower_rejected", LogLevel::kError, "a follower and this primary do not fit, and why; no writes"},
    {LogEvent::kPrimaryRejected, "primary_rejected", LogLevel::kWarning, "a follower does not follow a primary, and why"},
    {LogEvent::kFollowerCopied, "follower_copied", LogLevel::kInfo, "a member gets a copy of the primary's data, or has it"},
    {LogEvent::kCopyTaken, "copy_taken", LogLevel::kInfo, "a member takes a copy of the primary's data, or it is in place"},
    {LogEvent::kCopyFailed, "copy_failed", LogLevel::kWarning, "a copy of the primary's data fails, and why; the old data stay"},
    {LogEvent::kPromoted, "promoted", LogLevel::kWarning, "the follower has become a primary"},
    {LogEvent::kYields, "yields", LogLevel::kInfo, "an operator asks for another primary, and this one makes way, or goes on"},
    {LogEvent::kReplicationFailed, "replication_failed", LogLevel::kError, "a follower cannot apply a group, or keep its state"},
    {LogEvent::kClusterChanged, "cluster_changed", LogLevel::kWarning, "a member takes over, leaves or joins, in the configuration"},
    {LogEvent::kClusterFailed, "cluster_failed", LogLevel::kError, "etcd, or the configuration there, stops the member, and why"},
    {LogEvent::kClusterEnded, "cluster_ended", LogLevel::kError, "the process ends: another member leads, or this one was removed"},
    {LogEvent::kLinesLeftOut, "lines_left_out", LogLevel::kInfo, "clients caused more lines than are written in a time"},
    {LogEvent::kWarningsLeftOut, "warnings_left_out", LogLevel::kWarning, "clients caused more warnings than are written in a time"},
    {LogEvent::kLinesDropped, "lines_dropped", LogLevel::kWarning, "lines were lost, as nobody read the log"},
});
// clang-format on

constexpr const LogEventEntry& EntryOf(LogEvent event) { return kLogEvents[static_cast<std::size_t>(event)]; }

static_assert(
    [] {
      for (std::size_t i = 0; i < kLogEvents.size(); ++i) {
        if (static_cast<std::size_t>(kLogEvents[i].event) != i) return false;
      }
      return kLogEvents.size() == static_cast<std::size_t>(LogEvent::kLinesDropped) + 1;
    }(),
    "the table is in the order of the events");

/// Takes an event and its text, one line without its end.
using LogSink = std::function<void(LogEvent, std::string_view)>;

}  // namespace remora
