#include "rdma/tcp/client/client.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/sleep.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"

namespace remora::rdma {
namespace {

// PollingPays asks the system for the server's CPU once in so many calls, because that is a system call.
constexpr std::uint32_t kHintsPerLook = 16;

/// Registration of memory for messages. Over TCP, no device needs to know of it.
class TcpBuffers final : public Registration {
 public:
  explicit TcpBuffers(std::span<std::byte> bytes) : Registration(bytes, 1, {}) {}
};

}  // namespace

/// Registration of the offered memory. The server may WRITE that memory as long as one of these lives.
class TcpClient::Offered final : public Registration {
 public:
  Offered(std::span<std::byte> bytes, int& count)
      : Registration(bytes, 1, {.size = bytes.size(), .key = kTcpOfferedKey}), count_(count) {
    ++count_;
  }
  ~Offered() override { --count_; }

 private:
  int& count_;
};

TcpClient::TcpClient(const Address& address, std::vector<TcpSocketAddress> hosts, const QueueLimits& limits,
                     const Clock& clock, std::shared_ptr<const TlsContext> tls)
    : name_(address.ToString()),
      host_(address.host),
      hosts_(std::move(hosts)),
      limits_(limits),
      clock_(clock),
      peer_(name_),
      tls_context_(std::move(tls)),
      reader_(limits.receives, "the server"),
      posted_(limits.sends),
      done_(limits.sends + limits.receives) {}

TcpClient::~TcpClient() { Disconnect(); }

void TcpClient::Disconnect() {
  if (!is_usable_) return;
  Flush();  // posted messages should arrive, as far as the socket takes them
  Break(absl::UnavailableError("disconnect: the connection was ended"));
}

// --- Memory -----------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Registration>> TcpClient::RegisterMessages(std::span<std::byte> bytes) {
  return std::make_unique<TcpBuffers>(bytes);
}

absl::StatusOr<std::unique_ptr<Registration>> TcpClient::RegisterWrite(SharedMemory& memory) {
  if (&memory != offered_) {
    return absl::FailedPreconditionError(
        "register: a client registers for WRITE the memory that it has offered; call OfferWrite first");
  }
  return std::make_unique<Offered>(memory.bytes(), offered_count_);
}

absl::Status TcpClient::OfferWrite(SharedMemory& memory) {
  REMORA_RETURN_IF_ERROR(CheckOffer(memory));
  if (offered_ != nullptr || asked_) {
    return absl::FailedPreconditionError("offer: OfferWrite comes once, and before Connect");
  }
  offered_ = &memory;
  return absl::OkStatus();
}

// --- Posting ----------------------------------------------------------------------------------------

absl::Status TcpClient::CheckPost(std::uint64_t size) const {
  if (!is_usable_) {
    return failure_.ok()
               ? absl::FailedPreconditionError("post: the connection is not established yet; connect first")
               : failure_;
  }
  if (size > kTcpMaxTransfer) {
    return absl::InvalidArgumentError(
        absl::StrCat("post: ", size, " bytes in one request; the most are ", kTcpMaxTransfer));
  }
  return in_flight_ == limits_.sends ? QueueIsFull() : absl::OkStatus();
}

absl::Status TcpClient::PostReadv(std::uint64_t context, std::span<const Sge> to, const RemoteRegion& region,
                                  std::uint64_t offset) {
  const std::uint64_t size = TotalSize(to);
  if (to.size() > kMaxSges || !region.Contains(offset, size)) {
    return is_usable_ ? BadRequest(to, region, offset) : CheckPost(0);
  }
  REMORA_RETURN_IF_ERROR(CheckPost(size));
  const auto size32 = static_cast<std::uint32_t>(size);
  outbox_.Add(
      {.kind = FrameKind::kRead, .size = size32, .key = region.key, .offset = region.address + offset}, {});
  Posted posted{.context = context,
                .kind = CompletionKind::kRead,
                .requests = std::exchange(uncovered_, 0) + 1,
                .frame = outbox_.added(),
                .to_count = to.size(),
                .size = size32};
  std::ranges::copy(to, posted.to.begin());
  posted_.push(posted);
  ++in_flight_;
  return absl::OkStatus();
}

