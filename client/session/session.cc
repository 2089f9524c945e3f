#include "client/session/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/credentials.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"
#include "store/format/memory/hash.h"

namespace remora {
ClientOptions ResolvedFor(const rdma::Address& address, ClientOptions options) {
  // Through mapped memory a READ is a copy: a look-up of the location costs about what it saves (decision
  // 0035).
  if (address.kind == rdma::TransportKind::kLocal && !options.location_cache_bytes) {
    options.location_cache_bytes = 0;
  }
  return options;
}

absl::StatusOr<Dialer> DialerFor(const rdma::Address& address, const ClientOptions& options,
                                 const Clock& clock) {
  rdma::ClientTls tls{.files = options.tls, .secret = {}};
  REMORA_ASSIGN_OR_RETURN(tls.secret, SecretOfToken(options.token));
  return [address, tls = std::move(tls), &clock](TimePoint deadline) {
    return rdma::Dial(address, rdma::QueueLimits(), clock, deadline, tls);
  };
}

Session::Session(Dialer dialer, const ClientOptions& options, const Clock& clock)
    : clock_(clock),
      dialer_(std::move(dialer)),
      options_(options),
      statistics_(options.metrics),
      server_(clock),
      cache_(options.location_cache_bytes.value_or(kDefaultLocationCacheBytes)),
      region_(buffers_, server_, statistics_.counters()),
      channel_(buffers_, server_, hints_, statistics_.counters(), reconnects()),
      scan_window_(options.scan_window_bytes),
      endpoint_(in_use_, buffers_, scan_window_, region_, channel_) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Start(std::unique_ptr<rdma::ClientConnection> connection,
                                                        Dialer dialer, const ClientOptions& options,
                                                        const Clock& clock) {
  const std::size_t cache = options.location_cache_bytes.value_or(0);
  if (cache > kMaxLocationCacheBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("location_cache_bytes: ", cache, " bytes; the most is ", kMaxLocationCacheBytes));
  }
  std::unique_ptr<Session> session(new Session(std::move(dialer), options, clock));
  if (session->cache_.locations().lacks_memory()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("location_cache_bytes: there is no memory for a location cache of ", cache,
                     " bytes; make it smaller"));
  }
  REMORA_ASSIGN_OR_RETURN(session->secret_, SecretOfToken(options.token));
  if (session->reconnects()) session->identity_.id = RandomId();
  REMORA_RETURN_IF_ERROR(session->OpenFirst(std::move(connection)));
  session->counters() = {};
  return session;
}

// --- READs ----------------------------------------------------------------------------------------------

absl::StatusOr<const Superblock*> Session::ReadSuperblock() {
  REMORA_RETURN_IF_ERROR(Read(buffers_.superblock(), 0));
  return reinterpret_cast<const Superblock*>(buffers_.superblock().data());
}

absl::Status Session::Read(std::span<std::byte> to, std::uint64_t offset) {
  if (region_.ReadNow(to, offset)) return absl::OkStatus();
  const rdma::Sge into = buffers_.SgeOf(to);
  REMORA_RETURN_IF_ERROR(region_.Post(std::span(&into, 1), offset));
  return AwaitReads();
}

absl::Status Session::AwaitReads() {
  while (!region_.is_idle()) REMORA_RETURN_IF_ERROR(TakeSome());
  return absl::OkStatus();
}

// --- Requests -------------------------------------------------------------------------------------------

absl::StatusOr<ServerReply> Session::Exchange(Operation operation, Send send) {
  for (;;) {
    const absl::StatusOr<bool> sent = send(channel_);
    if (!sent.ok()) return endpoint_.Break(sent.status());
    if (*sent) break;
    REMORA_RETURN_IF_ERROR(TakeSome());
  }
  reply_.Expect();
  if (IsWrite(operation)) unacknowledged_write_ = channel_.last_request_id();
  while (!reply_.is_here()) REMORA_RETURN_IF_ERROR(TakeSome());
  if (IsWrite(operation)) unacknowledged_write_ = 0;
  return reply_.view();
}

absl::StatusOr<ServerReply> Session::Call(const RequestSpec& spec) {
  return Exchange(spec.operation,
                  [&](RequestChannel& channel) { return channel.Send(spec, RequestChannel::kCall); });
}

