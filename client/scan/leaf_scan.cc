#include "client/scan/leaf_scan.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/put/put.h"
#include "client/scan/fast_records.h"
#include "store/base/moved.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

// READs of leaves for one position. A leaf is torn for less than a microsecond at a time.
constexpr int kMaxLeafReads = 8;
// Hints that are tried, before the server is asked: a leaf may have been split since.
constexpr int kMaxHints = 2;
// Bytes of a page at which it ends.
constexpr std::size_t kPageBytes = std::size_t{64} << 10;

absl::Status NoLeaf(const char* why) {
  return absl::InternalError(absl::StrCat("protocol error: the server's ordered index is malformed: ", why));
}

}  // namespace

LeafScan::LeafScan(Session& session, bool keys_only, const ScanRange& rest)
    : session_(session),
      keys_only_(keys_only),
      gets_(session),
      rest_(rest),
      memory_(std::move(session.leaf_scan_memory())) {
  if (memory_ == nullptr) memory_ = std::make_unique<LeafScanMemory>();
}

void LeafScan::GiveMemory() {
  memory_->Trim();
  session_.leaf_scan_memory() = std::move(memory_);
}

absl::Status LeafScan::CheckServer(Session& session) {
  if (!session.server().has_leaves()) {
    return absl::FailedPreconditionError(
        "scan: the server has no ordered index that clients can read, or is of an earlier release; start "
        "kvserver with --ordered=memory, or scan without one_sided");
  }
  return absl::OkStatus();
}

void LeafScan::GoTo(const ScanRange& rest) {
  rest_ = rest;
  has_leaf_ = is_over_ = false;
  ahead_ = 0;
  if (is_outdated()) incarnation_ = 0;
}

absl::Status LeafScan::CheckSlots() {
  if (incarnation_ == 0 || is_outdated() || !session_.server().slots().compares()) return absl::OkStatus();
  std::uint64_t word = 0;
  if (session_.region().reads_now()) {
    word = session_.region().SlotsWord();
  } else {
    const std::span<std::byte> bytes = session_.buffers().leaf(0).first(sizeof(word));
    REMORA_RETURN_IF_ERROR(session_.calls().Read(bytes, offsetof(Superblock, slots_word)));
    std::memcpy(&word, bytes.data(), sizeof(word));
  }
  return CompareSlots(word);
}

absl::Status LeafScan::CompareSlots(std::uint64_t word) const {
  if (word == slots_word_) return absl::OkStatus();
  return MovedError(
      "scan: slots came to this server, or left it, since the scan began; begin anew with all keys");
}

// --- Leaves ---------------------------------------------------------------------------------------------

bool LeafScan::CoversPosition() const {
  return rest_.reverse ? image().CoversBelow(rest_.end) : image().Covers(rest_.begin);
}

absl::StatusOr<LeafRead> LeafScan::TakeLeaf(std::span<const std::byte> bytes, std::uint64_t place,
                                            const LeafDirectory::Hint* hint) {
  const LeafRead read = ReadLeaf(bytes, place, session_.server().shape().incarnation, &memory_->image);
  if (read == LeafRead::kMalformed) return NoLeaf("a leaf verifies, and breaks the format");
  if (read != LeafRead::kVerified) return read;
  const bool is_known = hint != nullptr && hint->place == place && hint->low == image().low;
  const bool is_next_known = is_known && hint->next_place == image().next && hint->next_low == image().high;
  const bool has_next = image().has_high && IsLeafPlace(image().next, session_.server().shape().memory_size);
  if (!is_known) session_.leaves().Learn(image().low, place);
  if (has_next && !is_next_known) session_.leaves().Learn(image().high, image().next);
  return read;
}

absl::Status LeafScan::ReadLeafAt(std::uint64_t place) {
  const std::span<std::byte> bytes = session_.buffers().leaf(0);
  if (session_.region().ReadNow(bytes, place)) return absl::OkStatus();
  return session_.calls().Read(bytes, place);
}

