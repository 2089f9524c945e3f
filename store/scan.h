// A scan of a store's keys and values. In a logged store, it shows them in the order of the keys, as of one
// moment.
//
//   auto scan = store->Scan({.prefix = "user/", .limit = 100});
//   while ((*scan)->Next()) Show((*scan)->key(), (*scan)->value());
//   if (!(*scan)->status().ok()) ...
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

class StoreEngine;
struct ScanRange;

/// A scan of a store's keys and values (Store::Scan).
///
/// In a store with a durable tier, a scan shows exactly the records that had been written when it began,
/// whatever is written meanwhile; of each batch all or nothing. It omits expired records: the clock decides
/// when the scan reaches each of them. It may show a write that ended with Unavailable, as a restart may.
/// While the scan exists, the data that it shows stay on disk, and a write buffer of RocksDB in memory. So
/// destroy it soon.
///
/// A store with StoreOptions::ordered_index, with a durable tier or without, keeps that promise for 256 scans
/// at once. It keeps what is overwritten or deleted meanwhile, if a scan has yet to show it, in up to 1/64 of
/// memory_size for all scans together. If more is written, or if there are more scans, it gives up a scan,
/// which then ends with Aborted. A scan takes the store's lock for some entries at a time, and reads the disk
/// only for records that are not in memory. While the store loads, its scans are those of a store without
/// the index.
///
/// In a store that is only in memory without it, ScanOptions::any_order says which records a scan shows. The
/// scan takes the store's lock for each entry and for each bucket of the index, and does not use the disk.
///
/// Thread safety: none, but other threads may use the store meanwhile. The caller owns the scan, and must
/// destroy it before the store.
class StoreScan {
 public:
  ~StoreScan();
  StoreScan(const StoreScan&) = delete;
  StoreScan& operator=(const StoreScan&) = delete;

  /// Goes to the next entry; the first call goes to the first one. Returns false at the end, at the limit, or
  /// when status() is not OK. Cost: about one step of a RocksDB iterator; in a store that is only in memory,
  /// at most that of a GET.
  bool Next();

  // The entry's parts, valid until the next call of Next or Advance. REQUIRES: Next returned true.
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }
  std::uint64_t version() const { return version_; }
  /// Returns when the entry expires, by the store's clock (Clock::UnixMillis). 0: never.
  std::uint64_t expiry_ms() const { return expiry_ms_; }

  /// Returns the outcome of the scan so far. DataLoss, Unavailable: the durable tier cannot be read. Aborted:
  /// the store has given up the scan's moment; continue with resume_token(), as of a later one.
  const absl::Status& status() const;

  /// Returns a resume token for ScanOptions::resume_token, with which another scan continues after the last
  /// entry that was shown. It works for scans of this store, of its clients, and of a store that is later
  /// opened on the same data. It consists of letters, digits, "-" and "_". It is slightly longer than 4/3 of
  /// the sizes of that entry's key and of the range's other end.
  std::string resume_token() const;

  /// Makes one step of Next, for a caller that must not wait for long. Returns:
  ///   kEntry: the scan is at the next entry.
  ///   kNotYet: the step came to no entry; call again.
  ///   kEnd: Next would return false.
  enum class Step : std::uint8_t { kEntry = 1, kNotYet = 2, kEnd = 3 };
  Step Advance();

  /// Returns how many entries the scan would show, if the store knows that without a look at each of them.
  /// It has an ordered index then, and no record has expired, or changed since the scan began. Otherwise
  /// returns nothing. REQUIRES: the scan has made no step.
  std::optional<std::uint64_t> CountAtOnce();

  /// Returns whether the keys come in the order of store/format/memory/hash_order.h.
  bool by_hash() const;

 private:
  friend class ServerStore;
  friend class Store;
  struct Rep;
  static absl::StatusOr<std::unique_ptr<StoreScan>> Begin(StoreEngine& engine, ScanRange range,
                                                          std::uint64_t limit, bool keys_only, bool may_wait);
  explicit StoreScan(std::unique_ptr<Rep> rep);
  Step AdvanceByHash();
  Step AdvanceByIndex();

  const std::unique_ptr<Rep> rep_;
  std::string key_;  // key of the last entry; empty before the first one
  std::string_view value_;
  std::uint64_t version_ = 0;
  std::uint64_t expiry_ms_ = 0;
};

}  // namespace remora
