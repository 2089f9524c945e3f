#include "rdma/tcp/server/link.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/server/find.h"
#include "store/base/check.h"
#include "store/format/memory/layout.h"

namespace remora::rdma {
namespace {

// Most recvs for one connection before another connection has its turn.
constexpr int kMaxFills = 4;
// The NIC thread sends answers when so many wait, even if more frames have arrived.
constexpr std::size_t kMaxAnswers = 64;

// Part of the server's log. The system closes the sockets of a killed process as the process itself does. If
// bytes were unread by then, the server receives a reset.
constexpr char kClientClosed[] = "the client closed the connection, or its process ended";

// Bytes of an answer that are prefetched when its READ is taken. The CPU itself prefetches those behind them.
constexpr std::size_t kPrefetched = 256;
constexpr std::size_t kCacheLine = 64;

/// Prefetches bytes that the kernel copies once the last frame of the turn is taken. So the cache misses of
/// many READs that arrived together overlap.
void Prefetch(const std::byte* bytes, std::size_t size) {
  for (std::size_t i = 0; i < std::min(size, kPrefetched); i += kCacheLine) __builtin_prefetch(bytes + i);
}

int ErrorOf(int socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

absl::Status PeerIsGone(int error) {
  if (error == 0 || error == ECONNRESET || error == EPIPE) return absl::UnavailableError(kClientClosed);
  return TcpStatus(error, "the connection was lost");
}

}  // namespace

TcpLink::TcpLink(UniqueFd socket, const QueueLimits& limits, TcpEvents& events,
                 std::unique_ptr<TlsStream> tls)
    : limits_(limits),
      tcp_events_(events),
      socket_(std::move(socket)),
      tls_(std::move(tls)),
      reader_(limits.receives, "the client"),
      sends_(limits.sends),
      done_(limits.sends + limits.receives) {}

// --- The server thread ------------------------------------------------------------------------------

void TcpLink::AddRead(std::uint32_t key, std::span<std::byte> bytes) {
  const MutexLock lock(mutex_);
  regions_.push_back({.key = key, .writable = false, .address = 0, .bytes = bytes});
}

void TcpLink::AddWrite(std::uint32_t key, std::uint64_t address, std::span<std::byte> bytes) {
  const MutexLock lock(mutex_);
  regions_.push_back({.key = key, .writable = true, .address = address, .bytes = bytes});
}

void TcpLink::Deregister(std::uint32_t key) {
  const MutexLock lock(mutex_);
  const auto struck = std::ranges::find(regions_, key, &Region::key);
  if (struck == regions_.end()) return;
  const std::span<const std::byte> bytes = struck->bytes;
  regions_.erase(struck);
  // An answer that still waits would be sent from memory that may have another use by then.
  if (failure_.ok() && outbox_.RefersTo(bytes)) {
    Break(absl::UnavailableError("READ: the memory that the peer was reading was taken back"));
  }
}

void TcpLink::Answer(TcpAnswer answer, std::span<const std::byte> data) {
  TcpReply reply{.answer = answer};
  reply.data_size = static_cast<std::uint32_t>(data.size());
  std::ranges::copy(data, reply.data);
  const MutexLock lock(mutex_);
  // The reply fits, because nothing was sent before. If the client is gone, the NIC thread notices that.
  SendBytes(socket_.get(), tls_.get(), std::as_bytes(std::span(&reply, 1)));
}

bool TcpLink::Start(int epoll, ServedReads& served, Connection* connection) {
  const MutexLock lock(mutex_);
  epoll_event event = {.events = EPOLLIN, .data = {.ptr = this}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket_.get(), &event) != 0) return false;
  epoll_ = epoll;
  interest_ = event.events;
  served_ = &served;
  connection_ = connection;
  // A client that did not wait for the answer has sent frames with its hello.
  wants_turn_ = tls_ != nullptr && (tls_->has_input() || tls_->has_output());
  UpdateInterest();
  return true;
}

absl::Status TcpLink::PostRecv(std::uint64_t context, const Sge& into) {
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (posted_receives_ == limits_.receives) {
    return absl::ResourceExhaustedError(
        "receive: as many buffers as QueueLimits::receives are posted already; poll first");
  }
  ++posted_receives_;
  reader_.PostReceive(context, into);
  if (is_parked_) {
    is_parked_ = false;
    wants_turn_ = true;
    UpdateInterest();
  }
  return absl::OkStatus();
}

absl::Status TcpLink::CheckPost(std::span<const Sge> from) const {
  if (!failure_.ok()) return failure_;
  if (connection_ == nullptr)
    return absl::FailedPreconditionError("post: the connection is not accepted yet; accept it first");
  if (in_flight_ == limits_.sends) return QueueIsFull();
  if (TotalSize(from) > kTcpMaxTransfer) {
    return absl::InvalidArgumentError(
        absl::StrCat("post: more than ", kTcpMaxTransfer, " bytes in one request"));
  }
  return absl::OkStatus();
}

absl::Status TcpLink::PostSend(std::uint64_t context, const Sge& from) {
  if (from.size > kMaxMessageSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("send: a message of ", from.size, " bytes; the longest is ", kMaxMessageSize));
  }
  bool is_done = false;
  {
    const MutexLock lock(mutex_);
    if (absl::Status status = CheckPost({&from, 1}); !status.ok()) return status;
    outbox_.Add({.kind = FrameKind::kMessage, .size = from.size}, {&from, 1});
    sends_.push({context, outbox_.added(), std::exchange(uncovered_, 0) + 1});
    ++in_flight_;
    Flush();
    CompleteSends();
    UpdateInterest();
    is_done = !done_.empty();
  }
  if (is_done) tcp_events_.Report(shared_from_this());
  return absl::OkStatus();
}

