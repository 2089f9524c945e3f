// The state of a client, and how its calls are run: guarded, timed, and begun again over another connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/get/blocking_get.h"
#include "client/get/fast_get.h"
#include "client/get/multi_get.h"
#include "client/metrics/recorder.h"
#include "client/scan/scan_impl.h"
#include "client/session/call_guard.h"
#include "client/session/confirm.h"
#include "client/session/session.h"
#include "store/base/status_macros.h"
#include "store/format/wire/messages.h"

namespace remora {

// The indirection keeps the session, and the formats behind it, out of the public header.
class Client::Impl {
 public:
  explicit Impl(std::unique_ptr<Session> started)
      : session(std::move(started)), gets(*session), multi_gets(*session) {}

  /// Runs a call: operation(session), and records its time as one of `kind`.
  template <typename Operation>
  std::invoke_result_t<const Operation&, Session&> Do(ClientMetric kind, const Operation& operation) const {
    return Timed(kind, [&] {
      return Run(operation, IsWriteCall(kind) ? LeaseNeed::kIfRejected : LeaseNeed::kNeeded);
    });
  }
  /// Runs a call as Do does, whose result says nothing about stored keys.
  template <typename Operation>
  std::invoke_result_t<const Operation&, Session&> DoUnleased(const Operation& operation) const {
    return Timed(ClientMetric::kOther, [&] { return Run(operation, LeaseNeed::kNone); });
  }

  /// Returns the result of `call`, and records its time if there is a recorder.
  template <typename Call>
  std::invoke_result_t<const Call&> Timed(ClientMetric kind, const Call& call) const {
    if (session->statistics().recorder() == nullptr) [[likely]]
      return call();
    return Recorded(kind, call);
  }

  /// Returns the result of `call`, and records its time. REQUIRES: there is a recorder.
  template <typename Call>
  [[gnu::noinline, gnu::cold]] std::invoke_result_t<const Call&> Recorded(ClientMetric kind,
                                                                          const Call& call) const {
    const ClientCounters before = session->counters();
    const TimePoint begin = session->clock().Now();
    auto result = call();
    const InUse::Call recording(session->in_use());
    const Duration took = session->clock().Now() - begin;
    ClientRecorder& recorder = *session->statistics().recorder();
    recorder.RecordCall(kind, took, StatusOf(result));
    if (kind == ClientMetric::kGet) recorder.RecordTime(PathOf(session->counters() - before), took);
    recorder.Publish(session->counters());
    return result;
  }

  /// Counts bytes of values, if there is a recorder.
  void CountBytes(ClientMetric counter, std::size_t bytes) const {
    if (session->statistics().recorder() != nullptr) [[unlikely]]
      session->statistics().recorder()->Add(counter, bytes);
  }

  static bool IsWriteCall(ClientMetric kind) {
    switch (kind) {
      case ClientMetric::kPut:
      case ClientMetric::kDelete:
      case ClientMetric::kIncrement:
      case ClientMetric::kAppend:
      case ClientMetric::kTouch:
      case ClientMetric::kApply:
        return true;
      default:
        return false;
    }
  }

  /// Runs operation(session). Runs it again over another connection, each time that it ends with a broken
  /// one, or with a result that does not count, as long as the call has time.
  template <typename Operation>
  std::invoke_result_t<const Operation&, Session&> Run(const Operation& operation,
                                                       LeaseNeed need = LeaseNeed::kNeeded) const {
    const InUse::Call call(session->in_use());
    absl::Status trouble = session->BeginCall();
    if (trouble.ok()) {
      auto result = Confirmed(*session, operation(*session), need);
      if (result.ok() || !session->endpoint().is_broken()) return result;
      trouble = StatusOf(result);
    }
    if (!session->reconnects()) return trouble;
    for (const TimePoint deadline = session->calls().deadline().Get();;) {
      trouble = session->Reconnect(trouble, deadline);
      if (!trouble.ok()) break;
      auto result = Confirmed(*session, operation(*session), need);
      if (result.ok() || !session->endpoint().is_broken()) return result;
      trouble = StatusOf(result);
    }
    return trouble;
  }

  /// Runs a call that names memory of the caller, as above. When it returns, the device no longer accesses
  /// that memory.
  template <typename Operation>
  std::invoke_result_t<const Operation&, Session&> DoWith(const RegisteredBytes& memory, ClientMetric kind,
                                                          const Operation& operation) const {
    REMORA_RETURN_IF_ERROR(session->endpoint().CheckOwn(memory));
    auto result = Do(kind, operation);
    const InUse::Call call(session->in_use());
    session->WaitForDevice();
    return result;
  }

  /// Begins a call that must not begin a second time. Reconnects first if the connection is known to be
  /// broken. REQUIRES: an InUse::Call exists.
  absl::Status Begin() const {
    const absl::Status begun = session->BeginOnce();
    if (begun.ok() || !session->reconnects()) return begun;
    return session->Reconnect(begun, session->calls().deadline().Get());
  }

  /// Runs a deletion, which must not begin a second time: it would delete keys that were written since. So it
  /// checks before whether the connection broke unnoticed. Only an answer shows that where the server's host
  /// died.
  absl::StatusOr<std::uint64_t> Delete(const ScanRange& range) const {
    REMORA_RETURN_IF_ERROR(Run(Answers, LeaseNeed::kNone));
    const InUse::Call call(session->in_use());
    REMORA_RETURN_IF_ERROR(Begin());
    return Confirmed(*session, remora::DeleteRange(*session, range), LeaseNeed::kNeeded);
  }

  static absl::Status Answers(Session& session) {
    return session.calls().Call(Operation::kPing, {}, HashKey({}), {}).status();
  }

  /// Returns whether the fast path of several GETs may be used. It records no times, so it is not used with a
  /// recorder.
  bool is_fast() const {
    return session->statistics().recorder() == nullptr && session->is_ready() && FastGet::IsFor(*session);
  }

  /// Continues a call that did not end at once. A function of its own, so that the fast path has a small
  /// frame.
  [[gnu::noinline]] absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version) {
    RecordFacts facts;
    absl::Status status = Run([&](Session&) { return gets.Get(key, value, &facts); });
    if (version != nullptr && status.ok()) *version = facts.version;
    return status;
  }

  /// Does a whole GET, and records it.
  [[gnu::noinline, gnu::cold]] absl::Status RecordedGet(std::string_view key, std::string* value,
                                                        std::uint64_t* version) {
    absl::Status status = Recorded(ClientMetric::kGet, [&]() -> absl::Status {
      {
        const InUse::Call call(session->in_use());
        if (TryFastGet(*session, key, value, version) && session->lease().IsCovered())
          return absl::OkStatus();
      }
      return Get(key, value, version);
    });
    if (status.ok()) CountBytes(ClientMetric::kValueBytesRead, value->size());
    return status;
  }

  const std::unique_ptr<Session> session;
  BlockingGets gets;
  MultiGets multi_gets;
  std::string description;
};

}  // namespace remora
