#include "client/get/lookup.h"

#include <chrono>
#include <cstddef>
#include <cstring>

#include "client/get/located.h"
#include "store/format/cluster/slot.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

/// Number of searches before the lookup asks the server. A search fails only if the same key is written at
/// the wrong moment: between the reader's two READs, or with a READ between two steps of the server. These
/// steps are a few instructions apart: the server clears the old record's live bit, then stores the slot.
constexpr int kMaxSearches = 8;

// --- The cache ----------------------------------------------------------------------------------------

/// State of a cached location. kNothing: there is none to use. kStale: usable only after a READ of the
/// generations. kFresh: usable now.
enum class Cached : std::uint8_t { kNothing = 1, kStale, kFresh };

std::uint64_t SegmentOf(const KnownLocation& location) {
  return SegmentGenerations::SegmentOf(DecodeSlot(location.slot));
}

/// Returns whether the segment's number is still the one with which the location was cached. Then the last
/// READ of generations saw the same use of the segment.
bool IsSameUse(const Session& session, const KnownLocation& location) {
  return session.cache().generations().NumberOf(SegmentOf(location)) == location.number;
}

/// Returns the key's place in the mirror of the index; its slot is 0 if there is none.
KnownLocation FindMirroredLocation(Session& session, std::uint64_t key_hash) {
  const std::uint64_t bucket = session.server().index().HomeOf(key_hash).bucket;
  const MirrorFrames::Found found = session.mirror()->Find(key_hash, bucket);
  return {found.word, found.number};
}

/// Time before the end of a refresh's validity at which a lookup with a mirror makes the next one. Many
/// lookups of a MultiGet that read past the end would be in vain.
constexpr std::chrono::milliseconds kSpare{4};

/// Returns whether the location's segment needs a refresh now. Of the clients of a mirror one makes it, in
/// the spare time, while the others use the last one.
bool NeedsRefresh(Session& session, std::uint64_t segment, TimePoint start) {
  SegmentGenerations& generations = session.cache().generations();
  if (!generations.IsFresh(segment, start)) return true;
  if (session.mirror() == nullptr || generations.IsFresh(segment, start + kSpare)) return false;
  return generations.Claim(segment, start, kSpare);
}

Cached StateOf(Session& session, std::uint64_t key_hash, const KnownLocation& location, TimePoint start) {
  if (location.slot == 0 || !session.cache().budget().has_some()) return Cached::kNothing;
  if (NeedsRefresh(session, SegmentOf(location), start)) return Cached::kStale;
  if (IsSameUse(session, location)) return Cached::kFresh;
  session.cache().locations().Forget(key_hash);  // the mirror has forgotten its own
  return Cached::kNothing;
}

/// Returns whether the bytes that were READ at a cached location may be trusted. The client checks this after
/// the READ, for two reasons. By G5 of segment_generations.h, the READ must complete in time, and the
/// client's thread may have been held up. And meanwhile the client may have READ the generations for another
/// key.
bool CachedLocationIsFresh(const Session& session, const KnownLocation& location) {
  const SegmentGenerations& generations = session.cache().generations();
  return generations.IsFresh(SegmentOf(location), session.Coarse()) && IsSameUse(session, location);
}

/// Forgets a cached location whose READ was useless, and charges the READ to the budget.
void InvalidateLocation(Session& session, std::uint64_t key_hash) {
  ++session.counters().location_false_hits;
  session.cache().budget().Spend();
  session.cache().locations().Forget(key_hash);
}

/// Does the same for a location of the mirror. If the record is another key's, with the same fingerprint,
/// that key keeps it. If it is live, the READ was slow, and the location may be right for other clients.
void InvalidateMirrored(Session& session, std::uint64_t key_hash, std::uint64_t slot, RecordState state) {
  ++session.counters().location_false_hits;
  ++session.counters().mirror_false_hits;
  session.cache().budget().Spend();
  if (state == RecordState::kForeign || state == RecordState::kLive) return;
  session.mirror()->Drop(session.server().index().HomeOf(key_hash).bucket, slot);
}

}  // namespace