absl::StatusOr<ServerReply> Session::CallBare(const Request& request) {
  return Exchange(request.operation,
                  [&](RequestChannel& channel) { return channel.SendBare(request, RequestChannel::kCall); });
}

absl::Status Session::BeginOnce() {
  REMORA_RETURN_IF_ERROR(BeginCall());
  // A busy Poll looks at the events of a connection now and then only; one behind a sleep, always.
  endpoint_.connection().Arm();
  endpoint_.connection().Disarm();
  const std::size_t count = endpoint_.connection().Poll(completions_);
  for (std::size_t i = 0; i < count; ++i) REMORA_RETURN_IF_ERROR(Take(completions_[i], nullptr));
  return endpoint_.connection().status().ok() ? absl::OkStatus()
                                              : endpoint_.Break(endpoint_.connection().status());
}

absl::Status Session::AwaitStaging() {
  while (!channel_.has_all_staging()) REMORA_RETURN_IF_ERROR(TakeSome());
  return absl::OkStatus();
}

absl::Status Session::AwaitReplies(TakeReply take) { return TakeSome(&take); }

absl::Status Session::PostScanPage(const Request& request) {
  for (;;) {
    const absl::StatusOr<bool> sent = channel_.SendBare(request, RequestChannel::kScanPage);
    if (!sent.ok()) return endpoint_.Break(sent.status());
    if (*sent) break;
    REMORA_RETURN_IF_ERROR(TakeSome());
  }
  scan_window_.reply().Expect();
  return absl::OkStatus();
}

absl::Status Session::AwaitScanPage() {
  while (!scan_window_.reply().is_here()) REMORA_RETURN_IF_ERROR(TakeSome());
  return absl::OkStatus();
}

void Session::ReportReads() {
  if (!hints_.TakeReport(clock_.Coarse())) return;
  // If it fails, the next call reports it.
  Call(Operation::kPing, {}, HashKey({}), {}).IgnoreError();
}

// --- Completions ----------------------------------------------------------------------------------------

absl::Status Session::TakeSome(const TakeReply* take) {
  REMORA_ASSIGN_OR_RETURN(const std::size_t count, AwaitSome());
  for (std::size_t i = 0; i < count; ++i) REMORA_RETURN_IF_ERROR(Take(completions_[i], take));
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> Session::AwaitSome() {
  if (const std::size_t count = endpoint_.connection().Poll(completions_); count > 0) return count;
  absl::StatusOr<std::size_t> polled =
      rdma::PollUntil(endpoint_.connection(), completions_, deadline(), spinner_);
  if (!polled.ok()) return endpoint_.Break(std::move(polled).status());
  return polled;
}

absl::Status Session::Take(const rdma::Completion& completion, const TakeReply* take) {
  if (!completion.ok) return endpoint_.Break(endpoint_.connection().status());
  switch (completion.kind) {
    case rdma::CompletionKind::kRead:
      region_.TakeCompletion();
      return absl::OkStatus();
    case rdma::CompletionKind::kSend:
      channel_.TakeSend(completion);
      return absl::OkStatus();
    case rdma::CompletionKind::kReceive:
      return TakeReceive(completion, take);
    case rdma::CompletionKind::kDisconnected:
      break;
  }
  return endpoint_.Break(endpoint_.connection().status());
}

absl::Status Session::TakeReceive(const rdma::Completion& completion, const TakeReply* take) {
  const absl::StatusOr<RequestChannel::Ended> ended = channel_.TakeReply(completion);
  if (!ended.ok()) return endpoint_.Break(ended.status());
  absl::Status status = ended->ForEach([&](std::uint32_t caller, const ServerReply& reply) {
    if (caller == RequestChannel::kCall) {
      reply_.Take(reply);
    } else if (caller == RequestChannel::kScanPage) {
      scan_window_.reply().Take(reply);
    } else if (take != nullptr) {
      (*take)(caller, reply, ended->may_learn);
    }
  });
  if (status.ok()) status = channel_.PostReceive(completion.context);
  return status.ok() ? status : endpoint_.Break(std::move(status));
}

}  // namespace remora
