#include "server/connection/authenticator.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "rdma/auth/hmac.h"

namespace remora {

Authenticator::Authenticator(std::vector<Token> tokens, const Clock& clock)
    : clock_(clock), secret_(rdma::kMacSize, '\0'), epoch_began_(clock.Now()) {
  rdma::FillRandom(std::as_writable_bytes(std::span(secret_)));
  Replace(std::move(tokens), [](TokenUse&) {});
}

void Authenticator::Replace(std::vector<Token> tokens, const std::function<void(TokenUse&)>& removed) {
  std::vector<std::unique_ptr<TokenUse>> uses;
  for (Token& token : tokens) {
    const auto same = std::ranges::find_if(
        uses_, [&](const std::unique_ptr<TokenUse>& use) { return use != nullptr && use->token == token; });
    if (same != uses_.end()) {
      uses.push_back(std::move(*same));
    } else {
      uses.push_back(std::make_unique<TokenUse>());
      uses.back()->token = std::move(token);
    }
  }
  uses.swap(uses_);
  for (const std::unique_ptr<TokenUse>& use : uses) {
    if (use != nullptr) removed(*use);
  }
}

void Authenticator::TurnEpoch() {
  const TimePoint now = clock_.Now();
  const Duration passed = now - epoch_began_;
  if (passed < kEpoch && used_[epoch_ % 2].size() < kMaxUsed) return;
  const std::uint64_t steps = passed < 2 * kEpoch ? 1 : 2;
  for (std::uint64_t i = 0; i < steps; ++i) used_[++epoch_ % 2].clear();
  epoch_began_ = now;
}

HelloNonce Authenticator::NonceOf(std::uint64_t epoch, const HelloRequest& hello) const {
  const std::array<std::uint64_t, 3> words = {epoch, hello.client, hello.challenge};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(words));
  const rdma::Mac mac = rdma::HmacSha256(secret_, std::span(&bytes, 1));
  HelloNonce nonce;
  std::copy_n(mac.begin(), nonce.size(), nonce.begin());
  return nonce;
}

HelloNonce Authenticator::NonceFor(const HelloRequest& hello) {
  TurnEpoch();
  return NonceOf(epoch_, hello);
}

TokenUse* Authenticator::Prove(const HelloRequest& hello) {
  TurnEpoch();
  for (const std::uint64_t epoch : {epoch_, epoch_ - 1}) {
    const HelloNonce nonce = NonceOf(epoch, hello);
    std::string name(reinterpret_cast<const char*>(nonce.data()), nonce.size());
    NonceSet& used = used_[epoch % 2];
    if (used.contains(name)) continue;
    TokenUse* const use = ProveWith(nonce, hello);
    if (use == nullptr) continue;
    used.insert(std::move(name));
    return use;
  }
  return nullptr;
}

TokenUse* Authenticator::ProveWith(const HelloNonce& nonce, const HelloRequest& hello) const {
  const auto parts = ClientProofParts(nonce, hello);
  for (const std::unique_ptr<TokenUse>& use : uses_) {
    const rdma::Mac mac = rdma::HmacSha256(use->token.secret, parts);
    if (rdma::AreSameBytes(std::span(mac).first(hello.proof.size()), hello.proof)) return use.get();
  }
  return nullptr;
}

void ProveServer(const Token& token, const HelloRequest& hello, HelloReply* reply) {
  const auto parts = ServerProofParts(hello, *reply);
  reply->proof = rdma::HmacSha256(token.secret, parts);
}

}  // namespace remora