absl::Status TcpLink::PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                                 std::uint64_t offset) {
  const std::uint64_t size = TotalSize(from);
  if (from.size() > kMaxSges || !region.Contains(offset, size)) return BadRequest(from, region, offset);
  const MutexLock lock(mutex_);
  if (absl::Status status = CheckPost(from); !status.ok()) return status;
  // The WRITE leaves with the next message.
  outbox_.Add({.kind = FrameKind::kWrite,
               .size = static_cast<std::uint32_t>(size),
               .key = region.key,
               .offset = region.address + offset},
              from);
  ++in_flight_;
  ++uncovered_;
  return absl::OkStatus();
}

std::size_t TcpLink::Take(std::span<Completion> out) {
  std::size_t count = 0;
  bool is_more = false;
  {
    const MutexLock lock(mutex_);
    if (connection_ == nullptr) return 0;
    for (; count < out.size() && !done_.empty(); ++count) {
      out[count] = done_.front().completion;
      if (out[count].kind == CompletionKind::kReceive) --posted_receives_;
      in_flight_ -= done_.front().requests;
      done_.pop();
    }
    if (!failure_.ok() && done_.empty()) {
      for (; count < out.size() && !sends_.empty(); sends_.pop()) {
        out[count++] = {
            .connection = connection_, .context = sends_.front().context, .kind = CompletionKind::kSend};
      }
      for (std::uint64_t context = 0; count < out.size() && reader_.DropReceive(&context);) {
        out[count++] = {.connection = connection_, .context = context, .kind = CompletionKind::kReceive};
      }
      if (count < out.size() && !disconnect_reported_) {
        out[count++] = {.connection = connection_, .kind = CompletionKind::kDisconnected};
        disconnect_reported_ = true;
      }
    }
    is_more = has_completions();
  }
  if (is_more) tcp_events_.Report(shared_from_this());
  return count;
}

absl::Status TcpLink::failure() {
  const MutexLock lock(mutex_);
  return failure_;
}

void TcpLink::End() {
  const MutexLock lock(mutex_);
  connection_ = nullptr;
  if (failure_.ok()) failure_ = absl::UnavailableError("disconnect: the connection was ended");
  regions_.clear();
  outbox_.Clear();
  // If the peer is still to receive the reason for the end, the NIC thread closes the socket later.
  if (!is_ending_) Close();
}

// --- The NIC thread ---------------------------------------------------------------------------------

TcpLink::Handled TcpLink::Handle(std::uint32_t events, std::span<std::byte> buffer) {
  const MutexLock lock(mutex_);
  if (!socket_) return {};
  if (is_ending_) {
    Drain(buffer);
    return {};
  }
  const bool is_gone = (events & (EPOLLHUP | EPOLLERR)) != 0;
  send_failed_ |= is_gone;
  Flush();
  CompleteSends();
  if (!is_blocked()) ReceiveFrames(buffer);
  // If the link wants no other turn, it takes no more frames. It has taken all that the peer sent before its
  // end, or the next one is a message without a receive.
  if (is_gone && failure_.ok() && !wants_turn_) Break(PeerIsGone(ErrorOf(socket_.get())));
  UpdateInterest();
  return {.has_completions = has_completions(), .is_new_end = is_ending_};
}

