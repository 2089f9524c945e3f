// Reads and prefetches of the index, mostly for any thread. See index.cc for the memory orders.
#include <array>
#include <bit>

#include "store/base/tsan.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/record.h"
#include "store/index/index.h"
#include "store/region/atomic_word.h"

namespace remora {

IndexView Index::view() const {
  const std::uint64_t packed = view_.load(std::memory_order_acquire);
  return {static_cast<std::uint32_t>(packed >> 56), packed & ((std::uint64_t{1} << 56) - 1)};
}

void Index::Copy(const BucketRef& bucket, Bucket* copy) const {
  const Bucket& shared = At(bucket.overflow ? bucket.number : Main(bucket.number));
  copy->control = LoadWord(shared.control, std::memory_order_acquire);
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    copy->slots[i] = LoadWord(shared.slots[i], std::memory_order_acquire);
  }
}

Slot Index::Peek(std::uint64_t key_hash) const {
  const std::uint64_t* line = WordsOf(At(Main(view().HomeOf(key_hash).bucket)));
  line += PreferredLine(key_hash) * kWordsPerLine;
#ifdef REMORA_TSAN
  std::array<std::uint64_t, kWordsPerLine> copy;
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = LoadWord(line[i], std::memory_order_relaxed);
  const std::uint32_t found = WordsWith<kWordsPerLine>(copy.data(), Fingerprint(key_hash));
#else
  const std::uint32_t found = WordsWith<kWordsPerLine>(line, Fingerprint(key_hash));
#endif
  if (found == 0) return {};
  return DecodeSlot(LoadWord(line[std::countr_zero(found)], std::memory_order_acquire));
}

void Index::Prefetch(std::uint64_t key_hash) const {
  // The view may be old; then this prefetches another bucket, which does no harm.
  const std::uint64_t* const words = WordsOf(At(Main(view().HomeOf(key_hash).bucket)));
  __builtin_prefetch(words + PreferredLine(key_hash) * kWordsPerLine, /*rw=*/1);
}

void Index::PrefetchBucket(std::uint64_t key_hash) const {
  const std::uint64_t* const words = WordsOf(At(Main(view().HomeOf(key_hash).bucket)));
  __builtin_prefetch(words + PreferredLine(key_hash) * kWordsPerLine,
                     /*rw=*/1);  // the line that is needed first
  for (std::size_t i = 0; i < kLinesPerBucket; ++i) __builtin_prefetch(words + i * kWordsPerLine, /*rw=*/1);
}

void Index::PrefetchRecords(std::uint64_t key_hash) const {
  const std::uint64_t bucket = Main(view().HomeOf(key_hash).bucket);
  SlotSet found = FindSlotsInLine(At(bucket), key_hash);
  if (found.empty()) found = FindSlots(At(bucket), key_hash);
  while (!found.empty()) {
    const std::uint64_t word = SlotWord(bucket, static_cast<std::size_t>(found.Next()));
    if (SlotIsCold(word)) continue;
    // The header, and a key of usual length.
    const RecordHeader& header = log_.Header(Place::Of(DecodeSlot(word)));
    __builtin_prefetch(&header, /*rw=*/1);
    __builtin_prefetch(&header + 1);
  }
}

}  // namespace remora
