#include "server/cluster/slot_source.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/slot.h"

namespace remora {
namespace {

// A step takes about half a millisecond, as one of the server's other tasks does.
constexpr int kCopyLooks = 512;
constexpr std::uint64_t kCopyStepBytes = std::uint64_t{1} << 20;
constexpr std::size_t kChangedKeys = 256;
constexpr std::size_t kForgottenKeys = 256;
constexpr std::size_t kAllKeys = ~std::size_t{0};
// Keys that may be left to copy while the slots are closed.
constexpr std::size_t kLastKeys = 512;
constexpr std::chrono::milliseconds kSourcePause{2};
constexpr std::chrono::milliseconds kLookPause{100};
// A copy that goes over a connection may lack so many bytes when the slots are closed.
constexpr std::uint64_t kUnsentBytes = std::uint64_t{512} << 10;

}  // namespace

std::string SlotSource::Shown() const {
  const std::uint64_t bytes = copy_ != nullptr ? copy_->bytes() : 0;
  const std::uint64_t records = copy_ != nullptr ? copy_->keys().size() : 0;
  const auto with_sizes = [&](absl::string_view state) {
    return absl::StrCat(state, " ", records, " ", bytes);
  };
  switch (state_) {
    case State::kCopying:
      return with_sizes(!rest_ && parts_.transfer.changed() <= kLastKeys && HasSent() ? "ready" : "copying");
    case State::kClosing:
      return with_sizes("closing");
    case State::kSealed:
      return with_sizes(sender_ != nullptr && sender_->confirmed() != 0 ? "confirmed" : "sealed");
    case State::kAsked:
    case State::kReturning:
      return "asked";
    case State::kNone:
      break;
  }
  return "none";
}

absl::Status SlotSource::Begin(std::uint64_t move, const ClusterSlots& slots, const ShardIdentity& to,
                               std::uint64_t bytes_per_second) {
  REMORA_RETURN_IF_ERROR(parts_.transfer.Check());
  if (!parts_.transfer.HasAll(slots)) {
    return absl::FailedPreconditionError(
        "move: not all of these slots are this server's; take the present topology");
  }
  SlotCopyHeader header{.move = move, .source = parts_.division.self(), .destination = to};
  SetSlots(slots, &header);
  path_ = absl::StrCat(parts_.division.CopyPrefix(to), MoveText(move));
  to_ = to;
  REMORA_ASSIGN_OR_RETURN(copy_, SlotCopyWriter::Create(path_, header));
  if (const absl::Status sends = BeginToSend(header); !sends.ok()) {
    copy_.reset();
    RemoveSynced(path_).IgnoreError();
    return sends;
  }
  parts_.transfer.BeginToGive(slots);  // before the scan: it may miss what is written later
  state_ = State::kCopying;
  counted_entries_ = counted_bytes_ = 0;
  move_ = move;
  slots_ = slots;
  rest_ = ScanRange{.by_hash = true};
  bytes_per_second_ = bytes_per_second;
  begun_ = heard_ = next_ = parts_.store.clock().Now();
  parts_.log.Write(LogEvent::kSlotsMove, absl::StrCat("move ", MoveText(move), ": ", slots.count(),
                                                      " slots to shard ", AbslView(to.name()), " begin"));
  return absl::OkStatus();
}

absl::Status SlotSource::BeginToSend(const SlotCopyHeader& header) {
  if (parts_.member == nullptr) return absl::OkStatus();
  FollowerAddress to = parts_.member->credentials;
  to.shard = to_;
  SlotSender::Copy copy{.move = MoveText(header.move),
                        .path = path_,
                        .header = std::string(reinterpret_cast<const char*>(&header), sizeof(header)),
                        .epoch = parts_.member->state().epoch,
                        .order = ++order_};
  REMORA_ASSIGN_OR_RETURN(
      sender_,
      SlotSender::Start(std::move(to), parts_.member->division.AddressesOf(to_.name()), std::move(copy)));
  return absl::OkStatus();
}

bool SlotSource::HasSent() const {
  if (sender_ == nullptr) return true;
  return sender_->is_prepared() && copy_->bytes() - sender_->sent() <= kUnsentBytes;
}

void SlotSource::CountCopied() {
  if (copy_ == nullptr) return;
  const std::uint64_t entries = copy_->entries(), bytes = copy_->bytes();
  parts_.store.Add(Metric::kSlotCopyRecords, static_cast<std::int64_t>(entries - counted_entries_));
  parts_.store.Add(Metric::kSlotCopyBytes, static_cast<std::int64_t>(bytes - counted_bytes_));
  counted_entries_ = entries;
  counted_bytes_ = bytes;
}

// --- The copy -------------------------------------------------------------------------------------------

absl::Status SlotSource::OpenScan() {
  absl::StatusOr<std::unique_ptr<StoreScan>> scan =
      parts_.store.Scan(*rest_, /*limit=*/0, /*keys_only=*/false);
  REMORA_RETURN_IF_ERROR(scan.status());
  scan_ = *std::move(scan);
  return absl::OkStatus();
}

absl::Status SlotSource::CopySome(TimePoint now) {
  if (copy_->bytes() > kMaxCopyBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("move: the copy has more than ", kMaxCopyBytes, " bytes; move fewer slots at once"));
  }
  if (bytes_per_second_ > 0) {
    const std::chrono::duration<double> due(static_cast<double>(copy_->bytes()) /
                                            static_cast<double>(bytes_per_second_));
    const TimePoint at = begun_ + std::chrono::duration_cast<Duration>(due);
    if (at > now) {
      next_ = std::min(at, now + kLookPause);
      return absl::OkStatus();
    }
  }
  if (!rest_) {
    next_ = now + kSourcePause;
    return CopyChanged(kChangedKeys);
  }
  if (scan_ == nullptr) REMORA_RETURN_IF_ERROR(OpenScan());
  const std::uint64_t begin = copy_->bytes();
  for (int looks = 0; looks < kCopyLooks && copy_->bytes() - begin < kCopyStepBytes; ++looks) {
    const StoreScan::Step step = scan_->Advance();
    if (step == StoreScan::Step::kEnd) {
      absl::Status ended = scan_->status();
      const std::string token = scan_->resume_token();
      scan_.reset();
      if (absl::IsAborted(ended)) {  // it shows what has changed since, which is as good
        rest_ = ReadScanToken(token).value_or(ScanRange{.by_hash = true});
        return absl::OkStatus();
      }
      REMORA_RETURN_IF_ERROR(ended);
      rest_.reset();
      return absl::OkStatus();
    }
    if (step != StoreScan::Step::kEntry || !slots_.Has(SlotOf(scan_->key()))) continue;
    const SlotRecord record{scan_->key(), scan_->value(), scan_->version(), scan_->expiry_ms()};
    REMORA_RETURN_IF_ERROR(copy_->Add(record.key, &record));
  }
  return absl::OkStatus();
}

