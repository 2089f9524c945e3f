// The keys whose last write is in the durable tier, and not known to be on the disk yet. Readers still see
// an earlier state of them (store/write/sync_queue.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "store/base/absl_view.h"
#include "store/region/value_log.h"

namespace remora {

/// Maps each key with a pending write to its next state. Thread safety: none; the store's lock protects it.
class UnsyncedKeys {
 public:
  /// The state of a key after its pending writes.
  struct Record {
    std::uint64_t ticket = 0;    // of the key's last pending write
    std::optional<Place> place;  // nullopt: the key is deleted
    std::uint64_t expiry_ms = 0;
    std::uint64_t version = 0;
  };

  bool empty() const { return records_.empty(); }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  /// Returns the next state of the key, or null if it has no pending write.
  const Record* Find(std::string_view key) const {
    if (records_.empty()) return nullptr;
    const auto found = records_.find(AbslView(key));
    return found == records_.end() ? nullptr : &found->second;
  }
  void Set(std::string_view key, const Record& record) { records_[AbslView(key)] = record; }
  /// Removes the key if its last pending write is that of the ticket, which is no longer pending.
  void Remove(std::string_view key, std::uint64_t ticket) {
    const auto found = records_.find(AbslView(key));
    if (found != records_.end() && found->second.ticket == ticket) records_.erase(found);
  }

 private:
  absl::flat_hash_map<std::string, Record> records_;
};

}  // namespace remora
