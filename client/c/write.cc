// Writes of remora.h.
#include <algorithm>
#include <cstdint>
#include <new>
#include <string_view>

#include "client/c/binding.h"
#include "client/c/call.h"
#include "client/c/remora.h"
#include "client/client.h"
#include "store/format/types/write_options.h"

namespace remora::c {

absl::StatusOr<PutOptions> PutOptionsOf(const remora_write_options* options) {
  remora_write_options taken;
  remora_write_options_init(&taken);
  if (absl::Status status = TakeOptions(options, &taken); !status.ok()) return status;
  PutOptions wanted;
  if (taken.ttl_ms != REMORA_TTL_DEFAULT) wanted.ttl = TtlOf(taken.ttl_ms);
  if (taken.condition == REMORA_IF_ABSENT) {
    wanted.condition = Condition::Absent();
  } else if (taken.condition == REMORA_IF_PRESENT) {
    wanted.condition = Condition::Present();
  } else if (taken.condition != REMORA_IF_ANY) {
    wanted.condition = Condition::Version(taken.condition);
  }
  if (taken.durability > REMORA_DURABILITY_SYNCED) {
    return absl::InvalidArgumentError(
        "durability: unknown; pass REMORA_DURABILITY_MEMORY, _LOGGED or _SYNCED");
  }
  wanted.durability = DecodeDurability(static_cast<std::uint8_t>(taken.durability));
  wanted.version = taken.version;
  return wanted;
}

WriteOptions WithoutTtl(const PutOptions& options) {
  return {.condition = options.condition, .durability = options.durability, .version = options.version};
}

}  // namespace remora::c

using namespace remora::c;  // NOLINT: every call here uses it

namespace {

// Runs `body`(key, options), which returns a Status, and returns its code.
template <typename Body>
remora_code Write(const remora_client* client, const void* key, size_t key_size,
                  const remora_write_options* options, bool others_are_there, const Body& body) noexcept {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && AreBytes(key, key_size) && others_are_there);
    if (!status.ok()) return status;
    const absl::StatusOr<remora::PutOptions> wanted = PutOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    return body(View(key, key_size), *wanted);
  });
}

}  // namespace

void remora_write_options_init(remora_write_options* options) {
  *options = {};
  options->struct_size = sizeof(*options);
  options->ttl_ms = REMORA_TTL_DEFAULT;
  options->condition = REMORA_IF_ANY;
  options->durability = REMORA_DURABILITY_DEFAULT;
}

remora_code remora_put(remora_client* client, const void* key, size_t key_size, const void* value,
                       size_t value_size, const remora_write_options* options) {
  const auto put = [&](std::string_view key_view, const remora::PutOptions& wanted) {
    return With(*client, [&](auto& kv) { return kv.Put(key_view, View(value, value_size), wanted); });
  };
  return Write(client, key, key_size, options, AreBytes(value, value_size), put);
}

remora_code remora_put_from(remora_client* client, const void* key, size_t key_size,
                            const remora_buffer* buffer, size_t offset, size_t size,
                            const remora_write_options* options) {
  const auto put = [&](std::string_view key_view, const remora::PutOptions& wanted) -> absl::Status {
    const absl::StatusOr<remora::RegisteredBytes> value = PartOf(buffer, offset, size);
    if (!value.ok()) return value.status();
    const absl::StatusOr<remora::Client*> server = OneServers(client, "put from a buffer");
    return server.ok() ? (*server)->Put(key_view, *value, wanted) : server.status();
  };
  return Write(client, key, key_size, options, true, put);
}

remora_code remora_delete(remora_client* client, const void* key, size_t key_size,
                          const remora_write_options* options) {
  const auto remove = [&](std::string_view key_view, const remora::PutOptions& wanted) {
    return With(*client, [&](auto& kv) { return kv.Delete(key_view, WithoutTtl(wanted)); });
  };
  return Write(client, key, key_size, options, true, remove);
}

remora_code remora_touch(remora_client* client, const void* key, size_t key_size, int64_t ttl_ms,
                         const remora_write_options* options) {
  const auto touch = [&](std::string_view key_view, const remora::PutOptions& wanted) {
    return With(*client, [&](auto& kv) { return kv.Touch(key_view, TtlOf(ttl_ms), WithoutTtl(wanted)); });
  };
  return Write(client, key, key_size, options, true, touch);
}

