// The slots of a member's shard, where etcd has their division.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/cluster/division.h"
#include "server/cluster/division_swap.h"
#include "server/cluster/keeper.h"
#include "server/cluster/kept_division.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// A swap that could not be sent for so long is given up: the slots are not served meanwhile.
constexpr std::chrono::seconds kSwapPatience{3};

}  // namespace

// Before the first takeover, so that no epoch begins in which this member could not serve.
bool Keeper::HasNoDivision() {
  if (has_no_division_ || orders_.lead) return true;
  if (clock_.Now() < next_division_) return false;
  const absl::Status none = SlotsToServe().status();
  next_division_ = clock_.Now() + options_.failover_after / 2;
  if (absl::IsFailedPrecondition(none)) End(std::string(none.message()));
  if (!none.ok()) Say(LogEvent::kClusterFailed, std::string(none.message()));
  has_no_division_ = none.ok();
  return has_no_division_;
}

bool Keeper::ReadDivision() {
  if (division_ == nullptr) return HasNoDivision();
  if (swap_ != nullptr) return true;  // it changes by that
  const bool hurries = options_.kept != nullptr && options_.kept->hurries();
  if (!hurries && clock_.Now() < next_division_) return division_->is_known();
  const absl::Status read = division_->Read(*store_);
  next_division_ = clock_.Now() + 2 * options_.failover_after;
  if (!read.ok()) {
    // A primary goes on: nobody else may have its slots before they are its own no more in that text.
    Say(LogEvent::kClusterFailed, std::string(read.message()));
    if (!orders_.lead) next_division_ = clock_.Now() + options_.failover_after / 2;
    return orders_.lead.has_value();
  }
  if (!hurries) division_->ReadAddressesOfNext(*store_);
  orders_.topology = division_->topology();
  if (orders_.lead) TakeSlots();
  return true;
}

void Keeper::TakeSlots() {
  const ClusterSlots& own = division_->own();
  if (own != *orders_.lead->slots) {
    ClusterSlots missing = own;
    missing.Remove(*orders_.lead->slots);
    if (options_.kept == nullptr || !own.HasAll(*orders_.lead->slots) ||
        missing != options_.kept->expected()) {
      // K23
      return End(
          "the division in etcd gives this shard other slots; started again, this server serves those");
    }
    orders_.lead->slots = std::make_shared<const ClusterSlots>(own);
  }
  if (options_.kept != nullptr) options_.kept->Show(own, division_->Addresses());
}

void Keeper::StepSwap() {
  if (options_.kept == nullptr || !orders_.lead || !IsLeaderOf(*now_)) return;
  if (swap_ == nullptr) {
    std::optional<WantedSwap> wanted = options_.kept->wanted();
    if (!wanted) return;
    swap_ = std::make_unique<DivisionSwap>(options_.division, options_.credentials.shard, *std::move(wanted));
    swap_ends_ = clock_.Now() + kSwapPatience;
  }
  const absl::Status swapped = swap_->Step(*store_, {.key = options_.key, .revision = revision_});
  if (absl::IsUnavailable(swapped)) {
    next_read_ = clock_.Now();  // the own configuration may have changed
    Say(LogEvent::kMoveFailed, std::string(swapped.message()));
    if (swap_->was_sent() || clock_.Now() < swap_ends_) return;
  }
  ClusterSlots own = *orders_.lead->slots;
  if (swapped.ok()) {
    own.Remove(swap_->wanted().slots);
    orders_.lead->slots = std::make_shared<const ClusterSlots>(own);
  } else {
    Say(LogEvent::kMoveFailed, std::string(swapped.message()));
  }
  swap_.reset();
  next_division_ = clock_.Now();
  options_.kept->EndSwap(own, std::string(swapped.message()));
}

absl::StatusOr<std::shared_ptr<const ClusterSlots>> Keeper::SlotsToServe() {
  if (division_ != nullptr) {
    REMORA_RETURN_IF_ERROR(division_->Read(*store_));
    orders_.topology = division_->topology();
    return std::make_shared<const ClusterSlots>(division_->own());
  }
  const std::uint64_t cluster = options_.credentials.shard.cluster;
  if (cluster == 0) return nullptr;
  const absl::StatusOr<ConfigStore::Value> value = store_->Read(DivisionKey(cluster));
  if (!value.ok()) return absl::UnavailableError(value.status().message());
  if (value->revision == 0) return nullptr;
  return absl::FailedPreconditionError(absl::StrCat("it cannot lead: etcd has a division of the slots at ",
                                                    DivisionKey(cluster),
                                                    "; start the server with --slots=etcd"));
}

}  // namespace remora
