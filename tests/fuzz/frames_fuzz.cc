// Frames of tcp://, as a peer may send them: to a server's link, or to a client. Nothing outside what was
// given changes, no message is longer than its receive, and what is answered is made of whole frames.
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rdma/tcp/client/client.h"
#include "rdma/tcp/server/link.h"
#include "store/format/memory/layout.h"
#include "tests/fuzz/input.h"

namespace {

using namespace remora::rdma;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kRegionSize = 512;
constexpr std::size_t kStagingSize = 256;
constexpr std::size_t kReceiveSize = 64;
constexpr std::size_t kGuard = 64;
constexpr std::byte kUntouched{0x5a};

/// Bytes that may change, between others that may not.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : all_(kGuard + size + kGuard, kUntouched), size_(size) {}
  std::span<std::byte> bytes() { return std::span(all_).subspan(kGuard, size_); }
  void Check() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      FUZZ_CHECK(all_[i] == kUntouched && all_[all_.size() - 1 - i] == kUntouched);
    }
  }
  void CheckUnchanged() const {
    for (const std::byte byte : all_) FUZZ_CHECK(byte == kUntouched);
  }

 private:
  std::vector<std::byte> all_;
  std::size_t size_;
};

/// Checks that the bytes a link has sent are whole frames, none of them longer than the region.
void CheckAnswers(const std::string& sent) {
  std::size_t at = 0;
  while (at + sizeof(FrameHeader) <= sent.size()) {
    FrameHeader header;
    std::memcpy(&header, sent.data() + at, sizeof(header));
    FUZZ_CHECK(header.reserved_are_zero());
    const bool is_find = header.kind == FrameKind::kFindAnswer;
    FUZZ_CHECK(is_find || header.kind == FrameKind::kReadAnswer || header.kind == FrameKind::kEnd);
    FUZZ_CHECK(header.size <= (is_find ? sizeof(remora::Bucket) : 0) + kRegionSize);
    at += sizeof(header) + header.size;
  }
  FUZZ_CHECK(at == sent.size());
}

