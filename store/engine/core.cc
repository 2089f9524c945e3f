#include "store/engine/core.h"

#include <algorithm>
#include <utility>

#include "store/base/random_id.h"

namespace remora {
namespace {

// All scans together keep at most this share of the memory as it was at their moments.
constexpr std::size_t kSavedShare = 64;

/// Fills the superblock in, while only this thread sees the memory.
Superblock& MakeSuperblock(const StoreOptions& options, std::span<std::byte> region) {
  auto& superblock = *reinterpret_cast<Superblock*>(region.data());
  superblock.magic = kSuperblockMagic;
  superblock.format_version = kFormatVersion;
  superblock.grace_ms = static_cast<std::uint32_t>(options.grace.count());
  superblock.layout_signature = LayoutSignature();
  superblock.incarnation = options.incarnation != 0 ? options.incarnation : RandomId();
  superblock.memory_size = region.size();
  superblock.metric_count = kMetricPlaces;
  superblock.slots_word = options.slots != nullptr ? kFirstSlotsWord : 0;
  return superblock;
}

}  // namespace

StoreCore::StoreCore(const StoreOptions& options, const Clock& store_clock,
                     std::unique_ptr<AnonymousMemory> memory, std::span<std::byte> region,
                     std::unique_ptr<DurableTier> durable_tier, std::unique_ptr<ChangeRing> change_ring)
    : memory_size(options.memory_size),
      clock(store_clock),
      grace(options.grace),
      own_memory(std::move(memory)),
      superblock(MakeSuperblock(options, region)),
      shape(ShapeOf(superblock)),
      metrics(superblock),
      segments(region, Duration::zero(), options.on_first_use),
      log(region, segments, shape.incarnation),
      index(region, segments, log, Duration::zero()),
      ordered(options.ordered_index ? std::make_unique<OrderedIndex>(log, region.size() / kSavedShare, region,
                                                                     segments, shape.incarnation)
                                    : nullptr),
      frequency(options.eviction == Eviction::kNone ? 0 : region.size()),
      slots(metrics, options.slots),
      follows(options.follows),
      tier(std::move(durable_tier)),
      changes(std::move(change_ring)) {}

void StoreCore::BeginToServe() {
  shape = ShapeOf(superblock);  // now with the level at which the index begins
  segments.set_reuse_delay(2 * grace);
  index.set_reuse_delay(2 * grace);
}

void StoreCore::BeginColdRead(ColdRead* read, bool is_loaded) const {
  read->was_loaded = is_loaded;
  read->marks = index.ColdMarks(read->key_hash);
  read->versions_end = next_version;
  ++read->begins;
}

bool StoreCore::IsCurrent(const ColdRead& read, bool is_loaded) const {
  if (read.versions_end > next_version) return false;  // a store that follows did not know its versions yet
  if (is_loaded != read.was_loaded) return false;      // D4
  if (index.ColdMarks(read.key_hash) != read.marks) return false;       // D3
  return !read.status.ok() || read.header.version < read.versions_end;  // D5
}

absl::Status StoreCore::NoteTierWrite(absl::Status written) {
  if (tier->may_show_failed()) {
    disk.NoteUnknownWrite(written);
  } else {
    disk.NoteWrite(written);
  }
  return written;
}

void StoreCore::NoteFailedKey(std::string_view key) {
  if (!disk.sync_failure().ok()) unsynced_keys.Set(key, {});
}

void StoreCore::AdvanceChangesEnd() {
  if (!disk.sync_failure().ok()) return;
  const std::uint64_t end =
      changes != nullptr ? changes->last() : std::min(changes_held_at, tier->acknowledged_to());
  changes_end.store(end, std::memory_order_release);
  metrics.Set(Metric::kChangesEnd, end);
}

}  // namespace remora
