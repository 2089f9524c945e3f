#include "client/client.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/client_impl.h"
#include "client/get/blocking_get.h"
#include "client/get/fast_gets.h"
#include "client/get/multi_get.h"
#include "client/get/visit.h"
#include "client/put/multi_put.h"
#include "client/put/put.h"
#include "client/read_settings.h"
#include "client/scan/scan_impl.h"
#include "client/scan/watch_impl.h"
#include "client/session/address_choice.h"
#include "client/session/argument_checks.h"
#include "client/session/call_guard.h"
#include "client/session/confirm.h"
#include "client/session/session.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/shown_metrics.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/replication_messages.h"

namespace remora {
namespace {

// Two equal READs in a row show counters that were not torn. Counters that never rest are shown as last read.
constexpr int kMaxStatsReads = 8;

}  // namespace

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() { impl_->session->in_use().Begin(); }

const std::string& Client::description() const { return impl_->description; }

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(std::string_view address,
                                                        const ClientOptions& options, const Clock& clock) {
  std::string description;
  auto client = ConnectToFirst(address, options, clock, &description,
                               [&](Dialer dialer, const ClientOptions& resolved) {
                                 return Connect(std::move(dialer), resolved, clock);
                               });
  if (client.ok()) (*client)->impl_->description = std::move(description);
  return client;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(Dialer dialer, const ClientOptions& options,
                                                        const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<rdma::ClientConnection> connection,
                          dialer(clock.Now() + options.connect_timeout));
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                          Session::Start(std::move(connection), std::move(dialer), options, clock));
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(std::move(session))));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(std::unique_ptr<rdma::ClientConnection> connection,
                                                        const ClientOptions& options, const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                          Session::Start(std::move(connection), Dialer(), options, clock));
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(std::move(session))));
}

absl::StatusOr<std::string> Client::Get(std::string_view key) {
  std::string value;
  REMORA_RETURN_IF_ERROR(Get(key, &value));
  return value;
}

// Inlined with the hash function, because nearly all GETs take this path (client/get/fast_get.h).
[[gnu::flatten]] absl::Status Client::Get(std::string_view key, std::string* value, std::uint64_t* version) {
  if (!IsKey(key)) return CheckKey(key);
  if (impl_->session->statistics().recorder() != nullptr) [[unlikely]]
    return impl_->RecordedGet(key, value, version);
  {
    const InUse::Call call(impl_->session->in_use());
    if (TryFastGet(*impl_->session, key, value, version) && impl_->session->lease().IsCovered()) {
      return absl::OkStatus();
    }
  }
  return impl_->Get(key, value, version);
}

absl::Status Client::Visit(std::string_view key, absl::FunctionRef<void(std::string_view value)> show,
                           std::uint64_t* version) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  std::size_t size = 0;
  const auto note = [&](std::string_view value) {
    size = value.size();
    show(value);
  };
  absl::Status status = impl_->Timed(ClientMetric::kGet, [&]() -> absl::Status {
    {
      const InUse::Call call(impl_->session->in_use());
      if (impl_->session->is_ready() && TryVisit(*impl_->session, key, note, version) &&
          impl_->session->lease().IsCovered()) {
        return absl::OkStatus();
      }
    }
    std::string copy;
    REMORA_RETURN_IF_ERROR(impl_->Get(key, &copy, version));
    note(copy);
    return absl::OkStatus();
  });
  if (status.ok()) impl_->CountBytes(ClientMetric::kValueBytesRead, size);
  return status;
}

std::uint32_t Client::FastMultiGet(std::span<const HashedKey> hashed, std::span<const std::string_view> keys,
                                   std::span<GetResult> results) {
  static_assert(kMaxFastBatch == SessionBuffers::kMaxBatch);
  std::uint32_t wanted = 0, others = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool is_fast = hashed[i].client != nullptr && hashed[i].client->impl_->is_fast() && IsKey(keys[i]);
    (is_fast ? wanted : others) |= std::uint32_t{1} << i;
  }
  const auto session_of = [&](std::size_t i) -> Session& { return *hashed[i].client->impl_->session; };
  // One call of each client, which another thread may not use meanwhile.
  for (std::uint32_t rest = wanted; rest != 0; rest &= rest - 1) {
    const InUse::Call call(session_of(static_cast<std::size_t>(std::countr_zero(rest))).in_use());
  }
  std::uint32_t left =
      TryFastGets(wanted, keys, results, session_of, [&](std::size_t i) { return hashed[i].hash; });
  for (std::uint32_t rest = wanted & ~left; rest != 0; rest &= rest - 1) {
    if (!session_of(static_cast<std::size_t>(std::countr_zero(rest))).lease().IsCovered()) [[unlikely]] {
      left |= rest & -rest;
      continue;
    }
    results[static_cast<std::size_t>(std::countr_zero(rest))].status = absl::OkStatus();
  }
  return left | others;
}

