// The functions of remora_async.h.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "client/async_client.h"
#include "client/c/binding.h"
#include "client/c/call.h"
#include "client/c/remora.h"
#include "store/base/moved.h"

using namespace remora::c;  // NOLINT: every call here uses it

struct remora_async {
  remora_async(int (*interrupted)(void*), void* context) : clock(interrupted, context) {}

  const remora::c::CallersClock clock;
  std::unique_ptr<remora::AsyncClient> client;
  bool polling = false;
};

namespace {

using remora::AsyncClient;
using remora::AsyncResult;

int64_t NumberOf(const AsyncResult& result, bool is_ttl) {
  if (!is_ttl) return result.number;
  return result.ttl ? static_cast<int64_t>(result.ttl->count()) : REMORA_TTL_FOREVER;
}

// The result that a callback gets, and its mark for remora_async_is_moved.
struct ShownResult {
  remora_async_result result;
  bool is_moved;
};
static_assert(std::is_standard_layout_v<ShownResult>);  // so a pointer to it is one to its first member

// Returns a callback that captures at most two words, so that it needs no allocation.
template <bool kIsTtl = false>
AsyncClient::Done Calling(remora_async_done done, void* context) {
  if (done == nullptr) return {};
  return [done, context](const AsyncResult& result) noexcept {
    const std::string message(result.status.message());
    const ShownResult shown{{CodeOf(result.status),
                             message.c_str(),
                             {result.value.data(), result.value.size()},
                             result.version,
                             NumberOf(result, kIsTtl)},
                            remora::IsMoved(result.status)};
    done(context, &shown.result);
  };
}

// Runs `body`, which begins an operation, and returns its code.
template <typename Body>
remora_code Begin(const remora_async* async, bool all_there, uint64_t* operation, const Body& body) noexcept {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(async != nullptr && all_there);
    if (!status.ok()) return status;
    const AsyncClient::Begun begun = body();
    if (begun.ok() && operation != nullptr) *operation = *begun;
    return begun.status();
  });
}

// Runs `body`(options), which begins a write, and returns its code.
template <typename Body>
remora_code BeginWrite(const remora_async* async, bool all_there, const remora_write_options* options,
                       uint64_t* operation, const Body& body) noexcept {
  return Begin(async, all_there, operation, [&]() -> AsyncClient::Begun {
    const absl::StatusOr<remora::PutOptions> wanted = PutOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    return body(*wanted);
  });
}

}  // namespace

int remora_async_is_moved(const remora_async_result* result) {
  return reinterpret_cast<const ShownResult*>(result)->is_moved ? 1 : 0;
}

// --- The whole ------------------------------------------------------------------------------------------

remora_code remora_async_open(const char* address, const remora_options* options, size_t depth,
                              remora_async** async) {
  return remora_async_open_interruptible(address, options, depth, nullptr, nullptr, async);
}

remora_code remora_async_open_interruptible(const char* address, const remora_options* options, size_t depth,
                                            int (*interrupted)(void* context), void* context,
                                            remora_async** async) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(address != nullptr && async != nullptr); !status.ok())
      return status;
    const absl::StatusOr<remora::ClientOptions> wanted = ClientOptionsOf(options);
    if (!wanted.ok()) return wanted.status();
    return Open(address, *wanted, depth, interrupted, context, async);
  });
}

absl::Status remora::c::Open(const std::string& address, const ClientOptions& options, size_t depth,
                             int (*interrupted)(void*), void* context, remora_async** async) {
  AsyncOptions how;
  if (depth != 0) how.depth = depth;
  auto connected = std::make_unique<remora_async>(interrupted, context);
  auto opened = AsyncClient::Connect(address, options, how, connected->clock);
  if (!opened.ok()) return opened.status();
  connected->client = *std::move(opened);
  *async = connected.release();
  return absl::OkStatus();
}

absl::Status remora::c::SetAddresses(remora_async& async, const std::string& addresses) {
  return async.client->SetAddresses(addresses);
}

uint64_t remora_async_incarnation(const remora_async* async) { return async->client->incarnation(); }

void remora_async_close(remora_async* async) { delete async; }

// --- Operations -----------------------------------------------------------------------------------------

remora_code remora_async_get(remora_async* async, const void* key, size_t key_size, remora_async_done done,
                             void* context, uint64_t* operation) {
  return Begin(async, AreBytes(key, key_size), operation,
               [&] { return async->client->Get(View(key, key_size), Calling(done, context)); });
}

