// tls:// addresses: whom each side accepts, and what both sides say of the other one.
#include "rdma/tls.h"

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "rdma/tcp/stream/tls_context.h"
#include "tests/support/test_clock.h"
#include "tests/support/tls_files.h"
#include "tests/unit/rdma/raw_tcp.h"
#include "tests/unit/rdma/transport_fixture.h"

namespace remora::rdma {
namespace {

using ::testing::HasSubstr;

constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;
constexpr absl::StatusCode kWrong = absl::StatusCode::kInvalidArgument;

class TlsTest : public ::testing::Test {
 protected:
  void Serve(const TlsFiles& files, const std::vector<std::string>& secrets = {}, bool with_tls = true) {
    auto tls = ServerTls::Create(files);
    ASSERT_THAT(tls, IsOk());
    tls_ = *std::move(tls);
    ASSERT_THAT(tls_->Load(secrets), IsOk());
    auto service = ServiceThread::Start(
        {.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = "", .tls = with_tls}, {},
        clock_, MemoryWindows::kAuto, tls_);
    ASSERT_THAT(service, IsOk());
    service_ = *std::move(service);
  }
  /// The address of the service by another name of its host, or with TLS or without.
  Address Where(const std::string& host = "127.0.0.1", bool with_tls = true) {
    Address address = service_->address();
    address.host = host;
    address.tls = with_tls;
    return address;
  }
  absl::Status Connect(const ClientTls& tls, const Address& address) {
    const TimePoint deadline = clock_.Now() + kPatience;
    auto connection = Dial(address, {}, clock_, deadline, tls);
    if (!connection.ok()) return connection.status();
    const std::byte mode{static_cast<unsigned char>(ServiceMode::kServe)};
    return (*connection)->Connect({&mode, 1}, deadline);
  }
  absl::Status Connect(const ClientTls& tls) { return Connect(tls, Where()); }
  /// The client fails so, with these words, and the server reports the rejection with those.
  void ExpectRejected(const absl::Status& status, absl::StatusCode code, const std::string& words,
                      const std::string& servers_words) {
    ASSERT_THAT(status, HasCode(code));
    ASSERT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_TRUE(IsReported(servers_words)) << servers_words;
  }
  bool IsReported(const std::string& words) {
    std::string all;
    const bool is_reported = service_->Await([&](Service& service) {
      all.clear();
      for (const std::string& line : service.rejections()) all += line + "\n";
      return all.find(words) != std::string::npos;
    });
    if (!is_reported) ADD_FAILURE() << "the server reported:\n" << all;
    return is_reported;
  }
  /// Runs `openssl s_client` against the service. Returns whether it connected.
  bool RunOpenssl(const std::string& arguments) {
    const std::string command =
        "openssl s_client -connect 127.0.0.1:" + std::to_string(service_->address().port) + " " + arguments +
        " </dev/null >/dev/null 2>&1";
    return std::system(command.c_str()) == 0;
  }

