#include "server/cluster/slot_destination.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"

namespace remora {
namespace {

constexpr std::chrono::milliseconds kDivisionPause{20};
constexpr std::chrono::milliseconds kTakePause{5};
constexpr std::chrono::milliseconds kMemberPause{2};  // a look costs no call of the system

constexpr char kReplaced[] = "another move took its place";

bool HaveCommon(const ClusterSlots& one, const ClusterSlots& other) {
  ClusterSlots left = one;
  left.Remove(other);
  return left != one;
}

}  // namespace

SlotDestination::SlotDestination(const SlotMoveParts& parts, std::unique_ptr<SlotCopy> confirmed)
    : parts_(parts), copy_(std::move(confirmed)) {
  if (copy_ == nullptr) return;
  state_ = State::kConfirmed;
  move_ = copy_->header.move;
  slots_ = SlotsOfCopy(copy_->header);
  from_ = copy_->header.source;
  path_ = absl::StrCat(parts_.division.CopyPrefix(parts_.division.self()), MoveText(move_));
}

std::string SlotDestination::Shown() const {
  switch (state_) {
    case State::kPreparing:
      return "preparing";
    case State::kPrepared:
      return "prepared";
    case State::kStaged:
      return "staged";
    case State::kConfirmed:
      return parts_.member == nullptr ? "confirmed"
                                      : absl::StrCat("confirmed ", parts_.member->state().epoch);
    case State::kComing:
      return "coming";
    case State::kNone:
      break;
  }
  return "none";
}

bool SlotDestination::MayBeReplaced(const ShardIdentity& from, TimePoint now) const {
  if (state_ == State::kNone) return true;
  if (state_ == State::kComing) return false;
  // With replicas, the log keeps what was confirmed, and M10 tells a move that began earlier.
  if (parts_.member != nullptr) return from == from_ || now - heard_ > kPatience;
  // M5: the message may be old, and the source of this copy may swap at any time.
  if (state_ == State::kConfirmed) return false;
  return from == from_ || now - heard_ > kPatience;
}

absl::Status SlotDestination::Begin(std::uint64_t move, const ClusterSlots& slots,
                                    const ShardIdentity& from) {
  // With replicas, a move that makes way may still come from another shard (may_come_).
  if (parts_.member == nullptr) REMORA_RETURN_IF_ERROR(Cancel());
  if (parts_.member != nullptr && state_ != State::kComing) Drop(kReplaced);
  if (state_ != State::kNone) {
    return absl::UnavailableError("move: slots of the move before come to this server; try again");
  }
  REMORA_RETURN_IF_ERROR(parts_.transfer.Check());
  if (parts_.transfer.HasAny(slots)) {
    return absl::FailedPreconditionError("move: some of these slots are the destination's already");
  }
  const std::string prefix = parts_.division.CopyPrefix(parts_.division.self());
  path_ = absl::StrCat(prefix, MoveText(move));
  for (const std::string& file : FilesWithPrefix(prefix)) {
    if (file != path_) REMORA_RETURN_IF_ERROR(RemoveSynced(file));
  }
  parts_.transfer.BeginToTake();
  state_ = State::kPreparing;
  move_ = move;
  slots_ = slots;
  from_ = from;
  heard_ = next_ = parts_.store.clock().Now();
  return absl::OkStatus();
}

absl::Status SlotDestination::BeginInOrder(std::uint64_t move, const ClusterSlots& slots,
                                           const ShardIdentity& from, Order order) {
  const std::string name(from.name());
  if (const auto last = orders_.find(name); last != orders_.end() && last->second >= order) {
    return absl::FailedPreconditionError("move: the source has begun a later move, or was replaced");
  }
  for (const auto& [other, coming] : may_come_) {
    if (other != name && HaveCommon(coming, slots)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "move: shard ", other,
          " may still give some of these slots; `kvctl cluster switch` of this shard ends that"));
    }
  }
  REMORA_RETURN_IF_ERROR(Begin(move, slots, from));
  orders_[name] = order;
  may_come_.erase(name);
  file_ = rdma::UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  bytes_ = 0;
  if (file_) return absl::OkStatus();
  const int error = errno;
  absl::Status failed =
      absl::UnavailableError(absl::StrCat("move: cannot make ", path_, ": ", std::strerror(error)));
  Drop(std::string(failed.message()));
  return failed;
}