void TcpLink::ReceiveFrames(std::span<std::byte> buffer) {
  wants_turn_ = false;
  reader_.inbox().Load(buffer);
  for (int fills = 0; TakeFrames(); ++fills) {
    if (fills == kMaxFills) {
      wants_turn_ = true;
      break;
    }
    const TcpInbox::Filled filled = reader_.inbox().Fill(socket_.get(), tls_.get());
    if (filled == TcpInbox::Filled::kNothing) break;
    if (filled == TcpInbox::Filled::kClosed) {
      Break(PeerIsGone(0));
      break;
    }
    if (filled == TcpInbox::Filled::kFailed) {
      Break(ReceiveError(errno));
      break;
    }
    if (filled == TcpInbox::Filled::kAll) {
      TakeFrames();
      break;
    }
  }
  reader_.inbox().Store();
}

bool TcpLink::TakeFrames() {
  using Step = TcpFrameReader::Step;
  for (bool goes_on = true; goes_on && failure_.ok();) {
    // The server thread has taken back the memory since the WRITE began.
    if (reader_.is_within_write() && Find(reader_.header().key) == nullptr) {
      RejectFrame(absl::PermissionDeniedError("WRITE: the memory was taken back"));
      return false;
    }
    if (outbox_.size() >= kMaxAnswers) {
      Flush();
      if (is_blocked()) break;
    }
    switch (reader_.Advance()) {
      case Step::kFrame:
        goes_on = Begin(reader_.header());
        break;
      case Step::kWhole:
        break;
      case Step::kMessage:
        done_.push({.completion = reader_.TakeMessage(connection_)});
        break;
      case Step::kNothing:
        goes_on = false;
        break;
      case Step::kParked:
        is_parked_ = true;
        goes_on = false;
        break;
      case Step::kRejected:
        RejectFrame(reader_.error());
        break;
      case Step::kEnded:
        Break(reader_.error());
        break;
    }
  }
  if (!failure_.ok()) return false;
  Flush();
  CompleteSends();
  // Frames may wait in the inbox, and no event announces them once the outbox is empty.
  wants_turn_ = is_blocked();
  return !is_parked_ && !is_blocked();
}

bool TcpLink::Begin(const FrameHeader& header) {
  if (header.kind == FrameKind::kRead) return BeginRead(header);
  if (header.kind == FrameKind::kFind) return BeginFind(header);
  if (header.kind == FrameKind::kWrite) return BeginWrite(header);
  RejectFrame(reader_.UnknownFrame());
  return false;
}

bool TcpLink::BeginRead(const FrameHeader& header) {
  std::byte* const from = Access(header, false);
  if (from == nullptr) {
    RejectFrame(absl::PermissionDeniedError("READ: outside the regions that this connection was given"));
    return false;
  }
  Prefetch(from, header.size);
  const Sge bytes = {from, header.size, 0};
  if (!send_failed_) outbox_.Add({.kind = FrameKind::kReadAnswer, .size = header.size}, {&bytes, 1});
  reader_.Expect({});
  ++served_->reads;
  served_->bytes += header.size;
  return true;
}

bool TcpLink::BeginFind(const FrameHeader& header) {
  FrameHeader of_bucket = header;
  of_bucket.size = sizeof(Bucket);
  std::byte* const bucket = Access(of_bucket, false);
  if (bucket == nullptr || header.size > kTcpMaxFound || header.match == 0) {
    RejectFrame(absl::PermissionDeniedError("FIND: outside the regions that this connection was given"));
    return false;
  }
  const Region& region = *Find(header.key);
  const std::uint64_t offset = header.offset - region.address;
  if (offset % sizeof(Bucket) != 0) {
    RejectFrame(absl::InternalError("FIND: no bucket begins at this offset"));
    return false;
  }
  const std::span<std::byte> record = FindRecord(region.bytes, offset, header.match, header.size);
  Prefetch(record.data(), record.size());
  const std::uint32_t record_size = static_cast<std::uint32_t>(record.size());
  FrameHeader answer{.kind = FrameKind::kFindAnswer, .size = of_bucket.size + record_size};
  if (!record.empty()) {
    answer.offset = region.address + static_cast<std::uint64_t>(record.data() - region.bytes.data());
  }
  const std::array<Sge, 2> bytes{Sge{bucket, of_bucket.size, 0}, Sge{record.data(), record_size, 0}};
  if (!send_failed_) outbox_.Add(answer, bytes);
  reader_.Expect({});
  ++served_->reads;
  served_->bytes += answer.size;
  return true;
}