void Lookup::Begin(Session& session, GenerationRead& generation_read, const LookupSpec& spec) {
  session_ = &session;
  generation_read_ = &generation_read;
  key_ = spec.key;
  key_hash_ = HashKey(spec.key);
  wants_value_ = spec.wants_value;
  drives_chunks_ = spec.drives_chunks;
  target_ = spec.target;
  searches_ = 0;
  refreshed_ = false;
  upkeep_reads_ = 0;
  has_asked_ = false;
  ForgetPath();
  if (chunks_ != nullptr) chunks_->reset();
  if (!text_.empty()) text_ = {};
  facts_ = {};
  if (!status_.ok()) status_ = absl::OkStatus();
  if (session.remembers()) return spec.begins_fast ? Recall() : Warm();
  if (spec.begins_fast && FastGet::IsFor(session) && !target_.memory && fast_.FindLine(session, key_hash_)) {
    return Read(Reading::kLine, fast_.line_offset(), FastGet::kLineSize);
  }
  Search();
}

// --- The fast path ------------------------------------------------------------------------------------

void Lookup::Look(std::span<std::byte> buffer) {
  if (reading_ == Reading::kRecall) return Warm();
  if (reading_ == Reading::kLine) {
    const bool is_named = fast_.FindRecord(*session_, key_hash_) && fast_.extent_bytes() <= buffer.size();
    return is_named ? Read(Reading::kLikely, fast_.record_offset(), fast_.extent_bytes()) : Search();
  }
  LiveRecord record;
  session_->counters().reads += 2;
  const bool is_live = ReadLiveRecord(key_, key_hash_, fast_.bytes(), fast_.place(*session_), &record);
  if (!is_live || !session_->region().ServerIsAlive()) return Search();
  if (record.expiry_ms != 0 && !session_->server().IsAlive(record.expiry_ms)) return Search();
  // The callback gets a view of this copy. RecordCopy expects a key before the value; nothing reads it here.
  std::byte* const body = buffer.data();
  CopySmall(reinterpret_cast<char*>(body) + key_.size(), record.value.data(), record.value.size());
  if (!fast_.IsUnchanged(*session_)) return Search();
  record_ = {.header = {.version_live = record.version << 1 | kLiveBit,
                        .checksum = 0,
                        .value_size = static_cast<std::uint32_t>(record.value.size()),
                        .key_size = static_cast<std::uint16_t>(key_.size()),
                        .flags = 0,
                        .expiry_ms = record.expiry_ms},
             .body = body,
             .state = RecordState::kLive,
             .proven = true};
  EndFound(record_.facts());
}

// --- The cached location --------------------------------------------------------------------------------

void Lookup::Warm() {
  start_ = session_->Coarse();
  was_loading_ = session_->server().is_loading();
  known_ = session_->cache().locations().Find(key_hash_);
  Source source = Source::kCache;
  if (known_.slot == 0 && session_->mirror() != nullptr) {
    if (BeginUpkeep()) return;
    known_ = FindMirroredLocation(*session_, key_hash_);
    source = Source::kMirror;
  }
  const Cached cached = StateOf(*session_, key_hash_, known_, start_);
  const Slot slot = DecodeSlot(known_.slot);
  if (cached == Cached::kFresh && slot.extent_bytes() <= kMaxSmallExtent) {
    return ReadRecord(source, slot, PlaceOf(slot));
  }
  if (cached == Cached::kStale && !refreshed_ && BeginGenerationRead(SegmentGenerations::SegmentOf(slot))) {
    return;
  }
  Search();
}

/// Makes a READ that keeps the mirror fresh, if one is due.
bool Lookup::BeginUpkeep() {
  if (generation_read_->is_taken() || upkeep_reads_ == kMaxUpkeepReads) return false;
  const auto range = session_->mirror()->NextRead(session_->mirror_user(), start_, session_->region());
  if (!range) return false;
  ++upkeep_reads_;
  generation_read_->reader = this;
  Read(Reading::kMirror, range->offset, range->size);
  return true;
}

