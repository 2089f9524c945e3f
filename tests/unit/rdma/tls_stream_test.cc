// TlsStream: two ends in one thread, joined by a pair of sockets that take little at a time.
#include "rdma/tcp/stream/tls_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rdma/tcp/stream/tls_context.h"
#include "rdma/unique_fd.h"
#include "tests/unit/rdma/transport_client.h"

namespace remora::rdma {
namespace {

class TlsStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    for (std::size_t i = 0; i < 2; ++i) {
      sockets_[i] = UniqueFd(ends[i]);
      const int size = 8192;
      ASSERT_EQ(setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    }
    const std::vector<std::string> secrets = {"a secret"};
    auto server = TlsContext::OfServer({}, secrets);
    auto client = TlsContext::OfClient({.files = {}, .secret = "a secret"});
    ASSERT_THAT(server, IsOk());
    ASSERT_THAT(client, IsOk());
    streams_[0] = *TlsStream::OfClient(*client, "localhost");
    streams_[1] = *TlsStream::OfServer(*server);
    TlsStream::Step steps[2] = {};
    for (int i = 0; i < 100 && (steps[0] != TlsStream::Step::kDone || steps[1] != TlsStream::Step::kDone);
         ++i) {
      for (std::size_t end = 0; end < 2; ++end) {
        if (steps[end] != TlsStream::Step::kDone) steps[end] = streams_[end]->Handshake(sockets_[end].get());
        ASSERT_NE(steps[end], TlsStream::Step::kFailed) << streams_[end]->error();
      }
    }
    ASSERT_TRUE(streams_[0]->is_established() && streams_[1]->is_established());
  }
  ssize_t Send(std::size_t end, std::span<const iovec> from) {
    return streams_[end]->Send(sockets_[end].get(), from);
  }
  ssize_t Send(std::size_t end, const std::string& text) {
    const iovec entry = {const_cast<char*>(text.data()), text.size()};
    return Send(end, std::span(&entry, 1));
  }
  /// Receives up to `size` bytes, in two places.
  std::string Receive(std::size_t end, std::size_t size, ssize_t* got = nullptr) {
    std::string text(size, '\0');
    const std::array<iovec, 2> entries = {iovec{text.data(), size / 2},
                                          {text.data() + size / 2, size - size / 2}};
    const ssize_t received = streams_[end]->Receive(sockets_[end].get(), entries, MSG_DONTWAIT);
    if (got != nullptr) *got = received;
    text.resize(received < 0 ? 0 : static_cast<std::size_t>(received));
    return text;
  }
  static std::string RandomBytes(std::size_t size) {
    std::mt19937_64 random(size);
    std::string text(size, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    return text;
  }

  std::array<UniqueFd, 2> sockets_;
  std::array<std::unique_ptr<TlsStream>, 2> streams_;  // the client's, the server's
};

TEST_F(TlsStreamTest, AllSizesArriveWhole) {
  for (const std::size_t size : {1u, 24u, 16383u, 16384u, 16385u, 70'000u, 1'000'000u}) {
    const std::string sent = RandomBytes(size);
    std::string heard;
    std::size_t taken = 0;
    for (int i = 0; heard.size() < size; ++i) {
      ASSERT_LT(i, 100'000);
      if (taken < size) {
        const std::size_t middle = taken + (size - taken) / 3;
        const std::array<iovec, 2> rest = {iovec{const_cast<char*>(sent.data()) + taken, middle - taken},
                                           {const_cast<char*>(sent.data()) + middle, size - middle}};
        const ssize_t more = Send(0, rest);
        ASSERT_TRUE(more >= 0 || errno == EAGAIN);
        taken += static_cast<std::size_t>(std::max<ssize_t>(more, 0));
      } else {
        ASSERT_EQ(streams_[0]->Flush(sockets_[0].get()), 0);
      }
      ssize_t got = 0;
      heard += Receive(1, 5000, &got);
      ASSERT_TRUE(got > 0 || errno == EAGAIN);
    }
    EXPECT_TRUE(heard == sent) << size;
    EXPECT_FALSE(streams_[0]->has_output());
    EXPECT_FALSE(streams_[1]->has_input());
  }
}

// Bytes that were not asked for wait in the stream, and the socket does not announce them.
TEST_F(TlsStreamTest, InputThatWasNotAskedForIsSaidToBeThere) {
  ASSERT_EQ(Send(0, "one two three"), 13);
  ASSERT_EQ(Send(0, "four"), 4);
  EXPECT_EQ(Receive(1, 4), "one ");
  EXPECT_TRUE(streams_[1]->has_input());
  EXPECT_EQ(Receive(1, 9), "two three");
  EXPECT_TRUE(streams_[1]->has_input());
  EXPECT_EQ(Receive(1, 100), "four");
  EXPECT_FALSE(streams_[1]->has_input());
  ssize_t got = 0;
  Receive(1, 100, &got);
  EXPECT_EQ(got, -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(TlsStreamTest, TheRestOfARecordIsInput) {
  ASSERT_EQ(Send(0, "one two"), 7);
  EXPECT_EQ(Receive(1, 4), "one ");
  EXPECT_TRUE(streams_[1]->has_input());
  EXPECT_EQ(Receive(1, 4), "two");
  EXPECT_FALSE(streams_[1]->has_input());
}

// The caller may change what it has sent: it is encrypted already.
TEST_F(TlsStreamTest, BytesThatTheSocketDoesNotTakeAreKeptAndBounded) {
  std::string sent = RandomBytes(4'000'000);
  const std::string copy = sent;
  const iovec entry = {sent.data(), sent.size()};
  const ssize_t taken = Send(0, std::span(&entry, 1));
  ASSERT_GT(taken, 0);
  EXPECT_LE(taken, 200'000);
  EXPECT_TRUE(streams_[0]->has_output());
  EXPECT_EQ(Send(0, "more"), -1);
  EXPECT_EQ(errno, EAGAIN);
  std::ranges::fill(sent, 'x');
  std::string heard;
  for (int i = 0; heard.size() < static_cast<std::size_t>(taken); ++i) {
    ASSERT_LT(i, 10'000);
    heard += Receive(1, 16384);
    ASSERT_EQ(streams_[0]->Flush(sockets_[0].get()), 0);
  }
  EXPECT_TRUE(heard == copy.substr(0, heard.size()));
}

TEST_F(TlsStreamTest, AChangedBitIsNoticed) {
  ASSERT_EQ(Send(0, "right"), 5);
  ASSERT_EQ(Send(0, "wrong"), 5);
  std::array<char, 1000> record;
  const ssize_t size = recv(sockets_[1].get(), record.data(), record.size(), MSG_DONTWAIT);
  ASSERT_GT(size, 30);
  EXPECT_EQ(std::string(record.data(), record.size()).find("right"), std::string::npos);
  record[static_cast<std::size_t>(size) - 1] =
      static_cast<char>(record[static_cast<std::size_t>(size) - 1] ^ 1);
  ASSERT_EQ(send(sockets_[0].get(), record.data(), static_cast<std::size_t>(size), 0), size);
  EXPECT_EQ(Receive(1, 100), "right");
  EXPECT_TRUE(streams_[1]->has_input());  // no event announces the failure
  ssize_t got = 0;
  Receive(1, 100, &got);
  EXPECT_EQ(got, -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_THAT(streams_[1]->error(), HasCode(absl::StatusCode::kInternal));
  Receive(1, 100, &got);
  EXPECT_EQ(got, -1);
  EXPECT_EQ(Send(1, "more"), -1);
}

TEST_F(TlsStreamTest, TheEndOfTheStreamIsTheEnd) {
  ASSERT_EQ(Send(0, "last"), 4);
  sockets_[0] = UniqueFd();
  EXPECT_EQ(Receive(1, 4), "last");
  ssize_t got = -1;
  Receive(1, 100, &got);
  EXPECT_EQ(got, 0);
}

// An attacker cuts the connection in the middle of a record.
TEST_F(TlsStreamTest, AHalfRecordAtTheEndGivesNoBytes) {
  ASSERT_EQ(Send(0, "cut in two"), 10);
  std::array<char, 1000> record;
  const ssize_t size = recv(sockets_[1].get(), record.data(), record.size(), MSG_DONTWAIT);
  ASSERT_GT(size, 20);
  ASSERT_EQ(send(sockets_[0].get(), record.data(), static_cast<std::size_t>(size) - 1, 0), size - 1);
  sockets_[0] = UniqueFd();
  ssize_t got = -1;
  Receive(1, 100, &got);
  EXPECT_EQ(got, -1);
  EXPECT_EQ(errno, EAGAIN);
  Receive(1, 100, &got);
  EXPECT_EQ(got, 0);
}

// The identity and the key are MACs of the secret under labels of their own.
TEST_F(TlsStreamTest, KeysOfTokensAreApart) {
  const TlsPsk one = PskOf("a secret"), same = PskOf("a secret"), other = PskOf("b secret");
  EXPECT_EQ(one.identity, same.identity);
  EXPECT_EQ(one.key, same.key);
  EXPECT_NE(one.identity, other.identity);
  EXPECT_NE(one.key, other.key);
  EXPECT_EQ(one.identity.size(), 32u);
}

}  // namespace
}  // namespace remora::rdma