remora_code remora_increment(remora_client* client, const void* key, size_t key_size, int64_t delta,
                             int64_t* sum, const remora_write_options* options) {
  const auto increment = [&](std::string_view key_view, const remora::PutOptions& wanted) {
    const absl::StatusOr<std::int64_t> stored =
        With(*client, [&](auto& kv) { return kv.Increment(key_view, delta, wanted); });
    if (stored.ok() && sum != nullptr) *sum = *stored;
    return stored.status();
  };
  return Write(client, key, key_size, options, true, increment);
}

remora_code remora_append(remora_client* client, const void* key, size_t key_size, const void* bytes,
                          size_t size, size_t* value_size, const remora_write_options* options) {
  const auto append = [&](std::string_view key_view, const remora::PutOptions& wanted) {
    const absl::StatusOr<std::size_t> stored =
        With(*client, [&](auto& kv) { return kv.Append(key_view, View(bytes, size), wanted); });
    if (stored.ok() && value_size != nullptr) *value_size = *stored;
    return stored.status();
  };
  return Write(client, key, key_size, options, AreBytes(bytes, size), append);
}

// --- Many, side by side ---------------------------------------------------------------------------------

remora_code remora_multi_put(remora_client* client, const remora_put_request* requests,
                             remora_result* results, size_t count) {
  return Call([&]() -> absl::Status {
    bool all_there = client != nullptr && (count == 0 || (requests != nullptr && results != nullptr));
    for (size_t i = 0; all_there && i < count; ++i) {
      all_there = AreBytes(requests[i].key.data, requests[i].key.size) &&
                  AreBytes(requests[i].value.data, requests[i].value.size);
    }
    if (absl::Status status = CheckPointers(all_there); !status.ok()) return status;
    client->puts.clear();
    for (size_t i = 0; i < count; ++i) {
      const remora_put_request& request = requests[i];
      const absl::StatusOr<remora::PutOptions> wanted = PutOptionsOf(request.options);
      if (!wanted.ok()) return wanted.status();
      client->puts.push_back({.key = View(request.key.data, request.key.size),
                              .value = View(request.value.data, request.value.size),
                              .options = *wanted});
    }
    client->put_results.assign(count, {});
    client->messages.resize(std::max(count, client->messages.size()));
    const absl::Status status =
        With(*client, [&](auto& kv) { return kv.MultiPut(client->puts, client->put_results); });
    for (size_t i = 0; i < count; ++i) {
      const remora::PutResult& result = client->put_results[i];
      results[i] = ResultOf(result.status, {}, result.version, &client->messages[i]);
    }
    return status;
  });
}

// --- Writing many keys, all or none ---------------------------------------------------------------------

remora_batch* remora_batch_new(void) { return new (std::nothrow) remora_batch; }
remora_batch* remora_batch_copy(const remora_batch* batch) {
  try {
    return new remora_batch(*batch);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void remora_batch_free(remora_batch* batch) { delete batch; }
void remora_batch_clear(remora_batch* batch) { batch->batch.Clear(); }
size_t remora_batch_count(const remora_batch* batch) { return batch->batch.count(); }

remora_code remora_batch_put(remora_batch* batch, const void* key, size_t key_size, const void* value,
                             size_t value_size, const remora_write_options* options) {
  return Call([&]() -> absl::Status {
    absl::Status status =
        CheckPointers(batch != nullptr && AreBytes(key, key_size) && AreBytes(value, value_size));
    if (!status.ok()) return status;
    const absl::StatusOr<remora::PutOptions> wanted = PutOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    batch->batch.Put(View(key, key_size), View(value, value_size),
                     {.ttl = wanted->ttl, .condition = wanted->condition});
    return absl::OkStatus();
  });
}

remora_code remora_batch_delete(remora_batch* batch, const void* key, size_t key_size,
                                const remora_write_options* options) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(batch != nullptr && AreBytes(key, key_size));
    if (!status.ok()) return status;
    const absl::StatusOr<remora::PutOptions> wanted = PutOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    batch->batch.Delete(View(key, key_size), {.condition = wanted->condition});
    return absl::OkStatus();
  });
}

remora_code remora_apply(remora_client* client, const remora_batch* batch,
                         const remora_write_options* options) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && batch != nullptr);
    if (!status.ok()) return status;
    const absl::StatusOr<remora::PutOptions> wanted = PutOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    return With(*client,
                [&](auto& kv) { return kv.Apply(batch->batch, wanted->version, wanted->durability); });
  });
}
