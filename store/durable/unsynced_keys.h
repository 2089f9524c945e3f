// Keys whose last write is in the durable tier, and not known to be on the disk yet: readers see a write
// before it (store/write/sync_queue.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "store/base/absl_view.h"
#include "store/region/value_log.h"

namespace remora {

/// Thread Safety: none; under the store's lock.
class UnsyncedKeys {
 public:
  /// What a key will be.
  struct Record {
    std::uint64_t ticket = 0;    // of its last pending write
    std::optional<Place> place;  // nothing: it is deleted
    std::uint64_t expiry_ms = 0;
    std::uint64_t version = 0;
  };

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  /// Null: it has no pending write.
  const Record* Find(std::string_view key) const {
    if (records_.empty()) return nullptr;
    const auto found = records_.find(AbslView(key));
    return found == records_.end() ? nullptr : &found->second;
  }
  void Set(std::string_view key, const Record& record) { records_[AbslView(key)] = record; }
  /// The write of this ticket is pending no more.
  void Remove(std::string_view key, std::uint64_t ticket) {
    const auto found = records_.find(AbslView(key));
    if (found != records_.end() && found->second.ticket == ticket) records_.erase(found);
  }

 private:
  absl::flat_hash_map<std::string, Record> records_;
};

}  // namespace remora
