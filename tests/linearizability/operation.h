// A history: requests of clients to a store, the answers, and their times.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "store/format/types/write_options.h"

namespace remora::linear {

/// Nanoseconds of one clock for all clients. Where two events have the same, they are taken to overlap.
using Time = std::int64_t;
inline constexpr Time kNever = std::numeric_limits<Time>::max();

enum class Kind : std::uint8_t { kGet = 1, kExists, kPut, kDelete, kTouch, kIncrement, kAppend };

enum class Outcome : std::uint8_t {
  kOk = 1,
  kNotFound,
  kAlreadyExists,
  kFailedPrecondition,
  kUnknown,  // no answer came: it was done once, at any time after it began, or never
};

/// One operation of one key. A MultiGet is a Get of each key; a MultiPut, a batch, a write of each.
struct Operation {
  std::uint32_t client = 0;
  Kind kind = Kind::kGet;
  Outcome outcome = Outcome::kUnknown;
  std::string key{};
  /// kPut: stored. kAppend: put behind. kGet: found. Values of different writes of a key differ, but for
  /// numbers, and keys that are appended to.
  std::string value{};
  Condition condition{};
  std::optional<std::chrono::milliseconds> ttl{};  // as PutOptions; kTouch: of Persist, kNeverExpires
  std::int64_t delta = 0;                          // kIncrement
  /// kOk: kIncrement: the number; kAppend: the size; kExists: 1 or 0.
  std::int64_t result = 0;
  /// kOk: of a write, its own; of a Get, that of the write whose value it found.
  std::uint64_t version = 0;
  std::uint64_t batch = 0;        // of all writes of a batch the same; 0: none
  std::uint64_t batch_place = 0;  // from 0 on
  Time begun = 0;
  Time ended = kNever;
  /// For a scan that did not show the key: its value may have expired by then, and was left out. 0: no scan.
  Time looked_until = 0;
};

/// Returns true if it changes the stored data, or may.
inline bool IsEffect(const Operation& operation) {
  const bool is_write = operation.kind != Kind::kGet && operation.kind != Kind::kExists;
  return is_write && (operation.outcome == Outcome::kOk || operation.outcome == Outcome::kUnknown);
}

/// Result of a scan of one moment, all of it; or of a one-sided one, which shows each key as of a moment of
/// its own.
struct ScanResult {
  struct Entry {
    std::string key;
    std::string value;
    std::uint64_t version = 0;
    Time shown = 0;  // one-sided
  };
  std::uint32_t client = 0;
  std::vector<Entry> entries;
  Time begun = 0;
  Time opened = 0;  // the call that says which moment has returned
  Time ended = 0;   // all was shown
  bool is_one_sided = false;
  bool is_reverse = false;  // one-sided
  bool is_whole = true;     // else it ended with an error: it says nothing of keys that it did not show
};

/// Result of a watch of all keys, from when it began until it was told to begin anew, over all tokens in
/// between.
struct WatchResult {
  struct Change {
    std::uint64_t sequence = 0;
    std::string key{};
    std::string value{};        // as of Operation, of a put of its kind
    std::uint64_t version = 0;  // 0: the key is gone
    Time shown = 0;
  };
  std::uint32_t client = 0;
  std::vector<Change> changes;
  Time opened = 0;     // the call that began it has returned
  Time caught_up = 0;  // the last call began that found nothing, and had shown all there was; 0: none did
};

struct History {
  std::vector<Operation> operations;
  std::vector<ScanResult> scans;     // of all keys
  std::vector<WatchResult> watches;  // where no write has the level memory
};

/// One line, without its end: for people.
std::string Text(const Operation& operation);

}  // namespace remora::linear