absl::Status Client::MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) {
  if (keys.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat("multi-get: ", keys.size(), " keys, but ", results.size(),
                                                   " results; pass one result for each key"));
  }
  const auto begin = [&](const absl::Status& status) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      results[i].status = CheckKey(keys[i]);
      if (results[i].status.ok()) results[i].status = status;
    }
  };
  bool begun = false;
  const auto get = [&](Session& session) {
    begun = true;
    begin(absl::OkStatus());
    return ConfirmedEach(session, impl_->multi_gets.Get(keys, results), results, LeaseNeed::kNeeded);
  };
  const absl::Status status =
      impl_->Timed(ClientMetric::kMultiGet, [&] { return impl_->Run(get, LeaseNeed::kNone); });
  if (!begun) begin(status);
  if (impl_->session->statistics().recorder() == nullptr) return status;
  for (const GetResult& result : results) {
    if (result.status.ok()) impl_->CountBytes(ClientMetric::kValueBytesRead, result.value.size());
  }
  return status;
}

absl::StatusOr<bool> Client::Exists(std::string_view key) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  const absl::Status found =
      impl_->Do(ClientMetric::kExists, [&](Session&) { return impl_->gets.Find(key); });
  if (found.ok()) return true;
  if (absl::IsNotFound(found)) return false;
  return found;
}

absl::StatusOr<std::unique_ptr<RegisteredBuffer>> Client::Register(std::span<std::byte> bytes) {
  std::unique_ptr<RegisteredBuffer> buffer(new RegisteredBuffer(impl_->session->endpoint(), bytes));
  REMORA_RETURN_IF_ERROR(
      impl_->DoUnleased([&](Session& session) { return session.endpoint().Add(buffer.get()); }));
  return buffer;
}

absl::StatusOr<std::size_t> Client::Get(std::string_view key, const RegisteredBytes& into,
                                        std::uint64_t* version) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  RecordFacts facts;
  REMORA_ASSIGN_OR_RETURN(const std::size_t size, impl_->DoWith(into, ClientMetric::kGet, [&](Session&) {
    return impl_->gets.GetInto(key, Endpoint::SgeOf(into), &facts);
  }));
  if (version != nullptr) *version = facts.version;
  impl_->CountBytes(ClientMetric::kValueBytesRead, size);
  return size;
}

absl::Status Client::Put(std::string_view key, std::string_view value) { return Put(key, value, {}); }

absl::Status Client::Put(std::string_view key, std::string_view value, const PutOptions& options) {
  REMORA_RETURN_IF_ERROR(CheckPut(key, value, options));
  absl::Status put = impl_->Do(ClientMetric::kPut, [&](Session& session) {
    return remora::Put(session, key, {value, {}}, options);
  });
  if (put.ok()) impl_->CountBytes(ClientMetric::kValueBytesWritten, value.size());
  return put;
}

absl::Status Client::Put(std::string_view key, const RegisteredBytes& value, const PutOptions& options) {
  const std::string_view bytes = ValueIn(value);
  REMORA_RETURN_IF_ERROR(CheckPut(key, bytes, options));
  absl::Status put = impl_->DoWith(value, ClientMetric::kPut, [&](Session& session) {
    return remora::Put(session, key, {bytes, Endpoint::SgeOf(value).local_key}, options);
  });
  if (put.ok()) impl_->CountBytes(ClientMetric::kValueBytesWritten, bytes.size());
  return put;
}

absl::Status Client::MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results) {
  if (requests.size() != results.size()) {
    return absl::InvalidArgumentError(absl::StrCat("multi-put: ", requests.size(), " requests, but ",
                                                   results.size(),
                                                   " results; pass one result for each request"));
  }
  const absl::Status status = impl_->Timed(ClientMetric::kMultiPut, [&]() -> absl::Status {
    const InUse::Call call(impl_->session->in_use());
    const absl::Status begun = impl_->Begin();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      results[i].status = CheckPut(requests[i].key, requests[i].value, requests[i].options);
      if (results[i].status.ok()) results[i].status = begun;
    }
    if (!begun.ok()) return begun;
    Session& session = *impl_->session;
    return ConfirmedEach(session, remora::MultiPut(session, requests, results), results,
                         LeaseNeed::kIfRejected);
  });
  if (impl_->session->statistics().recorder() == nullptr) return status;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (results[i].status.ok()) {
      impl_->CountBytes(ClientMetric::kValueBytesWritten, requests[i].value.size());
    }
  }
  return status;
}

