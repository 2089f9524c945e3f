// A scan over the ordered index of a store that is only in memory (store/ordered/ordered_index.h).
//
// It copies some records at a time, under the store's lock, and then shows them without it. Its work under
// the lock is bounded by kMostLooks keys, and by kMostBytes of values or one value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/format/types/scan_range.h"
#include "store/ordered/ordered_index.h"

namespace remora {

/// Scan of a range as of the moment at which it was made.
///
/// Thread safety: none, but other threads may use the store meanwhile.
class OrderedScan {
 public:
  /// Opens the scan's view. `core` outlives it. REQUIRES: the store has an ordered index.
  OrderedScan(StoreCore& core, ScanRange range, bool keys_only);
  ~OrderedScan();
  OrderedScan(const OrderedScan&) = delete;
  OrderedScan& operator=(const OrderedScan&) = delete;

  struct Entry {
    std::string_view key;
    std::string_view value;  // empty if the scan shows keys only
    std::uint64_t version = 0;
    std::uint64_t expiry_ms = 0;
  };
  /// Makes one step. Returns false at the end, or when status() is not OK. Otherwise entry() is null, or the
  /// next entry, valid until the next step. `most`: entries that the scan will show from here on.
  bool Advance(std::uint64_t most);
  const Entry* entry() const { return has_entry_ ? &entry_ : nullptr; }
  /// Aborted: the view was given up.
  const absl::Status& status() const { return status_; }

  /// Returns the number of keys in the range, if none has changed since the scan's moment; otherwise nothing.
  /// Cost: two searches. REQUIRES: the scan has made no step.
  std::optional<std::uint64_t> CountAtOnce() const REMORA_WRITER;

 private:
  static constexpr std::size_t kMostLooks = 64;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10;

  struct Copied {
    std::size_t key_size = 0;
    std::size_t value_size = 0;
    std::uint64_t version = 0;
    std::uint64_t expiry_ms = 0;
  };
  void Copy(std::size_t looks);
  void CopySome(std::size_t looks) REMORA_WRITER;
  void FindRecords() REMORA_WRITER;
  void Append(std::string_view key, std::string_view value, std::uint64_t version, std::uint64_t expiry_ms);

  StoreCore& core_;
  const bool keys_only_;
  std::unique_ptr<OrderedIndex::View> view_;
  bool is_over_ = false;
  absl::Status status_;

  KeyBatch keys_;                      // keys that exist now
  std::vector<std::uint64_t> hashes_;  // of keys_
  std::string bytes_;                  // copies, each a key and its value
  std::vector<Copied> copied_;
  std::size_t next_ = 0;    // the next of copied_ to show
  std::size_t offset_ = 0;  // of its bytes
  std::size_t steps_ = 0;   // steps left without an entry: one for each key without a record to show
  Entry entry_;
  bool has_entry_ = false;
};

}  // namespace remora