absl::Status SlotSource::CopyChanged(std::size_t most) {
  return parts_.transfer.ReadChanged(
      most, [&](std::string_view key, const SlotRecord* record) { return copy_->Add(key, record); });
}

absl::Status SlotSource::Close() {
  if (state_ == State::kClosing || state_ == State::kSealed) return absl::OkStatus();
  if (state_ != State::kCopying || rest_ || parts_.transfer.changed() > kLastKeys || !HasSent()) {
    return absl::FailedPreconditionError(
        "move: the copy has not caught up with the writes; ask for its state");
  }
  parts_.transfer.Close(slots_);
  state_ = State::kClosing;
  next_ = parts_.store.clock().Now();
  return absl::OkStatus();
}

absl::Status SlotSource::SealIfQuiet() {
  if (!parts_.transfer.IsQuiet()) return absl::OkStatus();
  REMORA_RETURN_IF_ERROR(CopyChanged(kAllKeys));
  // With replicas, the copy goes to the log of the destination, and here it ends with the process.
  const bool synced = parts_.has_disk && parts_.member == nullptr;
  REMORA_RETURN_IF_ERROR(copy_->Seal(parts_.transfer.versions_end(), synced));
  if (sender_ != nullptr) sender_->Seal();
  state_ = State::kSealed;
  return absl::OkStatus();
}

