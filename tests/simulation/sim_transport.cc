#include "tests/simulation/sim_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "store/base/check.h"

namespace remora {

namespace {

class SimRegistration final : public rdma::Registration {
 public:
  SimRegistration(std::span<std::byte> bytes, RemoteRegion remote, std::function<void()> revoke = {})
      : Registration(bytes, 1, remote), revoke_(std::move(revoke)) {}
  ~SimRegistration() override {
    if (revoke_) revoke_();
  }

 private:
  const std::function<void()> revoke_;
};

class ProvidedRegistration final : public rdma::Registration {
 public:
  ProvidedRegistration(std::unique_ptr<rdma::SharedMemory> memory, RemoteRegion remote,
                       std::function<void()> end)
      : Registration(memory->bytes(), 1, remote), memory_(std::move(memory)), end_(std::move(end)) {}
  ~ProvidedRegistration() override { end_(); }

 private:
  const std::unique_ptr<rdma::SharedMemory> memory_;
  const std::function<void()> end_;
};

// A region's key is this plus its number in the listener; its address is the real one.
constexpr std::uint32_t kReadKey = 100;
constexpr std::uint32_t kWriteKey = 200;
// That of a grant is this plus its number in the connection: none comes twice.
constexpr std::uint32_t kGrantKey = 300;

using Registered = absl::StatusOr<std::unique_ptr<rdma::Registration>>;
RemoteRegion Name(std::span<std::byte> bytes, std::uint32_t key) {
  return {reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size(), key, 0};
}

}  // namespace

/// Either end; a SimServerConnection has that of a server. They know each other until one is destroyed.
class SimConnection final : public rdma::ClientConnection {
 public:
  SimConnection(SimNetwork& network, SimListener* listener) : network_(network), listener_(listener) {
    network_.connections_.push_back(this);
  }
  ~SimConnection() override;

  Registered RegisterMessages(std::span<std::byte> bytes) override {
    return std::make_unique<SimRegistration>(bytes, RemoteRegion());
  }
  Registered RegisterWrite(rdma::SharedMemory& memory) override {
    writable_ = Name(memory.bytes(), kWriteKey);
    return std::make_unique<SimRegistration>(memory.bytes(), writable_, [this] { CheckEnding(); });
  }
  Registered ProvideWrite(std::string_view name, std::size_t size) {
    auto memory = rdma::SharedMemory::Create(name, size, rdma::SharedMemory::Writers::kPeers);
    if (!memory.ok()) return memory.status();
    writable_ = Name((*memory)->bytes(), kWriteKey);
    return std::make_unique<ProvidedRegistration>(*std::move(memory), writable_, [this] { CheckEnding(); });
  }
  absl::Status OfferWrite(rdma::SharedMemory& memory) override { return rdma::CheckOffer(memory); }
  Registered GrantWrite(rdma::SharedMemory& memory, std::size_t offset, std::size_t size) {
    if (!network_.grants_) return absl::UnimplementedError("this network grants nothing");
    const std::span<std::byte> bytes = memory.bytes().subspan(offset, size);
    grants_.push_back(Name(bytes, kGrantKey + grants_made_++));
    return std::make_unique<SimRegistration>(
        bytes, grants_.back(), [this, region = grants_.back()] { std::erase(grants_, region); });
  }
  absl::Status Connect(std::span<const std::byte> request_data, TimePoint deadline) override;
  absl::Status Accept(std::span<const std::byte> data) { return Answer(data, State::kOpen); }
  void Reject(std::span<const std::byte> data) { Answer(data, State::kRejected).IgnoreError(); }
  // As with a device, the peer learns it later: when this is destroyed.
  void Disconnect() override { disconnected_ = true; }
  std::span<const std::byte> peer_data() const override { return peer_data_; }

