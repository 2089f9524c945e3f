// GET, warm: READ the record where the key's was before (client/cache/location_cache.h), which may be trusted
// for the reasons in client/cache/segment_generations.h; verify it. When it is not there any more, or nothing
// is known of the key:
//
// GET, cold: READ the key's bucket, READ the record that a matching slot names, verify it
// (store/format/memory/key_search.h).
//
// When a search can tell nothing, because the key is being written just then, the GET searches again; and
// when that does not help, it asks the server where the record is; so it does when it cannot tell whether a
// record has expired (client/session/server_clock.h), or when the record is not in memory, where the server
// brings it then; or may not be, while the store is loading. The server answers with the place and the
// version; what is there stays readable for the grace period, so one more READ has the value that was current
// when the server answered, even if its live bit is gone by then.
//
// Where a READ is a copy, nearly every GET is done by one look (client/get/fast_get.h), and the others begin
// as if there had been none.
//
// A large value, and one that is to land in memory of the caller, is read in pieces:
// client/get/chunked_read.h.
#include "client/get/get.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/get/chunked_read.h"
#include "client/get/get_steps.h"
#include "store/base/status_macros.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

absl::Status ReadRecord(Session& session, const WantedRecord& wanted, const ValueTarget& target,
                        RecordCopy* record) {
  if (NeedsPieces(wanted.slot, target)) {
    REMORA_ASSIGN_OR_RETURN(const PiecesRead read, ReadInPieces(session, wanted, target));
    *record = {.header = read.header, .body = nullptr, .state = read.state, .proven = read.proven};
    return absl::OkStatus();
  }
  REMORA_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, session.ReadRecord(wanted.slot));
  *record = CopyOf(bytes, wanted);
  return absl::OkStatus();
}

// kUnsure: nothing is known of the key's place, or not any more.
absl::StatusOr<GetOutcome> GetWarm(Session& session, std::string_view key, std::uint64_t key_hash,
                                   Found* found) {
  if (!session.locations().is_on()) return GetOutcome::kUnsure;
  const TimePoint start = session.Coarse();
  KnownLocation known;
  REMORA_ASSIGN_OR_RETURN(const bool is_known, CachedLocationIsFresh(session, key_hash, start, &known));
  if (!is_known) return GetOutcome::kUnsure;
  const Slot slot = DecodeSlot(known.slot);
  const RecordPlace place{slot.offset_units, slot.extent_bytes(), {}, session.shape().incarnation};
  RecordCopy record;
  REMORA_RETURN_IF_ERROR(ReadRecord(session, {key, key_hash, slot, place, start}, found->target, &record));
  return JudgeKnown(session, key_hash, known, record, start, found);
}

// The same for nearly all GETs, in fewer steps: of a value that goes to a string, where the place may be
// trusted as it is. What else the record might be than the key's live one does not matter. *outcome is kFound
// (and taken), kMissing or kAskServer; left as it is: nothing is known of the place, or not any more, or
// GetWarm will see.
absl::Status GetKnown(Session& session, std::string_view key, std::uint64_t key_hash, std::string* value,
                      RecordFacts* facts, GetOutcome* outcome) {
  KnownLocation known;
  const TimePoint start = session.Coarse();
  if (FindCachedLocation(session, key_hash, start, &known) != Remembered::kPlace) return absl::OkStatus();
  const Slot slot = DecodeSlot(known.slot);
  const std::span<const std::byte> bytes = session.record_buffer().first(slot.extent_bytes());
  REMORA_RETURN_IF_ERROR(session.ReadIntoRecordBuffer(slot.offset_bytes(), bytes.size()));
  const RecordPlace place{slot.offset_units, slot.extent_bytes(), {}, session.shape().incarnation};
  LiveRecord record;
  if (!ReadLiveRecord(key, key_hash, bytes.data(), place, &record) || !IsStillKnown(session, known)) {
    InvalidateLocation(session, key_hash);
    return absl::OkStatus();
  }
  ++session.counters().location_hits;
  session.budget().Earn(1);
  if (const ServerTime::Life life = session.LifeOf(record.expiry_ms, start);
      life != ServerTime::Life::kAlive) {
    *outcome = life == ServerTime::Life::kOver ? GetOutcome::kMissing : GetOutcome::kAskServer;
    return absl::OkStatus();
  }
  Assign(record.value, value);
  *facts = {record.version, record.expiry_ms};
  session.NoteRead(key_hash);
  *outcome = GetOutcome::kFound;
  return absl::OkStatus();
}

