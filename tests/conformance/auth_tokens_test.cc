// Files of tokens, and who is let in by them when, by a clock that is moved by hand.
#include "server/connection/auth_tokens.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <string>

#include "client/session/credentials.h"
#include "rdma/auth/hmac.h"
#include "server/connection/authenticator.h"
#include "store/base/secret_text.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/manual_clock.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

constexpr char kHex[] = "000102030405060708090a0b0c0d0e0f";

std::string WhyNot(const std::string& text) {
  const auto tokens = ParseTokens(text);
  EXPECT_CODE(kInvalidArgument, tokens.status());
  return std::string(tokens.status().message());
}

TEST(TokenSecret, HexadecimalOrBase64) {
  std::string why;
  const std::string bytes = DecodeSecret(kHex, &why).value_or("");
  ASSERT_EQ(bytes.size(), 16u);
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], static_cast<char>(i));
  EXPECT_EQ(DecodeSecret("AAECAwQFBgcICQoLDA0ODw==", &why), bytes);
  EXPECT_EQ(DecodeSecret("AAECAwQFBgcICQoLDA0ODw", &why), bytes);
  EXPECT_EQ(DecodeSecret("+/+/+/+/+/+/+/+/+/+/+/+/", &why), DecodeSecret("-_-_-_-_-_-_-_-_-_-_-_-_", &why));
  for (const char* wrong :
       {"", "00", "AAECAwQFBgcICQoLDA0O", "AAECAwQFBgcICQoLDA0ODx==", "AAECAwQFBgcICQoLDA0OD",
        "0001020304050607 8090a0b0c0d0e0f", "AAECAwQF=gcICQoLDA0ODw==", "AAECAwQFBgcICQoLDA0ODw==="}) {
    why.clear();
    EXPECT_EQ(DecodeSecret(wrong, &why), std::nullopt) << wrong;
    EXPECT_NE(why, "") << wrong;
  }
  EXPECT_EQ(DecodeSecret(std::string(2 * kMaxSecretSize + 2, 'a'), &why), std::nullopt);
}

TEST(Tokens, LinesOfAFile) {
  const auto tokens = ParseTokens(std::string("# all\r\n\n a.b-c_1\tread-only ") + kHex +
                                  " # one\r\nz read-write //////////////////////////// connections=3 "
                                  "requests_per_second=1000000\n");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_EQ((*tokens)[0].name, "a.b-c_1");
  EXPECT_EQ((*tokens)[0].role, Role::kReadOnly);
  EXPECT_EQ((*tokens)[0].max_connections, 0u);
  EXPECT_EQ((*tokens)[1].role, Role::kReadWrite);
  EXPECT_EQ((*tokens)[1].max_connections, 3u);
  EXPECT_EQ((*tokens)[1].max_requests_per_second, 1'000'000u);
}

