#include "client/session/endpoint.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "store/base/status_macros.h"
#include "store/format/memory/record.h"

namespace remora {

Endpoint::~Endpoint() {
  if (connection_ != nullptr) connection_->Disconnect();
  Deregister();
  for (RegisteredBuffer* const buffer : user_buffers_) buffer->endpoint_ = nullptr;
}

absl::Status Endpoint::Bind(std::unique_ptr<rdma::ClientConnection> connection) {
  Deregister();
  connection_ = std::move(connection);
  REMORA_RETURN_IF_ERROR(buffers_.Register(*connection_));
  REMORA_RETURN_IF_ERROR(channel_.Bind(*connection_));
  return scan_window_.Offer(*connection_);
}

absl::Status Endpoint::RegisterBuffers() {
  for (RegisteredBuffer* const buffer : user_buffers_) {
    REMORA_ASSIGN_OR_RETURN(buffer->registration_, connection_->RegisterMessages(buffer->bytes()));
  }
  return absl::OkStatus();
}

void Endpoint::End() {
  if (broken_.ok()) broken_ = absl::UnavailableError("connection lost: it ended; connect again");
  // The server learns of the end of the connection before the registrations end.
  if (connection_ != nullptr) connection_->Disconnect();
  Deregister();
  connection_.reset();
}

void Endpoint::Deregister() {
  buffers_.Deregister();
  scan_window_.Deregister();
  for (RegisteredBuffer* const buffer : user_buffers_) buffer->registration_.reset();
  region_.Unbind();
}

absl::Status Endpoint::Break(absl::Status cause) {
  if (cause.ok()) cause = absl::UnavailableError("connection lost: it ended; connect again");
  if (broken_.ok()) {
    broken_ = absl::IsDeadlineExceeded(cause) || absl::IsCancelled(cause)
                  ? absl::UnavailableError(
                        "connection lost: an earlier call on it got no answer in time; connect again")
                  : cause;
  }
  return cause;
}

absl::Status Endpoint::Add(RegisteredBuffer* buffer) {
  if (!is_broken()) {
    REMORA_ASSIGN_OR_RETURN(buffer->registration_, connection_->RegisterMessages(buffer->bytes()));
  }
  user_buffers_.push_back(buffer);
  return absl::OkStatus();
}

void Endpoint::Remove(RegisteredBuffer* buffer) {
  const InUse::Call call(in_use_);
  std::erase(user_buffers_, buffer);
}

absl::Status Endpoint::CheckOwn(const RegisteredBytes& memory) const {
  if (memory.buffer_->endpoint_ == this) return absl::OkStatus();
  return absl::InvalidArgumentError("registered buffer: another client has registered it; use that client");
}

rdma::Sge Endpoint::SgeOf(const RegisteredBytes& memory) {
  // No value is larger.
  const std::size_t size = std::min(memory.bytes().size(), kMaxValueSize);
  return {memory.bytes().data(), static_cast<std::uint32_t>(size),
          memory.buffer_->registration_->local_key()};
}

}  // namespace remora
