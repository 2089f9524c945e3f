// The functions of remora.h, on top of the C++ client. They stop every exception, and turn every status into
// a code and a message.
#include "client/c/remora.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "client/c/binding.h"
#include "client/c/call.h"
#include "client/client.h"
#include "client/cluster/topology_source.h"
#include "client/get/visit.h"
#include "rdma/local/mapping.h"

namespace remora::c {
namespace {

thread_local std::string last_message;

}  // namespace

void CallersClock::Sleep(Duration duration) const {
  const TimePoint until = Now() + duration;
  for (TimePoint now = Now(); now < until && !IsInterrupted(); now = Now()) {
    SteadyClock::Sleep(std::min(until - now, LongestSleep()));
  }
}

bool CallersClock::IsInterrupted() const {
  if (interrupted_ == nullptr) return false;
  const TimePoint now = Now();
  if (now < next_ask_) return false;
  const bool is_interrupted = interrupted_(context_) != 0;
  // The next wait of the same call asks again, and gets the same answer.
  next_ask_ = is_interrupted ? now : now + kBetweenAsks;
  return is_interrupted;
}

remora_code CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return REMORA_OK;
    case absl::StatusCode::kNotFound:
      return REMORA_NOT_FOUND;
    case absl::StatusCode::kInvalidArgument:
      return REMORA_INVALID_ARGUMENT;
    case absl::StatusCode::kUnavailable:
      return REMORA_UNAVAILABLE;
    case absl::StatusCode::kDeadlineExceeded:
      return REMORA_DEADLINE_EXCEEDED;
    case absl::StatusCode::kResourceExhausted:
      return REMORA_RESOURCE_EXHAUSTED;
    case absl::StatusCode::kOutOfRange:
      return REMORA_OUT_OF_RANGE;
    case absl::StatusCode::kPermissionDenied:
      return REMORA_PERMISSION_DENIED;
    case absl::StatusCode::kFailedPrecondition:
      return REMORA_FAILED_PRECONDITION;
    case absl::StatusCode::kAlreadyExists:
      return REMORA_ALREADY_EXISTS;
    case absl::StatusCode::kDataLoss:
      return REMORA_DATA_LOSS;
    case absl::StatusCode::kUnimplemented:
      return REMORA_UNIMPLEMENTED;
    case absl::StatusCode::kAborted:
      return REMORA_ABORTED;
    case absl::StatusCode::kUnknown:
      return REMORA_UNKNOWN;
    case absl::StatusCode::kCancelled:
      return REMORA_CANCELLED;
    default:
      return REMORA_INTERNAL;
  }
}

remora_code End(const absl::Status& status) {
  if (status.ok()) return REMORA_OK;
  last_message.assign(status.message().data(), status.message().size());
  return CodeOf(status);
}

remora_result ResultOf(const absl::Status& status, std::string_view value, std::uint64_t version,
                       std::string* message) {
  message->assign(status.message().data(), status.message().size());
  return {CodeOf(status), {value.data(), value.size()}, version, message->c_str()};
}

remora_code EndWithoutMemory() {
  last_message.clear();
  last_message = "out of memory";  // short enough to need no allocation
  return REMORA_RESOURCE_EXHAUSTED;
}

}  // namespace remora::c

using namespace remora::c;  // NOLINT: every call here uses it