TEST(Tokens, ErrorsNameTheLineAndNoSecret) {
  using testing::HasSubstr;
  const std::string good = std::string("a read-only ") + kHex + "\n";
  EXPECT_THAT(WhyNot(""), HasSubstr("no token"));
  EXPECT_THAT(WhyNot("# only a comment\n"), HasSubstr("no token"));
  EXPECT_THAT(WhyNot(good + "\nb read-only\n"), HasSubstr("line 3"));
  EXPECT_THAT(WhyNot(good + "b admin " + kHex), HasSubstr("line 2: role: it is"));
  EXPECT_THAT(WhyNot("b$ read-only " + std::string(kHex)), HasSubstr("name: it has"));
  EXPECT_THAT(WhyNot(std::string(33, 'n') + " read-only " + kHex), HasSubstr("name: it has"));
  EXPECT_THAT(WhyNot(good + "a read-write ////////////////////////////"), HasSubstr("a already"));
  EXPECT_THAT(WhyNot(good + "b read-write AAECAwQFBgcICQoLDA0ODw=="), HasSubstr("that of a"));
  EXPECT_THAT(WhyNot("a read-only 0001020304"), HasSubstr("16 to 64 bytes"));
  EXPECT_THAT(WhyNot("a read-only " + std::string(kHex) + " more"), HasSubstr("after the secret"));
  for (const char* limit :
       {"connections=0", "connections=", "connections=x", "connections=-1", "connections=+1",
        "connections=0x1", "connections=1e3", "connections=1000001", "connections=1 connections=2"}) {
    EXPECT_THAT(WhyNot("a read-only " + std::string(kHex) + " " + limit), HasSubstr("connections")) << limit;
  }
  EXPECT_THAT(WhyNot("a read-only secret-that-is-none!"), testing::Not(HasSubstr("secret-that")));
  std::string many;
  for (std::size_t i = 0; i <= kMaxTokens; ++i) {
    many += "n" + std::to_string(i) + " read-only " + std::to_string(1'000'000'000'000'000 + i) +
            "0000000000000000\n";
  }
  EXPECT_THAT(WhyNot(many), HasSubstr("line 257"));
}

TEST(Tokens, AFileThatOthersCanReadIsRejected) {
  const TempDir folder;
  const std::string path = folder.path() + "/tokens";
  EXPECT_CODE(kNotFound, ReadTokens(path).status());
  std::ofstream(path) << "a read-only " << kHex << "\n";
  for (const mode_t mode : {0604u, 0601u, 0620u, 0602u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto tokens = ReadTokens(path);
    EXPECT_CODE(kPermissionDenied, tokens.status());
    EXPECT_THAT(tokens.status().message(), testing::HasSubstr("chmod 600"));
    EXPECT_CODE(kPermissionDenied, ReadTokenFile(path).status());
  }
  for (const mode_t mode : {0600u, 0400u, 0640u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(ReadTokens(path).ok());
    EXPECT_TRUE(ReadTokenFile(path).ok());
  }
  EXPECT_CODE(kInvalidArgument, ReadTokens(folder.path()).status());
  EXPECT_CODE(kInvalidArgument, ReadTokens("/dev/null").status());
  std::ofstream(path, std::ios::app) << "nonsense\n";
  const auto tokens = ReadTokens(path);
  EXPECT_THAT(tokens.status().message(), testing::HasSubstr(path + ": line 2"));
}

TEST(Tokens, OfAClient) {
  std::string why;
  const std::string bytes = DecodeSecret(kHex, &why).value_or("");
  EXPECT_EQ(SecretOfToken("").value_or("?"), "");
  EXPECT_EQ(SecretOfToken(kHex).value_or("?"), bytes);
  EXPECT_EQ(SecretOfToken(std::string("# mine\nname read-only ") + kHex + " connections=3\n").value_or("?"),
            bytes);
  for (const char* wrong : {"\n", "name read-only", "name read-only short", "# only\n"}) {
    EXPECT_CODE(kInvalidArgument, SecretOfToken(wrong).status());
  }
  EXPECT_CODE(kInvalidArgument, SecretOfToken(std::string(kHex) + "\n" + kHex).status());
}

// RFC 4231, test case 2, and the parts that it may come in.
TEST(Hmac, IsHmacSha256) {
  const std::string_view a = "what do ya want ", b = "for nothing?";
  const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(a)),
                                                           std::as_bytes(std::span(b))};
  const rdma::Mac mac = rdma::HmacSha256("Jefe", parts);
  std::string hex;
  for (const std::byte byte : mac) {
    hex += "0123456789abcdef"[static_cast<int>(byte) >> 4];
    hex += "0123456789abcdef"[static_cast<int>(byte) & 15];
  }
  EXPECT_EQ(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

class AuthenticatorTest : public testing::Test {
 protected:
  static constexpr char kSecret[] = "sixteen bytes: ok";
  static Token Holder(const std::string& name, const std::string& secret) {
    return {.name = name, .role = Role::kReadOnly, .secret = secret};
  }
  static HelloRequest Proven(HelloRequest hello, const HelloNonce& nonce) {
    const rdma::Mac mac = rdma::HmacSha256(kSecret, ClientProofParts(nonce, hello));
    std::memcpy(hello.proof.data(), mac.data(), hello.proof.size());
    return hello;
  }
  HelloRequest ProvenNow(std::uint64_t challenge) {
    HelloRequest hello;
    hello.challenge = challenge;
    return Proven(hello, admission_.NonceFor(hello));
  }
  ManualClock clock_;
  Authenticator admission_{{Holder("other", "another secret here"), Holder("one", kSecret)}, clock_};
};

TEST_F(AuthenticatorTest, AProofIsGoodOnceAndForSoLong) {
  const HelloRequest hello = ProvenNow(1);
  TokenUse* const use = admission_.Prove(hello);
  ASSERT_NE(use, nullptr);
  EXPECT_EQ(use->token.name, "one");
  EXPECT_EQ(admission_.Prove(hello), nullptr);
  const HelloRequest second = ProvenNow(2);
  clock_.Advance(Authenticator::kEpoch);
  EXPECT_EQ(admission_.Prove(hello), nullptr);
  EXPECT_NE(admission_.Prove(second), nullptr);
  const HelloRequest third = ProvenNow(3);
  clock_.Advance(Authenticator::kEpoch);
  EXPECT_EQ(admission_.Prove(hello), nullptr);
  EXPECT_EQ(admission_.Prove(second), nullptr);
  EXPECT_NE(admission_.Prove(third), nullptr);
  const HelloRequest fourth = ProvenNow(4);
  clock_.Advance(2 * Authenticator::kEpoch);  // nobody came meanwhile
  EXPECT_EQ(admission_.Prove(fourth), nullptr);
  EXPECT_EQ(admission_.Prove(third), nullptr);
}

TEST_F(AuthenticatorTest, ManyConnectionsMakeItForgetSoonerAndNotLess) {
  const HelloRequest first = ProvenNow(1);
  ASSERT_NE(admission_.Prove(first), nullptr);
  for (std::uint64_t i = 2; i <= Authenticator::kMaxUsed + 10; ++i) {
    ASSERT_NE(admission_.Prove(ProvenNow(i)), nullptr) << i;
  }
  EXPECT_EQ(admission_.Prove(first), nullptr);
}

TEST_F(AuthenticatorTest, TokensThatStayAreTheSame) {
  TokenUse* const use = admission_.Prove(ProvenNow(1));
  ASSERT_NE(use, nullptr);
  std::vector<std::string> removed;
  const auto note = [&](TokenUse& gone) { removed.push_back(gone.token.name); };
  admission_.Replace({Holder("one", kSecret), Holder("new", "a secret that is new")}, note);
  EXPECT_THAT(removed, testing::ElementsAre("other"));
  EXPECT_EQ(admission_.Prove(ProvenNow(2)), use);
  Token changed = Holder("one", kSecret);
  changed.role = Role::kReadWrite;
  admission_.Replace({changed}, note);
  EXPECT_THAT(removed, testing::UnorderedElementsAre("other", "one", "new"));
  EXPECT_EQ(admission_.Prove(ProvenNow(3))->token.role, Role::kReadWrite);
}

TEST_F(AuthenticatorTest, ARateIsKept) {
  TokenUse use;
  use.token.max_requests_per_second = 100;
  int taken = 0;
  for (int ms = 0; ms < 2000; ++ms) {
    while (use.TakeRequest(clock_.Now(), 1)) ++taken;
    clock_.Advance(std::chrono::milliseconds(1));
  }
  EXPECT_GE(taken, 200);
  EXPECT_LE(taken, 200 + 11);  // and the burst beside
}

}  // namespace
}  // namespace remora
