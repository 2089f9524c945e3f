#include "client/async_client.h"

#include <string>
#include <utility>

#include "client/async/engine.h"
#include "client/put/put.h"
#include "client/session/address_choice.h"
#include "client/session/argument_checks.h"
#include "client/session/call_guard.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

PutOptions OptionsOf(const WriteOptions& options, std::optional<std::chrono::milliseconds> ttl = {}) {
  PutOptions all{.ttl = ttl,
                 .condition = options.condition,
                 .durability = options.durability,
                 .version = options.version};
  return all;
}

// Marks a call of the client for the duration of an expression.
template <typename Core>
class Called {
 public:
  explicit Called(Core& core) : core_(core), call_(core.session().in_use()) {}
  Core* operator->() const { return &core_; }

 private:
  Core& core_;
  const InUse::Call call_;
};

}  // namespace

AsyncClient::AsyncClient(std::unique_ptr<Core> core) : core_(std::move(core)) {}
AsyncClient::~AsyncClient() { Called(*core_)->Stop(); }

absl::StatusOr<std::unique_ptr<AsyncClient>> AsyncClient::Connect(std::string_view address,
                                                                  const ClientOptions& options,
                                                                  const AsyncOptions& async,
                                                                  const Clock& clock) {
  return ConnectToFirst(address, options, clock, nullptr, [&](Dialer dialer, const ClientOptions& resolved) {
    return Connect(std::move(dialer), resolved, async, clock);
  });
}

absl::StatusOr<std::unique_ptr<AsyncClient>> AsyncClient::Connect(Dialer dialer, const ClientOptions& options,
                                                                  const AsyncOptions& async,
                                                                  const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<rdma::ClientConnection> connection,
                          dialer(clock.Now() + options.connect_timeout));
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Core> core,
                          Core::Start(std::move(connection), std::move(dialer), options, async, clock));
  return std::unique_ptr<AsyncClient>(new AsyncClient(std::move(core)));
}

absl::StatusOr<std::unique_ptr<AsyncClient>> AsyncClient::Connect(
    std::unique_ptr<rdma::ClientConnection> connection, const ClientOptions& options,
    const AsyncOptions& async, const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Core> core,
                          Core::Start(std::move(connection), nullptr, options, async, clock));
  return std::unique_ptr<AsyncClient>(new AsyncClient(std::move(core)));
}

// --- Reads ----------------------------------------------------------------------------------------------

AsyncClient::Begun AsyncClient::Get(std::string_view key, Done done, const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  return Called(*core_)->BeginLookup(AsyncOperation::Kind::kValue, key, std::move(done), call);
}

AsyncClient::Begun AsyncClient::Get(std::string_view key, const RegisteredBytes& into, Done done,
                                    const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  return Called(*core_)->BeginLookup(AsyncOperation::Kind::kValue, key, std::move(done), call, &into);
}

AsyncClient::Begun AsyncClient::Visit(std::string_view key, Show show, Done done, const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  return Called(*core_)->BeginVisit(key, std::move(show), std::move(done), call);
}

absl::StatusOr<std::unique_ptr<RegisteredBuffer>> AsyncClient::Register(std::span<std::byte> bytes) {
  if (core_->session().is_forked()) return absl::FailedPreconditionError(kUsedAfterFork);
  std::unique_ptr<RegisteredBuffer> buffer(new RegisteredBuffer(core_->session().endpoint(), bytes));
  REMORA_RETURN_IF_ERROR(Called(*core_)->session().endpoint().Add(buffer.get()));
  return buffer;
}

AsyncClient::Begun AsyncClient::Exists(std::string_view key, Done done, const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  return Called(*core_)->BeginLookup(AsyncOperation::Kind::kPresence, key, std::move(done), call);
}

AsyncClient::Begun AsyncClient::Ttl(std::string_view key, Done done, const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  return Called(*core_)->BeginLookup(AsyncOperation::Kind::kTtl, key, std::move(done), call);
}

// --- Writes ---------------------------------------------------------------------------------------------

AsyncClient::Begun AsyncClient::Put(std::string_view key, std::string_view value, const PutOptions& options,
                                    Done done, const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckPut(key, value, options));
  // A large put is named by its last message.
  const Operation message = value.size() <= kMaxSmallValueSize ? Operation::kPut : Operation::kFinishLargePut;
  return Called(*core_)->BeginWrite(message, key, value, options, std::move(done), call);
}

AsyncClient::Begun AsyncClient::Put(std::string_view key, const RegisteredBytes& value,
                                    const PutOptions& options, Done done, const CallOptions& call) {
  const std::string_view bytes = ValueIn(value);
  REMORA_RETURN_IF_ERROR(CheckPut(key, bytes, options));
  const Operation message = bytes.size() <= kMaxSmallValueSize ? Operation::kPut : Operation::kFinishLargePut;
  return Called(*core_)->BeginWrite(message, key, bytes, options, std::move(done), call, &value);
}