absl::Status Client::Delete(std::string_view key, const WriteOptions& options) {
  REMORA_RETURN_IF_ERROR(CheckWrite(key, options.condition, options.durability));
  return impl_->Do(ClientMetric::kDelete,
                   [&](Session& session) { return remora::Delete(session, key, options); });
}

absl::StatusOr<std::int64_t> Client::Increment(std::string_view key, std::int64_t delta,
                                               const PutOptions& options) {
  REMORA_RETURN_IF_ERROR(CheckPut(key, {}, options));
  return impl_->Do(ClientMetric::kIncrement,
                   [&](Session& session) { return remora::Increment(session, key, delta, options); });
}

absl::StatusOr<std::size_t> Client::Append(std::string_view key, std::string_view bytes,
                                           const PutOptions& options) {
  REMORA_RETURN_IF_ERROR(CheckPut(key, bytes, options));
  REMORA_RETURN_IF_ERROR(CheckAppended(bytes));
  return impl_->Do(ClientMetric::kAppend,
                   [&](Session& session) { return remora::Append(session, key, bytes, options); });
}

absl::Status Client::Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options) {
  REMORA_RETURN_IF_ERROR(CheckWrite(key, options.condition, options.durability));
  REMORA_RETURN_IF_ERROR(CheckTtl(ttl));
  return impl_->Do(ClientMetric::kTouch,
                   [&](Session& session) { return remora::Touch(session, key, ttl, options); });
}

absl::Status Client::Persist(std::string_view key, const WriteOptions& options) {
  return Touch(key, kNeverExpires, options);
}

absl::StatusOr<std::optional<std::chrono::milliseconds>> Client::Ttl(std::string_view key) {
  REMORA_RETURN_IF_ERROR(CheckKey(key));
  std::string value;
  RecordFacts facts;
  REMORA_RETURN_IF_ERROR(
      impl_->Do(ClientMetric::kOther, [&](Session&) { return impl_->gets.Get(key, &value, &facts); }));
  if (facts.expiry_ms == 0) return std::nullopt;
  return impl_->session->server().TimeLeft(facts.expiry_ms);
}

absl::Status Client::Apply(const WriteBatch& batch, std::uint64_t* version,
                           std::optional<Durability> durability) {
  if (const std::string why = batch.fault(); !why.empty()) return absl::InvalidArgumentError(why);
  REMORA_RETURN_IF_ERROR(CheckDurability(durability));
  return impl_->Do(ClientMetric::kApply, [&](Session& session) {
    return batch.count() == 0 ? absl::OkStatus() : remora::Apply(session, batch, version, durability);
  });
}

absl::StatusOr<std::unique_ptr<ClientWatch>> Client::Watch(const WatchOptions& options) {
  REMORA_ASSIGN_OR_RETURN(
      std::unique_ptr<ClientWatch::Impl> watch,
      ClientWatch::Impl::Begin(options, *impl_->session, [impl = impl_.get()](ClientWatch::Impl::Call call) {
        return impl->Run([&](Session& session) { return call(session); });
      }));
  return std::unique_ptr<ClientWatch>(new ClientWatch(std::move(watch)));
}

absl::StatusOr<std::unique_ptr<ClientScan>> Client::Scan(const ScanOptions& options) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<ClientScan::Impl> scan,
                          impl_->Do(ClientMetric::kOther, [&](Session& session) {
                            return ClientScan::Impl::Begin(session, options);
                          }));
  return std::unique_ptr<ClientScan>(new ClientScan(std::move(scan)));
}

absl::StatusOr<std::uint64_t> Client::Count() {
  return impl_->Do(ClientMetric::kOther, [](Session& session) -> absl::StatusOr<std::uint64_t> {
    if (session.server().is_loading())
      return CountRange(session, {});  // the counter only has the keys that are loaded
    std::uint64_t last = 0;
    for (int reads = 0; reads < kMaxStatsReads; ++reads) {
      REMORA_ASSIGN_OR_RETURN(const Superblock* superblock, session.calls().ReadSuperblock());
      const std::uint64_t keys = superblock->counters[static_cast<std::size_t>(Metric::kKeys)];
      const bool settled = reads > 0 && keys == last;
      last = keys;
      if (settled) break;
    }
    return last;
  });
}

