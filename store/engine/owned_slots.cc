#include "store/engine/owned_slots.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "store/base/moved.h"
#include "store/engine/metrics.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"

namespace remora {
namespace {

constexpr std::uint32_t kBitsOfWord = 64;

}  // namespace

struct OwnedSlots::Words {
  std::array<std::atomic<std::uint64_t>, kSlots / kBitsOfWord> words{};
};

OwnedSlots::OwnedSlots(const Metrics& metrics) : metrics_(metrics), words_(std::make_unique<Words>()) {
  ClusterSlots all;
  all.Add(0, kSlots - 1);
  Export(all);
}
OwnedSlots::~OwnedSlots() = default;

void OwnedSlots::Set(const ClusterSlots& slots) {
  for (std::uint32_t slot = 0; slot < kSlots; slot += kBitsOfWord) {
    std::uint64_t word = 0;
    for (std::uint32_t bit = 0; bit < kBitsOfWord; ++bit) {
      word |= std::uint64_t{slots.Has(slot + bit) ? 1u : 0u} << bit;
    }
    words_->words[slot / kBitsOfWord].store(word, std::memory_order_relaxed);
  }
  is_limited_.store(true, std::memory_order_release);
  Export(slots);
}

void OwnedSlots::Export(const ClusterSlots& slots) const {
  metrics_.Set(Metric::kOwnedSlots, slots.count());
  metrics_.Set(Metric::kOwnedSlotsChecksum, SlotsChecksum(slots));
}

absl::Status OwnedSlots::CheckSlot(absl::string_view operation, std::string_view key,
                                   std::uint64_t key_hash) const {
  const std::uint32_t slot = SlotOfHashed(key, key_hash);
  const std::uint64_t word = words_->words[slot / kBitsOfWord].load(std::memory_order_relaxed);
  if ((word >> (slot % kBitsOfWord) & 1) != 0) return absl::OkStatus();
  metrics_.Add(Metric::kMovedRequests, 1);
  return MovedError(absl::StrCat(operation, ": slot ", slot,
                                 " of the key is another server's, and nothing was done; take the present "
                                 "topology"));
}

}  // namespace remora