/// Judges the record that was READ at the cached location. kUnsure: it is not the key's any more.
Lookup::Outcome Lookup::JudgeCached() {
  const bool is_mirrored = source_ == Source::kMirror;
  if (record_.state != RecordState::kLive || !CachedLocationIsFresh(*session_, known_)) {
    if (is_mirrored) {
      InvalidateMirrored(*session_, key_hash_, known_.slot, record_.state);
    } else {
      InvalidateLocation(*session_, key_hash_);
    }
    return Outcome::kUnsure;
  }
  ++session_->counters().location_hits;
  session_->counters().mirror_hits += is_mirrored ? 1 : 0;
  path_.was_cached = true;
  session_->cache().budget().Earn(1);
  return JudgeLive();
}

// --- The search -----------------------------------------------------------------------------------------

void Lookup::Search() {
  if (searches_++ == kMaxSearches) {
    step_ = Step::kAsk;
    return;
  }
  // Taken before the READs: their bytes may be as old as this, so a later state of the server does not apply.
  start_ = session_->Coarse();
  was_loading_ = session_->server().is_loading();
  search_.emplace(key_, key_hash_, session_->server().shape(), &session_->server().index());
  refreshed_ = false;
  directory_read_ = false;
  Advance();
}

void Lookup::SearchAgain() {
  ++session_->counters().retries;
  path_.was_retried = true;
  Search();
}

void Lookup::Advance() {
  switch (search_->step()) {
    case KeySearch::Step::kReadBucket:
      return ReadBucket();
    case KeySearch::Step::kReadRecord:
      return ReadFound();
    case KeySearch::Step::kCold:
      ++session_->counters().cold;
      path_.was_cold = true;
      step_ = Step::kAsk;
      return;
    case KeySearch::Step::kUnsure:
      return SearchAgain();
    case KeySearch::Step::kFound:
      if (record_.proven) return End(JudgeLive());
      [[fallthrough]];
    case KeySearch::Step::kMissing:
      if (!session_->server().InTime(start_)) return SearchAgain();
      break;
  }
  if (search_->step() == KeySearch::Step::kMissing) return EndMissed();
  const Outcome outcome = JudgeLive();
  if (outcome == Outcome::kFound && session_->remembers()) {
    session_->Learn(key_hash_, search_->slot(), MirrorFrames::Same::kKeep, refreshes_);
  }
  End(outcome);
}

void Lookup::ReadBucket() {
  const BucketRef& bucket = search_->bucket();
  if (const std::uint64_t offset = session_->region().KnownOffsetOf(bucket)) {
    directory_read_ = false;
    return Read(Reading::kBucket, offset, sizeof(Bucket));
  }
  directory_ = session_->region().DirectoryAround(bucket);
  // The directory was READ, and the bucket's place is still unknown: a torn entry, or no such bucket.
  if (directory_read_ || directory_.size == 0) return SearchAgain();
  Read(Reading::kDirectory, directory_.offset, directory_.size);
}

void Lookup::ReadFound() {
  const Slot& slot = search_->slot();
  if (slot.extent_bytes() > kMaxSmallExtent) {
    if (wants_value_) return ReadRecord(Source::kSearch, slot, search_->place());
    // The caller only wants to know whether the key exists: asking the server is cheaper than this READ.
    step_ = Step::kAsk;
    return;
  }
  // Learn needs generations that were READ before the record: a READ after it would prove nothing
  // (segment_generations.h, G4).
  const std::uint64_t segment = SegmentGenerations::SegmentOf(slot);
  if (session_->remembers() && !refreshed_ && session_->cache().generations().RefreshIsDue(segment, start_) &&
      BeginGenerationRead(segment)) {
    return;
  }
  ReadRecord(Source::kSearch, slot, search_->place());
}

// --- A record -------------------------------------------------------------------------------------------

void Lookup::ReadRecord(Source source, const Slot& slot, const RecordPlace& place) {
  source_ = source;
  wanted_.key = key_;
  wanted_.key_hash = key_hash_;
  wanted_.slot = slot;
  wanted_.place = place;
  wanted_.learned = start_;
  if (!NeedsChunks(slot, target_)) return Read(Reading::kRecord, slot.offset_bytes(), slot.extent_bytes());
  ValueTarget target = target_;
  if (!target.memory && target.text == nullptr) target.text = &text_;
  text_.clear();
  if (chunks_ == nullptr) chunks_ = std::make_unique<std::optional<ChunkedReader>>();
  chunks_->emplace(*session_, wanted_, target);
  ++session_->counters().chunked;
  path_.was_chunked = true;
  if (drives_chunks_) return Read(Reading::kAllChunks, 0, 0);
  ReadChunk();
}

