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
  /// and Session::BeginCall was OK.
  absl::Status Get(std::span<const std::string_view> keys, std::span<GetResult> results);

 private:
  /// One key of the rounds.
  struct KeyGet {
    Lookup lookup;
    GetResult* result = nullptr;
    std::span<std::byte> bytes;  // buffer of this round's READ
    bool is_taken = false;       // the result has the value

    /// Returns whether the key takes part in the next round. A key whose record is read in chunks does not.
    bool is_reading() const { return lookup.step() == Lookup::Step::kRead && !lookup.is_all_chunks(); }
    void Take();
    void TakeValue();
  };

  absl::Status GetSome(std::span<const std::string_view> keys, std::span<GetResult> results);
  /// Gets the keys whose bits in `left` are set; the lowest bit is the first key.
  absl::Status GetInRounds(std::span<const std::string_view> keys, std::span<GetResult> results,
                           std::uint32_t left);
  /// Makes one round: one READ for each key that takes part. Returns false if no key does.
  absl::StatusOr<bool> DoRound(std::span<KeyGet> gets);

  Session& session_;
  GenerationRead generation_read_;
  std::vector<KeyGet> gets_;  // empty, or SessionBuffers::kMaxBatch elements
};

}  // namespace remora