const char* remora_code_name(remora_code code) {
  switch (code) {
    case REMORA_OK:
      return "OK";
    case REMORA_NOT_FOUND:
      return "NOT_FOUND";
    case REMORA_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case REMORA_UNAVAILABLE:
      return "UNAVAILABLE";
    case REMORA_DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case REMORA_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case REMORA_OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case REMORA_PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case REMORA_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case REMORA_ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case REMORA_DATA_LOSS:
      return "DATA_LOSS";
    case REMORA_UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case REMORA_INTERNAL:
      return "INTERNAL";
    case REMORA_ABORTED:
      return "ABORTED";
    case REMORA_UNKNOWN:
      return "UNKNOWN";
    case REMORA_CANCELLED:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

const char* remora_message(void) { return remora::c::last_message.c_str(); }
const char* remora_version(void) { return REMORA_VERSION; }

// --- Connecting -----------------------------------------------------------------------------------------

void remora_options_init(remora_options* options) {
  const remora::ClientOptions defaults;
  *options = {};
  options->struct_size = sizeof(*options);
  options->connect_timeout_ms = static_cast<uint32_t>(defaults.connect_timeout.count());
  options->timeout_ms = static_cast<uint32_t>(defaults.timeout.count());
  options->location_cache_bytes = -1;
  options->scan_window_bytes = -1;
  options->reconnect = 1;
}

absl::StatusOr<remora::ClientOptions> remora::c::ClientOptionsOf(const remora_options* options) {
  remora_options taken;
  remora_options_init(&taken);
  if (absl::Status status = TakeOptions(options, &taken); !status.ok()) return status;
  remora::ClientOptions wanted;
  wanted.connect_timeout = milliseconds(taken.connect_timeout_ms);
  wanted.timeout = milliseconds(taken.timeout_ms);
  if (taken.location_cache_bytes >= 0) {
    wanted.location_cache_bytes = static_cast<std::size_t>(taken.location_cache_bytes);
  }
  if (taken.index_mirror_bytes > 0) {
    wanted.index_mirror_bytes = static_cast<std::size_t>(taken.index_mirror_bytes);
  }
  if (taken.scan_window_bytes >= 0) {
    wanted.scan_window_bytes = static_cast<std::size_t>(taken.scan_window_bytes);
  }
  wanted.reconnect = taken.reconnect != 0;
  wanted.metrics = taken.metrics != 0;
  if (taken.token != nullptr) wanted.token = taken.token;
  if (taken.tls_ca != nullptr) wanted.tls.ca = taken.tls_ca;
  if (taken.tls_cert != nullptr) wanted.tls.cert = taken.tls_cert;
  if (taken.tls_key != nullptr) wanted.tls.key = taken.tls_key;
  return wanted;
}

remora_code remora_connect(const char* address, const remora_options* options, remora_client** client) {
  return remora_connect_interruptible(address, options, nullptr, nullptr, client);
}

remora_code remora_connect_interruptible(const char* address, const remora_options* options,
                                         int (*interrupted)(void* context), void* context,
                                         remora_client** client) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(address != nullptr && client != nullptr); !status.ok())
      return status;
    const absl::StatusOr<remora::ClientOptions> wanted = ClientOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    auto connected = std::make_unique<remora_client>(interrupted, context);
    auto opened = remora::Client::Connect(address, *wanted, connected->clock);
    if (!opened.ok()) return opened.status();
    connected->client = *std::move(opened);
    *client = connected.release();
    return absl::OkStatus();
  });
}

remora_code remora_connect_cluster(const char* topology, const remora_options* options,
                                   remora_client** client) {
  return remora_connect_cluster_interruptible(topology, options, nullptr, nullptr, client);
}

remora_code remora_connect_cluster_interruptible(const char* topology, const remora_options* options,
                                                 int (*interrupted)(void* context), void* context,
                                                 remora_client** client) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(topology != nullptr && client != nullptr);
    if (!status.ok()) return status;
    const absl::StatusOr<remora::ClientOptions> wanted = ClientOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    auto connected = std::make_unique<remora_client>(interrupted, context);
    const absl::StatusOr<remora::Topology> read = remora::ReadTopology(topology, *wanted, connected->clock);
    if (!read.ok()) return read.status();
    auto opened = remora::ClusterClient::Connect(*read, *wanted, connected->clock);
    if (!opened.ok()) return opened.status();
    connected->cluster = *std::move(opened);
    *client = connected.release();
    return absl::OkStatus();
  });
}

// The scans of a cluster end before its client, and their handles remain the caller's.
remora_client::~remora_client() {
  for (remora_scan* const scan : cluster_scans) {
    scan->cluster_scan.reset();
    scan->client = nullptr;
  }
}

void remora_close(remora_client* client) { delete client; }

// --- Reading --------------------------------------------------------------------------------------------

remora_code remora_get(remora_client* client, const void* key, size_t key_size, const void** value,
                       size_t* value_size, uint64_t* version) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && AreBytes(key, key_size) && value != nullptr &&
                                        value_size != nullptr);
    if (!status.ok()) return status;
    status = With(*client, [&](auto& kv) { return kv.Get(View(key, key_size), &client->value, version); });
    if (!status.ok()) return status;
    *value = client->value.data();
    *value_size = client->value.size();
    return absl::OkStatus();
  });
}