void Receive(int socket, std::string* all) {
  std::array<char, 4096> some;
  for (;;) {
    const ssize_t got = recv(socket, some.data(), some.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    all->append(some.data(), static_cast<std::size_t>(got));
  }
}

/// A header of the kind that the input asks for, which may be in order; some of its bytes are behind it.
std::string FrameOf(remora::Input& input) {
  FrameHeader header;
  const auto what = input.Take<std::uint8_t>();
  header.kind = static_cast<FrameKind>((what & 7) < 7 ? what & 7 : input.Take<std::uint8_t>());
  header.size = (what & 8) != 0 ? input.Take<std::uint32_t>() : input.Take<std::uint8_t>();
  header.key = (what & 16) != 0 ? input.Take<std::uint32_t>() : input.Take<std::uint8_t>() % 12;
  header.offset = (what & 32) != 0 ? input.Take<std::uint64_t>() : input.Take<std::uint8_t>();
  if ((what & 64) != 0) header.match = input.Take<std::uint16_t>();
  std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
  const std::string_view behind = input.Bytes(input.Take<std::uint8_t>());
  text.append(behind);
  if ((what & 128) != 0 && header.size < 9216 && behind.size() < header.size) {
    text.append(header.size - behind.size(), 'p');
  }
  return text;
}

/// A link of a server, and the peer's end of its socket.
class FuzzedLink {
 public:
  FuzzedLink() {
    int ends[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    peer_ = UniqueFd(ends[1]);
    link_ = std::make_shared<TcpLink>(UniqueFd(ends[0]), kLimits, News());
    link_->AddRead(1, region_.bytes());
    link_->AddWrite(kStagingKey, 0, staging_.bytes());
    static const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
    FUZZ_CHECK(link_->Start(epoll.get(), served_, connection()));
  }

  void PostReceive() {
    const std::size_t place = posted_ % kLimits.receives;
    const Sge into = {receives_.bytes().data() + place * kReceiveSize, kReceiveSize, 0};
    if (link_->PostRecv(place, into).ok()) ++posted_;
  }
  void DeregisterStaging() {
    if (is_struck_) return;
    link_->Deregister(kStagingKey);
    is_struck_ = true;
    at_the_strike_.assign(staging_.bytes().begin(), staging_.bytes().end());
  }
  void TakeCompletions() {
    std::array<Completion, 8> completions;
    const std::size_t count = link_->Take(completions);
    for (const Completion& completion : std::span(completions).first(count)) {
      FUZZ_CHECK(completion.connection == connection() && completion.byte_count <= kReceiveSize);
    }
  }
  void Send(std::string_view bytes) {
    static_cast<void>(send(peer_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  void Handle() {
    HandleEvents(EPOLLIN);
    Receive(peer_.get(), &answers_);
  }
  /// The peer closes its end; checks what the link has done.
  void EndAndCheck() {
    peer_ = UniqueFd();
    for (int i = 0; i < 4; ++i) HandleEvents(EPOLLIN | EPOLLHUP);
    FUZZ_CHECK(!link_->failure().ok());
    link_->CloseIfEnding();
    link_->End();
    while (News().NextLink() != nullptr) {
    }
    CheckAnswers(answers_);
    region_.CheckUnchanged();
    staging_.Check();
    receives_.Check();
    if (is_struck_) FUZZ_CHECK(std::ranges::equal(at_the_strike_, staging_.bytes()));
  }

 private:
  void HandleEvents(std::uint32_t events) {
    if (link_->Handle(events, buffer_).has_completions) News().Report(link_);
  }

  static constexpr QueueLimits kLimits{.sends = 4, .receives = 4, .reads = 4};
  static constexpr std::uint32_t kStagingKey = kTcpMaxReads + 1;

  static TcpEvents& News() {
    static const std::unique_ptr<TcpEvents> news = *TcpEvents::Create();
    return *news;
  }
  Connection* connection() { return reinterpret_cast<Connection*>(stands_for_a_connection_.data()); }

  Guarded region_{kRegionSize}, staging_{kStagingSize}, receives_{kLimits.receives * kReceiveSize};
  ServedReads served_;
  std::array<std::byte, 1> stands_for_a_connection_{};
  std::vector<std::byte> buffer_ = std::vector<std::byte>(TcpInbox::kBufferSize);
  UniqueFd peer_;
  std::shared_ptr<TcpLink> link_;
  std::string answers_;
  bool is_struck_ = false;
  std::vector<std::byte> at_the_strike_;
  std::uint64_t posted_ = 0;
};

void FuzzLink(remora::Input& input) {
  FuzzedLink link;
  while (!input.empty()) {
    const auto what = input.Take<std::uint8_t>();
    switch (what % 8) {
      case 0:
        link.PostReceive();
        break;
      case 1:
        link.DeregisterStaging();
        break;
      case 2:
        link.TakeCompletions();
        break;
      case 3:
        link.Send(input.Text());
        break;
      default: {
        const std::string frame = FrameOf(input);
        const std::size_t cut = (what & 64) != 0 ? frame.size() / 2 : frame.size();
        link.Send(std::string_view(frame).substr(0, cut));
        if (cut == frame.size()) break;
        link.Handle();
        link.Send(std::string_view(frame).substr(cut));
      }
    }
    link.Handle();
  }
  link.EndAndCheck();
}

void FuzzClient(remora::Input& input) {
  static const remora::SteadyClock clock;
  static const UniqueFd listening = std::move(
      ListenAtTcp({.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""})->front());
  const Address where{.kind = TransportKind::kTcp,
                      .host = "127.0.0.1",
                      .port = LocalAddressOf(listening.get()).port(),
                      .path = ""};
  const auto flags = input.Take<std::uint8_t>();
  TcpReply reply;
  if ((flags & 1) != 0) {  // an answer that may be anything
    const std::string_view bytes = input.Bytes(sizeof(reply));
    std::memcpy(&reply, bytes.data(), bytes.size());
  }
  std::string frames;
  while (!input.empty()) frames += FrameOf(input);
  const QueueLimits limits{.sends = 4, .receives = 4, .reads = 4};
  Guarded into(64), receives(4 * kReceiveSize);
  TcpClient client(where, *ResolveTcp(where, false), limits, clock, nullptr);
  std::thread server([&] {
    UniqueFd socket;
    while (!socket) socket = UniqueFd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<std::byte, sizeof(TcpHello)> hello;
    static_cast<void>(recv(socket.get(), hello.data(), hello.size(), MSG_WAITALL));
    static_cast<void>(send(socket.get(), &reply, sizeof(reply), MSG_NOSIGNAL));
    static_cast<void>(send(socket.get(), frames.data(), frames.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    shutdown(socket.get(), SHUT_WR);
    // The peer reads all that it receives, so that the client loses no byte of the frames.
    while (recv(socket.get(), hello.data(), hello.size(), 0) > 0) {
    }
  });
  const remora::TimePoint deadline = clock.Now() + std::chrono::seconds(60);
  if (client.Connect({}, deadline).ok()) {
    const Sge to = {into.bytes().data(), 64, 0};
    for (std::uint64_t i = 0; i < 2; ++i) {
      static_cast<void>(client.PostReadv(i, {&to, 1}, {.size = 1000, .key = 1}, 0));
    }
    for (std::size_t i = 0; i < 4; ++i) {
      static_cast<void>(client.PostRecv(i, {receives.bytes().data() + i * kReceiveSize, kReceiveSize, 0}));
    }
    bool is_over = false;
    while (!is_over && clock.Now() < deadline) {
      std::array<Completion, 8> completions;
      const std::size_t count = client.Poll(completions);
      for (const Completion& completion : std::span(completions).first(count)) {
        FUZZ_CHECK(completion.byte_count <= kReceiveSize);
        if (completion.kind == CompletionKind::kReceive && completion.ok) {
          static_cast<void>(client.PostRecv(completion.context, {receives.bytes().data(), kReceiveSize, 0}));
        }
        is_over |= completion.kind == CompletionKind::kDisconnected;
      }
    }
    FUZZ_CHECK(is_over && !client.status().ok());
  }
  client.Disconnect();
  server.join();
  into.Check();
  receives.Check();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  remora::Input input(data, size);
  // A client takes a thread and a connection: fewer of them.
  if (input.Take<std::uint8_t>() % 8 != 7) {
    FuzzLink(input);
  } else {
    FuzzClient(input);
  }
  return 0;
}
