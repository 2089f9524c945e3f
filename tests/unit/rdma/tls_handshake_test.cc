// Handshakes of TlsStream: two ends in one thread, or one end and bytes that the test has made.
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rdma/tcp/stream/tls_context.h"
#include "rdma/tcp/stream/tls_stream.h"
#include "rdma/unique_fd.h"
#include "tests/support/tls_files.h"
#include "tests/unit/rdma/transport_client.h"

namespace remora::rdma {
namespace {

using ::testing::HasSubstr;

class TlsHandshakeTest : public ::testing::Test {
 protected:
  using Step = TlsStream::Step;

  void SetUp() override {
    std::array<int, 2> ends;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    sockets_ = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  /// Returns OK when both ends are established, else why one of them gave up.
  absl::Status Shake(const TlsFiles& server_files, const ClientTls& client_tls, const std::string& host,
                     const std::vector<std::string>& secrets = {}) {
    SetUp();
    auto server_context = TlsContext::OfServer(server_files, secrets);
    auto client_context = TlsContext::OfClient(client_tls);
    if (!server_context.ok()) return server_context.status();
    if (!client_context.ok()) return client_context.status();
    const std::array<std::unique_ptr<TlsStream>, 2> ends = {*TlsStream::OfClient(*client_context, host),
                                                            *TlsStream::OfServer(*server_context)};
    for (int i = 0; i < 100; ++i) {
      for (std::size_t end = 0; end < 2; ++end) {
        if (ends[end]->is_established()) continue;
        if (ends[end]->Handshake(sockets_[end].get()) == Step::kFailed) return ends[end]->error();
      }
      if (ends[0]->is_established() && ends[1]->is_established()) return absl::OkStatus();
    }
    return absl::DeadlineExceededError("the handshake does not end");
  }
  absl::Status Shake(const TlsFiles& server_files, const ClientTls& client_tls) {
    return Shake(server_files, client_tls, "127.0.0.1");
  }
  /// Returns the bytes that wait for one end, 0 for the client's.
  std::string Heard(std::size_t end) {
    std::string heard(20'000, '\0');
    const ssize_t size = recv(sockets_[end].get(), heard.data(), heard.size(), MSG_DONTWAIT);
    heard.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return heard;
  }

  std::array<UniqueFd, 2> sockets_;  // the client's, the server's
};

constexpr absl::StatusCode kUntrusted = absl::StatusCode::kPermissionDenied;

TEST_F(TlsHandshakeTest, ACertificateIsOfTheAuthorityAndOfThisTime) {
  const TlsFolder folder, other("other authority");
  folder.Sign("right", "IP:127.0.0.1");
  folder.SignExpired("old", "IP:127.0.0.1");
  const ClientTls client{.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""};
  const ClientTls stranger{.files = {.ca = other.ca(), .cert = "", .key = ""}, .secret = ""};
  EXPECT_THAT(Shake(folder.Files("right", false), client), IsOk());
  EXPECT_THAT(Shake(folder.Files("right", false), stranger), HasCode(kUntrusted));
  EXPECT_THAT(Shake(folder.Files("old", false), client), HasCode(kUntrusted));
}

TEST_F(TlsHandshakeTest, AServerThatAsksForACertificateTakesNothingElse) {
  const TlsFolder folder;
  folder.Sign("server", "IP:127.0.0.1");
  folder.Sign("client", "DNS:client");
  const TlsFiles server = folder.Files("server", true);
  EXPECT_THAT(Shake(server, {.files = folder.Files("client", true), .secret = ""}), IsOk());
  EXPECT_THAT(Shake(server, {.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""}),
              HasCode(kUntrusted));
  const absl::Status with_token =
      Shake(server, {.files = {}, .secret = "a secret"}, "127.0.0.1", {"a secret"});
  EXPECT_THAT(with_token, HasCode(kUntrusted));
  EXPECT_THAT(std::string(with_token.message()), HasSubstr("does not know this client's token"));
}

TEST_F(TlsHandshakeTest, ACertificateIsNoToken) {
  const TlsFolder folder;
  folder.Sign("server", "IP:127.0.0.1");
  const ClientTls client{.files = {}, .secret = "a secret"};
  EXPECT_THAT(Shake(folder.Files("server", false), client, "127.0.0.1", {"a secret"}), IsOk());
  EXPECT_THAT(Shake(folder.Files("server", false), client), HasCode(kUntrusted));
}

// A server's tickets would follow the handshake.
TEST_F(TlsHandshakeTest, NoSessionIsOfferedAgain) {
  const TlsFolder folder;
  folder.Sign("server", "IP:127.0.0.1");
  ASSERT_THAT(Shake(folder.Files("server", false),
                    {.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""}),
              IsOk());
  EXPECT_EQ(Heard(0), "");
}

TEST_F(TlsHandshakeTest, ACertificateIsForItsAlternativeNamesAlone) {
  const TlsFolder folder;
  folder.Sign("address", "IP:127.0.0.1");
  folder.Sign("name", "DNS:a.example.com");
  folder.Sign("label", "DNS:*.example.com");
  folder.Sign("part", "DNS:a*.example.com");
  const ClientTls client{.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""};
  struct Case {
    std::string certificate;
    std::string host;
    bool is_accepted;
  };
  for (const Case& one : std::vector<Case>{{"address", "127.0.0.1", true},
                                           {"address", "127.0.0.2", false},
                                           {"address", "remora", false},  // the name of its subject
                                           {"name", "a.example.com", true},
                                           {"name", "b.example.com", false},
                                           {"name", "127.0.0.1", false},
                                           {"label", "ab.example.com", true},
                                           {"label", "example.com", false},
                                           {"label", "a.b.example.com", false},
                                           {"part", "ab.example.com", false}}) {
    const absl::Status status = Shake(folder.Files(one.certificate, false), client, one.host);
    if (one.is_accepted) {
      EXPECT_THAT(status, IsOk()) << one.certificate << " for " << one.host;
    } else {
      EXPECT_THAT(status, HasCode(kUntrusted)) << one.certificate << " for " << one.host;
      EXPECT_THAT(std::string(status.message()), HasSubstr("it is not for " + one.host));
    }
  }
}

// The bytes of a server that answers with TLS 1.2, as it may be talked into by an attacker between the two.
TEST_F(TlsHandshakeTest, AClientTakesNoOlderVersion) {
  const TlsFolder folder;
  auto context = TlsContext::OfClient({.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""});
  ASSERT_THAT(context, IsOk());
  const auto client = *TlsStream::OfClient(*context, "localhost");
  ASSERT_EQ(client->Handshake(sockets_[0].get()), Step::kWaits);
  // The extension supported_versions (RFC 8446, 4.2.1), with TLS 1.3 alone.
  EXPECT_THAT(Heard(1), HasSubstr(std::string("\x00\x2b\x00\x03\x02\x03\x04", 7)));
  const std::string hello = "\x03\x03" + std::string(32, 'r') +  // TLS 1.2, and random bytes
                            std::string(
                                "\x00"      // no session
                                "\xc0\x2f"  // ECDHE-RSA-AES128-GCM-SHA256
                                "\x00"      // no compression
                                "\x00\x05"  // extensions: renegotiation_info
                                "\xff\x01\x00\x01\x00",
                                11);
  const std::string message = std::string("\x02\x00\x00", 3) + static_cast<char>(hello.size()) + hello;
  const std::string record = std::string("\x16\x03\x03\x00", 4) + static_cast<char>(message.size()) + message;
  ASSERT_EQ(send(sockets_[1].get(), record.data(), record.size(), 0), static_cast<ssize_t>(record.size()));
  EXPECT_EQ(client->Handshake(sockets_[0].get()), Step::kFailed);
  EXPECT_THAT(std::string(client->error().message()), HasSubstr("no Remora server with TLS 1.3"));
}

}  // namespace
}  // namespace remora::rdma
