#include "client/get/lookup.h"

#include "store/format/memory/record.h"

namespace remora {

void Lookup::Begin(Session& session, LookUnderWay& look, std::string_view key, bool wants_value,
                   const std::optional<rdma::Sge>& into) {
  session_ = &session;
  look_ = &look;
  key_ = key;
  key_hash_ = HashKey(key);
  wants_value_ = wants_value;
  into_ = into;
  searches_ = 0;
  looked_ = false;
  has_asked_ = false;
  answers_ = 0;
  if (pieces_ != nullptr) pieces_->reset();
  if (!text_.empty()) text_ = {};
  record_ = {};
  facts_ = {};
  if (!status_.ok()) status_ = absl::OkStatus();
  if (session.locations().is_on()) return Warm();
  if (FastGet::IsFor(session) && !into_ && first_.FindLine(session, key_hash_)) {
    return Read(Reading::kLine, first_.line_offset(), FastGet::kLineSize);
  }
  Search();
}

// --- Where it is most likely --------------------------------------------------------------------------

void Lookup::Look(std::span<std::byte> buffer) {
  if (reading_ == Reading::kLine) {
    const bool is_named = first_.FindRecord(*session_, key_hash_) && first_.extent_bytes() <= buffer.size();
    return is_named ? Read(Reading::kLikely, first_.record_offset(), first_.extent_bytes()) : Search();
  }
  if (!first_.Verify(*session_, key_, key_hash_)) return Search();
  const LiveRecord& record = first_.record();
  if (record.expiry_ms != 0 && !session_->IsAlive(record.expiry_ms)) return Search();
  // The callback gets a view of a copy. In front of the value, RecordCopy has the key, which nobody asks for.
  std::byte* const body = buffer.data();
  CopySmall(reinterpret_cast<char*>(body) + key_.size(), record.value.data(), record.value.size());
  if (!first_.Holds(*session_)) return Search();
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

// --- Where the key's record was before ------------------------------------------------------------------

void Lookup::Warm() {
  start_ = session_->Coarse();
  was_loading_ = session_->store_is_loading();
  const Remembered remembered = FindCachedLocation(*session_, key_hash_, start_, &known_);
  const Slot slot = DecodeSlot(known_.slot);
  if (remembered == Remembered::kPlace && slot.extent_bytes() <= kMaxSmallExtent) {
    return ReadRecord(Source::kRemembered, slot, PlaceOf(slot));
  }
  if (remembered == Remembered::kNeedsLook && !looked_ && BeginLook(SegmentGenerations::SegmentOf(slot)))
    return;
  Search();
}

// --- The search -----------------------------------------------------------------------------------------

void Lookup::Search() {
  if (searches_++ == kMaxSearches) {
    step_ = Step::kAsk;
    return;
  }
  start_ = session_->Coarse();
  was_loading_ = session_->store_is_loading();
  search_.emplace(key_, key_hash_, session_->shape(), &session_->view());
  looked_ = false;
  directory_read_ = false;
  Advance();
}

void Lookup::Again() {
  ++session_->counters().retries;
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
      step_ = Step::kAsk;
      return;
    case KeySearch::Step::kUnsure:
      return Again();
    case KeySearch::Step::kMissing:
      if (!session_->InTime(start_)) return Again();
      return Judged(GetOutcome::kMissing, {});
    case KeySearch::Step::kFound: {
      if (!record_.proven && !session_->InTime(start_)) return Again();
      Found found{.target = {}};
      const GetOutcome outcome = Judge(*session_, record_, start_, &found);
      if (outcome == GetOutcome::kFound && looks_ == session_->counters().location_looks) {
        session_->Learn(key_hash_, search_->slot());
      }
      return Judged(outcome, found);
    }
  }
}

void Lookup::ReadBucket() {
  const BucketRef& bucket = search_->bucket();
  if (const std::uint64_t offset = session_->KnownOffsetOf(bucket)) {
    directory_read_ = false;
    return Read(Reading::kBucket, offset, sizeof(Bucket));
  }
  directory_ = session_->DirectoryAround(bucket);
  // Read and still not known: its entry was torn, or the index is not that large.
  if (directory_read_ || directory_.size == 0) return Again();
  Read(Reading::kDirectory, directory_.offset, directory_.size);
}

void Lookup::ReadFound() {
  const Slot& slot = search_->slot();
  if (slot.extent_bytes() > kMaxSmallExtent) {
    if (wants_value_) return ReadRecord(Source::kSearch, slot, search_->place());
    // Not read for nothing but to say that it is there: the server knows.
    step_ = Step::kAsk;
    return;
  }
  // For Learn, as in a GET that waits.
  const std::uint64_t segment = SegmentGenerations::SegmentOf(slot);
  if (session_->locations().is_on() && !looked_ && session_->generations().RefreshIsDue(segment, start_) &&
      BeginLook(segment)) {
    return;
  }
  ReadRecord(Source::kSearch, slot, search_->place());
}

// --- A record -------------------------------------------------------------------------------------------

void Lookup::ReadRecord(Source source, const Slot& slot, const RecordPlace& place) {
  source_ = source;
  wanted_ = {key_, key_hash_, slot, place, start_};
  if (!into_ && !is_large()) return Read(Reading::kRecord, slot.offset_bytes(), slot.extent_bytes());
  const ValueTarget target{.text = into_ ? nullptr : &text_, .memory = into_};
  text_.clear();
  if (pieces_ == nullptr) pieces_ = std::make_unique<std::optional<ChunkedReader>>();
  pieces_->emplace(*session_, wanted_, target);
  ReadPiece();
}

void Lookup::ReadPiece() {
  if (const std::optional<PieceRead> next = (*pieces_)->Next()) {
    Read(Reading::kPiece, next->offset, next->scratch_size);
    direct_ = next->direct;
    return;
  }
  const PiecesRead read = (*pieces_)->result();
  record_ = {.header = read.header, .body = nullptr, .state = read.state, .proven = read.proven};
  pieces_->reset();
  TakeRecord();
}

void Lookup::TakeRecord() {
  switch (source_) {
    case Source::kRemembered: {
      Found found{.target = {}};
      return Judged(JudgeKnown(*session_, key_hash_, known_, record_, start_, &found), found);
    }
    case Source::kSearch:
      session_->budget().Earn(1);
      looked_ = false;
      search_->TakeJudged(record_.state);
      return Advance();
    case Source::kServer:
      return EndLocated();
  }
}

bool Lookup::BeginLook(std::uint64_t segment) {
  // Of two looks that overlap it is not known which saw more.
  if (look_->is || !session_->budget().has_some()) return false;
  session_->budget().Spend();
  look_->is = true;
  looked_ = true;
  look_segment_ = segment;
  const SegmentGenerations::Range range = session_->generations().RangeOf(segment);
  Read(Reading::kLook, range.offset, range.size);
  return true;
}

void Lookup::Judged(GetOutcome outcome, const Found& found) {
  switch (outcome) {
    case GetOutcome::kFound:
      return EndFound(found.facts);
    case GetOutcome::kMissing:
      step_ = was_loading_ ? Step::kAsk : Step::kMissing;
      return;
    case GetOutcome::kAskServer:
      step_ = Step::kAsk;
      return;
    case GetOutcome::kUnsure:
      return Search();
  }
}

// --- What was read --------------------------------------------------------------------------------------

void Lookup::Posted() {
  if (reading_ == Reading::kLook) look_posted_ = session_->Coarse();
  looks_ = session_->counters().location_looks;
}

void Lookup::Take(std::span<const std::byte> bytes) {
  switch (reading_) {
    case Reading::kLine:
    case Reading::kLikely:
      return;  // they are not READ
    case Reading::kLook:
      look_->is = false;
      ++session_->counters().location_looks;
      session_->generations().Take(look_segment_, bytes, look_posted_, session_->Coarse());
      return searches_ > 0 ? ReadFound() : Warm();
    case Reading::kDirectory:
      session_->TakeDirectory(directory_, bytes);
      directory_read_ = true;
      return ReadBucket();
    case Reading::kBucket:
      session_->budget().Earn(1);
      search_->TakeBucket(*reinterpret_cast<const Bucket*>(bytes.data()));
      return Advance();
    case Reading::kRecord:
      record_ = CopyOf(bytes, wanted_);
      return TakeRecord();
    case Reading::kPiece:
      (*pieces_)->Take(bytes);
      return ReadPiece();
  }
}

// --- The server is asked --------------------------------------------------------------------------------

void Lookup::Asked() {
  has_asked_ = true;
  start_ = session_->Coarse();
  asked_ = session_->clock().Now();
}

void Lookup::Take(const Session::Answer& answer) {
  ++session_->counters().locates;
  ++answers_;
  session_->server_time().Learn(answer.reply.server_ms, asked_, session_->clock().Now());
  located_ = answer.reply;
  record_ = {};
  const absl::StatusOr<Slot> slot = LocatedSlot(*session_, answer);
  if (absl::IsNotFound(slot.status())) return EndAsked(Step::kMissing);
  if (!slot.ok()) {
    status_ = slot.status();
    return EndAsked(Step::kFailed);
  }
  if (!wants_value_) return EndAsked(Step::kFound);
  ReadRecord(Source::kServer, *slot, PlaceOf(*slot));
}

void Lookup::EndLocated() {
  if (!IsLocated(record_, located_)) {
    status_ = absl::InternalError("the record that the server located does not verify");
    return EndAsked(Step::kFailed);
  }
  // It had not expired when the server replied: nobody else's clock is asked.
  EndFound({record_.header.version_live >> 1, record_.header.expiry_ms});
  EndAsked(step_);
}

void Lookup::EndFound(const RecordFacts& facts) {
  facts_ = facts;
  step_ = Step::kFound;
  if (!into_) return;
  status_ = CheckFits(record_.header.value_size, *into_);
  if (!status_.ok()) step_ = Step::kFailed;
}

void Lookup::EndAsked(Step step) {
  // Later, the place may be another record's; then it is asked again, until the caller's patience ends.
  step_ = record_.proven || session_->InTime(start_) ? step : Step::kAsk;
  if (step_ == Step::kAsk && !status_.ok()) status_ = absl::OkStatus();
}

}  // namespace remora