absl::StatusOr<GetOutcome> SearchOnce(Session& session, std::string_view key, std::uint64_t key_hash,
                                      Found* found) {
  const TimePoint start = session.Coarse();
  KeySearch search(key, key_hash, session.shape(), &session.view());
  RecordCopy record;
  for (;;) {
    if (search.step() == KeySearch::Step::kReadBucket) {
      REMORA_ASSIGN_OR_RETURN(const Bucket* bucket, session.ReadBucket(search.bucket()));
      if (bucket == nullptr) return GetOutcome::kUnsure;
      search.TakeBucket(*bucket);
    } else if (search.step() == KeySearch::Step::kReadRecord) {
      // A large record is not read for nothing but to say that it is there.
      if (found->target.is_nowhere() && search.slot().extent_bytes() > kMaxSmallExtent) {
        return GetOutcome::kAskServer;
      }
      // For Learn. Before the record is read: a look behind it would tell nothing (segment_generations.h,
      // G4).
      const std::uint64_t segment = SegmentGenerations::SegmentOf(search.slot());
      if (session.locations().is_on() && session.generations().RefreshIsDue(segment, start)) {
        REMORA_RETURN_IF_ERROR(Look(session, segment).status());
      }
      const WantedRecord wanted{key, key_hash, search.slot(), search.place(), start};
      REMORA_RETURN_IF_ERROR(ReadRecord(session, wanted, found->target, &record));
      search.TakeJudged(record.state);
    } else if (search.step() == KeySearch::Step::kCold) {
      ++session.counters().cold;
      return GetOutcome::kAskServer;
    } else if (search.step() == KeySearch::Step::kFound && record.proven) {
      return Judge(session, record, start, found);
    } else if (search.step() == KeySearch::Step::kUnsure || !session.InTime(start)) {
      return GetOutcome::kUnsure;
    } else if (search.step() == KeySearch::Step::kMissing) {
      return GetOutcome::kMissing;
    } else {
      const GetOutcome outcome = Judge(session, record, start, found);
      if (outcome == GetOutcome::kFound) session.Learn(key_hash, search.slot());
      return outcome;
    }
  }
}

// `proven`: as RecordCopy.
absl::Status ReadWhereTheServerSays(Session& session, std::string_view key, std::uint64_t key_hash,
                                    Found* found, bool* proven) {
  const TimePoint start = session.Coarse();
  const TimePoint sent = session.clock().Now();
  ++session.counters().locates;
  REMORA_ASSIGN_OR_RETURN(const Session::Answer answer, session.Call(Operation::kLocate, key, key_hash, {}));
  session.server_time().Learn(answer.reply.server_ms, sent, session.clock().Now());
  const Reply reply = answer.reply;
  REMORA_ASSIGN_OR_RETURN(const Slot slot, LocatedSlot(session, answer));
  if (found->target.is_nowhere()) {
    *proven = true;
    return absl::OkStatus();
  }
  const RecordPlace place{slot.offset_units, slot.extent_bytes(), {}, session.shape().incarnation};
  RecordCopy record;
  REMORA_RETURN_IF_ERROR(ReadRecord(session, {key, key_hash, slot, place, start}, found->target, &record));
  *proven = record.proven;
  if (!IsLocated(record, reply)) {
    return absl::InternalError("the record that the server located does not verify");
  }
  // It had not expired when the server replied: nobody else's clock is asked.
  found->Take(record);
  return absl::OkStatus();
}

