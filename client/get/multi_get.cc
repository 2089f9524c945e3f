// GETs of many keys side by side, in rounds. Each round posts the next READ of every key before it waits for
// any, so that a round takes about as long as its slowest READ. Most keys take two rounds, for their bucket
// and for their record. They take one round if the client has the record's location in its cache, or if one
// round trip brings both (RegionReader::finds).
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
// Bytes for the record that a FIND may bring, so that there is space for those of all keys.
constexpr std::size_t kFoundSize = kMaxSmallExtent / SessionBuffers::kMaxBatch / kCacheLine * kCacheLine;

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
                          std::span<GetResult> results, std::span<std::uint64_t> expiries) {
  std::uint32_t wanted = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) wanted |= std::uint32_t{results[i].status.ok()} << i;
  if (!FastGet::IsFor(session)) return wanted;
  return TryFastGets(
      wanted, keys, results, [&](std::size_t) -> Session& { return session; },
      [&](std::size_t i) { return HashKey(keys[i]); }, expiries);
}

/// Prefetches what the client knows of the places of the keys whose bits are set: in its cache of locations,
/// and in the mirror of the index.
void PrefetchPlaces(Session& session, std::span<const std::string_view> keys, std::uint32_t wanted) {
  const bool remembers = session.remembers(), has_mirror = session.mirror() != nullptr;
  if (!remembers && !has_mirror) return;
  std::array<std::uint64_t, SessionBuffers::kMaxBatch> buckets;
  std::size_t count = 0;
  for (; wanted != 0; wanted &= wanted - 1) {
    const std::uint64_t hash = HashKey(keys[static_cast<std::size_t>(std::countr_zero(wanted))]);
    if (remembers) session.cache().locations().Prefetch(hash);
    if (!has_mirror) continue;
    buckets[count] = session.server().index().HomeOf(hash).bucket;
    session.mirror()->PrefetchHead(buckets[count++]);
  }
  for (const std::uint64_t bucket : std::span(buckets).first(count)) session.mirror()->PrefetchSlots(bucket);
}

}  // namespace

void MultiGets::KeyGet::Take(bool takes_found) {
  lookup.Take(bytes);
  if (takes_found && found.size > 0) {
    lookup.TakeFound(found.offset, record.first(std::min<std::size_t>(found.size, record.size())));
  }
  if (lookup.step() == Lookup::Step::kFound) TakeValue();
}

/// Copies the value to the result now, because the next round reuses the buffer for another key.
void MultiGets::KeyGet::TakeValue() {
  lookup.CopyToTarget();
  result->version = lookup.facts().version;
  if (expiry_ms != nullptr) *expiry_ms = lookup.facts().expiry_ms;
  is_taken = true;
}

/// Posts the key's READ. The READ of a bucket brings the record, too, where one round trip can bring both.
absl::Status MultiGets::Post(KeyGet& get, std::span<std::byte>* records) {
  RegionReader& region = session_.region();
  const rdma::Sge into = session_.buffers().SgeOf(get.bytes);
  if (!get.lookup.is_bucket() || !region.finds()) {
    return region.Post(std::span(&into, 1), get.lookup.offset());
  }
  get.record = records->first(std::min(records->size(), kFoundSize));
  *records = Behind(get.record.size(), *records);
  return region.PostFind(into, session_.buffers().SgeOf(get.record), get.lookup.offset(),
                         get.lookup.key_hash(), &get.found);
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
    get.found = {};
    get.lookup.Posted();
    if (session_.region().ReadNow(get.bytes, get.lookup.offset())) {
      get.Take(false);
      continue;
    }
    REMORA_RETURN_IF_ERROR(Post(get, &records));
    posted[count++] = &get;
  }
  REMORA_RETURN_IF_ERROR(session_.calls().AwaitReads());
  // If a lookup is about to READ generations, the others READ their records behind that, to remember them.
  for (KeyGet* get : std::span(posted).first(count)) get->Take(!generation_read_.is_taken());
  return any;
}

absl::Status MultiGets::DoRounds(std::span<KeyGet> gets) {
  for (bool goes_on = true; goes_on;) {
    REMORA_ASSIGN_OR_RETURN(goes_on, DoRound(gets));
  }
  return absl::OkStatus();
}