absl::Status TcpClient::PostFind(std::uint64_t context, const Sge& bucket, const Sge& record,
                                 const RemoteRegion& region, std::uint64_t offset, std::uint32_t fingerprint,
                                 FoundRecord* found) {
  if (bucket.size != sizeof(Bucket) || record.size > kTcpMaxFound || fingerprint == 0 ||
      !region.Contains(offset, bucket.size)) {
    return is_usable_ ? BadRequest({&bucket, 1}, region, offset) : CheckPost(0);
  }
  REMORA_RETURN_IF_ERROR(CheckPost(bucket.size));
  outbox_.Add({.kind = FrameKind::kFind,
               .size = record.size,
               .key = region.key,
               .match = fingerprint,
               .offset = region.address + offset},
              {});
  posted_.push({.context = context,
                .kind = CompletionKind::kRead,
                .requests = std::exchange(uncovered_, 0) + 1,
                .frame = outbox_.added(),
                .to = {bucket, record},
                .to_count = 2,
                .size = bucket.size + record.size,
                .region = region.address,
                .found = found});
  ++in_flight_;
  return absl::OkStatus();
}

absl::Status TcpClient::PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                                   std::uint64_t offset) {
  const std::uint64_t size = TotalSize(from);
  if (from.size() > kMaxSges || !region.Contains(offset, size)) {
    return is_usable_ ? BadRequest(from, region, offset) : CheckPost(0);
  }
  REMORA_RETURN_IF_ERROR(CheckPost(size));
  outbox_.Add({.kind = FrameKind::kWrite,
               .size = static_cast<std::uint32_t>(size),
               .key = region.key,
               .offset = region.address + offset},
              from);
  ++in_flight_;
  ++uncovered_;
  return absl::OkStatus();
}

absl::Status TcpClient::PostSend(std::uint64_t context, const Sge& from) {
  if (from.size > kMaxMessageSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("send: a message of ", from.size, " bytes; the longest is ", kMaxMessageSize));
  }
  REMORA_RETURN_IF_ERROR(CheckPost(from.size));
  outbox_.Add({.kind = FrameKind::kMessage, .size = from.size}, {&from, 1});
  posted_.push({.context = context,
                .kind = CompletionKind::kSend,
                .requests = std::exchange(uncovered_, 0) + 1,
                .frame = outbox_.added()});
  ++in_flight_;
  Flush();
  CompleteFront();
  return absl::OkStatus();
}

absl::Status TcpClient::PostRecv(std::uint64_t context, const Sge& into) {
  if (!failure_.ok()) return failure_;
  if (posted_receives_ == limits_.receives) {
    return absl::ResourceExhaustedError(
        "receive: as many buffers as QueueLimits::receives are posted already; poll first");
  }
  ++posted_receives_;
  reader_.PostReceive(context, into);
  is_stuck_ = false;
  return absl::OkStatus();
}

bool TcpClient::Flush() {
  if (!has_output() || send_error_ != 0) return false;
  const bool is_first = posted_.empty() || posted_.front().frame > outbox_.left();
  send_error_ = outbox_.Flush(socket_.get(), tls_.get());
  return is_first && !has_output();
}

void TcpClient::CompleteFront() {
  while (!posted_.empty() && posted_.front().kind == CompletionKind::kSend &&
         posted_.front().frame <= outbox_.left()) {
    const Posted& sent = posted_.front();
    done_.push({{.connection = this, .context = sent.context, .kind = CompletionKind::kSend, .ok = true},
                sent.requests});
    posted_.pop();
  }
}

// --- Completions ------------------------------------------------------------------------------------

std::size_t TcpClient::Poll(std::span<Completion> out) {
  if (out.empty()) return 0;
  if (is_usable_) {
    const bool is_too_early = Flush();  // no answer can have arrived yet
    CompleteFront();
    if (done_.empty() && !is_too_early) ReceiveFrames();
    if (armed_) UpdateInterest();
  }
  std::size_t count = TakeDone(out);
  if (!failure_.ok() && done_.empty() && !disconnect_reported_) count += FlushPosted(out.subspan(count));
  return count;
}

std::size_t TcpClient::TakeDone(std::span<Completion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !done_.empty(); ++count) {
    out[count] = done_.front().completion;
    if (out[count].kind == CompletionKind::kReceive) --posted_receives_;
    in_flight_ -= done_.front().requests;
    done_.pop();
  }
  return count;
}

