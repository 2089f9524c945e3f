#include "store/reclaim/large_mover.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "store/base/check.h"
#include "store/format/memory/record.h"

namespace remora {

bool LargeMover::Begin(const Place& from) {
  REMORA_CHECK(!move_ && log_.IsLive(from));
  const RecordHeader& header = log_.Header(from);
  const std::optional<Place> to = log_.ReserveMove(header.key_size, header.value_size);
  if (!to) return false;
  const std::uint64_t number = segments_.large().Find(from.offset_bytes())->number;
  move_ = Move{.from = from, .number = number, .to = *to, .copied = 0, .hasher = {}};
  return true;
}

bool LargeMover::Copy(std::uint64_t* left) {
  if (!move_) return true;
  if (!IsStillThere()) {
    log_.Rollback(move_->to);
    move_.reset();
    return true;
  }
  const std::span<std::byte> body = log_.MutableBody(move_->to);
  const std::size_t some = std::min<std::uint64_t>(*left, body.size() - move_->copied);
  const std::size_t end = move_->copied + some;
  std::memcpy(body.data() + move_->copied, log_.Body(move_->from) + move_->copied, some);
  // Hashes the copy, so that its checksum is right only if the bytes that readers will find are.
  const std::size_t value = std::max<std::size_t>(move_->copied, log_.Header(move_->from).key_size);
  if (value < end) move_->hasher.Add(body.data() + value, end - value);
  move_->copied = end;
  *left -= some;
  if (end < body.size()) return false;
  Finish();
  move_.reset();
  return true;
}

// Another record may be at the same offset by now. The number of its place is another one.
bool LargeMover::IsStillThere() const {
  const LargeSpace::Place* const place = segments_.large().Find(move_->from.offset_bytes());
  return place != nullptr && place->number == move_->number;
}

void LargeMover::Finish() {
  const auto& [from, number, to, copied, hasher] = *move_;
  const std::string_view key = log_.Key(to);
  const std::uint64_t key_hash = HashKey(key);
  const std::uint64_t value_hash = hasher.Hash();
  log_.CheckIntact(from, key_hash, value_hash);
  const std::optional<Index::Entry> entry = index_.Find(key, key_hash);
  REMORA_CHECK(entry.has_value() && entry->place == from);  // a live record is the one that the index names
  log_.PublishMoved(from, to, key_hash, value_hash);
  index_.Replace(*entry, to);
}

}  // namespace remora