absl::Status SlotDestination::Append(std::uint64_t at, std::string_view bytes) {
  if (state_ != State::kPrepared || at != bytes_) {
    return absl::FailedPreconditionError("move: the bytes do not follow those before; begin anew");
  }
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(absl::StrCat("move: cannot write ", path_, ": ", std::strerror(errno)));
    }
    bytes_ += static_cast<std::uint64_t>(count);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status SlotDestination::LogCopy() {
  if (state_ == State::kStaged) return absl::OkStatus();
  const absl::StatusOr<std::uint64_t> group = parts_.transfer.Log(copy_->records, copy_->versions_end);
  group_ = parts_.store.last_group();  // also if a part of the copy was logged
  if (!group.ok()) {
    copy_.reset();
    return group.status();
  }
  state_ = State::kStaged;
  next_ = parts_.store.clock().Now();
  return absl::OkStatus();
}

bool SlotDestination::ConfirmIfPublished() {
  if (parts_.member->state().published < group_) {
    next_ = parts_.store.clock().Now() + kMemberPause;
    return false;
  }
  state_ = State::kConfirmed;
  may_come_[std::string(from_.name())] = slots_;
  parts_.member->division.Expect(slots_);
  next_ = parts_.store.clock().Now() + kMemberPause;
  return true;
}

absl::Status SlotDestination::CheckSpace() const {
  // A store with a disk moves other records there.
  if (parts_.has_disk) return absl::OkStatus();
  const std::uint64_t free = parts_.store.Read(Metric::kMemoryBytesFree);
  constexpr std::uint64_t kReserve = std::uint64_t{4} << 20;
  const std::uint64_t needed = 2 * copy_->bytes.size() + kReserve;
  if (free >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("move: the destination has ", free,
                                                    " bytes of memory free, and should have ", needed,
                                                    "; give it more (--memory), or move fewer slots"));
}

absl::Status SlotDestination::Confirm() {
  if (state_ == State::kStaged || state_ == State::kConfirmed || state_ == State::kComing) {
    return absl::OkStatus();
  }
  if (state_ != State::kPrepared) {
    return absl::FailedPreconditionError("move: the destination is not prepared; ask for its state");
  }
  REMORA_RETURN_IF_ERROR(ReadCopy());
  if (parts_.member != nullptr) return LogCopy();
  absl::Status fits = CheckSpace();
  if (fits.ok()) {
    fits = RenameSynced(path_, absl::StrCat(path_, AbslView(kConfirmedSuffix)), parts_.has_disk);
  }
  if (!fits.ok()) {
    copy_.reset();
    return fits;
  }
  state_ = State::kConfirmed;
  next_ = parts_.store.clock().Now() + kDivisionPause;
  return absl::OkStatus();
}

absl::Status SlotDestination::ReadCopy() {
  REMORA_ASSIGN_OR_RETURN(copy_, ReadSlotCopy(path_));
  const SlotCopyHeader& header = copy_->header;
  if (header.move != move_ || header.destination != parts_.division.self() || header.source != from_ ||
      SlotsOfCopy(header) != slots_) {
    copy_.reset();
    return absl::FailedPreconditionError(
        absl::StrCat("move: the copy ", path_, " is of another move; begin anew"));
  }
  return absl::OkStatus();
}

bool SlotDestination::LookAtDivision() {
  if (state_ == State::kComing) {
    TakeIn();
    return true;
  }
  if (state_ != State::kConfirmed) return false;
  next_ = parts_.store.clock().Now() + (parts_.member == nullptr ? kDivisionPause : kMemberPause);
  const absl::StatusOr<ClusterSlots> own = parts_.division.Own();
  if (!own.ok() || !own->HasAll(slots_)) return false;
  state_ = State::kComing;
  parts_.transfer.SetSettled(false);
  TakeIn();
  return true;
}

