// Authenticator of clients that have proven an auth token: the server's part of the handshake in
// store/format/wire/messages.h.
//
//   A1 A nonce is the server's own MAC over the client ID and challenge, and over the epoch. The
//      server stores nothing for a client that only asks, so a flood of strangers fills no table.
//   A2 An epoch lasts kEpoch at most, and a proof holds in the epoch of its nonce and in the next
//      one.
//   A3 The server remembers the nonces that were used in these two: each admits one client, once.
//      Only clients with a token can use nonces; and when kMaxUsed were used, the next epoch begins
//      at once.
//
// Hence a recorded hello admits nobody. Its nonce was used (A3), or is too old (A2), or is of
// another start of the server, which takes a secret of its own. A client needs a nonce that it has
// not seen before, and the token.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/connection/auth_tokens.h"
#include "store/base/clock.h"
#include "store/format/wire/messages.h"

namespace remora {

/// A token, and the resources that its clients take together.
struct TokenUse {
  Token token;
  std::uint32_t connections = 0;
  TimePoint next_request{};  // of a token with max_requests_per_second: no earlier, but for a burst

  bool is_full() const { return token.max_connections != 0 && connections >= token.max_connections; }
  bool has_rate() const { return token.max_requests_per_second != 0; }
  /// Time for which unused rate is kept.
  static constexpr std::chrono::milliseconds kBurst{100};
  /// Counts a request as `count` requests. Returns false if the rate is used up, until MayTakeAt.
  ///
  /// REQUIRES: has_rate().
  bool TakeRequest(TimePoint now, unsigned count) {
    if (now < MayTakeAt()) return false;
    next_request = std::max(next_request, now) +
                   count * Duration(std::chrono::seconds(1)) / token.max_requests_per_second;
    return true;
  }
  TimePoint MayTakeAt() const { return next_request - kBurst; }
};

/// Checks the proofs of clients that have an auth token.
///
/// Thread safety: none; the server's one thread.
class Authenticator {
 public:
  static constexpr std::chrono::seconds kEpoch{10};
  static constexpr std::size_t kMaxUsed = 65536;

  /// The clock outlives this.
  Authenticator(std::vector<Token> tokens, const Clock& clock);
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  /// Replaces the tokens. The TokenUse of a token that stays keeps its address. For each other TokenUse,
  /// calls `removed` before it is destroyed.
  void Replace(std::vector<Token> tokens, const std::function<void(TokenUse&)>& removed);

  /// Returns the nonce with which this hello is to be proven.
  HelloNonce NonceFor(const HelloRequest& hello);
  /// Returns the use of the token that the hello proves. Null: it proves none. Each nonce proves once.
  TokenUse* Prove(const HelloRequest& hello);

  std::size_t size() const { return uses_.size(); }

 private:
  using NonceSet = absl::flat_hash_set<std::string>;

  void TurnEpoch();
  HelloNonce NonceOf(std::uint64_t epoch, const HelloRequest& hello) const;
  TokenUse* ProveWith(const HelloNonce& nonce, const HelloRequest& hello) const;

  const Clock& clock_;
  std::string secret_;
  std::vector<std::unique_ptr<TokenUse>> uses_;
  std::uint64_t epoch_ = 1;
  TimePoint epoch_began_;
  std::array<NonceSet, 2> used_;  // of an epoch: by its last bit
};

/// Computes HelloReply::proof.
void ProveServer(const Token& token, const HelloRequest& hello, HelloReply* reply);

}  // namespace remora
