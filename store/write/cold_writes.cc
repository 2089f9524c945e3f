#include "store/write/cold_writes.h"

#include <string>
#include <utility>

#include "store/format/memory/record.h"
#include "store/format/types/bounds.h"

namespace remora {

ColdWrites::Where ColdWrites::Look(const Write& write, std::string_view key, std::uint64_t key_hash) const {
  Where where;
  where.is_loaded = core_.coverage.Covers(key);
  where.cold = where.is_loaded && core_.FindCold(key, key_hash).has_value();
  // A put without a condition need not know the record that it overwrites.
  const bool overwrites = write.kind == Write::Kind::kPut && write.condition.is_none();
  where.unloaded = !where.is_loaded && !overwrites;
  return where;
}

const ColdRead* ColdWrites::ResultFor(const Write& write, std::string_view key, const Where& where) const {
  const ColdRead* const read = write.read;
  const bool is_result = read != nullptr && read->key == key && core_.IsCurrent(*read, where.is_loaded);
  return is_result ? read : nullptr;
}

std::unique_ptr<ColdRead> ColdWrites::BeginRead(const Write& write) const {
  std::string key(write.reserved != nullptr ? core_.log.Key(large_.PlaceOf(*write.reserved)) : write.key);
  if (!IsKey(key)) return nullptr;
  const std::uint64_t key_hash = HashKey(key);
  if (core_.unsynced_keys.Has(key) || core_.index.Find(key, key_hash)) return nullptr;
  const Where where = Look(write, key, key_hash);
  if (!where.is_only_in_tier() || ResultFor(write, key, where) != nullptr) return nullptr;
  auto read = std::make_unique<ColdRead>();
  read->key = std::move(key);
  read->key_hash = key_hash;
  const bool modifies = write.kind == Write::Kind::kTouch || write.kind == Write::Kind::kIncrement ||
                        write.kind == Write::Kind::kAppend;
  // The views of scans may need the value (V5 of ordered_index.h). A large one is not worth its memory.
  if (!modifies) read->most_value = core_.ordered != nullptr ? kMaxSmallValueSize : 0;
  read->is_for_write = true;
  core_.BeginColdRead(read.get(), where.is_loaded);
  return read;
}

}  // namespace remora
