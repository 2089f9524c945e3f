#include "rdma/local/server.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/local/listener.h"
#include "rdma/local/local.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

LocalSide* SideIn(SharedMemory& memory) { return reinterpret_cast<LocalSide*>(memory.bytes().data()); }

}  // namespace

SharedBytes SharedBytesOfLocal(const QueueLimits& limits) {
  return {.listener = SharedMemory::RoundUp(sizeof(LocalListenerPage)),
          .connection = 2 * SharedMemory::RoundUp(LocalSideBytes(RingSlotsFor(limits)))};  // MakeSides
}

LocalServer::LocalServer(LocalListener& listener, UniqueFd socket, const ucred& peer, const LocalHello& hello,
                         LocalMapping offered)
    : LocalConnection(listener.limits()), listener_(listener), offered_(std::move(offered)) {
  socket_ = std::move(socket);
  peer_ = peer;
  peer_data_.assign(hello.data, hello.data + hello.data_size);
  listener_.Add(this);
}

LocalServer::~LocalServer() {
  Close();
  listener_.Remove(this);
}

absl::StatusOr<std::unique_ptr<Registration>> LocalServer::ProvideWrite(std::string_view name,
                                                                        std::size_t size) {
  if (answered_) return absl::FailedPreconditionError("provide memory: ProvideWrite comes before Accept");
  if (writes_.size() == kLocalMaxWrites) {
    return absl::ResourceExhaustedError(
        absl::StrCat("provide memory: a connection has at most ", kLocalMaxWrites, " regions to WRITE"));
  }
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<SharedMemory> memory,
                          listener_.pool().Create(name, size, SharedMemory::Writers::kPeers));
  writes_.push_back(memory.get());
  const RemoteRegion remote = {.size = memory->bytes().size(),
                               .key = static_cast<std::uint32_t>(kLocalMaxReads + writes_.size())};
  return std::make_unique<LocalRegistration>(std::move(memory), remote);
}

absl::StatusOr<std::unique_ptr<Registration>> LocalServer::GrantWrite(SharedMemory&, std::size_t,
                                                                      std::size_t) {
  return absl::UnimplementedError(
      "grant: the local transport cannot take back memory that a process has mapped");
}

absl::Status LocalServer::Accept(std::span<const std::byte> data) {
  if (answered_) return absl::FailedPreconditionError("accept: the request was answered before");
  if (data.size() > kMaxAcceptData) {
    return absl::InvalidArgumentError(
        absl::StrCat("accept: ", data.size(), " bytes of accept data; the most are ", kMaxAcceptData));
  }
  answered_ = true;
  const std::uint32_t slots = RingSlotsFor(limits_);
  absl::Status status = MakeSides(slots);
  if (!status.ok()) SendReply(socket_.get(), {.answer = LocalAnswer::kNoSpace}, {}).IgnoreError();
  // Usable before the client hears of it, because it may send at once.
  if (status.ok()) status = listener_.Watch(this);
  if (status.ok()) status = SendAcceptance(data, slots);
  CloseDescriptors();
  if (!status.ok()) {
    Break(status);
    return status;
  }
  Open(SideIn(*server_memory_), SideIn(*client_memory_), &SideIn(*client_memory_)->sleeping, slots);
  return absl::OkStatus();
}

absl::Status LocalServer::MakeSides(std::uint32_t slots) {
  const std::size_t size = LocalSideBytes(slots);
  REMORA_ASSIGN_OR_RETURN(
      server_memory_, listener_.pool().Create("remora-to-client", size, SharedMemory::Writers::kOwnerOnly));
  REMORA_ASSIGN_OR_RETURN(client_memory_,
                          listener_.pool().Create("remora-to-server", size, SharedMemory::Writers::kPeers));
  return absl::OkStatus();
}

