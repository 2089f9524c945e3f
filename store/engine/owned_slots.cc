#include "store/engine/owned_slots.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/moved.h"
#include "store/engine/metrics.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"

namespace remora {

OwnedSlots::OwnedSlots(const Metrics& metrics, std::shared_ptr<const ClusterSlots> slots)
    : metrics_(metrics), slots_(std::move(slots)) {
  ClusterSlots all;
  all.Add(0, kSlots - 1);
  const ClusterSlots& own = slots_ != nullptr ? *slots_ : all;
  metrics_.Set(Metric::kOwnedSlots, own.count());
  metrics_.Set(Metric::kOwnedSlotsChecksum, SlotsChecksum(own));
}

bool OwnedSlots::Has(std::string_view key) const { return slots_ == nullptr || HasSlotOf(key, HashKey(key)); }

bool OwnedSlots::HasSlotOf(std::string_view key, std::uint64_t key_hash) const {
  return slots_->Has(SlotOfHashed(key, key_hash));
}

absl::Status OwnedSlots::Moved(absl::string_view operation, std::string_view key,
                               std::uint64_t key_hash) const {
  metrics_.Add(Metric::kMovedRequests, 1);
  return MovedError(absl::StrCat(operation, ": slot ", SlotOfHashed(key, key_hash),
                                 " of the key is another server's, and nothing was done; take the present "
                                 "topology"));
}

}  // namespace remora
