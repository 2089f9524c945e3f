// A plain put of a store that is only in memory: all of it at once. Nothing can fail any more once its bytes
// are copied and found good, and nothing else of its group depends on whether it can be done; so it is not
// staged with the others, and each write meets what the one before it has left. It comes to what the stages
// in write_pipeline.cc come to, in two thirds of the instructions. All that is not plain goes there.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "store/base/check.h"
#include "store/engine/store_impl.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"

namespace remora {
namespace {

// One that is neither a batch's nor a large one's, asks for nothing, and is in bounds. What is wrong with
// others, write_pipeline.cc says.
bool IsPlain(const Write& write) {
  return write.kind == Write::Kind::kPut && write.reserved == nullptr && !write.with_next &&
         write.condition.is_none() && write.durability.value_or(Durability::kMemory) == Durability::kMemory &&
         write.key.size() >= kMinKeySize && write.key.size() <= kMaxKeySize &&
         write.value.size() <= kMaxSmallValueSize && (!write.ttl || IsTtl(*write.ttl));
}

}  // namespace

std::size_t Store::Impl::PutAtOnce(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  const std::uint64_t keys = core_.index.entry_count();
  const std::uint64_t written = core_.log.bytes_appended(ValueLog::Head::kWrites);
  std::size_t foreseen = writes.size() == 1 ? 1 : 0;  // of one alone, SubmitLocked did
  std::size_t done = 0;
  for (; done < writes.size() && done < kMaxGroup && IsPlain(writes[done]); ++done) {
    if (done == foreseen) foreseen += Foresee(writes.subspan(done));
    if (!PutOneAtOnce(writes[done], now, unix_ms)) break;
  }
  if (done == 0) return 0;
  REMORA_CHECK(core_.next_version < kMaxVersion);
  NoteGroup(done, keys, written);
  return done;
}

bool Store::Impl::PutOneAtOnce(Write& write, TimePoint now, std::int64_t unix_ms) {
  const std::uint64_t expiry_ms = ExpiryOf(unix_ms, write.ttl.value_or(default_ttl_));
  if (HasExpired(expiry_ms, unix_ms)) return false;
  // Everything after looks at the copy only, as in CopyAndVerify.
  const std::optional<Place> appended =
      core_.log.Append(ValueLog::Head::kWrites, write.key, write.value, now);
  if (!appended) return false;
  const Place& place = *appended;
  const char* const body = reinterpret_cast<const char*>(core_.log.Body(place));
  const std::string_view key(body, write.key.size());
  const std::uint64_t key_hash = HashKey(key);
  const std::uint64_t value_hash = HashValue(body + key.size(), write.value.size());
  if (write.verify != nullptr && !write.verify(write.verify_context, key_hash, value_hash)) {
    core_.log.TakeBack(place);
    write.status = Damaged();
    return true;
  }
  const std::optional<Index::Entry> old = core_.index.Find(key, key_hash);
  if (!old && !core_.index.Reserve(key_hash, 1)) {
    core_.log.TakeBack(place);
    return false;
  }
  write.version = core_.next_version++;
  core_.log.Seal(place, write.version, expiry_ms, key_hash, value_hash);
  // I5, as in Publish.
  if (old) core_.log.Kill(old->place);
  core_.log.MakeLive(place);
  if (old) {
    core_.index.Replace(*old, place);
  } else {
    core_.index.Insert(key_hash, place, now);
  }
  core_.NoteRead(key_hash);  // a write is a use, too
  core_.metrics.CountOne(Counter::kPuts);
  write.slot = EncodeSlot({Fingerprint(key_hash), place.extent_code, place.offset_units});
  write.status = absl::OkStatus();
  return true;
}

}  // namespace remora
