// Answers to requests that are no writes of the group: pings, locations of records, reservations
// for large values, scans, backups, settings, outcomes of earlier writes. It also answers writes that are out
// of bounds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/connection/client_session.h"
#include "server/connection/session_observer.h"
#include "server/request/backup_service.h"
#include "server/request/large_writes.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "server/request/reserve_queue.h"
#include "server/request/scan_service.h"
#include "store/base/clock.h"
#include "store/format/wire/messages.h"
#include "store/server_store.h"

namespace remora {

/// Thread Safety: none; the server's one thread.
class ReadService final : public SessionObserver {
 public:
  /// Returns the settings as a text, which is valid until the server's next step. May be empty.
  using SettingsSource = std::function<std::string_view()>;

  /// All but `backups` and `settings` outlive this.
  ReadService(ServerStore& store, LargeWrites& large_writes, ReserveQueue& reserves, ReplySender& replies,
              std::unique_ptr<BackupService> backups, SettingsSource settings);

  /// Takes a request that the next AnswerWaiting answers, or postpones.
  void Add(const PendingRequest& pending) { waiting_.push_back(pending); }
  /// Answers the waiting requests. Returns false if there were none, or all wait for space.
  bool AnswerWaiting() { return !waiting_.empty() && AnswerSome(); }
  /// Returns whether no request waits.
  bool empty() const { return waiting_.empty(); }

  /// Ends the scans that no client has used for long.
  void ExpireScans() { scans_.Expire(); }
  /// Changes the number of backups to keep, from the next backup on; 0: all.
  void SetBackupKeep(std::uint32_t keep) { backups_->SetKeep(keep); }
  /// Returns when ExpireScans has work. Nothing: there is no scan.
  std::optional<TimePoint> next_expiry() const { return scans_.next_expiry(); }

  void Forget(ClientSession& session) override;

 private:
  /// Does the work of AnswerWaiting. REQUIRES: !empty().
  bool AnswerSome();
  void AnswerCompletionQuery(const PendingRequest& pending);
  void AnswerBackup(const PendingRequest& pending);
  void AnswerSettings(const PendingRequest& pending);
  /// Locates a record. Aborted: there is no space right now to bring the record back to memory.
  absl::Status Locate(const ClientSession& session, const Request& request, Reply* reply);

  ServerStore& store_;
  LargeWrites& large_writes_;
  ReserveQueue& reserves_;
  ReplySender& replies_;
  ScanService scans_;
  const std::unique_ptr<BackupService> backups_;
  const SettingsSource settings_;
  std::vector<PendingRequest> waiting_;
};

}  // namespace remora