// Whether it took no longer than the server keeps memory for readers; then *status is the outcome.
bool AskServer(Session& session, std::string_view key, std::uint64_t key_hash, Found* found,
               absl::Status* status) {
  const TimePoint start = session.Coarse();
  bool proven = false;
  *status = ReadWhereTheServerSays(session, key, key_hash, found, &proven);
  return proven || session.InTime(start);
}

// Asks until an answer comes in time.
absl::Status AskUntilInTime(Session& session, std::string_view key, std::uint64_t key_hash, Found* found) {
  std::string located;
  Found answer = *found;
  if (found->target.text != nullptr) answer.target.text = &located;
  absl::Status status;
  const TimePoint start = session.Coarse();
  while (!AskServer(session, key, key_hash, &answer, &status)) {
    REMORA_RETURN_IF_ERROR(session.status());
    if (session.Coarse() - start > session.timeout()) {
      return absl::DeadlineExceededError(
          "each answer took longer than the server keeps memory for readers (its grace period)");
    }
  }
  if (!status.ok()) return status;
  if (found->target.text != nullptr) found->target.text->swap(located);
  found->size = answer.size;
  found->facts = answer.facts;
  return absl::OkStatus();
}

absl::Status GetCold(Session& session, std::string_view key, std::uint64_t key_hash, GetOutcome outcome,
                     Found* found) {
  // Before the search: what it read may be as of then, whatever the server says later.
  const bool was_loading = session.store_is_loading();
  for (int searches = 0; searches < kMaxSearches && outcome == GetOutcome::kUnsure; ++searches) {
    REMORA_ASSIGN_OR_RETURN(outcome, SearchOnce(session, key, key_hash, found));
    if (outcome == GetOutcome::kUnsure) ++session.counters().retries;
  }
  if (outcome == GetOutcome::kMissing && !was_loading) return absl::NotFoundError("no such key");
  if (outcome == GetOutcome::kFound) return absl::OkStatus();
  return AskUntilInTime(session, key, key_hash, found);
}

// `warm`: what GetKnown told.
absl::Status GetAny(Session& session, std::string_view key, std::uint64_t key_hash, Found& found,
                    GetOutcome warm = GetOutcome::kUnsure) {
  const std::uint64_t locates = session.counters().locates;
  if (warm == GetOutcome::kUnsure) {
    REMORA_ASSIGN_OR_RETURN(warm, GetWarm(session, key, key_hash, &found));
  }
  if (warm != GetOutcome::kFound) {
    const std::uint64_t reads = session.counters().reads;
    const absl::Status status = GetCold(session, key, key_hash, warm, &found);
    session.budget().Earn(session.counters().reads - reads);
    REMORA_RETURN_IF_ERROR(status);
  }
  // Of those that asked it, the server knows.
  if (session.counters().locates == locates) session.NoteRead(key_hash);
  return absl::OkStatus();
}

}  // namespace

absl::Status Get(Session& session, std::string_view key, std::string* value, RecordFacts* facts) {
  const std::uint64_t key_hash = HashKey(key);
  GetOutcome known = GetOutcome::kUnsure;
  if (session.locations().is_on()) {
    REMORA_RETURN_IF_ERROR(GetKnown(session, key, key_hash, value, facts, &known));
    if (known == GetOutcome::kFound) return absl::OkStatus();
  }
  Found found{.target = {.text = value, .memory = {}}};
  REMORA_RETURN_IF_ERROR(GetAny(session, key, key_hash, found, known));
  *facts = found.facts;
  return absl::OkStatus();
}

absl::Status Find(Session& session, std::string_view key) {
  Found found{.target = {}};
  return GetAny(session, key, HashKey(key), found);
}

absl::StatusOr<std::size_t> GetInto(Session& session, std::string_view key, const rdma::Sge& memory,
                                    RecordFacts* facts) {
  Found found{.target = {.text = nullptr, .memory = memory}};
  REMORA_RETURN_IF_ERROR(GetAny(session, key, HashKey(key), found));
  REMORA_RETURN_IF_ERROR(CheckFits(found.size, memory));
  *facts = found.facts;
  return found.size;
}

}  // namespace remora