AsyncClient::Begun AsyncClient::Delete(std::string_view key, const WriteOptions& options, Done done,
                                       const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckWrite(key, options.condition, options.durability));
  return Called(*core_)->BeginWrite(Operation::kDelete, key, {}, OptionsOf(options), std::move(done), call);
}

AsyncClient::Begun AsyncClient::Touch(std::string_view key, std::chrono::milliseconds ttl,
                                      const WriteOptions& options, Done done, const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckWrite(key, options.condition, options.durability));
  REMORA_RETURN_IF_ERROR(CheckTtl(ttl));
  return Called(*core_)->BeginWrite(Operation::kTouch, key, {}, OptionsOf(options, ttl), std::move(done),
                                    call);
}

AsyncClient::Begun AsyncClient::Increment(std::string_view key, std::int64_t delta, const PutOptions& options,
                                          Done done, const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckPut(key, {}, options));
  const std::string_view bytes(reinterpret_cast<const char*>(&delta), sizeof(delta));
  return Called(*core_)->BeginWrite(Operation::kIncrement, key, bytes, options, std::move(done), call);
}

AsyncClient::Begun AsyncClient::Append(std::string_view key, std::string_view bytes,
                                       const PutOptions& options, Done done, const CallOptions& call) {
  REMORA_RETURN_IF_ERROR(CheckPut(key, bytes, options));
  REMORA_RETURN_IF_ERROR(CheckAppended(bytes));
  return Called(*core_)->BeginWrite(Operation::kAppend, key, bytes, options, std::move(done), call);
}

AsyncClient::Begun AsyncClient::Apply(const WriteBatch& batch, std::optional<Durability> durability,
                                      Done done, const CallOptions& call) {
  if (const std::string why = batch.fault(); !why.empty()) return absl::InvalidArgumentError(why);
  REMORA_RETURN_IF_ERROR(CheckDurability(durability));
  if (batch.count() == 0) return Called(*core_)->BeginEmpty(std::move(done), call);
  const Called core(*core_);
  std::string_view bytes = batch.bytes();
  while (!bytes.empty()) {
    core->Forget(HashKey(TakeBatchWrite(&bytes).value().key));
  }
  return core->BeginMessage({.operation = Operation::kBatch,
                             .key_hash = HashKey({}),
                             .value = batch.bytes(),
                             .options = {.durability = durability}},
                            std::move(done), call);
}

AsyncClient::Begun AsyncClient::Ping(Done done, const CallOptions& call) {
  return Called(*core_)->BeginMessage({.operation = Operation::kPing, .key_hash = HashKey({})},
                                      std::move(done), call);
}

// --- Driving --------------------------------------------------------------------------------------------

bool AsyncClient::Cancel(OperationId operation) { return Called(*core_)->Cancel(operation); }
std::size_t AsyncClient::Poll() { return Called(*core_)->Poll(); }
absl::StatusOr<std::size_t> AsyncClient::Wait(TimePoint deadline) { return Called(*core_)->Wait(deadline); }
absl::Status AsyncClient::WaitAll(TimePoint deadline) {
  const Called core(*core_);
  while (core->operations().in_flight() > 0) REMORA_RETURN_IF_ERROR(core->Wait(deadline).status());
  return absl::OkStatus();
}
std::size_t AsyncClient::in_flight() const { return core_->operations().in_flight(); }
std::size_t AsyncClient::free_slots() const { return core_->operations().free_slots(); }
void AsyncClient::Arm() { Called(*core_)->connection().Arm(); }
void AsyncClient::Disarm() { Called(*core_)->connection().Disarm(); }
int AsyncClient::fd() const { return core_->connection().waker().fd(); }
std::optional<TimePoint> AsyncClient::next_deadline() const { return core_->next_deadline(); }
bool AsyncClient::BeginReconnect() {
  return core_->connection().BeginReconnect(core_->operations().LatestDeadline());
}
void AsyncClient::Reconnect() { core_->connection().Reconnect(); }
void AsyncClient::EndReconnect() { core_->EndReconnect(); }
absl::Status AsyncClient::SetAddresses(std::string_view addresses) {
  return core_->session().connector().SetAddresses(addresses);
}
const absl::Status& AsyncClient::status() const { return core_->connection().status(); }
std::uint64_t AsyncClient::incarnation() const {
  return core_->connection().is_up() ? core_->session().server().hello().incarnation : 0;
}
const ClientCounters& AsyncClient::counters() const { return core_->session().counters(); }
ClientMetrics AsyncClient::metrics() const { return core_->connection().Metrics(); }
const Clock& AsyncClient::clock() const { return core_->session().clock(); }

}  // namespace remora
