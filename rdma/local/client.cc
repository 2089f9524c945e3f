#include "rdma/local/client.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/local/futex.h"
#include "rdma/local/liveness.h"
#include "rdma/local/local.h"
#include "rdma/shared_copy.h"
#include "rdma/sleep.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

// Polls between two checks of the socket, which finds deaths that the listener page may miss (A1).
// At this rate the check costs nothing.
constexpr std::uint32_t kPollsPerSocketCheck = 4096;

// A wake-up by a futex costs half of one by the socket. But a futex does not tell of the server's death, so a
// longer sleep goes on at the socket.
constexpr std::chrono::milliseconds kBriefSleep(10);

constexpr char kServerClosed[] = "the server closed the connection";
constexpr char kServerGone[] = "the server process is gone";

absl::Status NoRegion() {
  return absl::PermissionDeniedError(
      "post: the server gave this connection no such region (key, size or access)");
}

absl::Status BadAnswer(const char* what) {
  return absl::InternalError(absl::StrCat("connect: the server's acceptance is not usable: ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientConnection>> DialLocal(const Address& address, const QueueLimits& limits,
                                                            const Clock& clock, TimePoint) {
  REMORA_RETURN_IF_ERROR(CheckLimits(limits));
  return std::make_unique<LocalClient>(address, limits, clock);
}

LocalClient::~LocalClient() { Close(); }

absl::StatusOr<std::unique_ptr<Registration>> LocalClient::RegisterWrite(SharedMemory& memory) {
  if (&memory != offered_) {
    return absl::FailedPreconditionError(
        "register: a client registers for WRITE the memory that it has offered; call OfferWrite first");
  }
  return std::make_unique<LocalRegistration>(
      memory.bytes(), RemoteRegion{.size = memory.bytes().size(), .key = kLocalOfferedKey});
}

absl::Status LocalClient::OfferWrite(SharedMemory& memory) {
  REMORA_RETURN_IF_ERROR(CheckOffer(memory));
  if (offered_ != nullptr || socket_) {
    return absl::FailedPreconditionError("offer: OfferWrite comes once, and before Connect");
  }
  offered_ = &memory;
  return absl::OkStatus();
}

absl::Status LocalClient::Connect(std::span<const std::byte> request_data, TimePoint deadline) {
  if (socket_ || !status().ok())
    return absl::FailedPreconditionError("connect: Connect was called before; dial again");
  if (request_data.size() > kMaxConnectData) {
    return absl::InvalidArgumentError(absl::StrCat("connect: ", request_data.size(),
                                                   " bytes of request data; the most are ", kMaxConnectData));
  }
  absl::Status result = Shake(request_data, deadline);
  if (!result.ok()) Break(result);
  return result;
}

absl::Status LocalClient::Shake(std::span<const std::byte> request_data, TimePoint deadline) {
  REMORA_ASSIGN_OR_RETURN(socket_, ConnectSocket(deadline));
  peer_ = PeerOf(socket_.get());
  // Where everybody may put a socket, it may be another user's trap: the client sends it nothing and maps
  // nothing of it. Elsewhere, the owners of the folders have let the server in.
  if (geteuid() != 0 && peer_.uid != 0 && peer_.uid != geteuid()) {
    if (const std::string folder = FolderForEverybody(path_); !folder.empty()) {
      return absl::PermissionDeniedError(
          absl::StrCat("connect: another user, uid ", peer_.uid, ", serves at ", path_,
                       ", and this process runs as uid ", geteuid(), "; in ", folder,
                       " any user may put a socket: a server for other users must listen elsewhere"));
    }
  }
  LocalHello hello;
  hello.data_size = static_cast<std::uint32_t>(request_data.size());
  std::ranges::copy(request_data, hello.data);
  const int offered = offered_ != nullptr ? offered_->fd() : -1;
  // A failure says that the server has hung up already; it may have said why.
  SendHello(socket_.get(), hello, std::span(&offered, offered >= 0 ? 1 : 0)).IgnoreError();

  REMORA_ASSIGN_OR_RETURN(const ReceivedReply received, AwaitReply(deadline));
  const LocalReply& reply = received.reply;
  if (reply.data_size > kMaxAcceptData) return BadAnswer("too much data");
  peer_data_.assign(reply.data, reply.data + reply.data_size);
  switch (reply.answer) {
    case LocalAnswer::kAccepted:
      return MapAll(received);
    case LocalAnswer::kRejected:
      return absl::FailedPreconditionError("connect: the server rejected the connection");
    case LocalAnswer::kWrongUser:
      return ServesAnother();
    case LocalAnswer::kNoSpace:
      return absl::UnavailableError(absl::StrCat("connect: the server at ", path_,
                                                 " has no descriptor or memory left for another client: try "
                                                 "again, or raise its limits (ulimit -n)"));
    case LocalAnswer::kWrongVersion:
      break;  // with our own version this makes no sense
  }
  return BadAnswer("unknown kind");
}

// In attempts, between which the clock is asked: nothing but its own bound ends a connect that waits.
absl::StatusOr<UniqueFd> LocalClient::ConnectSocket(TimePoint deadline) const {
  for (;;) {
    absl::StatusOr<UniqueFd> socket =
        ConnectTo(path_, std::min(deadline - clock_.Now(), clock_.LongestSleep()));
    if (!absl::IsDeadlineExceeded(socket.status()) || clock_.Now() >= deadline) return socket;
    if (clock_.IsInterrupted()) return absl::CancelledError(kInterrupted);
  }
}

absl::Status LocalClient::ServesAnother() const {
  return absl::PermissionDeniedError(absl::StrCat(
      "connect: the server at ", path_, " does not serve uid ", geteuid(), "; run this process as uid ",
      peer_.uid, ", as root or as a user that the server's --local_access admits, or start it with another"));
}

absl::StatusOr<ReceivedReply> LocalClient::AwaitReply(TimePoint deadline) {
  for (;;) {
    pollfd fd = {socket_.get(), POLLIN, 0};
    REMORA_ASSIGN_OR_RETURN(const bool in_time, SleepUntilReady(std::span(&fd, 1), clock_, deadline));
    if (fd.revents != 0) return ReceiveReply(socket_.get());
    if (!in_time) {
      return absl::DeadlineExceededError(absl::StrCat("connect: the server at ", path_, " does not answer"));
    }
  }
}

absl::Status LocalClient::MapAll(const ReceivedReply& received) {
  const LocalReply& reply = received.reply;
  if (reply.region_count > kLocalMaxRegions ||
      received.descriptors.size() != kLocalOwnDescriptors + reply.region_count) {
    return BadAnswer("wrong number of descriptors");
  }
  if (!std::has_single_bit(reply.ring_slots) || reply.ring_slots > kLocalMaxRingSlots)
    return BadAnswer("ring size");
  const auto fd = [&](std::size_t i) { return received.descriptors[i].get(); };
  const std::size_t side = LocalSideBytes(reply.ring_slots);
  REMORA_ASSIGN_OR_RETURN(listener_mapping_, LocalMapping::Share(fd(0), sizeof(LocalListenerPage)));
  REMORA_ASSIGN_OR_RETURN(server_mapping_, LocalMapping::Map(fd(1), side, false));
  REMORA_ASSIGN_OR_RETURN(own_mapping_, LocalMapping::Map(fd(2), side, true));
  for (std::uint32_t i = 0; i < reply.region_count; ++i) {
    const LocalRegion& given = reply.regions[i];
    if (given.key == 0 || given.key > kLocalMaxRegions || regions_[given.key - 1].size != 0)
      return BadAnswer("key");
    Region& region = regions_[given.key - 1];
    region.writable = given.writable != 0;
    const int memory = fd(kLocalOwnDescriptors + i);
    REMORA_ASSIGN_OR_RETURN(region.mapping, region.writable ? LocalMapping::Map(memory, given.size, true)
                                                            : LocalMapping::Share(memory, given.size));
    region.size = given.size;
  }
  listener_page_ = reinterpret_cast<const LocalListenerPage*>(listener_mapping_.bytes().data());
  Open(reinterpret_cast<LocalSide*>(own_mapping_.bytes().data()),
       reinterpret_cast<const LocalSide*>(server_mapping_.bytes().data()), &listener_page_->sleeping,
       reply.ring_slots);
  return absl::OkStatus();
}

absl::Status LocalClient::PostReadv(std::uint64_t context, std::span<const Sge> to,
                                    const RemoteRegion& region, std::uint64_t offset) {
  if (!usable()) return Unusable();
  const std::uint64_t size = TotalSize(to);
  if (to.size() > kMaxSges || !region.Contains(offset, size)) return BadRequest(to, region, offset);
  if (!HasSpace()) return QueueIsFull();
  const std::byte* from = Find(region, offset, size, false);
  if (from == nullptr) {
    Finish(context, CompletionKind::kRead, false);
    Break(NoRegion());
    return absl::OkStatus();
  }
  for (const Sge& sge : to) {
    CopyShared(sge.data, from, sge.size);
    from += sge.size;
  }
  AcquireFence();  // A1: the bytes first, then whether the server that they are of still lives
  const bool alive = IsAlive(*listener_page_);
  const bool closed = PeerHasClosed();  // the mapping would still be readable, and nothing else
                                        // would tell
  Finish(context, CompletionKind::kRead, alive && !closed);
  if (!alive || closed) Break(absl::UnavailableError(alive ? kServerClosed : kServerGone));
  return absl::OkStatus();
}

MappedRegion* LocalClient::Mapped(const RemoteRegion& region) {
  const std::byte* const bytes = Find(region, 0, region.size, false);
  if (!usable() || bytes == nullptr) return nullptr;
  return MapRegion({bytes, region.size}, *listener_page_);
}

absl::Status LocalClient::PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                                     std::uint64_t offset) {
  if (!usable()) return Unusable();
  const std::uint64_t size = TotalSize(from);
  if (from.size() > kMaxSges || !region.Contains(offset, size)) return BadRequest(from, region, offset);
  if (!HasSpace()) return QueueIsFull();
  std::byte* to = Find(region, offset, size, true);
  if (to == nullptr) {
    Break(NoRegion());
    return absl::OkStatus();
  }
  for (const Sge& sge : from) {
    if (sge.size > 0) std::memcpy(to, sge.data, sge.size);
    to += sge.size;
  }
  CountWrite();
  return absl::OkStatus();
}

std::size_t LocalClient::Poll(std::span<Completion> out) {
  if (usable()) {
    // Before Take looks into the ring, so that what the server sent before it died is delivered.
    if (!IsAlive(*listener_page_)) PeerIsGone();
    AcquireFence();
    const bool is_due = ++polls_ % kPollsPerSocketCheck == 0 || mapped_region().wants_poll();
    // A client that is about to sleep leaves the byte that wakes it: the server sends one for each sleep
    // (A4), so later messages would wake nobody. Disarm looks at the socket then.
    if (is_due && !armed_) LookAtSocket();
  }
  return Take(out);
}

bool LocalClient::PollingPays() {
  if (!usable()) return true;
  own_side().cpu.Publish();
  return !listener_page_->cpu.IsHere();
}

absl::Status LocalClient::Wait(TimePoint deadline) {
  if (disconnect_told()) return status();
  if (!usable()) return status().ok() ? Unusable() : absl::OkStatus();
  if (SleepBriefly(deadline)) return absl::OkStatus();
  own_side().sleeping.FallAsleep();  // A4: before the look into the ring
  const absl::Status result = HasCompletions() ? absl::OkStatus() : Sleep(deadline);
  own_side().sleeping.WakeUp();
  return result;
}

bool LocalClient::SleepBriefly(TimePoint deadline) {
  const Duration longest = std::min<Duration>(deadline - clock_.Now(), kBriefSleep);
  if (longest <= Duration::zero()) return false;
  const std::atomic<std::uint32_t>& wakes = peer_side().wakes;
  const std::uint32_t seen = wakes.load(std::memory_order_acquire);
  own_side().sleeping.FallAsleep(WakeBy::kFutex);  // A4: before the look into the ring
  const bool came = HasCompletions() || FutexWait(wakes, seen, longest);
  own_side().sleeping.WakeUp();
  return came;
}

void LocalClient::Arm() {
  armed_ = true;
  // A4: before the Poll that the contract demands next.
  if (usable()) own_side().sleeping.FallAsleep();
}

void LocalClient::Disarm() {
  armed_ = false;
  if (!usable()) return;
  own_side().sleeping.WakeUp();
  LookAtSocket();
}

void LocalClient::LookAtSocket() {
  if (!DrainWakeUps(socket_.get())) PeerIsGone();
  mapped_region().Polled();
}

absl::Status LocalClient::Sleep(TimePoint deadline) {
  pollfd fd = {socket_.get(), POLLIN | POLLRDHUP, 0};
  REMORA_ASSIGN_OR_RETURN(const bool in_time, SleepUntilReady(std::span(&fd, 1), clock_, deadline));
  if (fd.revents != 0) LookAtSocket();
  return in_time ? absl::OkStatus() : absl::DeadlineExceededError("wait: nothing came in time");
}

}  // namespace remora::rdma
