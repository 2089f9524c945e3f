// GET, warm: READ the record where the key's was before (client/location_cache.h), which may be trusted for
// the reasons in client/generations.h; verify it. When it is not there any more, or nothing is known of the
// key:
//
// GET, cold: READ the key's bucket, READ the record that a matching slot names, verify it
// (store/format/key_search.h).
//
// When a search can tell nothing, because the key is being written just then, the GET searches again; and
// when that does not help, it asks the server where the record is. The server answers with the place and the
// version; what is there stays readable for the grace period, so one more READ has the value that was current
// when the server answered, even if its live bit is gone by then.
#include "client/get.h"

#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/key_search.h"
#include "store/format/record.h"

namespace remora {
namespace {

// Searches before asking the server. To disturb one, a writer has to hit the same key in the few instructions
// between clearing the old record's live bit and storing the slot, or between our two READs; each time.
constexpr int kMaxSearches = 8;

// A private copy of what is at a slot's place.
struct RecordCopy {
  RecordHeader header{};
  const std::byte* body = nullptr;

  std::string_view Value() const {
    return {reinterpret_cast<const char*>(body) + header.key_size, header.value_size};
  }
};

absl::StatusOr<RecordCopy> ReadRecord(Session& session, const Slot& slot) {
  REMORA_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, session.ReadRecord(slot));
  RecordCopy record;
  std::memcpy(&record.header, bytes.data(), sizeof(record.header));
  record.body = bytes.data() + sizeof(record.header);
  return record;
}

// Looks at the generation of the slot's segment, if there is an allowance for it.
absl::StatusOr<bool> Look(Session& session, std::uint64_t segment) {
  if (!session.allowance().has_some()) return false;
  session.allowance().Spend();
  REMORA_RETURN_IF_ERROR(session.LookAtGenerations(segment));
  return true;
}

// True: *value is set.
absl::StatusOr<bool> GetWarm(Session& session, std::string_view key, std::uint64_t key_hash,
                             std::string* value) {
  const KnownLocation location = session.locations().Find(key_hash);
  if (location.slot == 0 || !session.allowance().has_some()) return false;
  const Slot slot = DecodeSlot(location.slot);
  const std::uint64_t segment = Generations::SegmentOf(slot);
  if (!session.generations().IsFresh(segment, session.Coarse())) {
    REMORA_ASSIGN_OR_RETURN(const bool looked, Look(session, segment));
    if (!looked) return false;
  }
  if (session.generations().NumberOf(segment) != location.number) {
    session.locations().Forget(key_hash);
    return false;
  }
  REMORA_ASSIGN_OR_RETURN(const RecordCopy record, ReadRecord(session, slot));
  // G5: only what was read in time is the record's. If we were held up, nothing is known of the location.
  if (session.generations().IsFresh(segment, session.Coarse())) {
    const RecordPlace place{slot.offset_units, slot.extent_bytes(), {}, session.shape().incarnation};
    if (CheckRecord(record.header, record.body, key, key_hash, place) == RecordState::kLive) {
      ++session.counters().location_hits;
      session.allowance().Earn(1);
      value->assign(record.Value());
      return true;
    }
  }
  ++session.counters().location_wasted;
  session.allowance().Spend();
  session.locations().Forget(key_hash);
  return false;
}

// kFound (and the value), kMissing or kUnsure.
absl::StatusOr<KeySearch::Step> SearchOnce(Session& session, std::string_view key, std::uint64_t key_hash,
                                           std::string* value) {
  const TimePoint start = session.Coarse();
  KeySearch search(key, key_hash, session.shape(), &session.view());
  RecordCopy record;
  for (;;) {
    if (search.step() == KeySearch::Step::kReadBucket) {
      REMORA_ASSIGN_OR_RETURN(const Bucket* bucket, session.ReadBucket(search.bucket()));
      if (bucket == nullptr) return KeySearch::Step::kUnsure;
      search.TakeBucket(*bucket);
    } else if (search.step() == KeySearch::Step::kReadRecord) {
      // For Learn. Before the record is read: a look behind it would tell nothing (generations.h, G4).
      const std::uint64_t segment = Generations::SegmentOf(search.slot());
      if (session.locations().is_on() && session.generations().IsLookDue(segment, start)) {
        REMORA_RETURN_IF_ERROR(Look(session, segment).status());
      }
      REMORA_ASSIGN_OR_RETURN(record, ReadRecord(session, search.slot()));
      search.TakeRecord(record.header, record.body);
    } else if (!session.InTime(start)) {
      return KeySearch::Step::kUnsure;
    } else {
      if (search.step() == KeySearch::Step::kFound) {
        value->assign(record.Value());
        session.Learn(key_hash, search.slot());
      }
      return search.step();
    }
  }
}

absl::Status ReadWhereTheServerSays(Session& session, std::string_view key, std::uint64_t key_hash,
                                    std::string* value) {
  ++session.counters().locates;
  REMORA_ASSIGN_OR_RETURN(const Session::Answer answer, session.Call(Operation::kLocate, key, key_hash, {}));
  if (answer.reply.status == ReplyStatus::kNotFound) return absl::NotFoundError("no such key");
  if (answer.reply.status != ReplyStatus::kOk) {
    return absl::InternalError(absl::StrCat("the server could not locate a record: ", AbslView(answer.text)));
  }
  const std::uint64_t version = answer.reply.version;
  const Slot slot = DecodeSlot(answer.reply.slot);
  if (!SlotNamesPlace(slot, session.shape().memory_size)) {
    return absl::InternalError("the server located a record outside its memory");
  }
  REMORA_ASSIGN_OR_RETURN(const RecordCopy record, ReadRecord(session, slot));
  const RecordPlace place{slot.offset_units, slot.extent_bytes(), {}, session.shape().incarnation};
  const RecordState state = CheckRecord(record.header, record.body, key, key_hash, place);
  if ((state != RecordState::kLive && state != RecordState::kDead) ||
      record.header.version_live >> 1 != version) {
    return absl::InternalError("the record that the server located does not verify");
  }
  value->assign(record.Value());
  return absl::OkStatus();
}

// Whether it took no longer than the server keeps memory for readers; then *status is the outcome.
bool AskServer(Session& session, std::string_view key, std::uint64_t key_hash, std::string* value,
               absl::Status* status) {
  const TimePoint start = session.Coarse();
  *status = ReadWhereTheServerSays(session, key, key_hash, value);
  return session.InTime(start);
}

absl::Status GetCold(Session& session, std::string_view key, std::uint64_t key_hash, std::string* value) {
  for (int searches = 0; searches < kMaxSearches; ++searches) {
    REMORA_ASSIGN_OR_RETURN(const KeySearch::Step end, SearchOnce(session, key, key_hash, value));
    if (end == KeySearch::Step::kFound) return absl::OkStatus();
    if (end == KeySearch::Step::kMissing) return absl::NotFoundError("no such key");
    ++session.counters().retries;
  }
  std::string found;
  absl::Status status;
  const TimePoint start = session.Coarse();
  while (!AskServer(session, key, key_hash, &found, &status)) {
    if (session.Coarse() - start > session.timeout()) {
      return absl::DeadlineExceededError(
          "each answer took longer than the server keeps memory for readers (its grace period)");
    }
  }
  if (status.ok()) value->swap(found);
  return status;
}

}  // namespace

absl::Status Get(Session& session, std::string_view key, std::string* value) {
  const std::uint64_t key_hash = HashKey(key);
  REMORA_ASSIGN_OR_RETURN(const bool warm, GetWarm(session, key, key_hash, value));
  if (warm) return absl::OkStatus();
  const std::uint64_t reads = session.counters().reads;
  const absl::Status status = GetCold(session, key, key_hash, value);
  session.allowance().Earn(session.counters().reads - reads);
  return status;
}

}  // namespace remora
