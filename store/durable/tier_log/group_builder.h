// The group of entries that the next write to the commit log appends.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/durable/commit_log/format.h"
#include "store/durable/completion_records.h"
#include "store/durable/format.h"

namespace remora {

/// Collects the entries of a group.
///
/// Ownership: it has copies of all bytes but those of Put and Add.
///
/// Thread safety: none.
class GroupBuilder {
 public:
  /// Does not copy the value and the key: the caller keeps the bytes unchanged until Clear.
  void Put(std::string_view key, const StoredHeader& header, std::string_view value);
  /// `mark`: 0, or kForgottenMark (log_change_feed.h).
  void Delete(std::string_view key, std::uint64_t version, std::uint64_t mark = 0);
  /// Sets a key of the meta family, or removes it if `value` is empty.
  void PutMeta(std::string_view key, std::string_view value);
  /// REQUIRES: the last addition was the Put or Delete of this version.
  void PutCompletion(const RequestId& request, std::uint64_t version, std::int64_t result);
  /// Adds an entry of another log, of any kind. Does not copy its bytes either.
  void Add(const LogEntry& entry);
  /// Deletes the client with all its completion records.
  void DeleteClient(std::uint64_t client);

  std::span<const LogEntry> entries() const { return entries_; }
  bool has_delete() const { return has_delete_; }
  /// Begins a new group.
  void Clear();

 private:
  std::vector<LogEntry> entries_;
  std::deque<std::string> own_;  // copies of the bytes to which entries point
  bool has_delete_ = false;
};

}  // namespace remora