  absl::Status PostReadv(std::uint64_t context, std::span<const rdma::Sge> to, const RemoteRegion& region,
                         std::uint64_t offset) override;
  absl::Status PostWritev(std::span<const rdma::Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override;
  absl::Status PostSend(std::uint64_t context, const rdma::Sge& from) override;
  absl::Status PostRecv(std::uint64_t context, const rdma::Sge& into) override {
    receives_.push_back({context, into});
    return absl::OkStatus();
  }
  std::size_t Poll(std::span<rdma::Completion> out) override;
  absl::Status Wait(TimePoint deadline) override;
  void Arm() override {}
  void Disarm() override {}
  // Always readable: to Poll is what makes something happen.
  int wait_fd() const override { return network_.wait_fd(); }
  const absl::Status& status() const override { return status_; }
  std::string peer() const override { return "simulated"; }

  /// Delivers what is due without running the server; for the listener's Poll too.
  std::size_t Take(std::span<rdma::Completion> out);

 private:
  friend class SimListener;
  friend class SimNetwork;
  friend class SimServerConnection;
  enum class State { kNew, kAsked, kOpen, kRejected };
  struct PendingRead {
    std::uint64_t context;
    std::vector<rdma::Sge> to;
    const std::byte* from;
  };
  struct PendingReceive {
    std::uint64_t context;
    rdma::Sge into;
  };

  absl::Status Answer(std::span<const std::byte> data, State state);
  void Complete(rdma::CompletionKind kind, std::uint64_t context, std::size_t size);
  void DeliverMessages();
  void DeliverReads();
  void PeerWentAway();
  void SendToNobody();
  void Break(const absl::Status& cause);
  void CutOff(SimNetwork::Cut cut);
  /// Checks that memory that the peer may WRITE goes only when this has ended: with a device the peer would
  /// be told that an access was rejected.
  void CheckEnding() const {
    REMORA_CHECK(disconnected_ || state_ != State::kOpen || !status_.ok() || other_ == nullptr);
  }
  bool MayWrite(const RemoteRegion& region) const {
    return region == writable_ || std::find(grants_.begin(), grants_.end(), region) != grants_.end();
  }

  SimNetwork& network_;
  SimListener* listener_;          // of a server's end
  rdma::Connection* user_ = this;  // its completions are of this
  SimConnection* other_ = nullptr;
  State state_ = State::kNew;
  bool disconnected_ = false;
  RemoteRegion writable_;
  std::vector<RemoteRegion> grants_;
  std::uint32_t grants_made_ = 0;
  std::vector<std::byte> peer_data_;
  std::deque<PendingRead> reads_;
  std::deque<PendingReceive> receives_;
  std::deque<std::vector<std::byte>> messages_;  // from the other end, not yet in a receive
  std::deque<rdma::Completion> completions_;
  absl::Status status_;
  int late_ = 0;                          // Polls until all that is in flight has come
  std::optional<TimePoint> gives_up_at_;  // sends again and again to one that it does not know to be cut off
};

class SimServerConnection final : public rdma::ServerConnection {
 public:
  explicit SimServerConnection(std::unique_ptr<SimConnection> end) : end_(std::move(end)) {
    end_->user_ = this;
  }

  Registered RegisterMessages(std::span<std::byte> bytes) override { return end_->RegisterMessages(bytes); }
  Registered ProvideWrite(std::string_view name, std::size_t size) override {
    return end_->ProvideWrite(name, size);
  }
  Registered GrantWrite(rdma::SharedMemory& memory, std::size_t offset, std::size_t size) override {
    return end_->GrantWrite(memory, offset, size);
  }
  absl::Status Accept(std::span<const std::byte> data) override { return end_->Accept(data); }
  void Reject(std::span<const std::byte> data) override { end_->Reject(data); }
  void Disconnect() override { end_->Disconnect(); }
  std::span<const std::byte> peer_data() const override { return end_->peer_data(); }
  absl::Status PostWritev(std::span<const rdma::Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override {
    return end_->PostWritev(from, region, offset);
  }
  absl::Status PostSend(std::uint64_t context, const rdma::Sge& from) override {
    return end_->PostSend(context, from);
  }
  absl::Status PostRecv(std::uint64_t context, const rdma::Sge& into) override {
    return end_->PostRecv(context, into);
  }
  bool Probe() override {
    if (end_->other_ == nullptr) end_->SendToNobody();
    return true;
  }
  const absl::Status& status() const override { return end_->status(); }
  std::string peer() const override { return end_->peer(); }

 private:
  const std::unique_ptr<SimConnection> end_;
};

class SimListener final : public rdma::Listener {
 public:
  explicit SimListener(SimNetwork& network) : network_(network) { network_.listener_ = this; }
  ~SimListener() override {
    network_.listener_ = nullptr;
    requests_.clear();  // while there are the members that they look at
  }

