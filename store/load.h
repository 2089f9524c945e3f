// A load: everything that the durable tier holds goes into memory, except what has expired, which leaves the
// tier. By one thread or several, before anybody reads or while the store serves.
//
// A load shows the tier's state as of its beginning, in ranges of keys. Whoever loads takes a range, and of
// its entries makes records in a segment of his own, outside of the store's lock; only to publish a batch of
// them he takes it, so writes, and whoever else loads, wait for some ten microseconds.
//
// While it serves:
//   L1 No key is missing because it was not loaded yet. Who does not find a key in memory, and began to look
//      before the load was over, has it fetched (store/fetch.cc).
//   L2 No record takes the place of a newer one, or of a deletion. What is written or fetched while the load
//      goes on, of keys that memory did not have, is noted; for such a key, the tier is asked what it is now.
//      A key that memory had was loaded, or noted, before; and each key is loaded once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "store/base/clock.h"
#include "store/durable_tier.h"
#include "store/segments.h"
#include "store/value_log.h"

namespace remora {

/// What one thread of a load is at.
struct LoadWorker {
  /// One record that is in the log, and not published yet.
  struct Laid {
    std::uint64_t key_hash = 0;
    Place place;
  };

  const DurableTier::KeyRange* range = nullptr;
  std::uint64_t taken = 0;  // of the range's entries, those that need not be shown again
  std::int64_t unix_ms = 0;

  // A segment that nobody else appends to.
  std::optional<SegmentNumber> segment;
  std::uint64_t next = 0;
  std::uint64_t end = 0;

  // The batch.
  std::vector<Laid> laid;
  std::size_t published = 0;                     // the first of these
  std::int64_t expiry_ms = Segments::kNoExpiry;  // the earliest of these
  std::vector<std::string> expired;              // keys

  // All that did not expire, for the message when it does not fit.
  std::uint64_t keys = 0;
  std::uint64_t record_bytes = 0;
};

/// What all threads of a load share.
struct LoadState {
  // Fixed before the first of them starts.
  std::vector<DurableTier::KeyRange> ranges;
  bool serves = false;  // somebody may read

  std::atomic<std::size_t> next_range = 0;
  std::atomic<bool> stop = false;    // somebody failed, or the store ends
  std::atomic<bool> fits = true;     // else what is left is only counted
  std::atomic<bool> failed = false;  // it is over, and not all was loaded: `status` says why

  // Under the store's lock.
  bool active = false;      // somebody still loads
  std::size_t working = 0;  // threads
  absl::Status status;      // of the first that failed; nobody writes it once `failed` is set
  std::uint64_t keys = 0;
  std::uint64_t record_bytes = 0;
  absl::flat_hash_set<std::uint64_t> noted;  // hashes of keys: see L2

  std::optional<LoadWorker> stepper;  // Loading::kInSteps
  std::vector<std::thread> threads;   // Loading::kInBackground
};

}  // namespace remora
