// Actions of clients and answers to them, while their server was killed time and again; and the judge of
// them.
//
// The rules, for every server that keeps its promises. A write's level is its durability; a crash has the
// lowest level whose acknowledged writes survive it.
//   H1  A value that is read was written, by a write that had begun and was not rejected. A crash above its
//       level may take a write back before it is answered; it may be seen until then, and rejected later.
//   H2  A write is done once: it has one version, unless a crash has taken it back, which is above its level.
//   H3  No two writes have one version, and no write begins and gets a version that is not above all that
//       were told before, by anybody, whatever crashes came between.
//   H4  A reader of a key sees what was last known of it, or later. Known is: a write that was acknowledged;
//       a value that was read; and with a batch's value, those before it in the batch; that a key was
//       missing. Nothing of it is known any more once a crash above its level may have taken it back.
//   H5  All of a batch is known with its acknowledgement. So half of one is found by H4.
//   H6  A condition on a version held: no write that is known has come between.
//   H7  A counter, to which each increment adds one: no two increments made the same number. Each number is
//       above those told before. It is not below the increments that were acknowledged by then, nor above
//       those that had begun and were not rejected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "store/format/types/write_options.h"

namespace remora {

/// Places in one order of all that was begun and ended, by whichever thread.
using HistoryTime = std::uint64_t;
inline constexpr HistoryTime kNeverEnded = std::numeric_limits<HistoryTime>::max();

struct HistoryWrite {
  enum class Outcome : std::uint8_t { kDone = 1, kRejected = 2, kUnknown = 3 };
  struct Part {
    std::string key;
    bool is_delete = false;
  };

  /// In the value of each of its parts. Not 0, and no other write's.
  std::uint64_t id = 0;
  std::vector<Part> parts{};  // several: a batch
  bool is_increment = false;
  Durability level = Durability::kLogged;
  Outcome outcome = Outcome::kUnknown;
  std::uint64_t version = 0;                // kDone: of the first part; the others' follow
  std::int64_t result = 0;                  // kDone, is_increment
  std::optional<std::uint64_t> replaced{};  // the version that it was to find
  HistoryTime begun = 0;
  HistoryTime ended = kNeverEnded;  // kUnknown: it may be done at any time
};

struct HistoryRead {
  std::string key;
  bool is_counter = false;
  std::uint64_t id = 0;       // of the write; 0: it was missing
  std::uint64_t version = 0;  // with the value
  std::int64_t number = 0;    // is_counter; missing: 0
  HistoryTime begun = 0;
  HistoryTime ended = 0;
};

struct HistoryCrash {
  HistoryTime begun = 0;  // before it
  HistoryTime ended = 0;  // the server was there again
  Durability survives = Durability::kLogged;
};

/// Counters are apart from other keys, and all increments of levels that survive every crash.
struct History {
  std::vector<HistoryWrite> writes;
  std::vector<HistoryRead> reads;
  std::vector<HistoryCrash> crashes;  // in their order
};

/// Returns the breaches of the rules, in words, beginning with the rule's name. Empty: the history is a good
/// one.
std::vector<std::string> Judge(const History& history);

}  // namespace remora
