// size: the memory that a server needs for a number of records.
#include <sysexits.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"
#include "store/format/memory/layout.h"
#include "store/memory_plan.h"
#include "store/region/value_log.h"
#include "tools/command_line/say.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Memory beside the region for each client, and for all addresses together, at most. Rounded up from
// server/memory/memory_budget.h; tests/endtoend/size_test.py starts a server with them.
constexpr std::uint64_t kClientBytes = 400 << 10;
constexpr std::uint64_t kAddressBytes = 4 * kMiB;

std::uint64_t ToMiB(std::uint64_t bytes) { return (bytes + kMiB - 1) / kMiB; }

/// Returns the bytes that one record takes of the memory: for a small one, its share of a segment, the end of
/// which is too short for another one.
std::uint64_t BytesOfRecord(std::size_t key_size, std::size_t value_size) {
  const std::uint64_t bytes = LogBytes(key_size, value_size);
  return LargeBytes(key_size, value_size) > 0 ? bytes : kSegmentSize / (kSegmentSize / bytes);
}

/// Returns the largest size of a value whose record takes as much memory as one of `value_size`.
std::size_t LargestOfSameMemory(std::size_t key_size, std::size_t value_size) {
  const std::uint64_t bytes = BytesOfRecord(key_size, value_size);
  std::size_t largest = value_size;
  std::size_t beyond = kMaxValueSize + 1;
  while (beyond - largest > 1) {
    const std::size_t middle = largest + (beyond - largest) / 2;
    (BytesOfRecord(key_size, middle) == bytes ? largest : beyond) = middle;
  }
  return largest;
}

/// Returns the most bytes that the ordered index of so many random keys takes, beside the records. A leaf is
/// three quarters full (store/ordered/ordered_keys.h).
std::uint64_t BytesOfOrder(std::uint64_t records, std::size_t key_size) {
  constexpr std::size_t kEntryHeader = 2;
  return records * (key_size + kEntryHeader) / 3 * 4;
}

/// Says which larger value takes the same memory, where a record takes more than 1.5 times its bytes. On
/// standard error: programs read the figures.
void SayLargerValue(std::size_t key_size, std::size_t value_size) {
  if (2 * BytesOfRecord(key_size, value_size) <= 3 * (key_size + value_size)) return;
  const std::size_t largest = LargestOfSameMemory(key_size, value_size);
  if (largest == value_size) return;
  command_line::SayError(absl::StrFormat("kvctl: size: a value of %d bytes takes the same", largest));
}

}  // namespace

Outcome Size(const Arguments& arguments) {
  const std::uint64_t records = arguments.records;
  const std::uint64_t record_bytes = BytesOfRecord(arguments.key_size, arguments.value_size);
  const Outcome beyond = {
      EX_USAGE,
      absl::StrFormat("%d records of %d bytes of memory each are too many; a server has up to %d bytes",
                      records, record_bytes, kMaxMemorySize)};
  if (records > kMaxMemorySize / record_bytes) return beyond;
  const std::uint64_t least = MemoryNeeded(records, records * record_bytes);
  // While records are replaced, up to a quarter of the region is retired or free (docs/internals/memory.md).
  const std::uint64_t region = std::max<std::uint64_t>(least / 3 * 4, least + 8 * kSegmentSize);
  if (region > kMaxMemorySize) return beyond;
  const std::uint64_t clients = arguments.clients * kClientBytes + kAddressBytes;
  SayLargerValue(arguments.key_size, arguments.value_size);
  return WriteOutput(absl::StrFormat(
      "record_bytes %d\nindex_bytes %d\nlog_bytes %d\nclient_bytes %d\nordered_index_bytes %d\n"
      "least_memory %dM\nmemory %dM\nkvserver --memory=%dM --max_clients=%d\n",
      record_bytes, IndexBytesNeeded(records), records * record_bytes, clients,
      BytesOfOrder(records, arguments.key_size), ToMiB(least + clients), ToMiB(region + clients),
      ToMiB(region + clients), arguments.clients));
}

}  // namespace remora::kvctl
