// The GETs of many keys in one call.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/get/lookup.h"
#include "client/session/session.h"
#include "store/base/results.h"

namespace remora {

/// Reader of many keys side by side. It makes its lookups for the first key that the fast path does not
/// answer, and reuses them.
///
/// Thread safety: none. Ownership: the session outlives it.
class MultiGets {
 public:
  explicit MultiGets(Session& session) : session_(session) {}

  /// Implements Client::MultiGet. Gets each key whose result has the status OK. Not OK: the connection broke,
  /// and each result that was incomplete has that status. REQUIRES: `keys` and `results` have equal sizes,
  /// and Session::BeginCall was OK. `expiries` gets when each record expires (0: never), unless it is empty.
  absl::Status Get(std::span<const std::string_view> keys, std::span<GetResult> results,
                   std::span<std::uint64_t> expiries = {});

 private:
  /// One key of the rounds.
  struct KeyGet {
    Lookup lookup;
    GetResult* result = nullptr;
    std::uint64_t* expiry_ms = nullptr;  // null: the caller does not ask
    std::span<std::byte> bytes;          // buffer of this round's READ
    std::span<std::byte> record;         // buffer for the record that came with a bucket
    rdma::FoundRecord found;             // that record; its size is 0 if none came in this round
    bool is_taken = false;               // the result has the value

    /// Returns whether the key takes part in the next round. A key whose record is read in chunks does not.
    bool is_reading() const { return lookup.step() == Lookup::Step::kRead && !lookup.is_all_chunks(); }
    /// Takes what this round's READ has brought. `takes_found`: with the record that came with a bucket.
    void Take(bool takes_found);
    void TakeValue();
  };

  absl::Status GetSome(std::span<const std::string_view> keys, std::span<GetResult> results,
                       std::span<std::uint64_t> expiries);
  /// Gets the keys whose bits in `left` are set; the lowest bit is the first key.
  absl::Status GetInRounds(std::span<const std::string_view> keys, std::span<GetResult> results,
                           std::span<std::uint64_t> expiries, std::uint32_t left);
  absl::Status Post(KeyGet& get, std::span<std::byte>* records);
  /// Makes one round: one READ for each key that takes part. Returns false if no key does.
  absl::StatusOr<bool> DoRound(std::span<KeyGet> gets);
  /// Makes rounds until no key takes part.
  absl::Status DoRounds(std::span<KeyGet> gets);

  /// Asks the server for all keys that need it. As many requests are in flight at once as there are credits.
  absl::Status AskServer(std::span<KeyGet> gets);

  Session& session_;
  GenerationRead generation_read_;
  std::vector<KeyGet> gets_;  // empty, or SessionBuffers::kMaxBatch elements
};

}  // namespace remora