void SlotDestination::TakeIn() {
  absl::Status taken = parts_.transfer.Check();  // it may load
  if (taken.ok()) taken = parts_.transfer.Take(copy_->records, copy_->versions_end);
  // M7: a later start would take it in once more, over later writes.
  if (taken.ok() && parts_.member == nullptr) {
    taken = RemoveSynced(absl::StrCat(path_, AbslView(kConfirmedSuffix)));
  }
  if (!taken.ok()) {
    if (!absl::IsAborted(taken)) {
      parts_.log.Write(LogEvent::kMoveFailed,
                       absl::StrCat("move ", MoveText(move_), ": the slots wait: ", taken.message()));
    }
    const bool is_soon = absl::IsAborted(taken);
    next_ = parts_.store.clock().Now() + (is_soon ? kTakePause : std::chrono::milliseconds(1000));
    return;
  }
  parts_.transfer.Own(slots_);
  parts_.transfer.SetSettled(true);
  taken_ = move_;
  parts_.log.Write(LogEvent::kSlotsMove, absl::StrCat("move ", MoveText(move_), ": ", slots_.count(),
                                                      " slots with ", copy_->records.size(),
                                                      " keys are taken from shard ", AbslView(from_.name())));
  if (parts_.member != nullptr) {
    may_come_.erase(std::string(from_.name()));
    return Drop("");
  }
  failed_ = {};
  copy_.reset();
  state_ = State::kNone;
}

absl::Status SlotDestination::Cancel() {
  if (state_ == State::kConfirmed && parts_.member == nullptr) {
    const absl::StatusOr<ClusterSlots> own = parts_.division.Own();
    if (!own.ok()) return absl::UnavailableError(own.status().message());
    LookAtDivision();
  }
  if (state_ == State::kComing) return absl::OkStatus();
  may_come_.erase(std::string(from_.name()));  // the source has settled it
  Drop("the source, or kvctl, cancelled it");
  return absl::OkStatus();
}

void SlotDestination::Drop(std::string why) {
  if (state_ == State::kNone) return;
  failed_ = {};
  if (!why.empty()) {
    failed_ = {.move = move_,
               .what = absl::StrCat(slots_.count(), " slots from shard ", AbslView(from_.name())),
               .why = std::move(why),
               .at = parts_.store.clock().Now()};
  }
  copy_.reset();
  file_ = rdma::UniqueFd();
  if (parts_.member != nullptr) {
    parts_.member->division.Expect(std::nullopt);
    ::unlink(path_.c_str());
    state_ = State::kNone;
    return;
  }
  // The next move removes a file that stays. A start takes a confirmed one only if the division gives all of
  // its slots to this server.
  RemoveSynced(absl::StrCat(path_, AbslView(kConfirmedSuffix))).IgnoreError();
  RemoveSynced(path_).IgnoreError();
  state_ = State::kNone;
}

bool SlotDestination::Step(TimePoint now) {
  if (state_ == State::kNone || state_ == State::kPrepared || now < next_) return false;
  if (state_ == State::kStaged) return ConfirmIfPublished();
  if (state_ != State::kPreparing) return LookAtDivision();
  // A scan of the disk shows what all members have, so not yet a copy before that some may lack.
  if (parts_.member != nullptr && parts_.member->state().published < group_) {
    next_ = now + kMemberPause;
    return false;
  }
  const absl::StatusOr<bool> more = parts_.transfer.DropOthers(slots_);
  if (absl::IsAborted(more.status())) {
    next_ = now + kTakePause;
    return false;
  }
  if (!more.ok()) {
    parts_.log.Write(LogEvent::kMoveFailed, StdView(more.status().message()));
    Drop(std::string(more.status().message()));
  } else if (!*more) {
    state_ = State::kPrepared;
  }
  return true;
}

std::optional<TimePoint> SlotDestination::next_work() const {
  if (state_ == State::kNone || state_ == State::kPrepared) return std::nullopt;
  return next_;
}

}  // namespace remora