void Lookup::ReadChunk() {
  if (const std::optional<ChunkRead> next = (*chunks_)->Next()) {
    Read(Reading::kChunk, next->offset, next->scratch_size);
    direct_ = next->direct;
    return;
  }
  TakeChunks();
}

void Lookup::TakeChunks() {
  const ChunksRead read = (*chunks_)->result();
  record_ = {.header = read.header, .body = nullptr, .state = read.state, .proven = read.proven};
  chunks_->reset();
  TakeRecord();
}

void Lookup::TakeRecord() {
  if (session_->mirror() != nullptr) session_->mirror_user().Earn(wanted_.slot.extent_bytes());
  switch (source_) {
    case Source::kCache:
    case Source::kMirror:
      return End(JudgeCached());
    case Source::kSearch:
      session_->cache().budget().Earn(1);
      refreshed_ = false;
      search_->TakeJudged(record_.state);
      return Advance();
    case Source::kServer:
      return EndLocated();
  }
}

bool Lookup::BeginGenerationRead(std::uint64_t segment) {
  if (generation_read_->is_taken() || !session_->cache().budget().has_some()) return false;
  session_->cache().budget().Spend();
  generation_read_->reader = this;
  refreshed_ = true;
  refreshed_segment_ = segment;
  const SegmentGenerations::Range range = session_->cache().generations().RangeOf(segment);
  Read(Reading::kGenerations, range.offset, range.size);
  return true;
}

Lookup::Outcome Lookup::JudgeLive() const {
  switch (session_->server().LifeOf(record_.header.expiry_ms, start_)) {
    case ServerTime::Life::kAlive:
      return Outcome::kFound;
    case ServerTime::Life::kOver:
      return Outcome::kMissing;
    case ServerTime::Life::kAskServer:
      break;
  }
  return Outcome::kAskServer;
}

void Lookup::End(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFound:
      return EndFound(record_.facts());
    case Outcome::kMissing:
      step_ = was_loading_ ? Step::kAsk : Step::kMissing;
      return;
    case Outcome::kAskServer:
      step_ = Step::kAsk;
      return;
    case Outcome::kUnsure:
      return Search();
  }
}

// A record that was found has proven that the slot is the server's, also if it has expired.
void Lookup::EndMissed() {
  const KnownSlots& slots = session_->server().slots();
  if (!slots.compares() || was_loading_) return End(Outcome::kMissing);  // K1
  if (!slots.Has(SlotOfHashed(key_, key_hash_))) return End(Outcome::kAskServer);
  if (session_->region().reads_now()) return JudgeMiss(session_->region().SlotsWord());
  Read(Reading::kSlotsWord, offsetof(Superblock, slots_word), sizeof(std::uint64_t));
}

void Lookup::JudgeMiss(std::uint64_t slots_word) {
  const bool is_proven = session_->server().slots().Proves(SlotOfHashed(key_, key_hash_), slots_word);  // K2
  End(is_proven ? Outcome::kMissing : Outcome::kAskServer);
}

// --- What was read --------------------------------------------------------------------------------------

void Lookup::Posted() {
  if (reading_ == Reading::kGenerations) refresh_posted_ = session_->Coarse();
  refreshes_ = session_->cache().refreshes();
}

