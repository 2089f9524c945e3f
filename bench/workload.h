// What the operations of a run are: YCSB's core workloads A, B and C, and records that prove themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/distribution.h"
#include "bench/random.h"

namespace remora::bench {

enum class OperationKind : std::uint8_t { kInsert = 0, kRead = 1, kUpdate = 2 };
inline constexpr std::size_t kOperationKinds = 3;
inline constexpr const char* kOperationNames[kOperationKinds] = {"insert", "read", "update"};

/// One of YCSB's core workloads: how many of a hundred operations are reads; the others are updates.
struct Mix {
  char name = 'a';
  std::uint32_t read_percent = 50;
};

/// "a" (50), "b" (95) or "c" (100), in either case. InvalidArgument for anything else.
absl::StatusOr<Mix> ParseMix(std::string_view name);

// --- Keys ---------------------------------------------------------------------------------------------

/// Most records of a workload, so that a step takes 4 bytes.
inline constexpr std::uint64_t kMaxRecords = std::uint64_t{1} << 31;

/// "user" and 19 digits, the longest that YCSB's names get.
inline constexpr std::size_t kKeySize = 23;

/// The key of a record. As with YCSB's default (insertorder=hashed) the digits are a hash of the record's
/// number, so that records are not inserted in key order; ours is a bijection: no two records share a key.
class KeyText {
 public:
  explicit KeyText(std::uint64_t record);
  std::string_view view() const { return {text_.data(), text_.size()}; }

 private:
  std::array<char, kKeySize> text_;
};

// --- Values -------------------------------------------------------------------------------------------

/// A value starts with 8 bytes of write number and 8 bytes of checksum.
inline constexpr std::size_t kMinBenchValueSize = 16;

/// Makes values of one size. Each differs from all others, does not compress, and can be checked by anybody
/// who knows the record's number: the checksum covers record, write number and every byte behind it. So it
/// tells a value of another record, and one whose bytes come from two writes.
class ValueMaker {
 public:
  /// REQUIRES: kMinBenchValueSize <= value_size.
  explicit ValueMaker(std::size_t value_size);

  /// `write_number` should not be used twice. The text is good until the next call.
  std::string_view Make(std::uint64_t record, std::uint64_t write_number);

 private:
  const std::string noise_;
  std::string value_;
};

/// Whether `value` was made, in whatever size, for `record`.
bool ValueBelongsTo(std::string_view value, std::uint64_t record);

// --- Steps --------------------------------------------------------------------------------------------

/// One operation of a run.
struct Step {
  OperationKind kind = OperationKind::kRead;
  std::uint32_t record = 0;
};

/// The operations of one thread, drawn before the clock starts: drawing one costs some tens of nanoseconds
/// (two calls of pow), which would show beside an operation that takes a hundred. A run that is longer than
/// what was drawn begins again with the first.
class Steps {
 public:
  /// Most that are drawn: 16 MiB.
  static constexpr std::size_t kMaxDrawn = std::size_t{1} << 22;

  /// REQUIRES: count >= 1.
  Steps(const Mix& mix, const RecordChooser& chooser, std::uint64_t count, Random random);

  Step Next() {
    const std::uint32_t drawn = drawn_[next_];
    if (++next_ == drawn_.size()) next_ = 0;
    return {(drawn & 1) != 0 ? OperationKind::kRead : OperationKind::kUpdate, drawn >> 1};
  }

 private:
  std::vector<std::uint32_t> drawn_;  // record << 1 | is a read
  std::size_t next_ = 0;
};

}  // namespace remora::bench