absl::Status MultiGets::AskServer(std::span<KeyGet> gets) {
  std::size_t unanswered = 0;
  const auto take = [&](std::uint32_t number, const ServerReply& answer) {
    KeyGet& get = gets[number];
    get.lookup.Take(answer, session_.buffers().record());
    if (get.lookup.step() == Lookup::Step::kFound) get.TakeValue();
    session_.calls().deadline().Restart();
    --unanswered;
  };
  session_.calls().deadline().Restart();
  for (std::uint32_t i = 0; i < gets.size(); ++i) {
    Lookup& lookup = gets[i].lookup;
    if (lookup.step() != Lookup::Step::kAsk) continue;
    for (bool is_sent = false; !is_sent;) {
      lookup.Asked();
      const absl::StatusOr<bool> sent = session_.channel().Send(
          {.operation = Operation::kLocate, .key = lookup.key(), .key_hash = lookup.key_hash()}, i);
      if (!sent.ok()) return session_.endpoint().Break(sent.status());
      is_sent = *sent;
      if (!is_sent) REMORA_RETURN_IF_ERROR(session_.calls().AwaitReplies(take));
    }
    ++unanswered;
  }
  while (unanswered > 0) REMORA_RETURN_IF_ERROR(session_.calls().AwaitReplies(take));
  return absl::OkStatus();
}

absl::Status MultiGets::GetInRounds(std::span<const std::string_view> keys, std::span<GetResult> results,
                                    std::span<std::uint64_t> expiries, std::uint32_t left) {
  if (gets_.empty()) gets_ = std::vector<KeyGet>(SessionBuffers::kMaxBatch);
  generation_read_ = {};
  PrefetchPlaces(session_, keys, left);
  std::size_t count = 0;
  for (; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    KeyGet& get = gets_[count++];
    get.result = &results[i];
    get.expiry_ms = expiries.empty() ? nullptr : &expiries[i];
    get.is_taken = false;
    get.lookup.Begin(
        session_, generation_read_,
        {.key = keys[i], .target = {.text = &results[i].value, .memory = {}}, .drives_chunks = true});
    if (get.lookup.is_shared()) REMORA_RETURN_IF_ERROR(ReadShared(session_, get.lookup));
  }
  const std::span<KeyGet> gets = std::span(gets_).first(count);
  REMORA_RETURN_IF_ERROR(DoRounds(gets));
  REMORA_RETURN_IF_ERROR(AskServer(gets));
  REMORA_RETURN_IF_ERROR(DoRounds(gets));  // of the places that the server told
  for (KeyGet& get : gets) {
    if (get.is_taken) {
      if (!get.lookup.has_asked()) session_.NoteRead(get.lookup.key_hash());
      continue;
    }
    session_.calls().deadline().Restart();
    get.result->status = Finish(session_, get.lookup);
    if (get.result->status.ok()) get.TakeValue();
  }
  return session_.endpoint().status();
}

absl::Status MultiGets::GetSome(std::span<const std::string_view> keys, std::span<GetResult> results,
                                std::span<std::uint64_t> expiries) {
  const std::uint32_t left = TryFastGets(session_, keys, results, expiries);
  return left == 0 ? session_.endpoint().status() : GetInRounds(keys, results, expiries, left);
}

absl::Status MultiGets::Get(std::span<const std::string_view> keys, std::span<GetResult> results,
                            std::span<std::uint64_t> expiries) {
  for (std::size_t done = 0; done < keys.size(); done += SessionBuffers::kMaxBatch) {
    const std::size_t some = std::min(keys.size() - done, SessionBuffers::kMaxBatch);
    session_.calls().deadline().Restart();
    const absl::Status status = GetSome(keys.subspan(done, some), results.subspan(done, some),
                                        expiries.empty() ? expiries : expiries.subspan(done, some));
    if (status.ok()) continue;
    for (GetResult& result : results.subspan(done)) {
      if (result.status.ok()) result.status = status;
    }
    return status;
  }
  return absl::OkStatus();
}

}  // namespace remora
