// GETs of many keys side by side, in rounds. Each round posts the next READ of every key before it waits for
// any, so that a round takes about as long as its slowest READ. Most keys take two rounds, for their bucket
// and for their record, or one round if the client has the record's location in its cache.
//
// Where a READ is a copy, the fast path (client/get/fast_get.h) finds nearly all keys before the first round.
// The rounds are for the other keys.
//
// A lookup for each key says what to READ (client/get/lookup.h). A key whose value is large, or for which the
// client must ask the server, leaves the rounds. The client finishes its lookup by itself after the rounds.
#include "client/get/multi_get.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "client/get/blocking_get.h"
#include "client/get/fast_gets.h"
#include "client/get/lookup.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Alignment of one round's records in the session's buffer, in bytes.
constexpr std::size_t kCacheLine = 64;

/// Returns the rest of `records` behind a record of `size` bytes.
std::span<std::byte> Behind(std::size_t size, std::span<std::byte> records) {
  return records.subspan(std::min((size + kCacheLine - 1) / kCacheLine * kCacheLine, records.size()));
}

/// READs the directory or the generations for a lookup. The client does this before it posts the lookup's
/// READ of the round, so that the next lookups need not READ them again.
absl::Status ReadShared(Session& session, Lookup& lookup) {
  while (lookup.is_shared()) REMORA_RETURN_IF_ERROR(ReadNext(session, lookup));
  return absl::OkStatus();
}

/// Returns the buffer for a key's READ of this round. A bucket goes to the key's own buffer, because the
/// search looks at the last bucket again while it reads records. Anything else takes its bytes from
/// `records`. Empty: `records` has too little space, and the READ must wait for another round.
std::span<std::byte> BufferFor(const Lookup& lookup, std::span<std::byte> bucket,
                               std::span<std::byte>* records) {
  if (lookup.is_bucket()) return bucket;
  if (lookup.size() > records->size()) return {};
  const std::span<std::byte> buffer = records->first(lookup.size());
  *records = Behind(lookup.size(), *records);
  return buffer;
}

/// Tries the fast path for all keys whose result is OK, if there is one. Returns the keys that are left, one
/// bit for each; the lowest bit is the first key.
std::uint32_t TryFastGets(Session& session, std::span<const std::string_view> keys,
                          std::span<GetResult> results) {
  std::uint32_t wanted = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) wanted |= std::uint32_t{results[i].status.ok()} << i;
  if (!FastGet::IsFor(session)) return wanted;
  return TryFastGets(
      wanted, keys, results, [&](std::size_t) -> Session& { return session; },
      [&](std::size_t i) { return HashKey(keys[i]); });
}

}  // namespace

void MultiGets::KeyGet::Take() {
  lookup.Take(bytes);
  if (lookup.step() == Lookup::Step::kFound) TakeValue();
}

/// Copies the value to the result now, because the next round reuses the buffer for another key.
void MultiGets::KeyGet::TakeValue() {
  lookup.CopyToTarget();
  result->version = lookup.facts().version;
  is_taken = true;
}

absl::StatusOr<bool> MultiGets::DoRound(std::span<KeyGet> gets) {
  for (KeyGet& get : gets) {
    if (!get.is_reading()) continue;
    if (get.lookup.is_shared()) REMORA_RETURN_IF_ERROR(ReadShared(session_, get.lookup));
    session_.region().Prefetch(get.lookup.offset(), get.lookup.size());
  }
  std::array<KeyGet*, SessionBuffers::kMaxBatch> posted;
  std::size_t count = 0;
  bool any = false;
  std::span<std::byte> records = session_.buffers().record();
  for (std::size_t i = 0; i < gets.size(); ++i) {
    KeyGet& get = gets[i];
    if (!get.is_reading()) continue;
    any = true;
    get.bytes = BufferFor(get.lookup, session_.buffers().bucket(i), &records);
    if (get.bytes.empty()) continue;
    get.lookup.Posted();
    if (session_.region().ReadNow(get.bytes, get.lookup.offset())) {
      get.Take();
      continue;
    }
    const rdma::Sge into = session_.buffers().SgeOf(get.bytes);
    REMORA_RETURN_IF_ERROR(session_.region().Post(std::span(&into, 1), get.lookup.offset()));
    posted[count++] = &get;
  }
  REMORA_RETURN_IF_ERROR(session_.calls().AwaitReads());
  for (KeyGet* get : std::span(posted).first(count)) get->Take();
  return any;
}

absl::Status MultiGets::GetInRounds(std::span<const std::string_view> keys, std::span<GetResult> results,
                                    std::uint32_t left) {
  if (gets_.empty()) gets_ = std::vector<KeyGet>(SessionBuffers::kMaxBatch);
  generation_read_ = {};
  std::size_t count = 0;
  for (; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    KeyGet& get = gets_[count++];
    get.result = &results[i];
    get.is_taken = false;
    get.lookup.Begin(
        session_, generation_read_,
        {.key = keys[i], .target = {.text = &results[i].value, .memory = {}}, .drives_chunks = true});
    if (get.lookup.is_shared()) REMORA_RETURN_IF_ERROR(ReadShared(session_, get.lookup));
  }
  const std::span<KeyGet> gets = std::span(gets_).first(count);
  for (bool goes_on = true; goes_on;) {
    REMORA_ASSIGN_OR_RETURN(goes_on, DoRound(gets));
  }
  for (KeyGet& get : gets) {
    if (get.is_taken) {
      session_.NoteRead(get.lookup.key_hash());
      continue;
    }
    session_.calls().deadline().Restart();
    get.result->status = Finish(session_, get.lookup);
    if (get.result->status.ok()) get.TakeValue();
  }
  return session_.endpoint().status();
}

absl::Status MultiGets::GetSome(std::span<const std::string_view> keys, std::span<GetResult> results) {
  const std::uint32_t left = TryFastGets(session_, keys, results);
  return left == 0 ? session_.endpoint().status() : GetInRounds(keys, results, left);
}

absl::Status MultiGets::Get(std::span<const std::string_view> keys, std::span<GetResult> results) {
  for (std::size_t done = 0; done < keys.size(); done += SessionBuffers::kMaxBatch) {
    const std::size_t some = std::min(keys.size() - done, SessionBuffers::kMaxBatch);
    session_.calls().deadline().Restart();
    const absl::Status status = GetSome(keys.subspan(done, some), results.subspan(done, some));
    if (status.ok()) continue;
    for (GetResult& result : results.subspan(done)) {
      if (result.status.ok()) result.status = status;
    }
    return status;
  }
  return absl::OkStatus();
}

}  // namespace remora
