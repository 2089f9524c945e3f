// GETs of many keys, side by side: in rounds, each of which posts the next READ of every key before it waits
// for any, so that a round costs about as much as its slowest READ. Most keys take two, for their bucket and
// for their record, or one where the record's place is known.
//
// Where a READ is a copy, nearly all keys are found before any round, by the first look that a GET of one key
// makes (client/get/fast_get.h). The rounds are for the others.
//
// It drives the same search that a GET of one key makes (store/format/memory/key_search.h), and judges what
// it reads in the same steps (client/get/get_steps.h). Whatever is out of the ordinary ends a key's part in
// the rounds, and it is got by itself afterwards: it was disturbed or took too long, or the server must be
// asked, or the value is large.
#include "client/get/multi_get.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "client/get/fast_get.h"
#include "client/get/get.h"
#include "client/get/get_steps.h"
#include "store/base/status_macros.h"
#include "store/format/memory/key_search.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

// Records of one round begin at multiples of this in the session's buffer.
constexpr std::size_t kCacheLine = 64;

/// What is left of them behind one of this size.
std::span<std::byte> Behind(std::size_t size, std::span<std::byte> records) {
  return records.subspan(std::min((size + kCacheLine - 1) / kCacheLine * kCacheLine, records.size()));
}

class KeyLookup {
 public:
  KeyLookup(std::string_view key, GetResult* result) : key_(key), key_hash_(HashKey(key)), result_(result) {}

  bool done() const { return done_; }
  GetOutcome outcome() const { return outcome_; }
  std::string_view key() const { return key_; }
  std::uint64_t key_hash() const { return key_hash_; }
  GetResult& result() const { return *result_; }
  void End(GetOutcome outcome) {
    outcome_ = outcome;
    done_ = true;
  }

  /// Finds out what is to be read first. May wait for READs of its own, so before any is posted.
  absl::Status Start(Session& session, TimePoint start) {
    KnownLocation known;
    REMORA_ASSIGN_OR_RETURN(const bool is_known, CachedLocationIsFresh(session, key_hash_, start, &known));
    known_ = is_known ? std::optional(known) : std::nullopt;
    if (!known_) search_.emplace(key_, key_hash_, session.shape(), &session.view());
    return absl::OkStatus();
  }

  /// Says what is to be read next, and makes sure that it may be. As Start, before any READ of the round.
  absl::Status Prepare(Session& session, TimePoint start) {
    is_bucket_ = !known_ && search_->step() == KeySearch::Step::kReadBucket;
    if (is_bucket_) {
      size_ = sizeof(Bucket);
      REMORA_ASSIGN_OR_RETURN(offset_, session.OffsetOf(search_->bucket()));
      if (offset_ == 0) End(GetOutcome::kUnsure);
    } else {
      const Slot slot = known_ ? DecodeSlot(known_->slot) : search_->slot();
      size_ = slot.extent_bytes();
      offset_ = slot.offset_bytes();
      const std::uint64_t segment = SegmentGenerations::SegmentOf(slot);
      if (size_ > kMaxSmallExtent) {
        End(GetOutcome::kUnsure);
      } else if (!known_ && session.locations().is_on() &&
                 session.generations().RefreshIsDue(segment, start)) {
        // For Learn, as in a GET of one key.
        REMORA_RETURN_IF_ERROR(Look(session, segment).status());
      }
    }
    if (!done_) session.Prefetch(offset_, size_);
    return absl::OkStatus();
  }

  /// What became of a READ.
  enum class Posted : std::uint8_t { kUnderWay = 1, kDone, kNoRoom };

  /// Posts that READ, to `bucket` or as many bytes of `records`, of which it takes what it uses. kNoRoom:
  /// those do not suffice, another round will do.
  absl::StatusOr<Posted> Post(Session& session, std::span<std::byte> bucket, std::span<std::byte>* records) {
    if (is_bucket_) {
      bytes_ = bucket;
    } else if (size_ <= records->size()) {
      bytes_ = records->first(size_);
      *records = Behind(size_, *records);
    } else {
      return Posted::kNoRoom;
    }
    if (session.ReadNow(bytes_, offset_)) return Posted::kDone;
    const rdma::Sge into = session.SgeOf(bytes_);
    REMORA_RETURN_IF_ERROR(session.PostRead(std::span(&into, 1), offset_));
    return Posted::kUnderWay;
  }

  /// Judges what was read.
  void Take(Session& session, TimePoint start) {
    Found found{.target = {.text = &result_->value, .memory = {}}};
    if (known_) {
      const KnownLocation known = *known_;
      const Slot slot = DecodeSlot(known.slot);
      known_.reset();
      const RecordPlace place{slot.offset_units, slot.extent_bytes(), {}, session.shape().incarnation};
      const RecordCopy record = CopyOf(bytes_, {key_, key_hash_, slot, place, start});
      const GetOutcome outcome = JudgeKnown(session, key_hash_, known, record, start, &found);
      if (outcome != GetOutcome::kUnsure) return EndWith(outcome, found);
      search_.emplace(key_, key_hash_, session.shape(), &session.view());
      return;
    }
    RecordCopy record;
    if (is_bucket_) {
      search_->TakeBucket(*reinterpret_cast<const Bucket*>(bytes_.data()));
    } else {
      record = CopyOf(bytes_, {key_, key_hash_, search_->slot(), search_->place(), start});
      search_->TakeJudged(record.state);
    }
    GoOn(session, record, start);
  }

