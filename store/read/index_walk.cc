#include "store/read/index_walk.h"

#include <algorithm>
#include <compare>
#include <mutex>
#include <tuple>

#include "store/engine/writer_lock.h"
#include "store/format/memory/hash_order.h"

namespace remora {

std::size_t WalkIndex(const StoreCore& core, const ScanRange& range, IndexWalk* walk,
                      std::vector<VersionedKey>* keys) {
  struct Found {
    std::uint64_t order;
    std::string_view key;
    std::uint64_t version;
    auto operator<=>(const Found&) const = default;  // NOLINT: clang-tidy 14 takes it for a null pointer
  };
  std::vector<Found> found;
  std::size_t looks = 0;
  const std::uint64_t after_order = range.after.empty() ? 0 : HashOrder(range.after);
  const WriterLock lock(core.mutex);
  const Home home = core.index.HomeOf(ReverseBits(walk->place));
  BucketRef ref{.overflow = false, .number = home.bucket};
  for (Bucket bucket;; ref = {.overflow = true, .number = ControlLink(bucket.control)}) {
    core.index.Copy(ref, &bucket);
    for (const std::uint64_t word : bucket.slots) {
      if (word == 0 || SlotIsCold(word)) continue;
      ++looks;
      // A retired slot names a dead record, or one that another slot names, too. That slot is in this bucket,
      // or in the other half of a bucket that was split.
      const Place place = Place::Of(DecodeSlot(word));
      if (!core.log.IsLive(place)) continue;
      const std::string_view key = core.log.Key(place);
      const std::uint64_t key_hash = HashKey(key);
      if (!Belongs(key_hash, home) || !range.Contains(key)) continue;
      const std::uint64_t order = ReverseBits(key_hash);
      // The walk may continue a scan that saw smaller buckets, and so some keys of this one.
      if (std::tie(order, key) <= std::tuple(after_order, std::string_view(range.after))) continue;
      found.push_back({order, key, core.log.Header(place).version_live >> 1});
    }
    if (ControlLink(bucket.control) == 0) break;
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const Found& record : found) keys->push_back({std::string(record.key), record.version});
  walk->place = ReverseBits(home.bucket) + (std::uint64_t{1} << (64 - home.depth));
  walk->over = walk->place == 0;
  return looks;
}

std::optional<RecordHeader> CopyRecord(const StoreCore& core, std::string_view key, std::string* value) {
  const WriterLock lock(core.mutex);
  const std::optional<Index::Entry> entry = core.index.Find(key, HashKey(key));
  if (!entry) return std::nullopt;
  const RecordHeader header = core.log.Header(entry->place);
  if (value != nullptr) {
    value->assign(reinterpret_cast<const char*>(core.log.Body(entry->place)) + header.key_size,
                  header.value_size);
  }
  return header;
}

}  // namespace remora