remora_code remora_get_copy(remora_client* client, const void* key, size_t key_size, void* buffer,
                            size_t buffer_size, size_t* value_size, uint64_t* version) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && AreBytes(key, key_size) &&
                                        AreBytes(buffer, buffer_size) && value_size != nullptr);
    std::uint64_t found = 0;
    if (!status.ok()) return status;
    status = With(*client, [&](auto& kv) { return kv.Get(View(key, key_size), &client->value, &found); });
    if (!status.ok()) return status;
    *value_size = client->value.size();
    if (client->value.size() > buffer_size) {
      return absl::OutOfRangeError("get: the value has " + std::to_string(client->value.size()) +
                                   " bytes, the buffer " + std::to_string(buffer_size) +
                                   "; pass a larger one");
    }
    if (!client->value.empty()) std::memcpy(buffer, client->value.data(), client->value.size());
    if (version != nullptr) *version = found;
    return absl::OkStatus();
  });
}

remora_code remora_visit(remora_client* client, const void* key, size_t key_size,
                         void (*show)(void* context, const void* value, size_t value_size), void* context,
                         uint64_t* version) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && AreBytes(key, key_size) && show != nullptr);
    if (!status.ok()) return status;
    const auto show_it = [&](std::string_view value) { show(context, value.data(), value.size()); };
    return With(*client, [&](auto& kv) { return kv.Visit(View(key, key_size), show_it, version); });
  });
}

int remora_visit_is_in_place(const void* value) { return remora::IsShownInPlace(value) ? 1 : 0; }
void remora_share_no_mappings(void) { remora::rdma::LocalMapping::ShareNothing(); }
void remora_keep_addresses(const void* bytes) { remora::rdma::LocalMapping::KeepAddresses(bytes); }

remora_code remora_exists(remora_client* client, const void* key, size_t key_size, int* exists) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && AreBytes(key, key_size) && exists != nullptr);
    if (!status.ok()) return status;
    const absl::StatusOr<bool> there =
        With(*client, [&](auto& kv) { return kv.Exists(View(key, key_size)); });
    if (!there.ok()) return there.status();
    *exists = *there ? 1 : 0;
    return absl::OkStatus();
  });
}

remora_code remora_multi_get(remora_client* client, const remora_bytes* keys, remora_result* results,
                             size_t count) {
  return Call([&]() -> absl::Status {
    bool all_there = client != nullptr && AreBytes(keys, count) && AreBytes(results, count);
    for (size_t i = 0; all_there && i < count; ++i) all_there = AreBytes(keys[i].data, keys[i].size);
    if (absl::Status status = CheckPointers(all_there); !status.ok()) return status;
    client->keys.clear();
    for (size_t i = 0; i < count; ++i) client->keys.push_back(View(keys[i].data, keys[i].size));
    client->results.resize(count);
    client->messages.resize(std::max(count, client->messages.size()));
    const absl::Status status =
        With(*client, [&](auto& kv) { return kv.MultiGet(client->keys, client->results); });
    for (size_t i = 0; i < count; ++i) {
      const remora::GetResult& result = client->results[i];
      results[i] = ResultOf(result.status, result.value, result.version, &client->messages[i]);
    }
    return status;
  });
}

remora_code remora_ttl(remora_client* client, const void* key, size_t key_size, int64_t* ttl_ms) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && AreBytes(key, key_size) && ttl_ms != nullptr);
    if (!status.ok()) return status;
    const auto left = With(*client, [&](auto& kv) { return kv.Ttl(View(key, key_size)); });
    if (!left.ok()) return left.status();
    *ttl_ms = left->has_value() ? static_cast<int64_t>((*left)->count()) : REMORA_TTL_FOREVER;
    return absl::OkStatus();
  });
}

// --- Reading without a copy -----------------------------------------------------------------------------

remora_code remora_buffer_register(remora_client* client, void* bytes, size_t size, remora_buffer** buffer) {
  return Call([&]() -> absl::Status {
    const absl::StatusOr<remora::Client*> server = OneServers(client, "register");
    return server.ok() ? Register(**server, bytes, size, buffer) : server.status();
  });
}

