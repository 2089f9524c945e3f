#include "store/index.h"

#include "store/atomic_word.h"
#include "store/base/check.h"
#include "store/format/lookup.h"
#include "store/format/record.h"

namespace remora {

// Memory orders, all in this file:
//   A slot is stored with release: whoever acquires it sees the record that it names, whole and live, and the
//   old record's live bit cleared (I5). A link is stored with release for the same reason: the bucket behind
//   it is empty and visible before (I3). Readers in this process acquire both in Copy. The writer itself
//   loads relaxed: it reads only what it stored.

Index::Index(std::span<std::byte> memory, const IndexShape& shape, const ValueLog& log)
    : buckets_(reinterpret_cast<Bucket*>(memory.data()), shape.bucket_count + shape.overflow_count),
      bucket_count_(shape.bucket_count),
      log_(log),
      next_overflow_(shape.bucket_count) {
  REMORA_CHECK(memory.size() >= buckets_.size_bytes());
  REMORA_CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(Bucket) == 0);
}

void Index::Copy(std::uint64_t bucket, Bucket* copy) const {
  const Bucket& shared = buckets_[bucket];
  copy->control = LoadWord(shared.control, std::memory_order_acquire);
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    copy->slots[i] = LoadWord(shared.slots[i], std::memory_order_acquire);
  }
}

std::optional<Index::Entry> Index::Find(std::string_view key, std::uint64_t key_hash) const {
  const std::uint32_t fingerprint = Fingerprint(key_hash);
  for (std::uint64_t bucket = MainBucket(key_hash, bucket_count_);;) {
    for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
      const Slot slot = DecodeSlot(SlotWord(bucket, i));
      if (slot.fingerprint != fingerprint) continue;
      const Place place = Place::Of(slot);
      if (log_.Key(place, log_.Header(place).key_size) == key) return Entry{bucket, i, place};
    }
    bucket = Next(bucket);
    if (bucket == 0) return std::nullopt;
  }
}

bool Index::Reserve(std::uint64_t key_hash, std::size_t count) {
  std::size_t room = 0;
  for (std::uint64_t bucket = MainBucket(key_hash, bucket_count_);;) {
    for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
      room += SlotWord(bucket, i) == 0;
      if (room >= count) return true;
    }
    std::uint64_t next = Next(bucket);
    if (next == 0) {
      if (next_overflow_ == buckets_.size()) return false;
      next = next_overflow_++;
      StoreWord(buckets_[bucket].control, EncodeControl(static_cast<std::uint32_t>(next)),
                std::memory_order_release);
    }
    bucket = next;
  }
}

void Index::Insert(std::uint64_t key_hash, const Place& place) {
  for (std::uint64_t bucket = MainBucket(key_hash, bucket_count_);;) {
    for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
      if (SlotWord(bucket, i) != 0) continue;
      StoreSlot(bucket, i, EncodeSlot({Fingerprint(key_hash), place.extent_code, place.offset_units}));
      return;
    }
    bucket = Next(bucket);
    REMORA_CHECK(bucket != 0);
  }
}

void Index::Replace(const Entry& entry, const Place& place) {
  const std::uint32_t fingerprint = DecodeSlot(SlotWord(entry.bucket, entry.slot)).fingerprint;
  StoreSlot(entry.bucket, entry.slot, EncodeSlot({fingerprint, place.extent_code, place.offset_units}));
}

void Index::Erase(const Entry& entry) { StoreSlot(entry.bucket, entry.slot, 0); }

std::uint64_t Index::SlotWord(std::uint64_t bucket, std::size_t slot) const {
  return LoadWord(buckets_[bucket].slots[slot], std::memory_order_relaxed);
}

void Index::StoreSlot(std::uint64_t bucket, std::size_t slot, std::uint64_t word) {
  StoreWord(buckets_[bucket].slots[slot], word, std::memory_order_release);
}

std::uint64_t Index::Next(std::uint64_t bucket) const {
  return ControlOverflow(LoadWord(buckets_[bucket].control, std::memory_order_relaxed));
}

}  // namespace remora