remora_code remora_async_visit(remora_async* async, const void* key, size_t key_size,
                               void (*show)(void* context, const void* value, size_t value_size),
                               remora_async_done done, void* context, uint64_t* operation) {
  const auto show_it = [show, context](std::string_view value) { show(context, value.data(), value.size()); };
  return Begin(async, AreBytes(key, key_size) && show != nullptr, operation,
               [&] { return async->client->Visit(View(key, key_size), show_it, Calling(done, context)); });
}

remora_code remora_async_buffer_register(remora_async* async, void* bytes, size_t size,
                                         remora_buffer** buffer) {
  return Call([&]() -> absl::Status {
    if (absl::Status status = CheckPointers(async != nullptr); !status.ok()) return status;
    return Register(*async->client, bytes, size, buffer);
  });
}

remora_code remora_async_get_into(remora_async* async, const void* key, size_t key_size,
                                  const remora_buffer* buffer, size_t offset, size_t size,
                                  remora_async_done done, void* context, uint64_t* operation) {
  return Begin(async, AreBytes(key, key_size), operation, [&]() -> AsyncClient::Begun {
    const absl::StatusOr<remora::RegisteredBytes> into = PartOf(buffer, offset, size);
    if (!into.ok()) return into.status();
    return async->client->Get(View(key, key_size), *into, Calling(done, context));
  });
}

remora_code remora_async_put_from(remora_async* async, const void* key, size_t key_size,
                                  const remora_buffer* buffer, size_t offset, size_t size,
                                  const remora_write_options* options, remora_async_done done, void* context,
                                  uint64_t* operation) {
  return BeginWrite(async, AreBytes(key, key_size), options, operation,
                    [&](const remora::PutOptions& wanted) -> AsyncClient::Begun {
                      const absl::StatusOr<remora::RegisteredBytes> from = PartOf(buffer, offset, size);
                      if (!from.ok()) return from.status();
                      return async->client->Put(View(key, key_size), *from, wanted, Calling(done, context));
                    });
}

remora_code remora_async_exists(remora_async* async, const void* key, size_t key_size, remora_async_done done,
                                void* context, uint64_t* operation) {
  return Begin(async, AreBytes(key, key_size), operation,
               [&] { return async->client->Exists(View(key, key_size), Calling(done, context)); });
}

remora_code remora_async_ttl(remora_async* async, const void* key, size_t key_size, remora_async_done done,
                             void* context, uint64_t* operation) {
  return Begin(async, AreBytes(key, key_size), operation,
               [&] { return async->client->Ttl(View(key, key_size), Calling<true>(done, context)); });
}

remora_code remora_async_put(remora_async* async, const void* key, size_t key_size, const void* value,
                             size_t value_size, const remora_write_options* options, remora_async_done done,
                             void* context, uint64_t* operation) {
  return BeginWrite(async, AreBytes(key, key_size) && AreBytes(value, value_size), options, operation,
                    [&](const remora::PutOptions& wanted) {
                      return async->client->Put(View(key, key_size), View(value, value_size), wanted,
                                                Calling(done, context));
                    });
}

remora_code remora_async_delete(remora_async* async, const void* key, size_t key_size,
                                const remora_write_options* options, remora_async_done done, void* context,
                                uint64_t* operation) {
  return BeginWrite(
      async, AreBytes(key, key_size), options, operation, [&](const remora::PutOptions& wanted) {
        return async->client->Delete(View(key, key_size), WithoutTtl(wanted), Calling(done, context));
      });
}

remora_code remora_async_touch(remora_async* async, const void* key, size_t key_size, int64_t ttl_ms,
                               const remora_write_options* options, remora_async_done done, void* context,
                               uint64_t* operation) {
  return BeginWrite(async, AreBytes(key, key_size), options, operation,
                    [&](const remora::PutOptions& wanted) {
                      return async->client->Touch(View(key, key_size), TtlOf(ttl_ms), WithoutTtl(wanted),
                                                  Calling(done, context));
                    });
}