std::size_t TcpClient::FlushPosted(std::span<Completion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !posted_.empty(); ++count) {
    out[count] = {.connection = this, .context = posted_.front().context, .kind = posted_.front().kind};
    posted_.pop();
  }
  for (std::uint64_t context = 0; count < out.size() && reader_.DropReceive(&context); ++count) {
    out[count] = {.connection = this, .context = context, .kind = CompletionKind::kReceive};
  }
  if (count < out.size()) {
    out[count++] = {.connection = this, .kind = CompletionKind::kDisconnected};
    disconnect_reported_ = true;
  }
  return count;
}

void TcpClient::ReceiveFrames() {
  if (!TakeFrames() || !done_.empty()) return;
  do {
    TakeFilled(reader_.inbox().Fill(socket_.get(), tls_.get()));
  } while (is_usable_ && !is_stuck_ && done_.empty() && has_input());
}

void TcpClient::TakeFilled(TcpInbox::Filled filled) {
  switch (filled) {
    case TcpInbox::Filled::kSome:
    case TcpInbox::Filled::kAll:
      TakeFrames();
      return;
    case TcpInbox::Filled::kNothing:
      // The client has received everything that the server sent before it closed.
      if (send_error_ != 0) Break(TcpStatus(send_error_, absl::StrCat("sending to ", peer_)));
      return;
    case TcpInbox::Filled::kClosed:
      return Break(absl::UnavailableError("connection lost: the server closed the connection or died"));
    case TcpInbox::Filled::kFailed:
      if (tls_ != nullptr && !tls_->error().ok()) return Break(tls_->error());
      return Break(TcpStatus(errno, absl::StrCat("receiving from ", peer_)));
  }
}

bool TcpClient::TakeFrames() {
  using Step = TcpFrameReader::Step;
  while (is_usable_) {
    if (reader_.is_within_write() && offered_count_ == 0) {
      RejectFrame(absl::PermissionDeniedError("WRITE: the memory is not registered any more"));
      return false;
    }
    switch (reader_.Advance()) {
      case Step::kFrame:
        if (!Begin(reader_.header())) return false;
        continue;
      case Step::kWhole:
        if (reader_.header().kind != FrameKind::kWrite) FinishAnswer();
        continue;
      case Step::kMessage:
        done_.push({reader_.TakeMessage(this), 0});
        continue;
      case Step::kNothing:
        return true;
      case Step::kParked:
        is_stuck_ = true;
        return false;
      case Step::kRejected:
        RejectFrame(reader_.error());
        return false;
      case Step::kEnded:
        Break(reader_.error());
        return false;
    }
  }
  return false;
}

bool TcpClient::Begin(const FrameHeader& header) {
  if (header.kind == FrameKind::kReadAnswer) return BeginAnswer(header);
  if (header.kind == FrameKind::kFindAnswer) return BeginFindAnswer(header);
  if (header.kind == FrameKind::kWrite) return BeginWrite(header);
  RejectFrame(reader_.UnknownFrame());
  return false;
}

TcpClient::Posted* TcpClient::NextAsked() {
  CompleteFront();
  const bool is_asked = !posted_.empty() && posted_.front().kind == CompletionKind::kRead &&
                        posted_.front().frame <= outbox_.left();
  return is_asked ? &posted_.front() : nullptr;
}

bool TcpClient::RejectAnswer(const FrameHeader& header) {
  RejectFrame(
      absl::InternalError(absl::StrCat("answer: it has ", header.size, " bytes, and fits no request")));
  return false;
}

bool TcpClient::BeginAnswer(const FrameHeader& header) {
  const Posted* const read = NextAsked();
  if (read == nullptr || read->found != nullptr || header.size != read->size) return RejectAnswer(header);
  reader_.Expect(std::span(read->to).first(read->to_count));
  return true;
}

bool TcpClient::BeginFindAnswer(const FrameHeader& header) {
  Posted* const find = NextAsked();
  if (find == nullptr || find->found == nullptr || header.size < sizeof(Bucket) || header.size > find->size) {
    return RejectAnswer(header);
  }
  find->to[1].size = header.size - static_cast<std::uint32_t>(sizeof(Bucket));
  *find->found = {.offset = header.offset - find->region, .size = find->to[1].size};
  reader_.Expect(std::span(find->to).first(2));
  return true;
}