absl::StatusOr<LeafScan::Outcome> LeafScan::AskServer(std::uint64_t* place) {
  std::string asked(1, static_cast<char>(rest_.reverse ? LeafSide::kBelow : LeafSide::kOf));
  asked += rest_.reverse ? rest_.end : rest_.begin;
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer,
                          session_.calls().Call(Operation::kLeaf, {}, HashKey({}), asked));
  if (session_.server().is_loading()) {
    return absl::UnavailableError(
        "scan: the server is loading, and its ordered index is not complete yet; try again, or scan without "
        "one_sided");
  }
  const bool has_keys = answer.reply.status != ReplyStatus::kNotFound;
  if (has_keys) REMORA_RETURN_IF_ERROR(ToStatus(answer));
  if (incarnation_ == 0) {  // S1
    incarnation_ = Incarnation();
    slots_word_ = answer.reply.version;
  }
  REMORA_RETURN_IF_ERROR(CompareSlots(answer.reply.version));
  if (!has_keys) return Outcome::kEnd;
  if (answer.reply.slot == 0) return Outcome::kBarred;
  if (!IsLeafPlace(answer.reply.slot, session_.server().shape().memory_size)) {
    return NoLeaf("a leaf outside of its memory");
  }
  *place = answer.reply.slot;
  return Outcome::kPage;
}

absl::StatusOr<LeafScan::Outcome> LeafScan::FindLeaf() {
  if (const std::uint64_t place = std::exchange(ahead_, 0); place != 0) {
    REMORA_ASSIGN_OR_RETURN(const LeafRead read, TakeLeaf(session_.buffers().leaf(1), place, nullptr));
    if (read == LeafRead::kVerified && CoversPosition()) return Outcome::kPage;  // N1
  }
  LeafDirectory& leaves = session_.leaves();
  std::uint64_t tried = 0;
  for (int reads = 0; reads < kMaxLeafReads; ++reads) {
    const std::optional<LeafDirectory::Hint> hint =
        rest_.reverse ? leaves.Below(rest_.end) : leaves.Of(rest_.begin);
    hinted_low_ = hint ? hint->low : std::string_view();
    std::uint64_t place = hint ? hint->place : 0;
    const bool has_begun = incarnation_ != 0 || !session_.server().slots().compares();  // S1
    const bool is_hint =
        has_begun && place != 0 && place != tried && reads < kMaxHints && !session_.server().is_loading();
    if (!is_hint) {
      REMORA_ASSIGN_OR_RETURN(const Outcome told, AskServer(&place));
      if (told != Outcome::kPage) return told;
    }
    REMORA_RETURN_IF_ERROR(ReadLeafAt(place));
    REMORA_ASSIGN_OR_RETURN(const LeafRead read,
                            TakeLeaf(session_.buffers().leaf(0), place, is_hint ? &*hint : nullptr));
    if (read == LeafRead::kVerified && CoversPosition()) return Outcome::kPage;  // N1
    if (read == LeafRead::kTorn && tried != place) {
      REMORA_RETURN_IF_ERROR(ReadLeafAt(place));  // it was being changed
      REMORA_ASSIGN_OR_RETURN(const LeafRead again, TakeLeaf(session_.buffers().leaf(0), place, nullptr));
      if (again == LeafRead::kVerified && CoversPosition()) return Outcome::kPage;  // N1
    }
    tried = place;
    if (is_hint && (read != LeafRead::kVerified || image().low != hinted_low_)) leaves.Forget(hinted_low_);
  }
  return Outcome::kBarred;
}

absl::Status LeafScan::ReadAhead(std::uint64_t most) {
  if (count_ >= most || is_over_) return absl::OkStatus();
  std::uint64_t place = image().next;
  if (rest_.reverse) {
    const std::optional<LeafDirectory::Hint> hint = session_.leaves().Below(image().low);
    place = hint ? hint->place : 0;
  }
  if (!IsLeafPlace(place, session_.server().shape().memory_size)) return absl::OkStatus();
  if (session_.region().reads_now()) {
    session_.region().Prefetch(place, kLeafBlockSize);
    return absl::OkStatus();
  }
  const rdma::Sge into = session_.buffers().SgeOf(session_.buffers().leaf(1));
  REMORA_RETURN_IF_ERROR(session_.region().Post(std::span(&into, 1), place));
  ahead_ = place;
  return absl::OkStatus();
}

