// Steps that all GETs have in common: of one key (client/get/get.cc), of many (client/get/multi_get.cc), and
// those that do not wait (client/get/lookup.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cache/location_cache.h"
#include "client/get/chunked_read.h"
#include "client/get/get.h"
#include "client/session/session.h"
#include "store/format/memory/record.h"

namespace remora {

/// Searches before asking the server. To disturb one, a writer has to hit the same key in the few
/// instructions between clearing the old record's live bit and storing the slot, or between our two READs;
/// each time.
inline constexpr int kMaxSearches = 8;

/// What was at a slot's place, judged.
struct RecordCopy {
  RecordHeader header{};
  const std::byte* body = nullptr;  // null: it was read in pieces, to where it was wanted
  RecordState state = RecordState::kTorn;
  bool proven = false;  // as PiecesRead

  std::string_view Value() const {
    return {reinterpret_cast<const char*>(body) + header.key_size, header.value_size};
  }
  RecordFacts facts() const { return {header.version_live >> 1, header.expiry_ms}; }
};

/// As memcpy, which is called for others than small sizes only. REQUIRES: they do not overlap.
[[gnu::always_inline]] inline void CopySmall(char* to, const char* from, std::size_t size) {
  constexpr std::size_t kPart = 16;
  const auto copy = [&](std::size_t at) { std::memcpy(to + at, from + at, kPart); };
  if (size - 2 * kPart - 1 < 2 * kPart) {
    copy(0);
    copy(kPart);
    copy(size - 2 * kPart);
    copy(size - kPart);
  } else if (size - kPart <= kPart) {
    copy(0);
    copy(size - kPart);
  } else if (size > 0) {  // an empty view may have no address, which memcpy does not take
    std::memcpy(to, from, size);
  }
}

/// To a string that often has the right size already: then half of assign's instructions.
[[gnu::always_inline]] inline void Assign(std::string_view value, std::string* to) {
  if (to->size() != value.size()) {
    to->assign(value);
  } else {
    CopySmall(to->data(), value.data(), value.size());
  }
}

/// Judges a whole record, as it was read from its place.
inline void JudgeCopy(std::span<const std::byte> bytes, std::string_view key, std::uint64_t key_hash,
                      const RecordPlace& place, RecordCopy* record) {
  std::memcpy(&record->header, bytes.data(), sizeof(record->header));
  record->body = bytes.data() + sizeof(record->header);
  record->state = CheckRecord(record->header, record->body, key, key_hash, place);
}
inline RecordCopy CopyOf(std::span<const std::byte> bytes, const WantedRecord& wanted) {
  RecordCopy record;
  JudgeCopy(bytes, wanted.key, wanted.key_hash, wanted.place, &record);
  return record;
}

/// What a GET is after.
struct Found {
  ValueTarget target;
  std::uint64_t size = 0;
  RecordFacts facts{};

  void Take(const RecordCopy& record) {
    if (record.body != nullptr && target.text != nullptr) Assign(record.Value(), target.text);
    size = record.header.value_size;
    facts = record.facts();
  }
};

/// kUnsure: nothing is known.
enum class GetOutcome : std::uint8_t { kFound = 1, kMissing, kUnsure, kAskServer };

/// The key's live record, verified, was read since `start`. kFound (and taken), kMissing or kAskServer.
inline GetOutcome Judge(Session& session, const RecordCopy& record, TimePoint start, Found* found) {
  switch (session.LifeOf(record.header.expiry_ms, start)) {
    case ServerTime::Life::kAlive:
      found->Take(record);
      return GetOutcome::kFound;
    case ServerTime::Life::kOver:
      return GetOutcome::kMissing;
    case ServerTime::Life::kAskServer:
      break;
  }
  return GetOutcome::kAskServer;
}

/// Looks at the generation of the slot's segment, if there is an allowance for it.
absl::StatusOr<bool> Look(Session& session, std::uint64_t segment);

/// What is remembered of a key's place: it may be trusted at `start`, or may after a look at the generations.
enum class Remembered : std::uint8_t { kNothing = 1, kNeedsLook, kPlace };
inline std::uint64_t SegmentOf(const KnownLocation& location) {
  return SegmentGenerations::SegmentOf(DecodeSlot(location.slot));
}
/// Whether the last look saw no use of the memory but the one that the place was learned in.
inline bool IsSameUse(const Session& session, const KnownLocation& location) {
  return session.generations().NumberOf(SegmentOf(location)) == location.number;
}
inline Remembered FindCachedLocation(Session& session, std::uint64_t key_hash, TimePoint start,
                                     KnownLocation* location) {
  *location = session.locations().Find(key_hash);
  if (location->slot == 0 || !session.budget().has_some()) return Remembered::kNothing;
  if (!session.generations().IsFresh(SegmentOf(*location), start)) return Remembered::kNeedsLook;
  if (IsSameUse(session, *location)) return Remembered::kPlace;
  session.locations().Forget(key_hash);
  return Remembered::kNothing;
}

/// Whether it is known where the key's record was, and may be trusted at `start`. May cost a look.
absl::StatusOr<bool> KnowsAfterLook(Session& session, std::uint64_t key_hash, TimePoint start,
                                    KnownLocation* location);
inline absl::StatusOr<bool> CachedLocationIsFresh(Session& session, std::uint64_t key_hash, TimePoint start,
                                                  KnownLocation* location) {
  const Remembered remembered = FindCachedLocation(session, key_hash, start, location);
  if (remembered != Remembered::kNeedsLook) return remembered == Remembered::kPlace;
  return KnowsAfterLook(session, key_hash, start, location);
}

/// A READ of such a place was of no use: it is forgotten, and paid for. kUnsure.
GetOutcome InvalidateLocation(Session& session, std::uint64_t key_hash);

/// Whether what was READ there may be trusted: asked behind the READ (G5: only what was read in time is the
/// record's; if we were held up, nothing is known of the place), and as a look for another key may have come
/// in between (client/get/multi_get.cc).
inline bool IsStillKnown(const Session& session, const KnownLocation& location) {
  return session.generations().IsFresh(SegmentOf(location), session.Coarse()) && IsSameUse(session, location);
}

/// What a record of such a place, read since then, says. kUnsure: it is not the key's any more.
inline GetOutcome JudgeKnown(Session& session, std::uint64_t key_hash, const KnownLocation& location,
                             const RecordCopy& record, TimePoint start, Found* found) {
  if (record.state != RecordState::kLive || !IsStillKnown(session, location))
    return InvalidateLocation(session, key_hash);
  ++session.counters().location_hits;
  session.budget().Earn(1);
  return Judge(session, record, start, found);
}

/// OutOfRange: a value of this size is larger than the memory that it was to be read into.
absl::Status CheckFits(std::uint64_t size, const rdma::Sge& memory);

/// The place that the server answered a kLocate with, or why there is none.
absl::StatusOr<Slot> LocatedSlot(const Session& session, const Session::Answer& answer);

/// Whether the record that was read there is the one that was located.
inline bool IsLocated(const RecordCopy& record, const Reply& reply) {
  return (record.state == RecordState::kLive || record.state == RecordState::kDead) &&
         record.header.version_live >> 1 == reply.version;
}

}  // namespace remora
