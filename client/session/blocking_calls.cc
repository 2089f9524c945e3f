#include "client/session/blocking_calls.h"

#include <utility>

#include "store/base/status_macros.h"
#include "store/format/memory/hash.h"

namespace remora {

// --- READs ----------------------------------------------------------------------------------------------

absl::StatusOr<const Superblock*> BlockingCalls::ReadSuperblock() {
  REMORA_RETURN_IF_ERROR(Read(parts_.buffers.superblock(), 0));
  return reinterpret_cast<const Superblock*>(parts_.buffers.superblock().data());
}

absl::Status BlockingCalls::Read(std::span<std::byte> to, std::uint64_t offset) {
  if (parts_.region.ReadNow(to, offset)) return absl::OkStatus();
  const rdma::Sge into = parts_.buffers.SgeOf(to);
  REMORA_RETURN_IF_ERROR(parts_.region.Post(std::span(&into, 1), offset));
  return AwaitReads();
}

absl::Status BlockingCalls::AwaitReads() {
  while (!parts_.region.is_idle()) REMORA_RETURN_IF_ERROR(TakeSome());
  return absl::OkStatus();
}

// --- Requests -------------------------------------------------------------------------------------------

absl::StatusOr<ServerReply> BlockingCalls::Exchange(Operation operation, Send send) {
  for (;;) {
    const absl::StatusOr<bool> sent = send(parts_.channel);
    if (!sent.ok()) return parts_.endpoint.Break(sent.status());
    if (*sent) break;
    REMORA_RETURN_IF_ERROR(TakeSome());
  }
  reply_.Expect();
  if (IsWrite(operation)) unacknowledged_write_ = parts_.channel.last_request_id();
  while (!reply_.is_here()) REMORA_RETURN_IF_ERROR(TakeSome());
  if (IsWrite(operation)) unacknowledged_write_ = 0;
  return reply_.view();
}

absl::StatusOr<ServerReply> BlockingCalls::Call(const RequestSpec& spec) {
  return Exchange(spec.operation,
                  [&](RequestChannel& channel) { return channel.Send(spec, RequestChannel::kCall); });
}

absl::StatusOr<ServerReply> BlockingCalls::CallBare(const Request& request) {
  return Exchange(request.operation,
                  [&](RequestChannel& channel) { return channel.SendBare(request, RequestChannel::kCall); });
}

absl::Status BlockingCalls::AwaitStaging() {
  while (!parts_.channel.has_all_staging()) REMORA_RETURN_IF_ERROR(TakeSome());
  return absl::OkStatus();
}

absl::Status BlockingCalls::AwaitReplies(TakeReply take) { return TakeSome(&take); }

void BlockingCalls::AwaitGathered() {
  while (!parts_.endpoint.is_broken() && parts_.channel.IsGathering(RequestChannel::kCall)) {
    TakeSome().IgnoreError();
  }
}

absl::Status BlockingCalls::PostScanPage(const Request& request) {
  for (;;) {
    const absl::StatusOr<bool> sent = parts_.channel.SendBare(request, RequestChannel::kScanPage);
    if (!sent.ok()) return parts_.endpoint.Break(sent.status());
    if (*sent) break;
    REMORA_RETURN_IF_ERROR(TakeSome());
  }
  parts_.scan_window.reply().Expect();
  return absl::OkStatus();
}

absl::Status BlockingCalls::AwaitScanPage() {
  while (!parts_.scan_window.reply().is_here()) REMORA_RETURN_IF_ERROR(TakeSome());
  return absl::OkStatus();
}

void BlockingCalls::ReportReads() {
  if (!parts_.hints.TakeReport(clock_.Coarse())) return;
  // If it fails, the next call reports it.
  Call(Operation::kPing, {}, HashKey({}), {}).IgnoreError();
}

// --- Completions ----------------------------------------------------------------------------------------

absl::Status BlockingCalls::TakeSome(const TakeReply* take) {
  REMORA_ASSIGN_OR_RETURN(const std::size_t count, AwaitSome());
  for (std::size_t i = 0; i < count; ++i) REMORA_RETURN_IF_ERROR(Take(completions_[i], take));
  return absl::OkStatus();
}

absl::Status BlockingCalls::TakeEvents() {
  rdma::ClientConnection& connection = parts_.endpoint.connection();
  // A busy Poll looks at the events of a connection now and then only; one behind a sleep, always.
  connection.Arm();
  connection.Disarm();
  const std::size_t count = connection.Poll(completions_);
  for (std::size_t i = 0; i < count; ++i) REMORA_RETURN_IF_ERROR(Take(completions_[i], nullptr));
  return connection.status().ok() ? absl::OkStatus() : parts_.endpoint.Break(connection.status());
}

absl::StatusOr<std::size_t> BlockingCalls::AwaitSome() {
  if (const std::size_t count = parts_.endpoint.connection().Poll(completions_); count > 0) return count;
  absl::StatusOr<std::size_t> polled =
      rdma::PollUntil(parts_.endpoint.connection(), completions_, deadline_.Get(), spinner_);
  if (!polled.ok()) return parts_.endpoint.Break(std::move(polled).status());
  return polled;
}

absl::Status BlockingCalls::Take(const rdma::Completion& completion, const TakeReply* take) {
  if (!completion.ok) return parts_.endpoint.Break(parts_.endpoint.connection().status());
  switch (completion.kind) {
    case rdma::CompletionKind::kRead:
      parts_.region.TakeCompletion();
      return absl::OkStatus();
    case rdma::CompletionKind::kSend:
      parts_.channel.TakeSend(completion);
      return absl::OkStatus();
    case rdma::CompletionKind::kReceive:
      return TakeReceive(completion, take);
    case rdma::CompletionKind::kDisconnected:
      break;
  }
  return parts_.endpoint.Break(parts_.endpoint.connection().status());
}

absl::Status BlockingCalls::TakeReceive(const rdma::Completion& completion, const TakeReply* take) {
  const absl::StatusOr<RequestChannel::Ended> ended = parts_.channel.TakeReply(completion);
  if (!ended.ok()) return parts_.endpoint.Break(ended.status());
  absl::Status status = ended->ForEach([&](std::uint32_t caller, const ServerReply& reply) {
    if (caller == RequestChannel::kCall) {
      reply_.Take(reply);
    } else if (caller == RequestChannel::kScanPage) {
      parts_.scan_window.reply().Take(reply);
    } else if (take != nullptr) {
      (*take)(caller, reply);
    }
  });
  if (status.ok()) status = parts_.channel.PostReceive(completion.context);
  return status.ok() ? status : parts_.endpoint.Break(std::move(status));
}

// --- Lost replies ---------------------------------------------------------------------------------------

absl::StatusOr<std::optional<ServerReply>> BlockingCalls::QueryCompletion() {
  ++parts_.counters.completion_queries;
  REMORA_ASSIGN_OR_RETURN(ServerReply answer,
                          Call({.operation = Operation::kQueryCompletion, .about = unacknowledged_write_}));
  answer.refreshes = 0;  // the record may have died before the client asked
  unacknowledged_write_ = 0;
  if (answer.reply.status == ReplyStatus::kNotFound) return std::nullopt;
  return answer;
}

}  // namespace remora
