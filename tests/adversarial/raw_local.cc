#include "tests/adversarial/raw_local.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "rdma/local/wire.h"
#include "store/base/check.h"
#include "store/base/clock.h"

namespace remora {
namespace {

/// Until it is so, or the time is over.
template <typename IsSo>
bool Await(std::chrono::milliseconds patience, IsSo is_so) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (int spins = 0; !is_so(); ++spins) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (spins > 100) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace

std::unique_ptr<RawPeer> MakeRawLocal(const rdma::Address& where, bool takes_replies) {
  return std::make_unique<RawLocal>(where, takes_replies);
}

RawLocal::RawLocal(const rdma::Address& where, bool takes_replies) : takes_replies_(takes_replies) {
  auto fd = rdma::ConnectTo(where.path, kPatience);
  if (fd.ok()) socket_ = *std::move(fd);
}

void RawLocal::Say(const void* bytes, std::size_t size) {
  [[maybe_unused]] const ssize_t sent = send(socket_.get(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

RawPeer::Answer RawLocal::Join(std::span<const std::byte> hello) {
  rdma::LocalHello packet;
  packet.data_size = static_cast<std::uint32_t>(hello.size());
  std::ranges::copy(hello, packet.data);
  Say(&packet, sizeof(packet));
  return Hear();
}

RawPeer::Answer RawLocal::Hear() {
  pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) != 1)
    return Answer::kHungUpOn;
  auto received = rdma::ReceiveReply(socket_.get());
  if (!received.ok()) return Answer::kHungUpOn;
  const rdma::LocalReply& reply = received->reply;
  said_.assign(reply.data, reply.data + std::min<std::size_t>(reply.data_size, sizeof(reply.data)));
  if (reply.answer != rdma::LocalAnswer::kAccepted) return Answer::kRejected;
  const std::size_t side = rdma::LocalSideBytes(reply.ring_slots);
  const auto map = [&](std::size_t i, std::size_t size, bool writable) {
    auto mapping = rdma::LocalMapping::Map(received->descriptors.at(i).get(), size, writable);
    REMORA_CHECK(mapping.ok());
    return *std::move(mapping);
  };
  page_ = map(0, sizeof(rdma::LocalListenerPage), false);
  server_mapping_ = map(1, side, false);
  own_mapping_ = map(2, side, true);
  for (std::uint32_t i = 0; i < reply.region_count; ++i) {
    if (reply.regions[i].writable != 0) {
      staging_ = map(rdma::kLocalOwnDescriptors + i, reply.regions[i].size, true);
    }
  }
  own = reinterpret_cast<rdma::LocalSide*>(own_mapping_.bytes().data());
  server_ = reinterpret_cast<const rdma::LocalSide*>(server_mapping_.bytes().data());
  writer_ = rdma::RingWriter(own, server_, reply.ring_slots);
  reader_ = rdma::RingReader(own, server_, reply.ring_slots);
  return Answer::kAccepted;
}

bool RawLocal::HasEnded() { return server_->closed.load(std::memory_order_acquire) != 0; }

void RawLocal::Write(std::uint64_t offset, std::string_view bytes) {
  if (offset > staging_.bytes().size() || bytes.size() > staging_.bytes().size() - offset) return;
  if (!bytes.empty()) std::memcpy(staging_.bytes().data() + offset, bytes.data(), bytes.size());
}

bool RawLocal::Send(std::span<const std::byte> message) {
  rdma::RingResult result{};
  const bool was_sent = Await(kPatience, [&] {
    result = writer_.Push(message);
    return result != rdma::RingResult::kNotNow || HasEnded();
  });
  const auto* const page = reinterpret_cast<const rdma::LocalListenerPage*>(page_.bytes().data());
  if (page->sleeping.Sleep() != 0) Wake();
  return was_sent && result == rdma::RingResult::kDone && !HasEnded();
}

std::optional<std::string> RawLocal::Receive(std::chrono::milliseconds patience) {
  std::uint32_t length = 0;
  if (!takes_replies_) return std::nullopt;
  const auto has_message = [&] { return reader_.Peek(&length) == rdma::RingResult::kDone; };
  Await(patience, [&] { return has_message() || HasEnded(); });
  if (!has_message()) return std::nullopt;
  std::string message(length, '\0');
  reader_.Take(reinterpret_cast<std::byte*>(message.data()), length);
  return message;
}

bool RawLocal::AwaitEnd(std::chrono::milliseconds patience) {
  if (server_ != nullptr) return Await(patience, [&] { return HasEnded(); });
  pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, static_cast<int>(patience.count())) != 1) return false;
  std::byte any;
  return recv(socket_.get(), &any, sizeof(any), MSG_DONTWAIT) <= 0;
}

}  // namespace remora
