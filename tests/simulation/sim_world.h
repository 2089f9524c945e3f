// A server, its clients, and all that can go wrong between them, in one thread, under a seed. The real server
// and the real clients are on the simulated network, each with a clock of its own that drifts. Clients are
// fibers: between any two pieces of a READ, and wherever one waits, any of the others may go on, the server
// may step, or something break. The checker judges the history of the answers to clients.
//
// The same seed does the same: no real clock is looked at. No thread takes part but those with which RocksDB
// flushes and compacts, which change nothing that is seen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/linearizability/checker.h"
#include "tests/linearizability/operation.h"

namespace remora {

struct SimWorldOptions {
  std::uint64_t seed = 1;
  std::uint64_t operations = 20'000;  // and those in flight then
  bool mirrors = false;               // all clients mirror the index; else the seed decides
  bool one_sided = false;             // the server has an ordered index, and scans are one-sided
};

struct SimCounts {
  std::uint64_t worlds = 0;
  std::uint64_t operations = 0;
  std::uint64_t unknown = 0;  // of them, writes of a key without an answer
  std::uint64_t judged = 0;   // operations of single keys, by the checker
  std::uint64_t scans = 0;    // of one moment
  std::uint64_t one_sided_scans = 0;
  std::uint64_t watches = 0;         // that began anew
  std::uint64_t shown = 0;           // changes, by those
  std::uint64_t server_crashes = 0;  // and starts on the data that there was
  std::uint64_t client_crashes = 0;  // in the middle of an operation, mostly
  std::uint64_t drops = 0;           // connections cut
  std::uint64_t freezes = 0;         // of clients
  std::uint64_t long_freezes = 0;    // for longer than the grace period
  std::uint64_t stalls = 0;          // of the server
  std::uint64_t cleaned = 0;         // segments
  std::uint64_t evictions = 0;
  std::uint64_t fetches = 0;
  std::uint64_t expired = 0;   // records that were removed
  std::uint64_t outcomes = 0;  // that clients asked for, and were told
  std::uint64_t pieces = 0;    // of READs
  std::uint64_t virtual_ms = 0;

  SimCounts& operator+=(const SimCounts& other);
};
std::string Text(const SimCounts& counts);

struct SimResult {
  SimCounts counts;
  linear::Verdict verdict;
  /// Answers that no store may give, whatever the order.
  std::vector<std::string> complaints;
  /// Digest of the whole history. Two runs of one seed have the same.
  std::uint64_t digest = 0;
  std::string settings;  // chosen by the seed

  bool ok() const { return verdict.ok() && complaints.empty(); }
};

SimResult RunWorld(const SimWorldOptions& options);

}  // namespace remora