absl::StatusOr<std::uint64_t> Client::Count(const RangeOptions& options) {
  ScanRange range;
  if (const char* why = ResolveRange(options, &range)) return absl::InvalidArgumentError(why);
  return impl_->Do(ClientMetric::kOther, [&](Session& session) { return CountRange(session, range); });
}

absl::StatusOr<std::uint64_t> Client::DeleteRange(const RangeOptions& options) {
  ScanRange range;
  if (const char* why = ResolveDelete(options, &range)) return absl::InvalidArgumentError(why);
  return impl_->Timed(ClientMetric::kOther, [&] { return impl_->Delete(range); });
}

absl::StatusOr<std::uint64_t> Client::DeleteAll() {
  return impl_->Timed(ClientMetric::kOther, [&] { return impl_->Delete({}); });
}

absl::StatusOr<BackupProgress> Client::Backup(std::uint64_t name) {
  return impl_->DoUnleased([name](Session& session) -> absl::StatusOr<BackupProgress> {
    Request request;
    request.operation = Operation::kBackup;
    request.condition = name;
    REMORA_ASSIGN_OR_RETURN(const ServerReply answer, session.calls().CallBare(request));
    REMORA_RETURN_IF_ERROR(ToStatus(answer));
    BackupDone done;
    if (!FromBytes(std::as_bytes(std::span(answer.behind)), &done)) return BackupProgress{};
    return BackupProgress{true, done.id, done.version, done.bytes, done.new_bytes};
  });
}

absl::StatusOr<std::string> Client::Move(std::string_view command) {
  return impl_->DoUnleased([command](Session& session) -> absl::StatusOr<std::string> {
    REMORA_ASSIGN_OR_RETURN(const ServerReply answer,
                            session.calls().Call(Operation::kMove, {}, HashKey({}), command));
    REMORA_RETURN_IF_ERROR(ToStatus(answer));
    return std::string(answer.behind);
  });
}

absl::StatusOr<Promotion> Client::Promote(PromotionKind kind) {
  return impl_->DoUnleased([kind](Session& session) -> absl::StatusOr<Promotion> {
    Request request;
    request.operation = kind == PromotionKind::kByForce ? Operation::kFollow : Operation::kPromote;
    if (kind == PromotionKind::kByForce) request.condition = kFollowForces;
    REMORA_ASSIGN_OR_RETURN(const ServerReply answer, session.calls().CallBare(request));
    REMORA_RETURN_IF_ERROR(ToStatus(answer));
    return Promotion{.epoch = static_cast<std::uint64_t>(answer.reply.result),
                     .last_group = answer.reply.version,
                     .waits_for = std::string(answer.behind)};
  });
}

absl::Status Client::Ping() { return impl_->DoUnleased(Impl::Answers); }

absl::StatusOr<std::string> Client::Settings() { return impl_->DoUnleased(ReadSettings); }

absl::StatusOr<std::string> Client::ReadTopology() { return impl_->DoUnleased(ReadTopologyText); }

absl::StatusOr<std::vector<std::pair<std::string, std::uint64_t>>> Client::Stats() {
  std::array<std::uint64_t, kMetricCapacity> last{};
  std::size_t places = 0;
  REMORA_RETURN_IF_ERROR(impl_->DoUnleased([&](Session& session) -> absl::Status {
    for (int reads = 0; reads < kMaxStatsReads; ++reads) {
      REMORA_ASSIGN_OR_RETURN(const Superblock* superblock, session.calls().ReadSuperblock());
      const bool settled = reads > 0 && superblock->counters == last;
      last = superblock->counters;
      places = std::min<std::uint64_t>(superblock->metric_count, kMetricPlaces);
      if (settled) break;
    }
    return absl::OkStatus();
  }));
  return ShownMetrics(std::span(last).first(places));
}

const ClientCounters& Client::counters() const { return impl_->session->counters(); }
ClientMetrics Client::metrics() const { return impl_->session->statistics().Metrics(); }
bool Client::is_lost() const {
  return !impl_->session->reconnects() && impl_->session->endpoint().is_broken();
}
std::uint64_t Client::incarnation() const { return impl_->session->server().hello().incarnation; }
rdma::ClientConnection& Client::connection() { return impl_->session->endpoint().connection(); }

}  // namespace remora
