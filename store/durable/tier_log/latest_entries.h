// The last entry of each key of a sequence of log entries, with copies of their bytes. The applier merges
// the versions of a key with it.
//
//   E1  For each key, it has the entry that was set last.
//   E2  Sorted returns the entries in the order of RocksDB's default comparator: bytewise, unsigned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "store/durable/commit_log/format.h"

namespace remora {

/// A map from keys to entries. The entries and their bytes stand one behind the other in blocks. If a value
/// is replaced by one of the same or a smaller size, it takes no more memory. So a few keys that are written
/// often stay small.
///
/// Thread safety: none.
class LatestEntries {
 public:
  LatestEntries() = default;
  LatestEntries(const LatestEntries&) = delete;
  LatestEntries& operator=(const LatestEntries&) = delete;

  /// Sets the entry of its key, without the request. Copies the bytes.
  void Set(const LogEntry& entry);
  /// Does the same without a copy: the caller keeps the bytes until Clear.
  void SetView(const LogEntry& entry);
  /// Returns the entries in ascending order of their keys (E2). They are valid until the next change.
  std::vector<const LogEntry*> Sorted() const;
  void Clear();

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Returns the bytes of the entries, and of what they have replaced and could not use again.
  std::size_t bytes() const { return bytes_; }

 private:
  /// An entry in a block, followed by `capacity` bytes: those of the key, then those of the value.
  struct Kept {
    LogEntry entry;
    Kept* next = nullptr;      // another key with the same hash
    std::size_t capacity = 0;  // for the value; 0: the bytes are the caller's
  };
  static_assert(alignof(Kept) == 8);

  /// Returns the place of the key's pointer: that of its entry, or a null pointer where it belongs.
  Kept** Find(std::string_view key);
  /// Returns a new entry with `size` bytes behind it.
  Kept* Allocate(std::size_t size);

  absl::flat_hash_map<std::uint64_t, Kept*> by_hash_;
  std::vector<std::unique_ptr<char[]>> blocks_;  // of kBlockSize; kept by Clear
  std::vector<std::unique_ptr<char[]>> large_;   // each for one entry that does not fit into a block
  std::size_t next_block_ = 0;
  char* at_ = nullptr;  // free bytes of the last used block
  std::size_t left_ = 0;
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace remora
