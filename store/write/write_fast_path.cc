#include "store/write/write_fast_path.h"

#include <optional>
#include <string_view>
#include <utility>

#include "store/base/check.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"
#include "store/write/staged_write.h"

namespace remora {
namespace {

// Returns whether a write is a plain put: of a small value, without a batch or a condition, in bounds, and
// not synced. If a write is out of bounds, write_stage.cc rejects it.
bool IsPlain(const Write& write, Durability level, bool has_tier) {
  const Durability most = has_tier ? Durability::kLogged : Durability::kMemory;
  return write.kind == Write::Kind::kPut && write.reserved == nullptr && !write.continues_batch &&
         write.condition.is_none() && write.durability.value_or(level) <= most &&
         write.key.size() >= kMinKeySize && write.key.size() <= kMaxKeySize &&
         write.value.size() <= kMaxSmallValueSize && (!write.ttl || IsTtl(*write.ttl));
}

}  // namespace

std::size_t WriteFastPath::TryPuts(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  const std::uint64_t keys = core_.index.entry_count();
  const std::uint64_t written = core_.log.bytes_appended(ValueLog::Head::kWrites);
  std::size_t prefetched = writes.size() == 1 ? 1 : 0;  // the pipeline has prefetched for a single write
  std::size_t done = 0;
  for (; done < writes.size() && done < kMaxGroup && IsPlain(writes[done], level_, core_.has_tier());
       ++done) {
    if (done == prefetched) prefetched += prefetcher_.PrefetchSome(writes.subspan(done));
    if (!TryPut(writes[done], now, unix_ms)) break;
  }
  if (done == 0) return 0;
  REMORA_CHECK(core_.next_version < kMaxVersion);
  if (core_.keeps_changes()) core_.AdvanceChangesEnd();
  maintenance_.AddGroup(done, keys, written);
  return done;
}

bool WriteFastPath::TryPut(Write& write, TimePoint now, std::int64_t unix_ms) {
  const std::uint64_t expiry_ms = ExpiryOf(unix_ms, write.ttl.value_or(default_ttl_));
  if (HasExpired(expiry_ms, unix_ms)) return false;
  // The stages must first reserve the next block of versions on disk.
  if (core_.has_tier() && core_.next_version >= core_.tier->version_limit()) return false;
  // All later steps use the copy only, as in WriteStage::CopyAndVerify.
  const std::optional<Place> appended =
      core_.log.Append(ValueLog::Head::kWrites, write.key, write.value, now);
  if (!appended) return false;
  const Place& place = *appended;
  const char* const body = reinterpret_cast<const char*>(core_.log.Body(place));
  const std::string_view key(body, write.key.size());
  const std::uint64_t key_hash = HashKey(key);
  const std::uint64_t value_hash = HashValue(body + key.size(), write.value.size());
  if (write.verify != nullptr && !write.verify(write.verify_context, key_hash, value_hash)) {
    core_.log.Rollback(place);
    write.status = DamagedError();
    return true;
  }
  if (absl::Status owned = core_.slots.CheckWrite("write", key, key_hash); !owned.ok()) {
    core_.log.Rollback(place);
    write.status = std::move(owned);
    return true;
  }
  const std::optional<Index::Entry> old = core_.index.Find(key, key_hash);
  const bool may_be_cold = !old && core_.has_tier() && core_.index.FindCold(key_hash);
  if (may_be_cold || (!old && !core_.index.Reserve(key_hash, 1))) {
    core_.log.Rollback(place);
    return false;
  }
  write.version = core_.next_version++;
  core_.log.Seal(place, write.version, expiry_ms, key_hash, value_hash);
  if (core_.has_tier()) {
    write.status = Log(write, place, expiry_ms);
    if (!write.status.ok()) {
      core_.log.Rollback(place);
      return true;
    }
  }
  // I5, as in WritePipeline::Publish.
  core_.NoteChange(key, old, /*is_delete=*/false);
  if (old) core_.log.Kill(old->place);
  core_.log.MakeLive(place);
  if (old) {
    core_.index.Replace(*old, place);
  } else {
    core_.index.Insert(key_hash, place, now);
  }
  core_.slots.NoteWrite(key, key_hash);  // O6 of owned_slots.h
  core_.NoteVisiblePut(key, core_.log.Value(place), write.version, expiry_ms);
  core_.NoteRead(key_hash);  // eviction counts a write as a use
  core_.metrics.CountOne(Metric::kPuts);
  write.slot = EncodeSlot({Fingerprint(key_hash), place.extent_code, place.offset_units});
  write.status = absl::OkStatus();
  return true;
}

absl::Status WriteFastPath::Log(const Write& write, const Place& place, std::uint64_t expiry_ms) {
  core_.tier->Put(core_.log.Key(place), {.version = write.version, .expiry_ms = expiry_ms},
                  core_.log.Value(place));
  if (write.request.client != 0) core_.tier->PutCompletion(write.request, write.version, 0);
  const absl::Status logged = core_.NoteTierWrite(core_.tier->Write());
  if (logged.ok()) return logged;
  core_.NoteFailedKey(core_.log.Key(place));
  return NotDurableError(logged);
}

}  // namespace remora