void Lookup::Take(std::span<const std::byte> bytes) {
  switch (reading_) {
    case Reading::kRecall:
    case Reading::kLine:
    case Reading::kLikely:
    case Reading::kAllChunks:
      return;  // not READ at all, or not as one READ
    case Reading::kGenerations:
      generation_read_->reader = nullptr;
      ++session_->counters().generation_reads;
      session_->cache().generations().Take(refreshed_segment_, bytes, refresh_posted_, session_->Coarse());
      return searches_ > 0 ? ReadFound() : Warm();
    case Reading::kMirror:
      generation_read_->reader = nullptr;
      ++session_->counters().mirror_reads;
      session_->counters().mirror_read_bytes += bytes.size();
      session_->mirror()->Take(session_->mirror_user(), bytes, session_->Coarse(), session_->region());
      return Warm();
    case Reading::kDirectory:
      session_->region().TakeDirectory(directory_, bytes);
      directory_read_ = true;
      return ReadBucket();
    case Reading::kBucket:
      session_->cache().budget().Earn(1);
      search_->TakeBucket(*reinterpret_cast<const Bucket*>(bytes.data()));
      return Advance();
    case Reading::kSlotsWord:
      return JudgeMiss(*reinterpret_cast<const std::uint64_t*>(bytes.data()));
    case Reading::kRecord:
      VerifyCopy(bytes, wanted_, &record_);
      return TakeRecord();
    case Reading::kChunk:
      (*chunks_)->Take(bytes);
      return ReadChunk();
  }
}

// The FIND READ bucket and record after start_, in this order, as two READs would. Posted was called for the
// bucket, and that call serves the record, too. If ReadFound wants generations first, for Learn, then the
// record is not the next READ, and its bytes are ignored.
void Lookup::TakeFound(std::uint64_t offset, std::span<const std::byte> bytes) {
  const bool is_next = step_ == Step::kRead && reading_ == Reading::kRecord && offset_ == offset;
  if (!is_next || bytes.size() != size_) return;
  ++session_->counters().reads;  // counts as a READ of its own
  Take(bytes);
}

// --- The server is asked --------------------------------------------------------------------------------

void Lookup::Asked() {
  has_asked_ = true;
  start_ = session_->Coarse();
  asked_ = session_->clock().Now();
}

void Lookup::Take(const ServerReply& answer, std::span<std::byte> buffer) {
  ++session_->counters().locates;
  ++answers_;
  session_->server().server_time().Learn(answer.reply.server_ms, asked_, session_->clock().Now());
  located_ = answer.reply;
  record_ = {};
  status_ = LocatedStatus(answer);
  if (absl::IsNotFound(status_)) {
    session_->server().slots().Learn(SlotOfHashed(key_, key_hash_), answer.reply.version);  // K3
    return EndAsked(Step::kMissing);
  }
  if (status_.ok() && (answer.reply.flags & ReplyFlag::kHasValue) != 0) return TakeValue(answer, buffer);
  const absl::StatusOr<Slot> slot = status_.ok() ? LocatedSlot(*session_, answer) : status_;
  if (!slot.ok()) {
    status_ = slot.status();
    return EndAsked(Step::kFailed);
  }
  if (!wants_value_) return EndAsked(Step::kFound);
  ReadRecord(Source::kServer, *slot, PlaceOf(*slot));
}

void Lookup::TakeValue(const ServerReply& answer, std::span<std::byte> buffer) {
  status_ = TakeLocatedValue(*session_, answer, key_hash_, buffer, &record_);
  step_ = Step::kFailed;
  if (!status_.ok()) return;
  EndFound(record_.facts());
  if (step_ == Step::kFound && target_.memory) {
    std::memcpy(target_.memory->data, record_.body, record_.header.value_size);
    record_.body = nullptr;
  }
}

void Lookup::EndLocated() {
  if (!IsLocated(record_, located_)) {
    status_ = absl::InternalError("protocol error: the record that the server located does not verify");
    return EndAsked(Step::kFailed);
  }
  // The record had not expired when the server replied, so the client's clock does not matter.
  EndFound(record_.facts());
  EndAsked(step_);
}

void Lookup::EndFound(const RecordFacts& facts) {
  facts_ = facts;
  step_ = Step::kFound;
  if (!target_.memory) return;
  status_ = CheckFits(record_.header.value_size, *target_.memory);
  if (!status_.ok()) step_ = Step::kFailed;
}

void Lookup::EndAsked(Step step) {
  // After the grace period, the place may hold another record. Then the client asks again, until the caller's
  // timeout.
  step_ = record_.proven || session_->server().InTime(start_) ? step : Step::kAsk;
  if (step_ == Step::kAsk && !status_.ok()) status_ = absl::OkStatus();
}

}  // namespace remora
