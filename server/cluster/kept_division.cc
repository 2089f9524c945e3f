#include "server/cluster/kept_division.h"

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora {

// --- The server thread ----------------------------------------------------------------------------------

absl::StatusOr<ShardIdentity> KeptDivision::Find(std::string_view shard) {
  const MutexLock lock(mutex_);
  if (shard != self_.name() && addresses_.contains(std::string(shard))) {
    return IdentityOf(self_.cluster, shard);
  }
  return absl::NotFoundError(absl::StrCat("move: shard ", AbslView(shard),
                                          " is not another one of the division in etcd; name one of it"));
}

absl::StatusOr<ClusterSlots> KeptDivision::Own() {
  const MutexLock lock(mutex_);
  if (wanted_) return absl::UnavailableError("move: the division is being changed in etcd");
  if (!own_) return absl::UnavailableError("move: the division was not read in etcd yet");
  return *own_;
}

absl::Status KeptDivision::Prepare(const ClusterSlots& slots, const ShardIdentity& to) {
  const MutexLock lock(mutex_);
  if (!own_ || !own_->HasAll(slots)) {
    return absl::FailedPreconditionError("move: not all of these slots are this shard's; begin anew");
  }
  if (own_->count() == slots.count()) {
    return absl::FailedPreconditionError("move: the shard would have no slot left; leave it one");
  }
  prepared_.slots = slots;
  prepared_.to = to;
  return absl::OkStatus();
}

absl::Status KeptDivision::Swap() {
  const MutexLock lock(mutex_);
  wanted_ = prepared_;
  NoteHurry();
  return absl::UnavailableError("move: the division is being changed in etcd");
}

void KeptDivision::GiveUp() {}

std::string KeptDivision::CopyPrefix(const ShardIdentity& to) const {
  return absl::StrCat(data_dir_, to == self_ ? "/slots-in-" : "/slots-out-");
}

void KeptDivision::SetConfirmed(std::uint64_t move, std::uint64_t epoch) {
  const MutexLock lock(mutex_);
  prepared_.move = move;
  prepared_.to_epoch = epoch;
}

void KeptDivision::Expect(std::optional<ClusterSlots> slots) {
  const MutexLock lock(mutex_);
  expected_ = slots;
  NoteHurry();
}

std::string KeptDivision::swap_fault() const {
  const MutexLock lock(mutex_);
  return swap_fault_;
}

std::string KeptDivision::AddressesOf(std::string_view shard) const {
  const MutexLock lock(mutex_);
  const auto found = addresses_.find(std::string(shard));
  return found == addresses_.end() ? "" : found->second;
}

// --- The keeper -----------------------------------------------------------------------------------------

void KeptDivision::Show(const ClusterSlots& own, std::map<std::string, std::string> addresses) {
  const MutexLock lock(mutex_);
  own_ = own;
  addresses_ = std::move(addresses);
}

std::optional<WantedSwap> KeptDivision::wanted() const {
  const MutexLock lock(mutex_);
  return wanted_;
}

void KeptDivision::EndSwap(const ClusterSlots& own, std::string fault) {
  const MutexLock lock(mutex_);
  own_ = own;
  swap_fault_ = std::move(fault);
  wanted_.reset();
  NoteHurry();
}

ClusterSlots KeptDivision::expected() const {
  const MutexLock lock(mutex_);
  return expected_.value_or(ClusterSlots());
}

}  // namespace remora
