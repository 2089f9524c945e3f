// Puts the records of an import, and counts those that the server still has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"
#include "tools/kvctl/history_check.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

/// Writes records by multi-puts, and checks that the server keeps earlier ones.
///
/// Thread safety: that of its client.
class RecordWriter {
 public:
  /// `if_absent`: keys that are there stay as they are.
  RecordWriter(Client& client, bool if_absent) : client_(client), history_(client), if_absent_(if_absent) {}

  /// Does the work of HistoryCheck::Begin. REQUIRES: it is the first call.
  absl::Status Begin(std::string_view mark) { return history_.Begin(mark); }

  struct Failure {
    std::size_t index = 0;  // of the first request that failed
    Outcome outcome;
  };
  /// Puts them, each for itself; their conditions are set here. If the server is started anew meanwhile and
  /// has all earlier ones, puts them once more. Returns the first failure. A key that is there, or a time
  /// that is over, is none; a server that may have lost earlier ones is one.
  std::optional<Failure> Put(std::vector<PutRequest> requests);
  /// Returns the failure if the server may have lost records that were put.
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
  /// Counts the results. `stored`: those that an earlier attempt has stored. Returns the first failure.
  std::optional<Failure> Count(const std::vector<PutResult>& results, const std::vector<bool>& stored);
  /// Returns the failure, and takes back the counts if it is that of records that are lost.
  Outcome Fail(const absl::Status& status);

  Client& client_;
  HistoryCheck history_;
  const bool if_absent_;
  std::uint64_t imported_ = 0;
  std::uint64_t already_there_ = 0;
  std::uint64_t expired_ = 0;
  std::uint64_t unknown_ = 0;  // whether they were stored
};

}  // namespace remora::kvctl
