#include "store/engine/owned_slots.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/moved.h"
#include "store/engine/metrics.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"

namespace remora {

OwnedSlots::~OwnedSlots() = default;

OwnedSlots::OwnedSlots(const Metrics& metrics, const std::shared_ptr<const ClusterSlots>& slots)
    : metrics_(metrics), is_part_(slots != nullptr) {
  static_assert(kWords * kBits == kSlots);
  ClusterSlots all;
  all.Add(0, kSlots - 1);
  Set(is_part_ ? *slots : all, /*is_own=*/true, /*is_open=*/true);
  ShowMetrics();
}

void OwnedSlots::ShowMetrics() const {
  ClusterSlots own;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (IsIn(own_, slot)) own.Add(slot, slot);
  }
  metrics_.Set(Metric::kOwnedSlots, own.count());
  metrics_.Set(Metric::kOwnedSlotsChecksum, SlotsChecksum(own));
}

bool OwnedSlots::Has(std::string_view key) const { return !is_part_ || HasSlotOf(key, HashKey(key)); }

bool OwnedSlots::HasSlotOf(std::string_view key, std::uint64_t key_hash) const {
  return IsIn(own_, SlotOfHashed(key, key_hash));
}

bool OwnedSlots::TakesWriteOf(std::string_view key, std::uint64_t key_hash) const {
  return IsIn(open_, SlotOfHashed(key, key_hash));
}

absl::Status OwnedSlots::Moved(absl::string_view operation, std::string_view key,
                               std::uint64_t key_hash) const {
  metrics_.Add(Metric::kMovedRequests, 1);
  const std::uint32_t slot = SlotOfHashed(key, key_hash);
  return MovedError(absl::StrCat(operation, ": slot ", slot, " of the key is ",
                                 IsIn(own_, slot) ? "about to be another server's" : "another server's",
                                 ", and nothing was done; take the present topology"));
}

absl::Status OwnedSlots::CheckChanges(absl::string_view operation, std::uint64_t before) const {
  if (changes() == before) return absl::OkStatus();
  return MovedError(absl::StrCat(
      operation, ": slots came to this server, or left it, since it began; begin anew with all keys"));
}

absl::Status OwnedSlots::CheckSettled(absl::string_view operation) const {
  if (is_settled_.load(std::memory_order_acquire)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(operation, ": slots are about to come to this server; try again"));
}

void OwnedSlots::Set(const ClusterSlots& slots, bool is_own, bool is_open) {
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (!slots.Has(slot)) continue;
    const std::uint64_t bit = std::uint64_t{1} << (slot % kBits);
    for (const auto& [words, is_in] : {std::pair(&own_, is_own), std::pair(&open_, is_open)}) {
      std::atomic<std::uint64_t>& word = (*words)[slot / kBits];
      const std::uint64_t bits = word.load(std::memory_order_relaxed);
      word.store(is_in ? bits | bit : bits & ~bit, std::memory_order_relaxed);
    }
  }
}

void OwnedSlots::Add(const ClusterSlots& slots) {
  Set(slots, /*is_own=*/true, /*is_open=*/true);
  changes_.fetch_add(1, std::memory_order_release);
  ShowMetrics();
}

void OwnedSlots::Remove(const ClusterSlots& slots) {
  Set(slots, /*is_own=*/false, /*is_open=*/false);
  changes_.fetch_add(1, std::memory_order_release);
  ShowMetrics();
}

void OwnedSlots::Close(const ClusterSlots& slots) { Set(slots, /*is_own=*/true, /*is_open=*/false); }

void OwnedSlots::OpenAll() {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    open_[i].store(own_[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
}

void OwnedSlots::Track(const ClusterSlots* slots) {
  noted_.clear();
  tracked_ = slots != nullptr ? std::make_unique<const ClusterSlots>(*slots) : nullptr;
}

void OwnedSlots::NoteTracked(std::string_view key, std::uint64_t key_hash) {
  if (tracked_->Has(SlotOfHashed(key, key_hash))) noted_.emplace(key);
}

void OwnedSlots::TakeNoted(std::size_t most, std::vector<std::string>* keys) {
  while (most-- > 0 && !noted_.empty()) keys->push_back(std::move(noted_.extract(noted_.begin()).value()));
}

}  // namespace remora
