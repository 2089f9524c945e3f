// A scan over the ordered index (store/ordered/ordered_index.h).
//
// It copies some records at a time, under the store's lock, and then shows them without it. Its work under
// the lock is bounded by kMostAtOnce keys, and by kMostBytes of values or one value.
//
// In a store with a durable tier, some of the keys may be cold. The scan gives up the lock, reads their
// records from the tier, and takes the lock again. The records are right if V8 holds then. Meanwhile all
// these keys stay in the view's rest, so that writers save the records that they change.
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
/// The class has more than 15 fields, because a step copies records of two sources, and shows them later.
///
/// Thread safety: none, but other threads may use the store meanwhile.
class OrderedScan {
 public:
  /// `core` outlives it. REQUIRES: the store has an ordered index, and does not load.
  OrderedScan(StoreCore& core, bool keys_only) : core_(core), keys_only_(keys_only) {}
  ~OrderedScan();
  OrderedScan(const OrderedScan&) = delete;
  OrderedScan& operator=(const OrderedScan&) = delete;

  /// Opens the scan's view. REQUIRES: it is called once, before all else.
  void Open(ScanRange range) REMORA_WRITER;

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
  /// Aborted: the view was given up. DataLoss, Unavailable: the tier cannot be read.
  const absl::Status& status() const { return status_; }

  /// Returns the number of keys in the range, if none has changed since the scan's moment; otherwise nothing.
  /// Cost: two searches. REQUIRES: the scan has made no step.
  std::optional<std::uint64_t> CountAtOnce() const REMORA_WRITER;

 private:
  static constexpr std::size_t kMostLooks = 64;
  // A scan of no more entries makes one step, since each step of cold keys makes an iterator of RocksDB.
  static constexpr std::size_t kMostAtOnce = 2 * kMostLooks;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10;

  struct Copied {
    std::size_t key_size = 0;
    std::size_t value_size = 0;
    std::uint64_t version = 0;
    std::uint64_t expiry_ms = 0;
    bool is_cold = false;      // its value is in cold_values_
    bool is_there = true;      // false: the view says that the key did not exist
    std::size_t value_at = 0;  // is_cold: where
  };
  void Copy(std::size_t looks);
  void CopySome(std::size_t looks) REMORA_WRITER;
  void FindRecords() REMORA_WRITER;
  void Append(std::string_view key, std::string_view value, std::uint64_t version, std::uint64_t expiry_ms);
  void AppendCold(std::string_view key);

  /// Reads the records of the cold keys from the tier, or of the first ones if their values are large.
  absl::Status ReadCold();
  /// Decides what the scan shows of the cold keys, after ReadCold.
  void FinishCold(absl::Status read) REMORA_WRITER;
  /// Returns whether the scan knows what to show of a key that was cold (V8). If not, sets `why`. `is_read`:
  /// `copied` is what the tier has shown.
  bool Resolve(std::string_view key, bool is_read, Copied* copied, absl::Status* why) REMORA_WRITER;
  void SetValue(Copied* copied, std::string_view value);
  /// Drops all copies from this one on. The scan comes to them again.
  void CutOff(std::size_t from);
  /// Takes the copied keys out of the view's rest.
  void Pass() REMORA_WRITER;

  StoreCore& core_;
  const bool keys_only_;
  std::unique_ptr<OrderedIndex::View> view_;
  bool is_over_ = false;
  absl::Status status_;

  KeyBatch keys_;                      // keys that exist now
  std::vector<std::uint64_t> hashes_;  // of keys_
  std::string bytes_;                  // copies, each a key and its value
  std::vector<Copied> copied_;
  struct Cold {
    std::size_t number = 0;  // in copied_
    std::size_t key_at = 0;  // in bytes_
    bool is_read = false;    // the tier has shown it
  };
  std::vector<Cold> cold_;
  std::string cold_values_;
  std::string last_;        // the last key that this step has passed; empty: none
  std::size_t next_ = 0;    // the next of copied_ to show
  std::size_t offset_ = 0;  // of its bytes
  std::size_t steps_ = 0;   // steps left without an entry: one for each key without a record to show
  Entry entry_;
  bool has_entry_ = false;
};

}  // namespace remora