bool TcpLink::BeginWrite(const FrameHeader& header) {
  std::byte* const into = Access(header, true);
  if (into == nullptr) {
    RejectFrame(absl::PermissionDeniedError("WRITE: outside the regions that this connection may write"));
    return false;
  }
  const Sge to = {into, header.size, 0};
  reader_.Expect({&to, 1});
  return true;
}

const TcpLink::Region* TcpLink::Find(std::uint32_t key) const {
  const auto found = std::ranges::find(regions_, key, &Region::key);
  return found == regions_.end() ? nullptr : &*found;
}

std::byte* TcpLink::Access(const FrameHeader& header, bool writes) const {
  if (header.size > kTcpMaxTransfer) return nullptr;
  const Region* const region = Find(header.key);
  if (region == nullptr || (writes && !region->writable)) return nullptr;
  const std::uint64_t size = region->bytes.size();
  const std::uint64_t offset = header.offset - region->address;  // below the address: wraps, and is too large
  if (offset > size || header.size > size - offset) return nullptr;
  return region->bytes.data() + offset;
}

void TcpLink::Flush() {
  if (!has_output() || send_failed_ || !socket_) return;
  send_failed_ = outbox_.Flush(socket_.get(), tls_.get()) != 0;
  const bool is_slow = has_output();
  if (is_slow == reads_slowly_) return;
  reads_slowly_ = is_slow;
  SetInFlightPatience(socket_.get(), is_slow ? kSlowReaderPatience : kServerPatience.in_flight);
}

absl::Status TcpLink::ReceiveError(int error) const {
  return tls_ == nullptr || tls_->error().ok() ? PeerIsGone(error) : tls_->error();
}

void TcpLink::CompleteSends() {
  if (!failure_.ok()) return;
  for (; !sends_.empty() && sends_.front().frame <= outbox_.left(); sends_.pop()) {
    done_.push({.completion = {.connection = connection_,
                               .context = sends_.front().context,
                               .kind = CompletionKind::kSend,
                               .ok = true},
                .requests = sends_.front().requests});
  }
}

void TcpLink::Drain(std::span<std::byte> buffer) {
  for (int i = 0; i < kMaxFills; ++i) {
    const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    if (got == 0 || errno != EAGAIN) {
      is_ending_ = false;
      Close();
    }
    return;
  }
}

void TcpLink::CloseIfEnding() {
  const MutexLock lock(mutex_);
  if (std::exchange(is_ending_, false)) Close();
}

void TcpLink::Close() {
  if (!socket_) return;
  // A forked process may hold the socket, too. Without these two, its events would name this link for ever,
  // and the peer would not notice the end.
  if (epoll_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, socket_.get(), nullptr);
  shutdown(socket_.get(), SHUT_RDWR);
  socket_ = UniqueFd();
}

void TcpLink::RejectFrame(absl::Status why) {
  if (!outbox_.is_within_frame() && !send_failed_) {
    SendEnd(socket_.get(), tls_.get(), why);
    // If the socket were closed now, with bytes of the peer unread, the peer would lose the END.
    is_ending_ = shutdown(socket_.get(), SHUT_WR) == 0;
  }
  Break(std::move(why));
}

void TcpLink::Break(absl::Status why) {
  REMORA_CHECK(!why.ok());
  if (failure_.ok()) failure_ = std::move(why);
  outbox_.Clear();
  if (!is_ending_) Close();
}

void TcpLink::UpdateInterest() {
  if (!socket_ || epoll_ < 0) return;
  std::uint32_t wanted = 0;
  if (is_ending_ || (!is_parked_ && !is_blocked())) wanted |= EPOLLIN;
  // EPOLLOUT also gives the link a turn that nothing else announces, because a writable socket has this event
  // at once.
  if (!is_ending_ && (is_blocked() || wants_turn_)) wanted |= EPOLLOUT;
  if (wanted == interest_) return;
  epoll_event event = {.events = wanted, .data = {.ptr = this}};
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_.get(), &event) == 0) interest_ = wanted;
}

}  // namespace remora::rdma
