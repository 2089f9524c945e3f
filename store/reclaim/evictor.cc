#include "store/reclaim/evictor.h"

namespace remora {
namespace {

// The first queue's share of the log.
constexpr std::size_t kWrittenShare = 10;

}  // namespace

std::optional<SegmentNumber> Evictor::Next() {
  if (mode_ == Mode::kOff) return std::nullopt;
  // Adjusts the number of uses with which a record of the second queue stays. If all records are used often,
  // about half of the bytes still leave. If all are used rarely, some may still stay.
  if (queue_ == Segments::Queue::kMoved && judged_ > 0) {
    if (stayed_ > judged_ / 2 && enough_ <= AccessFrequency::kMaxCount) ++enough_;
    if (stayed_ < judged_ / 8 && enough_ > kUsedAgain) --enough_;
  }
  judged_ = 0;
  stayed_ = 0;
  const std::size_t written = segments_.CountOf(Segments::Queue::kWritten);
  const std::size_t moved = segments_.CountOf(Segments::Queue::kMoved);
  const bool first = moved == 0 || written * kWrittenShare >= written + moved;
  queue_ = first ? Segments::Queue::kWritten : Segments::Queue::kMoved;
  return segments_.Oldest(queue_);
}

bool Evictor::Stays(const Place& place, std::uint64_t key_hash) {
  const std::uint32_t enough = queue_ == Segments::Queue::kMoved ? enough_ : kUsedAgain;
  const bool stays = frequency_.Of(key_hash) >= enough;
  judged_ += place.extent_bytes();
  if (stays) stayed_ += place.extent_bytes();
  return stays;
}

bool Evictor::MayLeave(const Place& place) const {
  return mode_ != Mode::kMarkCold || tier_ == nullptr || tier_->Holds(log_.Header(place).version_live >> 1);
}

bool Evictor::Evict(std::uint64_t key_hash, const Index::Entry& entry, TimePoint now) {
  if (mode_ == Mode::kDrop) {
    if (ordered_ != nullptr) ordered_->NoteRemove(entry.place);
    if (changes_ != nullptr) changes_->Append({.kind = ChangeKind::kDelete, .key = log_.Key(entry.place)});
    log_.Kill(entry.place);  // I5
    index_.Erase(key_hash, entry);
    if (ordered_ != nullptr) ordered_->FinishRemove();
  } else {
    if (ordered_ != nullptr && unsynced_.Has(log_.Key(entry.place))) return false;  // V7
    if (index_.FindCold(key_hash) || !index_.Reserve(key_hash, 1)) return false;
    if (!MayLeave(entry.place)) return false;
    // Kill comes first: a reader with this place in its cache must not find the record live after a later
    // write of the key.
    log_.Kill(entry.place);
    cold_expirer_.NoteExpiry(Segments::ExpiryOf(log_.Header(entry.place)));
    index_.MarkCold(key_hash, entry, now);
  }
  ++evictions_;
  return true;
}

}  // namespace remora
