// TcpOutbox: the frames that are ready together leave with one sendmsg, each whole and in order.
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <initializer_list>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "rdma/tcp/stream/outbox.h"
#include "rdma/unique_fd.h"
#include "tests/unit/rdma/transport_client.h"

namespace remora::rdma {
namespace {

/// Two ends that keep the limits of messages: each recv returns the bytes of one sendmsg.
class TcpOutboxTest : public ::testing::Test {
 protected:
  void Connect(int type) {
    std::array<int, 2> ends;
    ASSERT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    sender_ = UniqueFd(ends[0]);
    receiver_ = UniqueFd(ends[1]);
  }
  /// Adds a frame whose payload is in `parts` places. Returns its bytes.
  std::string Add(std::uint32_t number, std::size_t size, std::size_t parts = 1) {
    payloads_.emplace_back(size, static_cast<char>('a' + number % 26));
    std::string& bytes = payloads_.back();
    std::vector<Sge> sges;
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t from = size * i / parts, end = size * (i + 1) / parts;
      sges.push_back({.data = reinterpret_cast<std::byte*>(bytes.data()) + from,
                      .size = static_cast<std::uint32_t>(end - from),
                      .local_key = 0});
    }
    const FrameHeader header{
        .kind = FrameKind::kReadAnswer, .size = static_cast<std::uint32_t>(size), .key = number};
    outbox_.Add(header, sges);
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + bytes;
  }
  int Flush() { return outbox_.Flush(sender_.get(), nullptr); }
  /// Returns the bytes of one sendmsg over SOCK_SEQPACKET, or what a stream has. Empty: there is nothing.
  std::string Receive() {
    std::string bytes(1 << 20, '\0');
    const ssize_t got = recv(receiver_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

  UniqueFd sender_, receiver_;
  std::list<std::string> payloads_;  // before outbox_, which refers to them
  TcpOutbox outbox_;
};

TEST_F(TcpOutboxTest, FramesThatAreReadyTogetherLeaveTogether) {
  Connect(SOCK_SEQPACKET);
  std::string all;
  for (std::uint32_t i = 0; i < 16; ++i) all += Add(i, 64);
  EXPECT_EQ(outbox_.size(), 16u);
  EXPECT_EQ(Receive(), "") << "nothing leaves before Flush";
  ASSERT_EQ(Flush(), 0);
  EXPECT_EQ(Receive(), all);
  EXPECT_EQ(Receive(), "");
  EXPECT_TRUE(outbox_.empty());
  EXPECT_EQ(outbox_.bytes_sent(), all.size());
  EXPECT_EQ(outbox_.left(), 16u);
}

// One sendmsg has at most 128 entries; each frame has one for its header and one for each part that is not
// copied.
TEST_F(TcpOutboxTest, ManyFramesLeaveWithFewCallsAndNoneIsSplit) {
  Connect(SOCK_SEQPACKET);
  std::string all;
  for (std::uint32_t i = 0; i < 200; ++i) all += Add(i, 1200, 1 + i % 2);
  ASSERT_EQ(Flush(), 0);
  std::string received;
  std::size_t calls = 0;
  for (std::string bytes; !(bytes = Receive()).empty(); ++calls) {
    EXPECT_EQ(bytes.size() % (sizeof(FrameHeader) + 1200), 0u) << "a frame was split";
    received += bytes;
  }
  EXPECT_EQ(received, all);
  EXPECT_GE(calls, 200 * 2 / 128u);
  EXPECT_LE(calls, 8u);
}

// Small parts are copied behind each other, up to a bound; large ones between them are not.
TEST_F(TcpOutboxTest, PartsOfAllSizesStayInOrder) {
  Connect(SOCK_SEQPACKET);
  std::string all;
  std::uint32_t number = 0;
  for (const std::size_t size :
       std::initializer_list<std::size_t>{64, 0, 512, 513, 1, 3000, 511, 64, 64, 9000, 512}) {
    all += Add(number++, size);
    all += Add(number++, size, 2);
  }
  for (int i = 0; i < 20; ++i) all += Add(number++, 500);
  ASSERT_EQ(Flush(), 0);
  EXPECT_TRUE(Receive() == all);
  EXPECT_TRUE(outbox_.empty());
}

TEST_F(TcpOutboxTest, AFrameWithoutBytesIsAHeader) {
  Connect(SOCK_SEQPACKET);
  const std::string frame = Add(7, 0);
  ASSERT_EQ(frame.size(), sizeof(FrameHeader));
  ASSERT_EQ(Flush(), 0);
  EXPECT_EQ(Receive(), frame);
}

// A stream takes a part; the others follow where it ended.
TEST_F(TcpOutboxTest, AFullSocketLosesAndRepeatsNothing) {
  Connect(SOCK_STREAM);
  const int size = 4096;
  ASSERT_EQ(setsockopt(sender_.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
  std::string all, received;
  for (std::uint32_t i = 0; i < 300; ++i) all += Add(i, 1 + 37 * i, 1 + i % kMaxSges);
  int flushes = 0;
  bool was_within_frame = false;
  while (received.size() < all.size()) {
    ASSERT_LT(++flushes, 100'000);
    ASSERT_EQ(Flush(), 0);
    was_within_frame |= outbox_.is_within_frame();
    EXPECT_EQ(outbox_.left() + outbox_.size(), 300u);
    received += Receive();
  }
  EXPECT_TRUE(received == all);
  EXPECT_GT(flushes, 10);
  EXPECT_TRUE(was_within_frame);
  EXPECT_TRUE(outbox_.empty());
}

TEST_F(TcpOutboxTest, FramesNameTheirMemoryUntilTheyHaveLeft) {
  Connect(SOCK_STREAM);
  Add(1, 64);
  const auto bytes = std::as_bytes(std::span(payloads_.back()));
  EXPECT_TRUE(outbox_.RefersTo(bytes));
  EXPECT_TRUE(outbox_.RefersTo(bytes.last(1)));
  EXPECT_FALSE(outbox_.RefersTo(std::as_bytes(std::span("elsewhere"))));
  ASSERT_EQ(Flush(), 0);
  EXPECT_FALSE(outbox_.RefersTo(bytes));
}

TEST_F(TcpOutboxTest, APeerThatIsGoneIsAnError) {
  Connect(SOCK_STREAM);
  receiver_ = UniqueFd();
  Add(1, 64);
  EXPECT_EQ(Flush(), EPIPE);
  outbox_.Clear();
  EXPECT_TRUE(outbox_.empty());
  EXPECT_EQ(Flush(), 0);
}

}  // namespace
}  // namespace remora::rdma
