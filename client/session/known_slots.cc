#include "client/session/known_slots.h"

#include "store/format/cluster/cluster_slots.h"

namespace remora {

KnownSlots::KnownSlots() = default;
KnownSlots::~KnownSlots() = default;

void KnownSlots::Begin(std::uint64_t word) {
  slots_ = word != 0 ? std::make_unique<ClusterSlots>() : nullptr;
  word_ = word;
}

bool KnownSlots::Has(std::uint32_t slot) const { return slots_->Has(slot); }

bool KnownSlots::Proves(std::uint32_t slot, std::uint64_t word) const { return word == word_ && Has(slot); }

void KnownSlots::Learn(std::uint32_t slot, std::uint64_t word) {
  if (!compares() || word == 0) return;
  if (word != word_) *slots_ = ClusterSlots();
  word_ = word;
  slots_->Add(slot, slot);
}

}  // namespace remora
