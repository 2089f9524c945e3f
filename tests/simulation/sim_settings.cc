#include "tests/simulation/sim_settings.h"

#include <array>
#include <chrono>

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

std::size_t MirrorBytes(std::uint64_t draw) { return std::size_t{1} << (11 + draw % 8); }

void ScanOneSided(std::uint64_t draw, SimSettings* settings) {
  constexpr std::array<std::size_t, 4> kKeySizes = {0, 40, 150, 600};
  settings->server.store.ordered_index = true;
  settings->workload.scans = settings->workload.one_sided = true;
  settings->workload.key_size = kKeySizes[draw % kKeySizes.size()];
  settings->async_clients /= 2;  // those do not scan
}

SimSettings Choose(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  SimSettings settings;
  StoreOptions& store = settings.server.store;
  linear::WorkloadOptions& workload = settings.workload;
  constexpr std::array<std::uint32_t, 5> kKeys = {4, 12, 60, 500, 5000};
  workload.keys = kKeys[below(kKeys.size())];
  workload.counters = 1 + static_cast<std::uint32_t>(below(3));
  workload.lists = 1 + static_cast<std::uint32_t>(below(2));
  workload.read_percent = 30 + static_cast<std::uint32_t>(below(50));
  constexpr std::array<std::size_t, 4> kMaxValues = {300, 1000, 20'000, 60'000};
  workload.max_value = kMaxValues[below(kMaxValues.size())];
  workload.large_permille = below(6) == 0 ? 10 : 0;
  workload.ttls = below(3) != 0;
  store.memory_size = workload.large_permille > 0 ? 64 * kMiB : 16 * kMiB;
  store.durability = below(3) == 0   ? Durability::kMemory
                     : below(3) == 0 ? Durability::kSynced
                                     : Durability::kLogged;
  const bool has_disk = store.durability != Durability::kMemory;
  // Where there is no disk, what is evicted is gone, as no history allows.
  store.eviction = has_disk ? Eviction::kLeastUsed : Eviction::kNone;
  store.loading = below(2) == 0 ? Loading::kInOpen : Loading::kInSteps;
  store.syncing = Syncing::kInSteps;
  store.grace = milliseconds(below(2) == 0 ? kMinGraceMs : 100);
  workload.durabilities = has_disk && below(2) == 0;
  settings.crashes = has_disk;
  settings.server.max_clients = 64;
  settings.client.timeout = milliseconds(below(3) == 0 ? 200 : 5000);
  settings.client.location_cache_bytes = below(3) == 0 ? 0 : std::size_t{1} << (10 + below(10));
  settings.clients = 2 + static_cast<std::uint32_t>(below(7));
  settings.async_clients = static_cast<std::uint32_t>(below(settings.clients));
  if (has_disk) {
    settings.watchers = static_cast<std::uint32_t>(below(settings.clients - settings.async_clients));
    if (below(3) == 0) store.watch_retention_bytes = 0;
  }
  settings.drift_ppm = static_cast<std::int64_t>(below(1001)) - 500;
  settings.piece_size = std::size_t{1} << below(7);
  settings.gap = static_cast<std::uint32_t>(std::size_t{4} << below(8));
  settings.grants = below(2) == 0;
  settings.pace_ns = std::uint64_t{500} << below(6);
  settings.fault_gap = below(8) == 0 ? 0 : std::uint64_t{1000} << below(6);
  if (below(2) == 0) settings.client.index_mirror_bytes = MirrorBytes(below(8));
  // With a disk, no draw decides: the worlds of a seed have the same settings as ever.
  store.ordered_index = has_disk ? settings.drift_ppm % 2 == 0 : below(2) == 0;
  workload.scans = has_disk || store.ordered_index;
  // Likewise without a draw. A small change log leaves watches behind.
  if (!has_disk && settings.drift_ppm % 3 == 0) {
    store.change_log_bytes = settings.drift_ppm % 2 == 0 ? kMinChangeLogBytes : 16 * kMiB;
    settings.watchers = (settings.clients - settings.async_clients) / 2;
  }
  return settings;
}

std::string Text(const SimSettings& settings) {
  const StoreOptions& store = settings.server.store;
  return std::to_string(settings.clients) + " clients (" + std::to_string(settings.async_clients) +
         " asynchronous, " + std::to_string(settings.watchers) + " watching), " +
         std::to_string(settings.workload.keys) + " keys, " + std::to_string(settings.workload.read_percent) +
         " % reads, values up to " + std::to_string(settings.workload.max_value) +
         (settings.workload.large_permille > 0 ? " and large" : "") +
         (settings.workload.ttls ? ", ttls" : "") + ", durability " +
         std::to_string(static_cast<int>(store.durability)) +
         (settings.workload.durabilities ? " and others" : "") + (store.ordered_index ? ", in order" : "") +
         (settings.workload.one_sided
              ? ", one-sided scans of keys of " + std::to_string(settings.workload.key_size)
              : "") +
         (store.change_log_bytes > 0 ? ", change log " + std::to_string(store.change_log_bytes) : "") +
         (store.loading == Loading::kInSteps ? ", loading in steps" : "") + ", grace " +
         std::to_string(store.grace.count()) + " ms, cache " +
         std::to_string(settings.client.location_cache_bytes.value_or(0)) + ", mirror " +
         std::to_string(settings.client.index_mirror_bytes) + ", pieces of " +
         std::to_string(settings.piece_size) + ", a turn each " + std::to_string(settings.gap) + " and " +
         std::to_string(settings.pace_ns) + " ns, a fault each " + std::to_string(settings.fault_gap) +
         " turns";
}

}  // namespace remora