// --- Entries --------------------------------------------------------------------------------------------

void LeafScan::SelectKeys() {
  const KeyBatch& keys = image().keys;
  const std::size_t end = rest_.has_end() ? keys.CountBelow(rest_.end) : keys.size();
  first_ = std::min(keys.CountBelow(rest_.begin), end);
  count_ = end - first_;
  next_ = 0;
  if (rest_.reverse) {
    is_over_ = image().low <= rest_.begin;
  } else {
    is_over_ = !image().has_high || (rest_.has_end() && image().high >= rest_.end);
  }
  has_leaf_ = true;
}

void LeafScan::MoveBehindLeaf() {
  has_leaf_ = false;
  (rest_.reverse ? rest_.end : rest_.begin) = rest_.reverse ? image().low : image().high;
}

absl::Status LeafScan::ReadRecords(std::size_t end) {
  if (FastGet::IsFor(session_)) {
    const std::size_t answered = AppendFast(
        session_, end - next_, [this](std::size_t i) { return KeyAt(next_ + i); }, keys_only_, kPageBytes,
        &memory_->page);
    next_ += answered;
    if (next_ == end || memory_->page.size() >= kPageBytes) return session_.endpoint().status();
    // Few keys are left to the slow path one by one, but cold ones come side by side.
    slow_ = answered > 0 ? 1 : std::min(2 * slow_, kBatch);
  } else {
    slow_ = kBatch;
  }
  return ReadSome(std::min(slow_, end - next_));
}

absl::Status LeafScan::ReadSome(std::size_t count) {
  const std::span<std::string_view> keys = std::span(memory_->keys).first(count);
  const std::span<GetResult> results = std::span(memory_->results).first(count);
  const std::span<std::uint64_t> expiries = std::span(memory_->expiries).first(count);
  for (std::size_t i = 0; i < count; ++i) {
    keys[i] = KeyAt(next_ + i);
    results[i].status = absl::OkStatus();
  }
  REMORA_RETURN_IF_ERROR(gets_.Get(keys, results, expiries));
  for (std::size_t i = 0; i < count; ++i) {
    if (absl::IsNotFound(results[i].status)) continue;  // N2
    if (IsMoved(results[i].status)) REMORA_RETURN_IF_ERROR(CheckSlots());
    REMORA_RETURN_IF_ERROR(results[i].status);
    const std::string_view value = keys_only_ ? std::string_view() : std::string_view(results[i].value);
    memory_->page.Append(keys[i], value, results[i].version, expiries[i]);
  }
  next_ += count;
  return absl::OkStatus();
}

absl::StatusOr<LeafScan::Outcome> LeafScan::ReadPage(std::uint64_t most) {
  memory_->page.clear();
  if (rest_.is_empty() && !has_leaf_) return Outcome::kEnd;
  REMORA_RETURN_IF_ERROR(CheckServer(session_));
  if (!has_leaf_) {
    if (is_over_) return Outcome::kEnd;
    REMORA_ASSIGN_OR_RETURN(const Outcome found, FindLeaf());
    if (found != Outcome::kPage) return found;
    SelectKeys();
    REMORA_RETURN_IF_ERROR(ReadAhead(most));
  }
  const std::size_t end = count_ - next_ > most ? next_ + static_cast<std::size_t>(most) : count_;
  absl::Status read;
  while (read.ok() && next_ < end && memory_->page.size() < kPageBytes) read = ReadRecords(end);
  REMORA_RETURN_IF_ERROR(session_.calls().AwaitReads());  // of the leaf ahead
  REMORA_RETURN_IF_ERROR(read);
  REMORA_RETURN_IF_ERROR(CheckSlots());
  if (next_ == count_) MoveBehindLeaf();
  return Outcome::kPage;
}

}  // namespace remora
