// For tests of tokens: a server that has some, and hellos that are made by hand.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rdma/auth/hmac.h"
#include "store/base/secret_text.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/server_thread.h"

namespace remora {

class Access : public Behaviour {
 protected:
  static constexpr char kWriter[] = "000102030405060708090a0b0c0d0e0f";
  static constexpr char kReader[] = "ICEiIyQlJicoKSorLC0uLw==";
  static constexpr char kStranger[] = "404142434445464748494a4b4c4d4e4f";

  static std::string Lines() {
    return std::string("writer read-write ") + kWriter + "  # a comment\n\nreader\tread-only " + kReader +
           "\n";
  }
  std::string file() const { return folder_.path() + "/tokens"; }
  void WriteTokens(const std::string& lines) const {
    std::ofstream(file(), std::ios::trunc) << lines;
    ASSERT_EQ(::chmod(file().c_str(), 0600), 0);
  }
  /// Options of a server with these tokens.
  Deployment::Options With(const std::string& lines, Deployment::Options options = {}) const {
    WriteTokens(lines);
    options.tokens_file = file();
    return options;
  }
  static ClientOptions Holding(const std::string& token) { return {.token = token}; }
  absl::Status ConnectStatus(const ClientOptions& options) { return deployment_->Connect(options).status(); }
  std::uint64_t count(Metric counter) { return store().Read(counter); }

  // --- By hand

  HelloRequest Hello(std::uint64_t name, std::uint64_t challenge) const {
    HelloRequest hello;
    hello.client = name;
    hello.flags = HelloFlag::kHasToken;
    hello.challenge = challenge;
    return hello;
  }
  static HelloRequest Proven(HelloRequest hello, const HelloNonce& nonce, const char* token) {
    std::string why;
    hello.flags |= HelloFlag::kProves;
    const rdma::Mac mac =
        rdma::HmacSha256(DecodeSecret(token, &why).value_or(""), ClientProofParts(nonce, hello));
    std::memcpy(hello.proof.data(), mac.data(), hello.proof.size());
    return hello;
  }
  /// Nothing: it was accepted.
  std::optional<HelloRejection> RejectionOf(const HelloRequest& hello) {
    auto connection = deployment_->Dial();
    EXPECT_TRUE(connection.ok()) << connection.status();
    const absl::Status status =
        (*connection)->Connect(AsBytes(hello), deployment_->clock().Now() + std::chrono::seconds(60));
    HelloRejection rejection;
    if (status.ok()) return std::nullopt;
    EXPECT_CODE(kFailedPrecondition, status);
    EXPECT_TRUE(FromBytes((*connection)->peer_data(), &rejection));
    return rejection;
  }
  HelloRequest ProvenAnew(const char* token, std::uint64_t name = 0) {
    const HelloRequest hello = Hello(name, ++challenges_);
    const auto rejection = RejectionOf(hello);
    EXPECT_TRUE(rejection.has_value() && rejection->reason == RejectionReason::kChallenge);
    return Proven(hello, rejection->nonce, token);
  }

  const TempDir folder_;
  std::uint64_t challenges_ = 1000;
};

}  // namespace remora
