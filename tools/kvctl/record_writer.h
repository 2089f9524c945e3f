// Puts the records of an import, and counts those that the servers still have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/parts.h"
#include "store/base/results.h"
#include "store/format/types/write_options.h"
#include "tools/kvctl/history_check.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

/// Writes records by multi-puts to their shards, and checks that each server keeps earlier ones.
///
/// Thread safety: that of its client.
class RecordWriter {
 public:
  /// `if_absent`: keys that are there stay as they are.
  RecordWriter(ClusterClient& client, bool if_absent)
      : client_(client), history_(client), parts_(client.size()), if_absent_(if_absent) {}

  /// Does the work of HistoryCheck::Begin. REQUIRES: it is the first call.
  absl::Status Begin(std::string_view mark) { return history_.Begin(mark); }

  struct Failure {
    std::size_t index = 0;  // of the first request that failed
    Outcome outcome;
  };
  /// Puts them, each for itself; their conditions are set here. If a connection is lost, or a server is
  /// started anew meanwhile, and it has all earlier ones, puts its part once more. Returns the failure of the
  /// first request that has one. A key that is there, or a time that is over, is none; a server that may have
  /// lost earlier ones is one.
  std::optional<Failure> Put(std::vector<PutRequest> requests);
  /// Returns the failure if a server may have lost records that were put.
  Outcome End();

  std::uint64_t imported() const { return imported_; }
  std::uint64_t already_there() const { return already_there_; }
  std::uint64_t expired() const { return expired_; }
  /// Counts a record whose time was over before it was put.
  void AddExpired() { ++expired_; }
  /// Returns the counts for the line of an error.
  std::string Summary() const;
  const HistoryCheck& history() const { return history_; }

 private:
  /// How far earlier attempts have stored a record.
  enum class Stored { kNo, kPerhaps, kYes };

  /// Puts the part of a shard. Returns its first failure.
  std::optional<Failure> PutPart(std::size_t shard);
  /// Counts the results of a part. Returns the first failure.
  std::optional<Failure> Count(std::size_t shard, std::span<const Stored> stored);
  /// Returns whether the record that is there is that of an earlier attempt.
  bool IsOurs(const PutRequest& request, Stored stored);
  /// Returns the failure, and takes back the counts if it is that of records that are lost.
  Outcome Fail(const absl::Status& status);

  ClusterClient& client_;
  HistoryCheck history_;
  CallParts<PutRequest, PutResult> parts_;  // of the requests in Put
  const bool if_absent_;
  std::uint64_t imported_ = 0;
  std::uint64_t already_there_ = 0;
  std::uint64_t expired_ = 0;
  std::uint64_t unknown_ = 0;  // whether they were stored
};

}  // namespace remora::kvctl
