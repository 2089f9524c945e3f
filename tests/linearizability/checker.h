// Judge of linearizability. A history is linearizable if each operation can have been done at one moment
// between its beginning and its end. All answers to clients are then those of a store that does one operation
// after the other.
//
// Keys are judged one by one: a history is linearizable if each key's is (Herlihy and Wing, 1990). For a key,
// all states are kept in which the store may be, with the operations in flight that are done there. An
// operation that ends leaves those in which it is done, after others if need be (Wing and Gong, 1993, and
// Lowe, 2017, "just in time"). These rules make that linear in practice:
//   - Writes that were acknowledged have versions, and are done in the order of these.
//   - An operation that finds something and changes nothing is done in the first state that agrees with its
//     result.
//   - A write whose outcome is unknown is tried only where nothing else explains a result. Those that nobody
//     could tell from each other are tried in one order. Of two states that are the same, the one is enough
//     in which fewer of them are used up.
//
// Beyond keys:
//   - Versions: none comes twice, and none is below that of a write that had ended when it began.
//   - A batch's writes have consecutive versions; a reader that has seen one of its values sees those before
//   it in the batch.
//   - A scan is of one moment: there is a version so that it shows, of each key, the last write up to that.
//     A one-sided scan is a Get of each key, at any moment of the scan, and shows the keys in their order.
//   - A watch shows each write once, in the order of versions, and not before it is seen (watches.h).
//   - A client's writes are done in the order in which it began them, if so many can be in flight at once
//     (CheckOptions::writes_in_order). A rejected write, too, was decided at its turn. (A write of unknown
//     outcome is let come behind a rejected one. To try it before each rejection takes too long where there
//     are many.)
//   - A record with a time to live is gone by itself within what the clocks' drift leaves open.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/linearizability/operation.h"

namespace remora::linear {

struct CheckOptions {
  /// Between the server's clock and the history's.
  std::int64_t drift_ppm = 1000;
  /// Beyond that, of an expiry: clocks of milliseconds.
  std::chrono::milliseconds slack{2};
  /// Each client's writes are done in the order in which it began them, as clients of one connection promise.
  bool writes_in_order = false;
  /// States of a key that are looked at for one operation. Beyond, the key is undecided.
  std::size_t max_states = 100'000;
};

struct Verdict {
  /// Faults in words, with the shortest part of the history that shows each. Empty: none.
  std::vector<std::string> faults;
  /// Keys that would have taken too long; nothing is known of what follows there.
  std::vector<std::string> undecided;
  std::size_t checked = 0;  // operations

  bool ok() const { return faults.empty() && undecided.empty(); }
};

/// Thread safety: none needed; a pure function.
Verdict Check(const History& history, const CheckOptions& options = {});

/// All of it, as one text.
std::string Text(const Verdict& verdict);

}  // namespace remora::linear