// --- The swap -------------------------------------------------------------------------------------------

absl::Status SlotSource::Give() {
  const bool asks_keeper = parts_.member != nullptr;
  if (asks_keeper && (state_ == State::kAsked || state_ == State::kReturning)) {
    return absl::AbortedError("move: the division is being changed in etcd");
  }
  if (state_ != State::kSealed || (sender_ != nullptr && sender_->confirmed() == 0)) {
    return absl::FailedPreconditionError("move: the copy is not sealed, or not confirmed; ask for its state");
  }
  if (asks_keeper) parts_.member->division.SetConfirmed(move_, sender_->confirmed());
  absl::Status prepared = parts_.division.Prepare(slots_, to_);
  if (absl::IsAborted(prepared)) return prepared;
  if (prepared.ok()) {
    prepared = TakeOut();
    if (!prepared.ok()) parts_.division.GiveUp();
  }
  if (!prepared.ok()) {
    GiveUp(std::string(prepared.message()));
    return prepared;
  }
  const absl::Status swapped = parts_.division.Swap();
  if (swapped.ok()) {
    EndGiven(/*is_kept=*/true);
    return absl::OkStatus();
  }
  state_ = State::kAsked;
  swap_fault_ = std::string(swapped.message());
  parts_.transfer.SetSettled(false);
  next_ = parts_.store.clock().Now();
  if (asks_keeper) return absl::AbortedError(swapped.message());
  parts_.log.Write(LogEvent::kMoveFailed, absl::StrCat("move ", MoveText(move_), ": ", swapped.message()));
  return LearnOfSwap();
}

absl::Status SlotSource::TakeOut() {
  std::vector<SlotTransfer::GivenKey> keys;
  keys.reserve(copy_->keys().size());
  for (const auto& [key, expires] : copy_->keys()) keys.push_back({key, expires});
  return parts_.transfer.Give(slots_, keys);
}

absl::Status SlotSource::LearnOfSwap() {
  const absl::StatusOr<ClusterSlots> own = parts_.division.Own();
  if (!own.ok()) {
    next_ = parts_.store.clock().Now() + (parts_.member != nullptr ? kSourcePause : kLookPause);
    return own.status();
  }
  if (!own->HasAll(slots_)) {
    EndGiven(/*is_kept=*/parts_.member != nullptr);
    return absl::OkStatus();
  }
  NoteFailed(parts_.member != nullptr ? parts_.member->division.swap_fault() : swap_fault_);
  state_ = State::kReturning;
  next_ = parts_.store.clock().Now();
  return absl::UnavailableError("move: the division could not be written, so the slots stay where they are");
}

// The records are as the copy has them: nobody has taken a write since.
void SlotSource::ReturnSome() {
  if (returned_ == nullptr) {
    absl::StatusOr<std::unique_ptr<SlotCopy>> copy = copy_->Read();
    if (!copy.ok()) {
      parts_.log.Write(LogEvent::kMoveFailed, StdView(copy.status().message()));
      next_ = parts_.store.clock().Now() + kLookPause;
      return;
    }
    returned_ = *std::move(copy);
  }
  const absl::Status taken = parts_.transfer.Take(returned_->records, returned_->versions_end);
  if (!taken.ok()) {
    next_ = parts_.store.clock().Now() + kLookPause;
    return;
  }
  parts_.transfer.Own(slots_);
  parts_.log.Write(LogEvent::kMoveFailed,
                   absl::StrCat("move ", MoveText(move_), ": the slots are served again"));
  End();
}