void remora_buffer_release(remora_buffer* buffer) { delete buffer; }

remora_code remora_get_into(remora_client* client, const void* key, size_t key_size, remora_buffer* buffer,
                            size_t* value_size, uint64_t* version) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && AreBytes(key, key_size) && buffer != nullptr &&
                                        value_size != nullptr);
    if (!status.ok()) return status;
    const absl::StatusOr<remora::Client*> server = OneServers(client, "get into a buffer");
    if (!server.ok()) return server.status();
    const absl::StatusOr<std::size_t> size = (*server)->Get(View(key, key_size), *buffer->buffer, version);
    if (!size.ok()) return size.status();
    *value_size = *size;
    return absl::OkStatus();
  });
}

// --- The server -----------------------------------------------------------------------------------------

remora_code remora_backup(remora_client* client, uint64_t name, remora_backup_progress* progress) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(client != nullptr && progress != nullptr); !status.ok())
      return status;
    const absl::StatusOr<remora::Client*> server = OneServers(client, "backup");
    if (!server.ok()) return server.status();
    const absl::StatusOr<remora::BackupProgress> told = (*server)->Backup(name);
    if (!told.ok()) return told.status();
    *progress = {told->done ? 1 : 0, told->id, told->version, told->bytes, told->new_bytes};
    return absl::OkStatus();
  });
}

remora_code remora_ping(remora_client* client) {
  return Call([&]() -> absl::Status {
    const absl::StatusOr<remora::Client*> server = OneServers(client, "ping");
    return server.ok() ? (*server)->Ping() : server.status();
  });
}

remora_code remora_settings(remora_client* client, const char** json) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(client != nullptr && json != nullptr); !status.ok())
      return status;
    const absl::StatusOr<remora::Client*> server = OneServers(client, "settings");
    if (!server.ok()) return server.status();
    absl::StatusOr<std::string> settings = (*server)->Settings();
    if (!settings.ok()) return settings.status();
    client->value = *std::move(settings);
    *json = client->value.c_str();
    return absl::OkStatus();
  });
}

remora_code remora_stats(remora_client* client, void (*each)(void* context, const char* name, uint64_t value),
                         void* context) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && each != nullptr);
    if (!status.ok()) return status;
    const absl::StatusOr<remora::Client*> server = OneServers(client, "stats");
    if (!server.ok()) return server.status();
    const auto stats = (*server)->Stats();
    if (!stats.ok()) return stats.status();
    for (const auto& [name, value] : *stats) each(context, name.c_str(), value);
    return absl::OkStatus();
  });
}

remora_code remora_counters(remora_client* client,
                            void (*each)(void* context, const char* name, uint64_t value), void* context) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && each != nullptr);
    if (!status.ok()) return status;
    const auto counters =
        With(*client, [](const auto& kv) -> remora::ClientCounters { return kv.counters(); });
    each(context, "reads", counters.reads);
    each(context, "requests", counters.requests);
    each(context, "retries", counters.retries);
    each(context, "locates", counters.locates);
    each(context, "cold", counters.cold);
    each(context, "chunked", counters.chunked);
    each(context, "location_hits", counters.location_hits);
    each(context, "location_false_hits", counters.location_false_hits);
    each(context, "generation_reads", counters.generation_reads);
    each(context, "mirror_hits", counters.mirror_hits);
    each(context, "mirror_false_hits", counters.mirror_false_hits);
    each(context, "mirror_reads", counters.mirror_reads);
    each(context, "mirror_read_bytes", counters.mirror_read_bytes);
    each(context, "reconnects", counters.reconnects);
    each(context, "completion_queries", counters.completion_queries);
    return absl::OkStatus();
  });
}

remora_code remora_client_metrics(remora_client* client,
                                  void (*each)(void* context, const char* name, uint64_t value),
                                  void* context) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(client != nullptr && each != nullptr);
    if (!status.ok()) return status;
    const auto metrics = With(*client, [](const auto& kv) { return kv.metrics(); });
    for (const auto& [name, value] : metrics.Shown()) each(context, name.c_str(), value);
    return absl::OkStatus();
  });
}
