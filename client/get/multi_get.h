// The GET path for many keys.
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

/// The GETs of many keys, side by side. Its lookups are made once, with the first that the fast path does not
/// answer, and used again.
///
/// Thread safety: none. Ownership: the session outlives it.
class MultiGets {
 public:
  explicit MultiGets(Session& session) : session_(session) {}

  /// See Client::MultiGet. REQUIRES: as many keys as results, and Session::BeginCall was OK. Not OK: the
  /// connection broke; then so says the status of each result that was not there yet.
  absl::Status Get(std::span<const std::string_view> keys, std::span<GetResult> results);

 private:
  /// One key of the rounds.
  struct KeyGet {
    Lookup lookup;
    GetResult* result = nullptr;
    std::span<std::byte> bytes;  // of the READ of this round
    bool is_taken = false;       // the result has the value

    /// Whether it takes part in the next round. A record in chunks does not.
    bool is_reading() const { return lookup.step() == Lookup::Step::kRead && !lookup.is_all_chunks(); }
    void Take();
    void TakeValue();
  };

  absl::Status GetSome(std::span<const std::string_view> keys, std::span<GetResult> results);
  /// Gets those that are left: one bit for each, the first the lowest.
  absl::Status GetInRounds(std::span<const std::string_view> keys, std::span<GetResult> results,
                           std::uint32_t left);
  /// One READ of each key that takes part. False: none does.
  absl::StatusOr<bool> DoRound(std::span<KeyGet> gets);

  Session& session_;
  GenerationRead generation_read_;
  std::vector<KeyGet> gets_;  // none, or SessionBuffers::kMaxBatch
};

}  // namespace remora