void SlotSource::EndGiven(bool is_kept) {
  given_ = move_;
  failed_ = {};
  // A power cut may bring the old division back: then the records are needed.
  if (parts_.has_disk && is_kept) {
    for (const auto& [key, expires] : copy_->keys()) to_forget_.push_back(key);
  }
  parts_.log.Write(LogEvent::kSlotsMove, absl::StrCat("move ", MoveText(move_), ": ", slots_.count(),
                                                      " slots are given to shard ", AbslView(to_.name())));
  if (parts_.member == nullptr) path_.clear();  // the destination's now
  End();
}

void SlotSource::NoteFailed(const std::string& why) {
  failed_ = {.move = move_,
             .what = absl::StrCat(slots_.count(), " slots to shard ", AbslView(to_.name())),
             .why = why,
             .at = parts_.store.clock().Now()};
}

void SlotSource::GiveUp(const std::string& why) {
  if (state_ != State::kCopying && state_ != State::kClosing && state_ != State::kSealed) return;
  NoteFailed(why);
  parts_.log.Write(LogEvent::kMoveFailed, absl::StrCat("move ", MoveText(move_), " is given up: ", why));
  End();
}

void SlotSource::End() {
  parts_.transfer.KeepSlots();
  parts_.transfer.SetSettled(true);
  scan_.reset();
  copy_.reset();
  returned_.reset();
  if (sender_ != nullptr) {
    sender_->Stop(/*cancels=*/given_ != move_);
    senders_.push_back(std::move(sender_));
  }
  // If it stays, the destination removes it.
  if (!path_.empty()) RemoveSynced(path_).IgnoreError();
  state_ = State::kNone;
}

bool SlotSource::ForgetSome() {
  const std::size_t count = std::min(kForgottenKeys, to_forget_.size());
  const std::span<const std::string> some = std::span(to_forget_).last(count);
  // Records that stay there are not shown, and a later move to this server deletes them.
  if (!parts_.transfer.Forget(some).ok()) to_forget_.resize(count);
  to_forget_.resize(to_forget_.size() - count);
  return true;
}

// --- Steps ----------------------------------------------------------------------------------------------

bool SlotSource::Step(TimePoint now) {
  std::erase_if(senders_, [](const std::unique_ptr<SlotSender>& sender) { return sender->has_ended(); });
  if (state_ == State::kNone) return !to_forget_.empty() && ForgetSome();
  const bool is_copying = state_ == State::kCopying;
  if (is_copying || state_ == State::kClosing || state_ == State::kSealed) {
    if (now - heard_ > (is_copying ? Duration(kCopyPatience) : Duration(kClosedPatience))) {
      GiveUp("nobody asked for its state any more: kvctl ended, or was too slow");
      return true;
    }
    if (sender_ != nullptr && !sender_->status().ok()) {
      GiveUp(std::string(sender_->status().message()));
      return true;
    }
  }
  if (now < next_) return false;
  absl::Status status;
  switch (state_) {
    case State::kCopying:
      status = CopySome(now);
      if (absl::IsAborted(status)) {
        next_ = now + kSourcePause;
        return false;
      }
      break;
    case State::kClosing:
      status = SealIfQuiet();
      break;
    case State::kAsked:
      LearnOfSwap().IgnoreError();
      return true;
    case State::kReturning:
      ReturnSome();
      return true;
    case State::kNone:
    case State::kSealed:
      return false;
  }
  CountCopied();
  if (!status.ok()) GiveUp(std::string(status.message()));
  return true;
}

std::optional<TimePoint> SlotSource::next_work() const {
  if (state_ == State::kNone) {
    return to_forget_.empty() ? std::nullopt : std::optional(parts_.store.clock().Now());
  }
  if (state_ != State::kSealed) return next_;
  return sender_ == nullptr ? heard_ + kClosedPatience : parts_.store.clock().Now() + kSourcePause;
}

}  // namespace remora