remora_code remora_async_increment(remora_async* async, const void* key, size_t key_size, int64_t delta,
                                   const remora_write_options* options, remora_async_done done, void* context,
                                   uint64_t* operation) {
  return BeginWrite(
      async, AreBytes(key, key_size), options, operation, [&](const remora::PutOptions& wanted) {
        return async->client->Increment(View(key, key_size), delta, wanted, Calling(done, context));
      });
}

remora_code remora_async_append(remora_async* async, const void* key, size_t key_size, const void* bytes,
                                size_t size, const remora_write_options* options, remora_async_done done,
                                void* context, uint64_t* operation) {
  return BeginWrite(async, AreBytes(key, key_size) && AreBytes(bytes, size), options, operation,
                    [&](const remora::PutOptions& wanted) {
                      return async->client->Append(View(key, key_size), View(bytes, size), wanted,
                                                   Calling(done, context));
                    });
}

remora_code remora_async_apply(remora_async* async, const remora_batch* batch,
                               const remora_write_options* options, remora_async_done done, void* context,
                               uint64_t* operation) {
  return BeginWrite(async, batch != nullptr, options, operation, [&](const remora::PutOptions& wanted) {
    AsyncClient::Done call = Calling(done, context);
    if (wanted.version != nullptr) {
      call = [call = std::move(call), version = wanted.version](const AsyncResult& result) mutable {
        if (result.status.ok()) *version = result.version;
        if (call) call(result);
      };
    }
    return async->client->Apply(batch->batch, wanted.durability, std::move(call));
  });
}

remora_code remora_async_ping(remora_async* async, remora_async_done done, void* context,
                              uint64_t* operation) {
  return Begin(async, true, operation, [&] { return async->client->Ping(Calling(done, context)); });
}

remora_code remora_async_cancel(remora_async* async, uint64_t operation) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(async != nullptr);
    if (!status.ok()) return status;
    return async->client->Cancel(operation)
               ? absl::OkStatus()
               : absl::NotFoundError("remora_async_cancel: the operation has ended");
  });
}

// --- Driving --------------------------------------------------------------------------------------------

namespace {

// Returns the deadline of a wait that begins now; the latest time, for a wait without limit.
remora::TimePoint After(const remora::Clock& clock, int64_t timeout_ms) {
  constexpr milliseconds kLongest = std::chrono::hours(24 * 365);
  if (timeout_ms < 0) return remora::TimePoint::max();
  return clock.Now() + std::min(milliseconds(timeout_ms), kLongest);
}

}  // namespace

remora_code remora_async_poll(remora_async* async, int64_t timeout_ms, size_t* ended) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(async != nullptr);
    if (!status.ok()) return status;
    if (async->polling)
      return absl::FailedPreconditionError(
          "remora_async_poll: a callback must not poll its own client; return from it first");
    async->polling = true;
    absl::StatusOr<std::size_t> count = std::size_t{0};
    if (timeout_ms == 0) {
      count = async->client->Poll();
    } else {
      count = async->client->Wait(After(async->clock, timeout_ms));
    }
    async->polling = false;
    if (ended != nullptr) *ended = count.value_or(0);
    return count.status();
  });
}

size_t remora_async_in_flight(const remora_async* async) { return async->client->in_flight(); }
size_t remora_async_free_slots(const remora_async* async) { return async->client->free_slots(); }
int remora_async_wait_fd(const remora_async* async) { return async->client->fd(); }

int64_t remora_async_wait_ms(const remora_async* async) {
  const std::optional<remora::TimePoint> due = async->client->next_deadline();
  if (!due) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*due - async->clock.Now());
  return std::max<int64_t>(left.count(), 0);
}

remora_code remora_async_metrics(remora_async* async,
                                 void (*each)(void* context, const char* name, uint64_t value),
                                 void* context) {
  return Call([&]() -> absl::Status {
    absl::Status status = CheckPointers(async != nullptr && each != nullptr);
    if (!status.ok()) return status;
    for (const auto& [name, value] : async->client->metrics().Shown()) each(context, name.c_str(), value);
    return absl::OkStatus();
  });
}

int remora_async_begin_reconnect(remora_async* async) { return async->client->BeginReconnect() ? 1 : 0; }
void remora_async_reconnect(remora_async* async) { async->client->Reconnect(); }
void remora_async_end_reconnect(remora_async* async) { async->client->EndReconnect(); }

void remora_async_arm(remora_async* async) { async->client->Arm(); }
void remora_async_disarm(remora_async* async) { async->client->Disarm(); }
