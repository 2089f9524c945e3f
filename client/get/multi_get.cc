// GETs of many keys, side by side: in rounds, each of which posts the next READ of every key before it waits
// for any, so that a round costs about as much as its slowest READ. Most keys take two, for their bucket and
// for their record, or one where the record's place is known.
//
// Where a READ is a copy, nearly all keys are found before any round, by the first look that a GET of one key
// makes (client/get/fast_get.h). The rounds are for the others.
//
// It drives a lookup for each key (client/get/lookup.h). A key whose value is large, or for which the server
// must be asked, takes no more part in the rounds, and its lookup is finished behind them, by itself.
#include "client/get/multi_get.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "client/get/blocking_get.h"
#include "client/get/fast_get.h"
#include "client/get/lookup.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Records of one round begin at multiples of this in the session's buffer.
constexpr std::size_t kCacheLine = 64;

/// What is left of them behind one of this size.
std::span<std::byte> Behind(std::size_t size, std::span<std::byte> records) {
  return records.subspan(std::min((size + kCacheLine - 1) / kCacheLine * kCacheLine, records.size()));
}

/// READs what all lookups use, so before a READ of the round is posted: what one of them has seen, the next
/// one need not READ again.
absl::Status ReadShared(Session& session, Lookup& lookup) {
  while (lookup.is_shared()) REMORA_RETURN_IF_ERROR(ReadNext(session, lookup));
  return absl::OkStatus();
}

/// Where the READ of a round goes: a key's own bucket, for its search looks at the last one again while it
/// reads records; or as many bytes of `records`, of which it takes what it uses. Empty: those do not suffice,
/// another round will do.
std::span<std::byte> BufferFor(const Lookup& lookup, std::span<std::byte> bucket,
                               std::span<std::byte>* records) {
  if (lookup.is_bucket()) return bucket;
  if (lookup.size() > records->size()) return {};
  const std::span<std::byte> buffer = records->first(lookup.size());
  *records = Behind(lookup.size(), *records);
  return buffer;
}

/// Those that nothing comes in between of, one step of all keys after the other, so that what one waits for
/// comes while others are looked for. Returns which are left, one bit for each, the first the lowest.
std::uint32_t TryFastGets(Session& session, std::span<const std::string_view> keys,
                          std::span<GetResult> results) {
  static_assert(SessionBuffers::kMaxBatch <= 32);
  std::uint32_t left = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) left |= std::uint32_t{results[i].status.ok()} << i;
  if (!FastGet::IsFor(session)) return left;
  struct Glance {
    FastGet look;
    std::uint64_t key_hash;
  };
  std::array<Glance, SessionBuffers::kMaxBatch> glances;
  std::uint32_t found = 0;
  for (std::uint32_t rest = left; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    Glance& glance = glances[static_cast<std::size_t>(i)];
    glance.key_hash = HashKey(keys[static_cast<std::size_t>(i)]);
    if (!glance.look.FindLine(session, glance.key_hash)) continue;
    glance.look.PrefetchLine(session);
    found |= std::uint32_t{1} << i;
  }
  for (std::uint32_t rest = found; rest != 0; rest &= rest - 1) {
    Glance& glance = glances[static_cast<std::size_t>(std::countr_zero(rest))];
    if (glance.look.FindRecord(session, glance.key_hash)) {
      glance.look.PrefetchRecord(session);
    } else {
      found ^= rest & -rest;
    }
  }
  for (std::uint32_t rest = found; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    if (CopyVerified(session, glances[i].look, keys[i], glances[i].key_hash, &results[i].value,
                     &results[i].version)) {
      left ^= rest & -rest;
    }
  }
  return left;
}

}  // namespace

void MultiGets::KeyGet::Take() {
  lookup.Take(bytes);
  if (lookup.step() == Lookup::Step::kFound) TakeValue();
}

/// The bytes that were taken are another key's in the next round.
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
  REMORA_RETURN_IF_ERROR(session_.AwaitReads());
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
    session_.RestartDeadline();
    get.result->status = Finish(session_, get.lookup);
    if (get.result->status.ok()) get.TakeValue();
  }
  return session_.status();
}

absl::Status MultiGets::GetSome(std::span<const std::string_view> keys, std::span<GetResult> results) {
  const std::uint32_t left = TryFastGets(session_, keys, results);
  return left == 0 ? session_.status() : GetInRounds(keys, results, left);
}

absl::Status MultiGets::Get(std::span<const std::string_view> keys, std::span<GetResult> results) {
  for (std::size_t done = 0; done < keys.size(); done += SessionBuffers::kMaxBatch) {
    const std::size_t some = std::min(keys.size() - done, SessionBuffers::kMaxBatch);
    session_.RestartDeadline();
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