 private:
  /// Where the search stands, behind what was read last: `record`, if that is what it was.
  void GoOn(Session& session, const RecordCopy& record, TimePoint start) {
    switch (search_->step()) {
      case KeySearch::Step::kReadBucket:
      case KeySearch::Step::kReadRecord:
        return;
      case KeySearch::Step::kFound:
        return session.InTime(start) ? EndLive(session, record, start) : End(GetOutcome::kUnsure);
      case KeySearch::Step::kMissing:
        return End(session.InTime(start) ? GetOutcome::kMissing : GetOutcome::kUnsure);
      case KeySearch::Step::kCold:
      case KeySearch::Step::kUnsure:
        return End(GetOutcome::kUnsure);
    }
  }
  /// It is the key's, live and verified, and was read since.
  void EndLive(Session& session, const RecordCopy& record, TimePoint start) {
    Found found{.target = {.text = &result_->value, .memory = {}}};
    const GetOutcome outcome = Judge(session, record, start, &found);
    if (outcome == GetOutcome::kFound && search_) session.Learn(key_hash_, search_->slot());
    EndWith(outcome, found);
  }
  void EndWith(GetOutcome outcome, const Found& found) {
    result_->version = found.facts.version;
    End(outcome);
  }

  std::string_view key_;
  std::uint64_t key_hash_;
  GetResult* result_;
  GetOutcome outcome_ = GetOutcome::kUnsure;
  bool done_ = false;

  // One of the two.
  std::optional<KnownLocation> known_;
  std::optional<KeySearch> search_;

  // The READ of this round.
  bool is_bucket_ = false;
  std::uint64_t offset_ = 0;
  std::size_t size_ = 0;
  std::span<std::byte> bytes_;
};

/// Until each is done.
absl::Status DoRounds(Session& session, std::span<KeyLookup> lookups) {
  const TimePoint start = session.Coarse();
  const std::uint64_t before = session.counters().reads;
  for (KeyLookup& lookup : lookups) REMORA_RETURN_IF_ERROR(lookup.Start(session, start));
  for (;;) {
    for (KeyLookup& lookup : lookups) {
      if (!lookup.done()) REMORA_RETURN_IF_ERROR(lookup.Prepare(session, start));
    }
    std::array<KeyLookup*, Session::kMaxBatch> posted;
    std::size_t count = 0;
    bool all_done = true;
    std::span<std::byte> records = session.record_buffer();
    for (std::size_t i = 0; i < lookups.size(); ++i) {
      if (lookups[i].done()) continue;
      // A bucket's buffer is the key's own: its search looks at the last bucket again while it reads records.
      REMORA_ASSIGN_OR_RETURN(const KeyLookup::Posted was,
                              lookups[i].Post(session, session.bucket_buffer(i), &records));
      all_done = false;
      if (was == KeyLookup::Posted::kDone) {
        lookups[i].Take(session, start);
      } else if (was == KeyLookup::Posted::kUnderWay) {
        posted[count++] = &lookups[i];
      }
    }
    if (all_done) break;
    REMORA_RETURN_IF_ERROR(session.AwaitRead());
    for (KeyLookup* lookup : std::span(posted).first(count)) lookup->Take(session, start);
  }
  session.budget().Earn(session.counters().reads - before);
  return absl::OkStatus();
}

/// Those that nothing comes in between of, one step of all keys after the other, so that what one waits for
/// comes while others are looked for. Returns which are left, one bit for each, the first the lowest.
std::uint32_t TryFastGet(Session& session, std::span<const std::string_view> keys,
                         std::span<GetResult> results) {
  static_assert(Session::kMaxBatch <= 32);
  std::uint32_t left = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) left |= std::uint32_t{results[i].status.ok()} << i;
  if (!FastGet::IsFor(session)) return left;
  struct Glance {
    FastGet look;
    std::uint64_t key_hash;
  };
  std::array<Glance, Session::kMaxBatch> glances;
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

/// Of those that are left.
absl::Status GetInRounds(Session& session, std::span<const std::string_view> keys,
                         std::span<GetResult> results, std::uint32_t left) {
  absl::InlinedVector<KeyLookup, Session::kMaxBatch> lookups;
  for (; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    lookups.emplace_back(keys[i], &results[i]);
  }
  // Before what is judged is read: when the server was asked for one key, it may have loaded the next one,
  // too.
  const bool was_loading = session.store_is_loading();
  REMORA_RETURN_IF_ERROR(DoRounds(session, lookups));
  for (KeyLookup& lookup : lookups) {
    GetResult& result = lookup.result();
    if (lookup.outcome() == GetOutcome::kFound) {
      session.NoteRead(lookup.key_hash());
    } else if (lookup.outcome() == GetOutcome::kMissing && !was_loading) {
      result.status = absl::NotFoundError("no such key");
    } else {
      RecordFacts facts;
      session.RestartDeadline();
      result.status = Get(session, lookup.key(), &result.value, &facts);
      result.version = facts.version;
    }
  }
  return session.status();
}

absl::Status GetSome(Session& session, std::span<const std::string_view> keys, std::span<GetResult> results) {
  const std::uint32_t left = TryFastGet(session, keys, results);
  return left == 0 ? session.status() : GetInRounds(session, keys, results, left);
}

}  // namespace

absl::Status MultiGet(Session& session, std::span<const std::string_view> keys,
                      std::span<GetResult> results) {
  for (std::size_t done = 0; done < keys.size(); done += Session::kMaxBatch) {
    const std::size_t some = std::min(keys.size() - done, Session::kMaxBatch);
    session.RestartDeadline();
    const absl::Status status = GetSome(session, keys.subspan(done, some), results.subspan(done, some));
    if (status.ok()) continue;
    for (GetResult& result : results.subspan(done)) {
      if (result.status.ok()) result.status = status;
    }
    return status;
  }
  return absl::OkStatus();
}

}  // namespace remora
