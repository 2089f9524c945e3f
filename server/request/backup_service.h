// The backup that clients ask for: one at a time, in a thread of its own, so that nobody else waits for it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/monitoring/log_events.h"
#include "store/format/wire/messages.h"
#include "store/server_store.h"

namespace remora {

/// Makes backups for clients, one at a time.
///
/// Thread safety: none; the server's one thread.
class BackupService {
 public:
  /// `dir`: where they go; empty: nowhere. `log` gets a line when one has begun, and when it is known how it
  /// has ended. The store outlives this.
  BackupService(ServerStore& store, std::string dir, std::uint32_t keep, LogSink log);
  /// Stops the one in progress.
  ~BackupService();
  BackupService(const BackupService&) = delete;
  BackupService& operator=(const BackupService&) = delete;

  /// Keeps this number of the newest ones, from the next one on; 0: all.
  void SetKeep(std::uint32_t keep) { keep_ = keep; }
  /// Does the work of a kBackup: begins a backup, or returns its state. Nothing: it is in progress.
  /// Other errors are those of Store::Backup.
  ///
  /// - InvalidArgument: the request is malformed.
  /// - FailedPrecondition: there is no place for it.
  /// - AlreadyExists: another one is in progress.
  /// - ResourceExhausted: the system is short of something (store/base/shortage.h), or of threads.
  absl::StatusOr<std::optional<BackupDone>> Take(const Request& request);

 private:
  struct Running;
  struct Ended {
    std::uint64_t name = 0;
    absl::StatusOr<BackupDone> outcome;
  };

  void Begin(std::uint64_t name);
  /// Notes how the one in progress has ended, if it has.
  void Collect();

  ServerStore& store_;
  const std::string dir_;
  std::uint32_t keep_;
  const LogSink log_;
  std::unique_ptr<Running> running_;  // null: none is in progress
  std::deque<Ended> ended_;           // the last kRememberedBackups
};

}  // namespace remora
