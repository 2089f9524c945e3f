// The bytes of a tls:// connection, as anybody between the two ends may change them: before, during and after
// the handshake. Each end gives its user a beginning of the bytes that the other end was given, and no
// others. If nothing was changed, all of them arrive. No byte of a user travels in the clear.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rdma/tcp/stream/tls_context.h"
#include "rdma/tcp/stream/tls_stream.h"
#include "rdma/unique_fd.h"
#include "tests/fuzz/input.h"

namespace {

using namespace remora::rdma;  // NOLINT(google-build-using-namespace)

// Most bytes that a stream takes of one Send, with a margin: its bound on output and a record.
constexpr std::size_t kMostTaken = std::size_t{96} << 10;
constexpr std::size_t kMostGiven = std::size_t{256} << 10;
constexpr std::string_view kClear = "these bytes are a secret; ";

/// Returns `size` bytes of a user, which all contain parts of kClear.
std::string TextOf(std::size_t size) {
  std::string text;
  while (text.size() < size) text += kClear;
  text.resize(size);
  return text;
}

/// One end of the connection, with its user.
class End {
 public:
  End(std::unique_ptr<TlsStream> stream, UniqueFd socket)
      : stream_(std::move(stream)), socket_(std::move(socket)) {}

  /// Goes on as an event loop would: with the handshake, with output, and with input.
  void Step() {
    if (!stream_->is_established()) {
      const TlsStream::Step step = stream_->Handshake(socket_.get());
      FUZZ_CHECK((step == TlsStream::Step::kFailed) == !stream_->error().ok());
      FUZZ_CHECK((step == TlsStream::Step::kDone) == stream_->is_established());
      return;
    }
    Send({});
    for (bool goes_on = true; goes_on && heard_.size() < kMostGiven;) {
      std::array<char, 3000> bytes;
      const std::array<iovec, 2> to = {iovec{bytes.data(), 1000}, {bytes.data() + 1000, 2000}};
      const bool has_failed = !stream_->error().ok();
      const ssize_t got = stream_->Receive(socket_.get(), to, MSG_DONTWAIT);
      if (has_failed) FUZZ_CHECK(got == -1 && errno == EPROTO);
      goes_on = got > 0;
      if (got > 0) heard_.append(bytes.data(), static_cast<std::size_t>(got));
      if (got <= 0) FUZZ_CHECK(got == 0 || errno == EAGAIN || !stream_->error().ok());
    }
  }
  /// Adds bytes of the user, and encrypts as many as the stream takes.
  void Send(const std::string& text) {
    if (given_.size() + text.size() <= kMostGiven) given_ += text;
    if (!stream_->is_established()) return;
    const std::size_t left = given_.size() - taken_, half = left / 2;
    const std::array<iovec, 2> from = {iovec{given_.data() + taken_, half},
                                       {given_.data() + taken_ + half, left - half}};
    const ssize_t taken = stream_->Send(socket_.get(), from);
    if (taken < 0) return;
    FUZZ_CHECK(static_cast<std::size_t>(taken) <= std::min(left, kMostTaken));
    taken_ += static_cast<std::size_t>(taken);
  }
  bool is_open() const { return stream_->is_established() && stream_->error().ok(); }
  const std::string& heard() const { return heard_; }
  const std::string& given() const { return given_; }

