// Answers to all requests that WriteBatcher does not commit. These are pings, locations of records,
// reservations for large values, scans, backups, settings, outcomes of earlier writes, and writes that are
// out of bounds.
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
#include "server/request/cold_reads.h"
#include "server/request/large_writes.h"
#include "server/request/locate_service.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "server/request/reserve_queue.h"
#include "server/request/scan_service.h"
#include "store/base/clock.h"
#include "store/format/wire/messages.h"
#include "store/server_store.h"

namespace remora {

/// Answers all requests that the write batcher does not commit.
///
/// Thread safety: none; the server's one thread.
class UnbatchedRequests final : public SessionObserver {
 public:
  /// Returns the settings as a text, which is valid until the server's next step. May be empty.
  using SettingsSource = std::function<std::string_view()>;
  /// Returns the topology of the cluster likewise; empty: it is not known yet. May be empty.
  using TopologySource = std::function<std::string_view()>;

  /// The objects that it gets by reference outlive this.
  UnbatchedRequests(ServerStore& store, LargeWrites& large_writes, ReserveQueue& reserves,
                    ReplySender& replies, std::unique_ptr<BackupService> backups, ColdReads& cold_reads,
                    SettingsSource settings, TopologySource topology);

  /// Takes a request that the next AnswerWaiting answers, or postpones.
  void Add(const PendingRequest& pending) { waiting_.push_back(pending); }
  /// Answers the waiting requests. Returns false if there were none, or all wait for space.
  bool AnswerWaiting() { return !waiting_.empty() && AnswerSome(); }
  /// Answers the requests whose records the pool has read. Returns false if there were none, or all wait for
  /// space.
  bool AnswerRead() { return locates_.is_reading() && AnswerSomeRead(); }
  /// Returns whether no request waits, except for the pool.
  bool empty() const { return waiting_.empty() && !locates_.is_waiting(); }

  /// Ends the scans that no client has used for long.
  void ExpireScans() { scans_.Expire(); }
  /// Changes the number of backups to keep, from the next backup on; 0: all.
  void SetBackupKeep(std::uint32_t keep) { backups_->SetKeep(keep); }
  /// Returns when ExpireScans has work. Nothing: there is no scan.
  std::optional<TimePoint> next_expiry() const { return scans_.next_expiry(); }

  void Forget(ClientSession& session) override;

 private:
  /// Does the work of AnswerWaiting. REQUIRES: a request waits.
  bool AnswerSome();
  bool AnswerSomeRead();
  /// Answers a commit of a large put for which nothing is reserved.
  void AnswerUnreservedCommit(const PendingRequest& pending);
  void AnswerCompletionQuery(const PendingRequest& pending);
  void AnswerBackup(const PendingRequest& pending);
  /// Answers a request of those kinds that never wait for a later step here. Returns false for other kinds.
  bool AnswerAtOnce(const PendingRequest& pending);
  /// Looks a leaf up. Aborted: another step answers it.
  absl::Status TakeLeaf(const PendingRequest& pending, Reply* reply);
  void AnswerSettings(const PendingRequest& pending);
  void AnswerTopology(const PendingRequest& pending);
  /// Answers with the part of a text that the request names. `what`: the text, for an error.
  void AnswerText(const PendingRequest& pending, std::string_view text, std::string_view what);

  ServerStore& store_;
  LargeWrites& large_writes_;
  ReserveQueue& reserves_;
  ReplySender& replies_;
  ScanService scans_;
  LocateService locates_;
  const std::unique_ptr<BackupService> backups_;
  const SettingsSource settings_;
  const TopologySource topology_;
  std::vector<PendingRequest> waiting_;
};

}  // namespace remora
