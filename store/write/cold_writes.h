// Writes of keys whose records are only in the durable tier, for a caller that does not wait for the disk
// (store/read/cold_read.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/read/cold_read.h"
#include "store/write/large_records.h"
#include "store/write/write.h"

namespace remora {

/// Finds the writes that need a record from the durable tier, and begins reads for them.
///
/// Thread safety: none; the caller holds the store's lock.
class ColdWrites {
 public:
  /// Both arguments outlive this.
  ColdWrites(const StoreCore& core, const LargeRecords& large) : core_(core), large_(large) {}

  /// Place of the record that a write depends on. Neither of the last two: the write depends on none.
  struct Where {
    bool is_loaded = false;  // the index knows the key
    bool cold = false;       // the index has a cold entry of the key's hash
    bool unloaded = false;   // the load has not reached the key, and the write must know its record
    bool is_only_in_tier() const { return cold || unloaded; }
  };
  /// REQUIRES: the key has no unsynced write, and no record in memory.
  Where Look(const Write& write, std::string_view key, std::uint64_t key_hash) const REMORA_WRITER;
  /// Returns the result of the write's read if the record is still the key's; else null. REQUIRES: as for
  /// Look, of which `where` is the result.
  const ColdRead* ResultFor(const Write& write, std::string_view key, const Where& where) const REMORA_WRITER;
  /// Begins the read that a write needs. Returns null if it needs none: memory has the record, or the write
  /// has the result. The bytes of the key may change meanwhile.
  std::unique_ptr<ColdRead> BeginRead(const Write& write) const REMORA_WRITER;

 private:
  const StoreCore& core_;
  const LargeRecords& large_;
};

}  // namespace remora