absl::Status LocalServer::SendAcceptance(std::span<const std::byte> data, std::uint32_t slots) {
  LocalReply reply = {.answer = LocalAnswer::kAccepted, .ring_slots = slots};
  reply.data_size = static_cast<std::uint32_t>(data.size());
  std::ranges::copy(data, reply.data);
  std::array<int, kLocalMaxDescriptors> descriptors = {listener_.page_fd(), server_memory_->fd(),
                                                       client_memory_->fd()};
  std::size_t count = kLocalOwnDescriptors;
  const auto add = [&](const SharedMemory& memory, std::uint32_t key, bool writable) {
    reply.regions[reply.region_count++] = {
        .size = memory.bytes().size(), .key = key, .writable = writable ? 1u : 0u};
    descriptors[count++] = memory.fd();
  };
  std::uint32_t key = 1;
  for (const SharedMemory* memory : listener_.reads()) add(*memory, key++, false);
  key = kLocalMaxReads + 1;
  for (const SharedMemory* memory : writes_) add(*memory, key++, true);
  return SendReply(socket_.get(), reply, std::span(descriptors).first(count));
}

void LocalServer::CloseDescriptors() {
  if (server_memory_ != nullptr) server_memory_->CloseDescriptor();
  if (client_memory_ != nullptr) client_memory_->CloseDescriptor();
  for (SharedMemory* memory : writes_) memory->CloseDescriptor();
  writes_.clear();
}

void LocalServer::Reject(std::span<const std::byte> data) {
  if (answered_) return;
  answered_ = true;
  LocalReply reply = {.answer = LocalAnswer::kRejected};
  const std::size_t size = std::min(data.size(), kMaxRejectData);
  reply.data_size = static_cast<std::uint32_t>(size);
  std::ranges::copy(data.first(size), reply.data);
  // The connection ends even if the client does not receive the reply.
  SendReply(socket_.get(), reply, {}).IgnoreError();
  Break(absl::FailedPreconditionError("accept: the connection was rejected"));
}

absl::Status LocalServer::PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                                     std::uint64_t offset) {
  if (is_parked_) listener_.Unpark(this);  // this may break the connection
  if (!usable()) return Unusable();
  const std::uint64_t size = TotalSize(from);
  if (from.size() > kMaxSges || !region.Contains(offset, size)) return BadRequest(from, region, offset);
  if (!HasSpace()) return QueueIsFull();
  const std::uint64_t offered = offered_.bytes().size();
  // The client may name any region.
  if (region.key != kLocalOfferedKey || offset > offered || size > offered - offset) {
    Break(absl::PermissionDeniedError("WRITE: the client has not offered this memory"));
    return absl::OkStatus();
  }
  std::byte* to = offered_.bytes().data() + offset;
  for (const Sge& sge : from) {
    if (sge.size > 0) std::memcpy(to, sge.data, sge.size);
    to += sge.size;
  }
  CountWrite();
  return absl::OkStatus();
}

// Its completion must be polled.
absl::Status LocalServer::PostSend(std::uint64_t context, const Sge& from) {
  if (is_parked_) listener_.Unpark(this);
  return LocalConnection::PostSend(context, from);
}

// A message may be waiting for it.
absl::Status LocalServer::PostRecv(std::uint64_t context, const Sge& into) {
  if (is_parked_) listener_.Unpark(this);
  return LocalConnection::PostRecv(context, into);
}

bool LocalServer::Park() {
  if (!usable()) return false;
  own_side().sleeping.FallAsleep();  // A6: before the look into the ring
  is_parked_ = !HasCompletions();
  if (!is_parked_) own_side().sleeping.WakeUp();
  return is_parked_;
}

void LocalServer::Unpark() {
  own_side().sleeping.WakeUp();
  is_parked_ = false;
}

std::atomic<std::uint32_t>& LocalServer::wakes() { return SideIn(*client_memory_)->wakes; }

void LocalServer::OnSocketEvent() {
  // The socket has a wake-up byte of the client, or is closed.
  listener_.Unpark(this);
  // Usually there is one byte. If there are more, the socket stays readable, and the next check reads them.
  if (DrainWakeUps(socket_.get(), 1)) return;
  PeerIsGone();
  // A closed socket would stay readable for ever.
  listener_.Unwatch(this);
}

}  // namespace remora::rdma
