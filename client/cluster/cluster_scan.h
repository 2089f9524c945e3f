// A scan of all shards of a cluster, which merges their keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/scan.h"
#include "store/format/types/scan_options.h"

namespace remora {

class ClusterClient;

/// A scan of a cluster's keys and values (ClusterClient::Scan).
///
/// It shows the keys of all shards in their order, each as of the moment of its shard. These moments lie
/// within the call that began the scan, and differ: of two writes to different shards, it may show the later
/// one alone. With ScanOptions::any_order it shows the shards one after the other, each in the order of its
/// store. Otherwise it is as ClientScan, for each shard.
///
/// It does not show a key that lies in the wrong shard, because no call of the cluster's client finds it.
///
/// If slots move while the scan is in progress, it ends with an error for which IsMoved (store/base/moved.h)
/// is true, at its end at the latest: it may lack keys. Begin a new scan then, without the resume token. That
/// holds if the topology was read from a file.
///
/// Thread safety: that of its client, which must outlive it.
class ClusterScan {
 public:
  ~ClusterScan();
  ClusterScan(const ClusterScan&) = delete;
  ClusterScan& operator=(const ClusterScan&) = delete;

  /// Goes to the next entry; the first call goes to the first one. Returns false at the end, at the limit, or
  /// when status() is not OK. Cost: as for ClientScan, and the comparison of about log2 of the shards' keys.
  bool Next();

  // The entry's parts, valid until Next of any scan of this client, the start of another scan, or the end of
  // the client. REQUIRES: Next returned true.
  std::string_view key() const { return scans_[current_]->key(); }
  std::string_view value() const { return scans_[current_]->value(); }
  std::uint64_t version() const { return scans_[current_]->version(); }
  /// Returns when the entry expires, in ms since 1970 by the clock of its server. 0: never.
  std::uint64_t expiry_ms() const { return scans_[current_]->expiry_ms(); }

  /// Returns the outcome of the scan so far, as ClientScan::status; an error names the shard. After it, Next
  /// shows nothing more. A resume token continues the scan.
  const absl::Status& status() const { return failure_; }

  /// Returns a resume token for ScanOptions::resume_token of ClusterClient::Scan, with which any client may
  /// continue after the last entry that was shown. It is one of a ClientScan, and right for any topology. Of
  /// a scan with ScanOptions::any_order it has two of them, and the number of a shard, with dots in between.
  /// It is then for topologies that have the same shards in the same order.
  std::string resume_token() const;

 private:
  friend class ClusterClient;
  ClusterScan(ClusterClient& client, const ScanOptions& options);

  absl::Status Begin(std::string_view resume_token);
  /// Opens the scan of a shard.
  absl::Status Open(std::size_t shard, const ScanOptions& options);
  /// Opens the scan of a shard from a resume token on.
  absl::Status Continue(std::size_t shard, const std::string& token);
  /// Returns OK, or an error if slots have moved since the scan began. `looks`: reads the file first.
  absl::Status CheckDivision(bool looks) const;
  /// Goes to the next entry of a shard that is the shard's own. Returns false at its end.
  bool Advance(std::size_t shard);
  bool NextInOrder();
  bool NextInTurn();
  /// Compares the entries of two shards: whether `a` comes behind `b`.
  bool IsBehind(std::size_t a, std::size_t b) const;

  ClusterClient& client_;
  ScanOptions options_;  // with views of the strings below
  const std::string prefix_, begin_, end_;
  std::string whole_;                               // resume token of all keys of the scan, from its start on
  std::vector<std::unique_ptr<ClientScan>> scans_;  // of the shards; null: not begun
  std::vector<std::uint64_t> taken_;                // entries of each since it was opened
  std::vector<std::size_t> heads_;                  // heap of the shards whose scans have an entry
  std::size_t current_ = 0;                         // shard of the entry shown
  const std::uint64_t division_;                    // ClusterClient::divisions_ as it began
  bool has_begun_ = false;
  bool is_in_turn_ = false;
  std::uint64_t shown_ = 0;
  absl::Status failure_;
};

}  // namespace remora