bool TcpClient::BeginWrite(const FrameHeader& header) {
  const std::span<std::byte> memory = offered_count_ == 0 ? std::span<std::byte>() : offered_->bytes();
  if (header.key != kTcpOfferedKey || header.offset > memory.size() ||
      header.size > memory.size() - header.offset) {
    RejectFrame(absl::PermissionDeniedError("WRITE: outside the memory that the client has registered"));
    return false;
  }
  const Sge to = {memory.data() + header.offset, header.size, 0};
  reader_.Expect({&to, 1});
  return true;
}

void TcpClient::FinishAnswer() {
  const Posted& read = posted_.front();
  done_.push({{.connection = this, .context = read.context, .kind = CompletionKind::kRead, .ok = true},
              read.requests});
  posted_.pop();
  CompleteFront();
}

// --- Waiting ----------------------------------------------------------------------------------------

// On one host, the system handles a packet on the CPU of its sender. If that is the caller's CPU, polling
// keeps the server from running.
bool TcpClient::PollingPays() {
  if (!is_same_host_ || !is_usable_) return true;
  if (hints_++ % kHintsPerLook != 0) return polling_pays_;
  int cpu = -1;
  socklen_t size = sizeof(cpu);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_INCOMING_CPU, &cpu, &size) != 0) return true;
  return polling_pays_ = cpu != sched_getcpu();
}

// A recv of an empty socket takes about as long as ten polls of a word of memory.
int TcpClient::PollCost() const { return 10; }

absl::Status TcpClient::Wait(TimePoint deadline) {
  if (disconnect_reported_) return failure_;
  if (!is_usable_) return failure_.ok() ? CheckPost(0) : absl::OkStatus();
  Flush();
  CompleteFront();
  // A message that had no receive before may have one now.
  if (!done_.empty() || send_error_ != 0) return absl::OkStatus();
  if (!is_stuck_ && (reader_.has_frame() || has_input())) return absl::OkStatus();
  // A blocking recv saves the poll. It is possible if nothing waits to be sent, and if the socket's time
  // limit is shorter than the caller's.
  if (!is_stuck_ && !has_output() && !clock_.IsInterrupted() &&
      std::min(deadline - clock_.Now(), clock_.LongestSleep()) > kTcpReceiveTimeout) {
    // TakeFrames comes before the recv, because the caller may have taken back the memory of a WRITE since.
    if (!TakeFrames() || !done_.empty()) return absl::OkStatus();
    TakeFilled(reader_.inbox().Fill(socket_.get(), tls_.get(), TcpInbox::Waits::kYes));
    return absl::OkStatus();
  }
  const auto events = static_cast<short>((is_stuck_ ? 0 : POLLIN) | (has_output() ? POLLOUT : 0));
  pollfd fd = {socket_.get(), events, 0};
  REMORA_ASSIGN_OR_RETURN(const bool in_time, SleepUntilReady(std::span(&fd, 1), clock_, deadline));
  return in_time ? absl::OkStatus()
                 : absl::DeadlineExceededError(absl::StrCat("wait: nothing came from ", peer_, " in time"));
}

void TcpClient::Arm() {
  armed_ = true;
  if (!is_usable_) return;
  Flush();
  CompleteFront();
  UpdateInterest();
}

void TcpClient::UpdateInterest() {
  if (!is_usable_) return;
  // EPOLLOUT also announces input, because a writable socket has this event at once.
  const bool wants_turn = has_output() || (!is_stuck_ && has_input());
  const std::uint32_t wanted = (is_stuck_ ? 0u : EPOLLIN) | (wants_turn ? EPOLLOUT : 0u);
  if (wanted == interest_) return;
  epoll_event event = {.events = wanted, .data = {.ptr = nullptr}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event) == 0) interest_ = wanted;
}

// --- The end ----------------------------------------------------------------------------------------

void TcpClient::RejectFrame(absl::Status why) {
  if (!outbox_.is_within_frame() && send_error_ == 0) SendEnd(socket_.get(), tls_.get(), why);
  Break(std::move(why));
}

void TcpClient::Break(absl::Status why) {
  REMORA_CHECK(!why.ok());
  is_usable_ = false;
  if (failure_.ok()) failure_ = std::move(why);
  outbox_.Clear();
  if (socket_) shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace remora::rdma