  ShiftedClock clock_;
  std::shared_ptr<ServerTls> tls_;
  std::unique_ptr<ServiceThread> service_;
};

TEST_F(TlsTest, TheServersCertificateIsForItsNameOrAddress) {
  const TlsFolder folder;
  folder.Sign("both", "DNS:localhost,IP:127.0.0.1");
  folder.Sign("name", "DNS:localhost");
  folder.Sign("address", "IP:127.0.0.1");
  folder.Sign("wildcard", "DNS:*.example.com");
  const ClientTls client{.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""};
  Serve(folder.Files("both", false));
  EXPECT_THAT(Connect(client), IsOk());
  EXPECT_THAT(Connect(client, Where("localhost")), IsOk());
  Serve(folder.Files("name", false));
  EXPECT_THAT(Connect(client, Where("localhost")), IsOk());
  ExpectRejected(Connect(client), kDenied, "it is not for 127.0.0.1", "the client gave up");
  Serve(folder.Files("address", false));
  EXPECT_THAT(Connect(client), IsOk());
  ExpectRejected(Connect(client, Where("localhost")), kDenied, "it is not for localhost",
                 "the client gave up");
  Serve(folder.Files("wildcard", false));
  ExpectRejected(Connect(client), kDenied, "it is not for 127.0.0.1", "the client gave up");
}

TEST_F(TlsTest, AnotherAuthorityAndAnExpiredCertificateAreNotAccepted) {
  const TlsFolder folder, other("other authority");
  folder.Sign("right", "IP:127.0.0.1");
  folder.SignExpired("old", "IP:127.0.0.1");
  Serve(folder.Files("right", false));
  ExpectRejected(Connect({.files = {.ca = other.ca(), .cert = "", .key = ""}, .secret = ""}), kDenied,
                 "unable to get local issuer certificate", "unknown ca");
  Serve(folder.Files("old", false));
  ExpectRejected(Connect({.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""}), kDenied,
                 "certificate has expired", "certificate expired");
}

TEST_F(TlsTest, AServerMayAskForCertificates) {
  const TlsFolder folder, other("other authority");
  folder.Sign("server", "IP:127.0.0.1");
  folder.Sign("client", "DNS:client");
  folder.SignExpired("old", "DNS:client");
  other.Sign("stranger", "DNS:client");
  Serve(folder.Files("server", true), {TestTls().secret});
  EXPECT_THAT(Connect({.files = folder.Files("client", true), .secret = ""}), IsOk());
  ExpectRejected(Connect({.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""}), kDenied,
                 "certificate required", "peer did not return a certificate");
  ExpectRejected(Connect({.files = folder.Files("old", true), .secret = ""}), kDenied, "certificate expired",
                 "certificate verify failed");
  TlsFiles stranger = other.Files("stranger", false);
  stranger.ca = folder.ca();
  ExpectRejected(Connect({.files = stranger, .secret = ""}), kDenied, "unknown ca",
                 "certificate verify failed");
  // A token is no certificate.
  ExpectRejected(Connect(TestTls()), kDenied, "does not know this client's token", "not known here");
}

TEST_F(TlsTest, ATokenIsEnoughForBothSides) {
  Serve({}, {"one secret", "another secret"});
  EXPECT_THAT(Connect({.files = {}, .secret = "one secret"}), IsOk());
  EXPECT_THAT(Connect({.files = {}, .secret = "another secret"}), IsOk());
  ExpectRejected(Connect({.files = {}, .secret = "no secret"}), kDenied, "does not know this client's token",
                 "not known here");
  const TlsFolder folder;
  ExpectRejected(Connect({.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = "one secret"}),
                 kDenied, "take tokens alone", "came without a token");
}

// A client of openssl shows the identity of a token with another key, and the key under another identity.
TEST_F(TlsTest, AnIdentityAndItsKeyBelongTogether) {
  const TlsPsk psk = PskOf("one secret"), other = PskOf("another secret");
  const auto connects = [&](const std::string& identity, const Mac& key) {
    const absl::string_view bytes(reinterpret_cast<const char*>(key.data()), key.size());
    return RunOpenssl("-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256 -psk_identity " + identity + " -psk " +
                      absl::BytesToHexString(bytes));
  };
  Serve({}, {"one secret"});
  EXPECT_TRUE(connects(psk.identity, psk.key));
  ASSERT_FALSE(connects(psk.identity, other.key));
  ASSERT_FALSE(connects(other.identity, psk.key));
  ASSERT_FALSE(connects(other.identity, other.key));
  EXPECT_TRUE(IsReported("not known here"));
}

// An impostor with a certificate of its own is not taken for the server.
TEST_F(TlsTest, AClientWithATokenAcceptsNoCertificate) {
  const TlsFolder folder;
  folder.Sign("server", "IP:127.0.0.1");
  Serve(folder.Files("server", false));
  ExpectRejected(Connect(TestTls()), kDenied, "does not know this client's token", "unknown ca");
  Serve(folder.Files("server", false), {TestTls().secret});
  EXPECT_THAT(Connect(TestTls()), IsOk());
  EXPECT_THAT(Connect({.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""}), IsOk());
}

TEST_F(TlsTest, OneSideWithoutTlsIsTold) {
  Serve({}, {TestTls().secret});
  ExpectRejected(Connect({}, Where("127.0.0.1", false)), kWrong, "connect to its tls:// address",
                 "came without TLS");
  EXPECT_THAT(Connect(TestTls()), IsOk());
  Serve({}, {TestTls().secret}, false);
  ExpectRejected(Connect(TestTls()), kWrong, "connect to its tcp:// address", "serves without TLS");
  EXPECT_THAT(Connect({}, Where("127.0.0.1", false)), IsOk());
}

TEST_F(TlsTest, OlderVersionsAndResumptionAreNotOffered) {
  const TlsFolder folder;
  folder.Sign("server", "IP:127.0.0.1");
  Serve(folder.Files("server", false));
  ASSERT_TRUE(RunOpenssl("-tls1_3 -verify_return_error -CAfile '" + folder.ca() + "'"));
  ASSERT_FALSE(RunOpenssl("-tls1_2 -CAfile '" + folder.ca() + "'"));
  EXPECT_TRUE(IsReported("unsupported protocol"));
  const std::string session = folder.path() + "/session";
  ASSERT_TRUE(RunOpenssl("-tls1_3 -sess_out '" + session + "'"));
  EXPECT_FALSE(std::ifstream(session).good()) << "the server gave a ticket";
}

TEST_F(TlsTest, GarbageAndHalfHandshakesEndThemselvesAlone) {
  Serve({}, {TestTls().secret});
  for (const std::string& said : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(5000, '\x16'),
                                  std::string("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", 10)}) {
    RawTcp raw(service_->address());
    raw.Say(said.data(), said.size());
    EXPECT_TRUE(raw.IsHungUpOn());
    EXPECT_TRUE(IsReported("TLS: "));
  }
  RawTcp half(service_->address());
  half.Say("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9);
  EXPECT_THAT(Connect(TestTls()), IsOk());
  // The server has the bytes by now: it takes events in the order in which they came. Its patience ends.
  clock_.Advance(std::chrono::seconds(6));
  EXPECT_TRUE(half.IsHungUpOn());
  EXPECT_TRUE(IsReported("stopped in the middle of the handshake"));
  EXPECT_THAT(Connect(TestTls()), IsOk());
}

// A server that begins a handshake and says no more.
TEST_F(TlsTest, AClientWaitsForAHandshakeUntilItsDeadline) {
  auto listening = ListenAtTcp({.kind = TransportKind::kTcp, .host = "127.0.0.1", .port = 0, .path = ""});
  ASSERT_THAT(listening, IsOk());
  const Address where{.kind = TransportKind::kTcp,
                      .host = "127.0.0.1",
                      .port = LocalAddressOf(listening->front().get()).port(),
                      .path = "",
                      .tls = true};
  const TimePoint deadline = clock_.Now() + std::chrono::milliseconds(100);
  auto connection = Dial(where, {}, clock_, deadline, TestTls());
  ASSERT_THAT(connection, IsOk());
  const absl::Status status = (*connection)->Connect({}, deadline);
  EXPECT_THAT(status, HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not answer the TLS handshake"));
}

TEST_F(TlsTest, FilesAndTokensAreLoadedAnewOrStayAsTheyWere) {
  const TlsFolder folder, other("other authority");
  folder.Sign("server", "IP:127.0.0.1");
  other.Sign("server", "IP:127.0.0.1");
  const ClientTls old{.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""};
  const ClientTls now{.files = {.ca = other.ca(), .cert = "", .key = ""}, .secret = ""};
  Serve(folder.Files("server", false), {"one secret"});
  const auto client = [&](const std::string& secret) { return ClientTls{.files = {}, .secret = secret}; };
  std::filesystem::copy_file(other.cert("server"), folder.cert("server"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(tls_->Load({"another secret"}), HasCode(kWrong));  // the key is still the old one
  EXPECT_THAT(Connect(old), IsOk());
  EXPECT_THAT(Connect(client("one secret")), IsOk());
  std::filesystem::copy_file(other.key("server"), folder.key("server"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(tls_->Load({"another secret"}), IsOk());
  EXPECT_THAT(Connect(now), IsOk());
  EXPECT_THAT(Connect(client("another secret")), IsOk());
  EXPECT_THAT(Connect(old), HasCode(kDenied));
  EXPECT_THAT(Connect(client("one secret")), HasCode(kDenied));
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamed) {
  const TlsFolder folder;
  folder.Sign("one", "IP:127.0.0.1");
  folder.Sign("two", "IP:127.0.0.1");
  folder.Run("pkey -in one.key -aes256 -passout pass:secret -out locked.key");
  std::ofstream(folder.path() + "/empty") << "";
  std::ofstream(folder.path() + "/damaged")
      << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const auto file = [&](const std::string& name) { return folder.path() + "/" + name; };
  const std::string cert = folder.cert("one"), key = folder.key("one"), none = file("none");
  const absl::StatusCode missing = absl::StatusCode::kNotFound;
  struct Case {
    TlsFiles files;
    absl::StatusCode code;
    std::string words;
  };
  for (const Case& one :
       std::vector<Case>{{{.ca = "", .cert = none, .key = key}, missing, "TLS certificate in " + none},
                         {{.ca = "", .cert = cert, .key = none}, missing, "TLS key in " + none},
                         {{.ca = none, .cert = cert, .key = key}, missing, "TLS authorities in " + none},
                         {{.ca = "", .cert = cert, .key = folder.key("two")},
                          kWrong,
                          "it is not the key of the certificate"},
                         {{.ca = "", .cert = cert, .key = file("locked.key")}, kWrong, "it is encrypted"},
                         {{.ca = "", .cert = cert, .key = cert}, kWrong, "no private key"},
                         {{.ca = "", .cert = file("empty"), .key = key}, kWrong, "no certificate"},
                         {{.ca = "", .cert = file("damaged"), .key = key}, kWrong, "certificate"},
                         {{.ca = "", .cert = folder.path(), .key = key}, kWrong, "no regular file"},
                         {{.ca = "", .cert = cert, .key = ""}, kWrong, "come together"},
                         {{.ca = "", .cert = "", .key = key}, kWrong, "come together"},
                         {{.ca = folder.ca(), .cert = "", .key = ""}, kWrong, "has one of its own"}}) {
    const absl::Status status = ServerTls::Create(one.files).status();
    EXPECT_THAT(status, HasCode(one.code)) << one.words;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.words));
  }
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  EXPECT_THAT(ServerTls::Create({.ca = "", .cert = cert, .key = key}), HasCode(kDenied));
  // A client names them, too.
  Serve({}, {TestTls().secret});
  EXPECT_THAT(Connect({.files = {.ca = none, .cert = "", .key = ""}, .secret = ""}), HasCode(missing));
  EXPECT_THAT(Connect({.files = {.ca = "", .cert = cert, .key = folder.key("one")}, .secret = "secret"}),
              HasCode(kWrong));
  EXPECT_THAT(Connect({}), HasCode(kWrong));
  EXPECT_THAT(
      Connect({.files = {.ca = folder.ca(), .cert = "", .key = ""}, .secret = ""}, Where("127.0.0.1", false)),
      HasCode(kWrong));
  EXPECT_THAT(Listen(Where(), {}, clock_), HasCode(kWrong));
}

}  // namespace
}  // namespace remora::rdma