  const rdma::Address& address() const override { return address_; }
  const rdma::QueueLimits& limits() const override { return limits_; }
  bool binds_writes() const override { return true; }
  absl::StatusOr<RemoteRegion> RegisterRead(rdma::SharedMemory& memory) override {
    regions_.push_back(Name(memory.bytes(), kReadKey + static_cast<std::uint32_t>(regions_.size())));
    return regions_.back();
  }
  std::unique_ptr<rdma::ServerConnection> NextRequest() override {
    if (requests_.empty()) return nullptr;
    std::unique_ptr<SimConnection> request = std::move(requests_.front());
    requests_.pop_front();
    connections_.push_back(request.get());
    return std::make_unique<SimServerConnection>(std::move(request));
  }
  std::size_t Poll(std::span<rdma::Completion> out) override {
    std::size_t count = 0;
    for (SimConnection* connection : connections_) count += connection->Take(out.subspan(count));
    return count;
  }
  void Arm() override {}
  void Disarm() override {}
  int wait_fd() const override { return -1; }

 private:
  friend class SimConnection;

  SimNetwork& network_;
  rdma::Address address_;
  rdma::QueueLimits limits_;
  std::vector<RemoteRegion> regions_;
  std::deque<std::unique_ptr<SimConnection>> requests_;
  std::vector<SimConnection*> connections_;
};

SimNetwork::SimNetwork(std::uint64_t seed) : random_(seed), wait_fd_(eventfd(1, EFD_CLOEXEC)) {
  REMORA_CHECK(wait_fd_ >= 0);
}
SimNetwork::~SimNetwork() { close(wait_fd_); }

std::unique_ptr<rdma::Listener> SimNetwork::Listen() { return std::make_unique<SimListener>(*this); }
std::unique_ptr<rdma::ClientConnection> SimNetwork::Dial() {
  return std::make_unique<SimConnection>(*this, nullptr);
}

void SimNetwork::Step() {
  if (yield_) return yield_();
  if (in_step_ || !step_) return;  // a client that waits inside the server's step would be a bug of the test
  in_step_ = true;
  step_();
  in_step_ = false;
}

void SimNetwork::Event() {
  if (cut_in_ == 0 || --cut_in_ > 0) return;
  for (SimConnection* connection : connections_) connection->CutOff(cut_);
  if (then_) then_();
}

bool SimNetwork::CutOne(std::uint64_t number, Cut cut) {
  std::vector<SimConnection*> open;
  for (SimConnection* connection : connections_) {
    const bool is_clients = connection->listener_ == nullptr && connection->other_ != nullptr;
    if (is_clients && connection->status_.ok()) open.push_back(connection);
  }
  if (open.empty()) return false;
  SimConnection* const one = open[number % open.size()];
  SimConnection* const other = one->other_;
  one->CutOff(cut);
  other->CutOff(cut);
  return true;
}

void SimNetwork::Interfere() {
  if (yield_) {
    if (random_() % interference_gap_ == 0) yield_();
    return;
  }
  if (!interference_ || in_interference_ || random_() % interference_gap_ != 0) return;
  in_interference_ = true;
  interference_();
  in_interference_ = false;
}

bool SimNetwork::Deliver(const absl::Status& connection, const std::byte* from, std::byte* to,
                         std::size_t size) {
  // So that fibers get on: a large value comes in larger pieces.
  const std::size_t piece_size = yield_ ? std::max(piece_size_, size / kMaxPieces) : piece_size_;
  const std::size_t pieces = (size + piece_size - 1) / piece_size;
  std::vector<std::uint32_t> order(pieces);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random_);
  for (const std::uint32_t piece : order) {
    Interfere();
    if (!connection.ok()) return false;  // and the memory may be gone
    const std::size_t start = piece * piece_size;
    std::memcpy(to + start, from + start, std::min(piece_size, size - start));
    ++pieces_delivered_;
  }
  return true;
}

SimConnection::~SimConnection() {
  if (other_ != nullptr) other_->PeerWentAway();
  if (listener_ != nullptr) std::erase(listener_->connections_, this);
  std::erase(network_.connections_, this);
}

absl::Status SimConnection::Connect(std::span<const std::byte> request_data, TimePoint deadline) {
  if (network_.listener_ == nullptr) return absl::UnavailableError("no server listens");
  auto request = std::make_unique<SimConnection>(network_, network_.listener_);
  request->peer_data_.assign(request_data.begin(), request_data.end());
  request->peer_data_.resize(rdma::kMaxConnectData);
  request->other_ = this;
  other_ = request.get();
  state_ = State::kAsked;
  network_.listener_->requests_.push_back(std::move(request));
  network_.Event();
  while (state_ == State::kAsked && status_.ok() && network_.clock_.Now() < deadline) {
    network_.Step();
    network_.clock_.Advance(std::chrono::microseconds(1));
  }
  network_.Event();
  if (state_ == State::kRejected) return absl::FailedPreconditionError("rejected");
  if (!status_.ok()) return status_;
  return state_ == State::kOpen ? absl::OkStatus() : absl::DeadlineExceededError("no answer");
}

absl::Status SimConnection::Answer(std::span<const std::byte> data, State state) {
  if (!status_.ok()) return absl::UnavailableError("the client went away");
  state_ = state;
  if (other_ == nullptr) return absl::OkStatus();  // it was cut off, and this end does not know
  other_->state_ = state;
  other_->peer_data_.assign(data.begin(), data.end());
  return absl::OkStatus();
}

absl::Status SimConnection::PostReadv(std::uint64_t context, std::span<const rdma::Sge> to,
                                      const RemoteRegion& region, std::uint64_t offset) {
  network_.Event();
  if (!status_.ok()) return status_;
  const std::uint64_t size =
      std::accumulate(to.begin(), to.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const rdma::Sge& sge) { return sum + sge.size; });
  const std::vector<RemoteRegion>& regions = other_->listener_->regions_;
  if (!region.Contains(offset, size) || std::find(regions.begin(), regions.end(), region) == regions.end()) {
    return absl::InvalidArgumentError("a READ out of its region");
  }
  reads_.push_back(
      {context, {to.begin(), to.end()}, reinterpret_cast<const std::byte*>(region.address) + offset});
  return absl::OkStatus();
}

absl::Status SimConnection::PostWritev(std::span<const rdma::Sge> from, const RemoteRegion& region,
                                       std::uint64_t offset) {
  network_.Event();
  if (!status_.ok()) return status_;
  if (other_ == nullptr) {
    SendToNobody();
    return absl::OkStatus();
  }
  if (!other_->MayWrite(region)) {
    // The server's device rejects it, and both ends learn that.
    other_->Break(absl::PermissionDeniedError("the peer wrote where it may not"));
    Break(absl::PermissionDeniedError("a WRITE to memory that was not granted, or not any more"));
    return absl::OkStatus();
  }
  for (const rdma::Sge& sge : from) {
    if (!region.Contains(offset, sge.size)) {
      return absl::InvalidArgumentError("a WRITE out of its region");
    }
    std::memcpy(reinterpret_cast<std::byte*>(region.address) + offset, sge.data, sge.size);
    offset += sge.size;
  }
  return absl::OkStatus();
}

absl::Status SimConnection::PostSend(std::uint64_t context, const rdma::Sge& from) {
  network_.Event();
  if (!status_.ok()) return status_;
  if (from.size > rdma::kMaxMessageSize) return absl::InvalidArgumentError("too long a message");
  DeliverReads();  // they complete first (O5)
  if (other_ != nullptr) {
    other_->messages_.emplace_back(from.data, from.data + from.size);
  } else {
    SendToNobody();
  }
  network_.Event();
  Complete(rdma::CompletionKind::kSend, context, 0);
  return absl::OkStatus();
}

std::size_t SimConnection::Poll(std::span<rdma::Completion> out) {
  std::size_t count = Take(out);
  if (count == 0) {
    network_.Step();
    network_.clock_.Advance(std::chrono::nanoseconds(100));
    count = Take(out);
  }
  return count;
}

absl::Status SimConnection::Wait(TimePoint deadline) {
  if (network_.clock_.Now() >= deadline) return absl::DeadlineExceededError("no answer in time");
  network_.Step();
  // Fibers' time is their scheduler's.
  if (!network_.yield_) network_.clock_.Advance(std::chrono::microseconds(100));
  return absl::OkStatus();
}

std::size_t SimConnection::Take(std::span<rdma::Completion> out) {
  if (late_ > 0) --late_;
  if (gives_up_at_ && status_.ok() && network_.clock_.Now() >= *gives_up_at_) {
    Break(absl::UnavailableError("the peer does not answer"));
  }
  DeliverReads();
  DeliverMessages();
  std::size_t count = 0;
  while (count < out.size() && !completions_.empty()) {
    out[count++] = completions_.front();
    completions_.pop_front();
  }
  return count;
}

void SimConnection::DeliverReads() {
  while (!reads_.empty() && status_.ok()) {
    const PendingRead read = std::move(reads_.front());
    reads_.pop_front();
    const std::byte* from = read.from;
    bool is_whole = true;
    for (const rdma::Sge& sge : read.to) {
      is_whole = is_whole && network_.Deliver(status_, from, sge.data, sge.size);
      from += sge.size;
    }
    completions_.push_back({user_, read.context, 0, rdma::CompletionKind::kRead, is_whole});
  }
}

void SimConnection::DeliverMessages() {
  while (!messages_.empty() && !receives_.empty() && status_.ok() && late_ == 0) {
    const std::vector<std::byte>& message = messages_.front();
    if (message.size() > receives_.front().into.size) {
      return Break(absl::InternalError("a message longer than its buffer"));
    }
    std::memcpy(receives_.front().into.data, message.data(), message.size());
    Complete(rdma::CompletionKind::kReceive, receives_.front().context, message.size());
    messages_.pop_front();
    receives_.pop_front();
    network_.Event();
  }
}

void SimConnection::Complete(rdma::CompletionKind kind, std::uint64_t context, std::size_t size) {
  completions_.push_back({user_, context, static_cast<std::uint32_t>(size), kind, /*ok=*/true});
}

void SimConnection::PeerWentAway() {
  other_ = nullptr;
  if (status_.ok()) Break(absl::UnavailableError("the peer went away"));
}

/// Loses all that is sent; that nothing confirms it is noticed in the end.
void SimConnection::SendToNobody() {
  if (!gives_up_at_) gives_up_at_ = network_.clock_.Now() + SimNetwork::kRetries;
}

void SimConnection::CutOff(SimNetwork::Cut cut) {
  if (!status_.ok() || (state_ != State::kOpen && state_ != State::kAsked && listener_ == nullptr)) return;
  if (listener_ != nullptr && cut == SimNetwork::Cut::kClient) {
    other_ = nullptr;
    late_ = SimNetwork::kLate;
    return;
  }
  other_ = nullptr;
  Break(absl::UnavailableError("the connection was cut"));
}

void SimConnection::Break(const absl::Status& cause) {
  status_ = cause;
  for (const PendingRead& read : reads_) {
    completions_.push_back({user_, read.context, 0, rdma::CompletionKind::kRead, /*ok=*/false});
  }
  for (const PendingReceive& receive : receives_) {
    completions_.push_back({user_, receive.context, 0, rdma::CompletionKind::kReceive, /*ok=*/false});
  }
  reads_.clear();
  receives_.clear();
  completions_.push_back({user_, 0, 0, rdma::CompletionKind::kDisconnected, /*ok=*/false});
}

}  // namespace remora
