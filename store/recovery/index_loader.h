// A load: everything that the durable tier holds comes to the index, except what has expired, which leaves
// the tier. By one thread or several, before anybody reads or while the store serves. Records come to memory,
// too, as long as there is room; where records may be evicted, the others' keys are cold from the start.
//
// A load shows the tier's state as of its beginning, in ranges of keys. Whoever loads takes a range, and of
// its entries makes records in a segment of his own, outside of the store's lock; only to publish a batch of
// them he takes it, so writes, and whoever else loads, wait for some ten microseconds; a hundred, where so
// many want it that the batch has grown.
//
// While it serves, all hangs on which keys the index knows (store/index/load_coverage.h): those that the load
// has passed, and those that were written, deleted or fetched before it got there, which are noted.
//   L1 The index has an entry of a key that it knows exactly when the key exists (what has expired may be on
//      its way out). So no key is missing because it was not loaded yet: who does not find a key, and began
//      to look before the load was over, asks the tier if the index does not know it (store/read/promote.cc).
//   L2 The index has no entry of a key that it does not know, and the tier has that key as it was when the
//   load
//      began. So a cold entry, which says only a hash, is not such a key's; and what the load brings of it is
//      current.
// Both hold at the beginning: it knows none, and is empty. Then, each step under the lock:
//   A key that the load comes to and that is not noted is entered, as it is in the tier by L2: hot, or cold.
//   Not cold if there is a cold entry of its hash: that is another key's by L2, and with two of them neither
//   a reader nor a split could tell one from the other, so it is fetched. If it has expired, it leaves the
//   tier. A key that the load comes to and that is noted is left alone, whatever became of it: the index
//   knows it. A key that is written is in the tier before it is published; as it is published, it is noted.
//   A key that is deleted, or was fetched, likewise. What happens to it afterwards (it is moved, evicted,
//   overwritten, fetched again, removed because it has expired) happens to a key that the index knows, as
//   when nothing is loaded; and it stays known, because only the load itself drops it from those noted, as it
//   passes it.
//   Who finds that a key has expired that the index does not know leaves it to the load.
// Should a load fail, it stays like this for ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "store/base/clock.h"
#include "store/durable/tier.h"
#include "store/region/segments.h"
#include "store/region/value_log.h"

namespace remora {

/// What one thread of a load is at.
struct LoadWorker {
  /// What is to be published of one key.
  struct Item {
    enum class Kind : std::uint8_t {
      kRecord = 1,   // it is in the log
      kCold = 2,     // the key is entered alone
      kExpired = 3,  // it leaves the tier
    };
    std::uint64_t key_hash = 0;
    Place place;  // kRecord
    // The key, in `keys`. kRecord: it is in the log.
    std::uint32_t key_begin = 0;
    std::uint16_t key_size = 0;
    Kind kind = Kind::kRecord;
  };

  std::optional<std::size_t> range;
  std::string next_key;      // of the range, the first one that is to be shown
  bool shown_all = false;    // of the range
  std::int64_t unix_ms = 0;  // when it began with what it is at

  // A segment that nobody else appends to.
  std::optional<SegmentNumber> segment;
  std::uint64_t next = 0;
  std::uint64_t end = 0;

  // The batch, in the order of keys.
  std::vector<Item> batch;
  std::string keys;
  std::size_t published = 0;                          // the first of these
  std::int64_t expiry_ms = Segments::kNoExpiry;       // the earliest of its records
  std::int64_t cold_expiry_ms = Segments::kNoExpiry;  // the same of those whose keys are cold

  // All that did not expire, for the message when it does not fit.
  std::uint64_t key_count = 0;
  std::uint64_t record_bytes = 0;
};

/// What all threads of a load share.
struct LoadState {
  // Fixed before the first of them starts.
  std::vector<DurableTier::KeyRange> ranges;
  bool serves = false;               // somebody may read
  std::uint64_t index_segments = 0;  // that the index will have, about
  TimePoint began;

  std::atomic<std::size_t> next_range = 0;
  std::atomic<bool> stop = false;    // somebody failed, or the store ends
  std::atomic<bool> cold = false;    // no more segments are taken for records
  std::atomic<bool> fits = true;     // else what is left is only counted
  std::atomic<bool> failed = false;  // it is over, and not all was loaded: `status` says why

  // Under the store's lock.
  std::size_t working = 0;  // threads
  absl::Status status;      // of the first that failed; nobody writes it once `failed` is set
  std::uint64_t key_count = 0;
  std::uint64_t record_bytes = 0;
  Duration took = Duration::zero();  // set before loading() is false; nobody writes it then

  std::optional<LoadWorker> stepper;  // Loading::kInSteps
  std::vector<std::thread> threads;   // Loading::kInBackground
};

}  // namespace remora
