// A scan: of a logged store, its keys in order, as they were at one moment; of any store, its keys.
//
//   auto scan = store->Scan({.prefix = "user/", .limit = 100});
//   while ((*scan)->Next()) Show((*scan)->key(), (*scan)->value());
//   if (!(*scan)->status().ok()) ...
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remora {

/// Shows exactly what had been written when it began, whatever is written meanwhile: of each batch all or
/// nothing. Records whose time is over are not shown, by the clock at the moment when each is come to. A
/// write that ended with Unavailable may be shown, as a restart may show it.
///
/// That is of a store with a durable tier. Of one that is only in memory, ScanOptions::any_order says what it
/// shows; it takes the store's lock for each entry and each bucket of the index, and costs no disk.
///
/// While it is there, what it shows stays on disk, and a write buffer of RocksDB's in memory: end it.
///
/// Thread Safety: none; the store may be used by others meanwhile. It must be destroyed before the store.
class StoreScan {
 public:
  ~StoreScan();
  StoreScan(const StoreScan&) = delete;
  StoreScan& operator=(const StoreScan&) = delete;

  /// Goes to the next entry; at first, to the first one. False: there is none, or the limit is reached, or
  /// not status().ok(). Cost: about that of a RocksDB iterator's step; in memory, of a GET or less.
  bool Next();

  // The entry. Until Next. REQUIRES: Next was true.
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }
  std::uint64_t version() const { return version_; }
  /// The moment of the store's clock (Clock::UnixMillis) at which it expires. 0: never.
  std::uint64_t expiry_ms() const { return expiry_ms_; }

  /// DataLoss, Unavailable: the durable tier cannot be read.
  const absl::Status& status() const;

  /// For ScanOptions::token of this store's scans, a client's, or those of the store that is opened on this
  /// data later: goes on behind the last entry that was shown. Letters, digits, "-" and "_"; 4/3 of the sizes
  /// of that key and the range's other end, and some.
  std::string token() const;

  /// As Next, but for who must not be long about it: one step of the way, to an entry or not.
  enum class Step : std::uint8_t { kEntry = 1, kNotYet = 2, kEnd = 3 };
  Step Advance();

  /// Its keys come in the order of store/format/memory/hash_order.h.
  bool by_hash() const;

 private:
  friend class Store;
  struct Rep;
  explicit StoreScan(std::unique_ptr<Rep> rep);
  Step AdvanceByHash();

  const std::unique_ptr<Rep> rep_;
  std::string key_;  // of the last entry; empty: there was none
  std::string_view value_;
  std::uint64_t version_ = 0;
  std::uint64_t expiry_ms_ = 0;
};

}  // namespace remora