 private:
  std::unique_ptr<TlsStream> stream_;
  UniqueFd socket_;
  std::string given_;  // by the user; the stream took the first taken_ bytes
  std::size_t taken_ = 0;
  std::string heard_;
};

/// The network between a client, end 0, and a server, end 1. Direction 0 begins at the client.
class Network {
 public:
  Network() {
    static const auto of_server = *TlsContext::OfServer({}, std::vector<std::string>{"a secret"});
    static const auto of_client = *TlsContext::OfClient({.files = {}, .secret = "a secret"});
    for (std::size_t i = 0; i < 2; ++i) {
      std::array<int, 2> pair;
      FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) == 0);
      wires_[i] = UniqueFd(pair[1]);
      ends_[i] = std::make_unique<End>(
          i == 0 ? *TlsStream::OfClient(of_client, "localhost") : *TlsStream::OfServer(of_server),
          UniqueFd(pair[0]));
    }
  }

  End& end(std::size_t which) { return *ends_[which]; }
  bool was_changed() const { return was_changed_; }

  /// Carries up to `most` bytes of a direction. Those behind `change_at` get their bits of `bits` flipped.
  void Carry(std::size_t direction, std::size_t most, std::size_t change_at = ~std::size_t{0},
             std::uint8_t bits = 0) {
    std::string& waiting = waiting_[direction];
    std::array<char, 8192> bytes;
    for (ssize_t got = 1; waiting.size() < most && got > 0;) {
      got = recv(wires_[direction].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) waiting.append(bytes.data(), static_cast<std::size_t>(got));
    }
    FUZZ_CHECK(waiting.find(kClear) == std::string::npos);
    const std::size_t size = std::min(most, waiting.size());
    if (change_at < size && bits != 0) {
      waiting[change_at] = static_cast<char>(waiting[change_at] ^ bits);
      was_changed_ = true;
    }
    const ssize_t sent = send(wires_[1 - direction].get(), waiting.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) waiting.erase(0, static_cast<std::size_t>(sent));
  }
  /// Sends bytes to an end that the other end did not send.
  void Insert(std::size_t direction, std::string_view bytes) {
    if (bytes.empty()) return;
    static_cast<void>(
        send(wires_[1 - direction].get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    was_changed_ = true;
  }
  void Lose(std::size_t direction, std::size_t most) {
    std::array<char, 256> bytes;
    const ssize_t got =
        recv(wires_[direction].get(), bytes.data(), std::min(most, bytes.size()), MSG_DONTWAIT);
    was_changed_ |= got > 0;
  }
  void Cut(std::size_t direction) {
    shutdown(wires_[1 - direction].get(), SHUT_WR);
    was_changed_ = true;
  }
  /// Lets both ends go on, over a network that changes nothing.
  void GoOn() {
    for (std::size_t which = 0; which < 2; ++which) {
      end(which).Step();
      Carry(which, kMostGiven);
    }
  }

 private:
  std::array<UniqueFd, 2> wires_;
  std::array<std::unique_ptr<End>, 2> ends_;
  std::array<std::string, 2> waiting_;
  bool was_changed_ = false;
};

void Do(Network& network, remora::Input& input) {
  const auto what = input.Take<std::uint8_t>();
  const std::size_t which = (what & 8) != 0 ? 1 : 0;
  switch (what & 7) {
    case 0:
      network.end(which).Step();
      break;
    case 1:
      network.GoOn();
      break;
    case 2:
      network.end(which).Send(TextOf(input.Take<std::uint16_t>()));
      break;
    case 3:
      network.Carry(which, input.Take<std::uint16_t>());
      break;
    case 4: {
      const auto change_at = input.Take<std::uint16_t>();
      network.Carry(which, kMostGiven, change_at, input.Take<std::uint8_t>());
      break;
    }
    case 5:
      network.Insert(which, input.Text());
      break;
    case 6:
      network.Lose(which, input.Take<std::uint8_t>());
      break;
    case 7:
      network.Cut(which);
      break;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  remora::Input input(data, size);
  Network network;
  const auto handshake_rounds = input.Take<std::uint8_t>() % 8;
  for (int i = 0; i < handshake_rounds; ++i) network.GoOn();
  while (!input.empty()) {
    Do(network, input);
    for (std::size_t i = 0; i < 2; ++i) {
      FUZZ_CHECK(network.end(1 - i).given().starts_with(network.end(i).heard()));
    }
  }
  // The socket buffers divide the bytes among that many rounds at most.
  for (int i = 0; i < 200 && !network.was_changed(); ++i) {
    network.GoOn();
    if (network.end(0).heard() == network.end(1).given() &&
        network.end(1).heard() == network.end(0).given() && network.end(0).is_open() &&
        network.end(1).is_open()) {
      return 0;
    }
  }
  FUZZ_CHECK(network.was_changed());
  return 0;
}
