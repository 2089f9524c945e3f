// Puts the records of an import, and counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

/// Thread safety: that of its client.
class RecordWriter {
 public:
  /// `if_absent`: keys that are there stay as they are.
  RecordWriter(Client& client, bool if_absent) : client_(client), if_absent_(if_absent) {}

  struct Failure {
    std::size_t index = 0;  // of the first request that failed
    Outcome outcome;
  };
  /// Puts them, each for itself; their conditions are set here. Returns the first failure. A key that is
  /// there, or a time that is over, is none.
  std::optional<Failure> Put(std::vector<PutRequest> requests);

  std::uint64_t imported() const { return imported_; }
  std::uint64_t already_there() const { return already_there_; }
  std::uint64_t expired() const { return expired_; }
  /// Counts a record whose time was over before it was put.
  void AddExpired() { ++expired_; }
  /// Returns the counts for the line of an error.
  std::string Summary() const;

 private:
  Client& client_;
  const bool if_absent_;
  std::uint64_t imported_ = 0;
  std::uint64_t already_there_ = 0;
  std::uint64_t expired_ = 0;
  std::uint64_t unknown_ = 0;  // whether they were stored
};

}  // namespace remora::kvctl
