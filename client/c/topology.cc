// The functions of binding.h for a client of each shard of a cluster.
#include "client/cluster/topology.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/c/binding.h"
#include "client/c/call.h"
#include "client/cluster/batch_slot.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology_reader.h"
#include "client/cluster/topology_source.h"
#include "store/format/cluster/slot.h"

using namespace remora::c;  // NOLINT: every call here uses it

struct remora_topology {
  explicit remora_topology(remora::Topology read) : topology(std::move(read)) {
    for (const remora::ShardPlace& shard : topology.shards()) names.push_back(ShownAs(shard));
  }

  const remora::Topology topology;
  std::vector<std::string> names;  // of the shards, for errors
};

struct remora_source {
  remora_source(int (*interrupted)(void*), void* context) : clock(interrupted, context) {}

  const CallersClock clock;
  std::unique_ptr<remora::TopologyReader> reader;
};

remora_code remora_source_open(const char* from, const remora_options* options,
                               int (*interrupted)(void* context), void* context, remora_source** source,
                               remora_topology** topology) {
  return Call([&]() -> absl::Status {
    const absl::StatusOr<remora::ClientOptions> wanted = ClientOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    auto opened = std::make_unique<remora_source>(interrupted, context);
    absl::StatusOr<remora::Topology> read = remora::ReadTopology(from, *wanted, opened->clock);
    if (!read.ok()) return read.status();
    opened->reader = std::make_unique<remora::TopologyReader>(*read, *wanted, opened->clock);
    *topology = std::make_unique<remora_topology>(*std::move(read)).release();
    *source = opened.release();
    return absl::OkStatus();
  });
}

remora_code remora_source_read(remora_source* source, remora_topology** topology) {
  return Call([&]() -> absl::Status {
    absl::StatusOr<remora::Topology> read = source->reader->Read();
    if (!read.ok()) return read.status();
    *topology = std::make_unique<remora_topology>(*std::move(read)).release();
    return absl::OkStatus();
  });
}

void remora_source_close(remora_source* source) { delete source; }

int remora_source_is_of_servers(const remora_source* source) {
  return source->reader->is_of_servers() ? 1 : 0;
}

void remora_topology_free(remora_topology* topology) { delete topology; }

size_t remora_topology_count(const remora_topology* topology) { return topology->names.size(); }

const char* remora_topology_name(const remora_topology* topology, size_t shard) {
  return topology->names[shard].c_str();
}

int remora_is_of_server(remora_code code) {
  const auto has_code = [&](absl::StatusCode of_key) { return CodeOf(absl::Status(of_key, "")) == code; };
  return std::ranges::none_of(remora::kCodesOfKey, has_code) ? 1 : 0;
}

uint32_t remora_slot_of(const void* key, size_t key_size) { return remora::SlotOf(View(key, key_size)); }

remora_code remora_slot_of_batch(const remora_batch* batch, uint32_t* slot) {
  return Call([&]() -> absl::Status {
    const absl::StatusOr<std::uint32_t> found = remora::SlotOfBatch(batch->batch);
    if (found.ok()) *slot = *found;
    return found.status();
  });
}

size_t remora_topology_shard_of_slot(const remora_topology* topology, uint32_t slot) {
  return slot < remora::kSlots ? topology->topology.ShardOfSlot(slot) : SIZE_MAX;
}

remora_code remora_topology_open(const remora_topology* topology, size_t shard, const remora_options* options,
                                 size_t depth, int (*interrupted)(void* context), void* context,
                                 remora_async** async) {
  return Call([&]() -> absl::Status {
    const absl::StatusOr<remora::ClientOptions> wanted = ClientOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    const remora::Topology& of = topology->topology;
    return Open(of.shards()[shard].addresses, remora::OptionsOfShard(of, shard, *wanted), depth, interrupted,
                context, async);
  });
}

remora_code remora_topology_place(const remora_topology* topology, size_t shard, remora_async* async) {
  return Call([&] { return SetAddresses(*async, topology->topology.shards()[shard].addresses); });
}
