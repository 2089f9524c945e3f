// The records of a workload: keys made from numbers, and values that prove whose they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kvbench/load/digits.h"
#include "bench/kvbench/load/distribution.h"

namespace remora::bench {

/// Most records of a workload.
inline constexpr std::uint64_t kMaxRecords = std::uint64_t{1} << 40;

// --- Keys ---------------------------------------------------------------------------------------------

/// "user" and 19 digits, the longest that YCSB's names get.
inline constexpr std::size_t kKeySize = 4 + kHashDigits;

/// A bijection of 63-bit numbers, which are those that 19 digits always hold: each step can be undone modulo
/// 2^63.
inline std::uint64_t HashedNumber(std::uint64_t record) {
  constexpr std::uint64_t kMask = ~std::uint64_t{0} >> 1;
  std::uint64_t x = record * 0x9e3779b97f4a7c15 & kMask;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93 & kMask;
  return x ^ x >> 32;
}

/// How a record's number becomes its key: a prefix, and digits.
struct KeyOptions {
  std::string prefix = "user";
  /// Digits of the number itself; else (YCSB's insertorder=hashed) of a hash of it, so that records are not
  /// inserted in key order. Our hash is a bijection of 63-bit numbers: no two records share a key.
  bool ordered = false;
  /// Fewer are filled up with zeros. None: 1 if ordered, else 19, which all hashes have then.
  std::optional<std::size_t> digits{};
};

/// Makes the keys of record numbers, and finds the number of a key.
///
/// Thread safety: none.
class KeyMaker {
 public:
  /// `places`: texts that are kept at a time, one behind the other in memory.
  explicit KeyMaker(const KeyOptions& options, std::size_t places = 1);

  /// The text is good until the next call for this place.
  std::string_view Make(std::uint64_t record, std::size_t place = 0) {
    char* const text = texts_.data() + place * max_size_;
    if (!is_usual_) return MakeOther(record, text);
    WriteHashDigits(HashedNumber(record), text + prefix_.size());
    return {text, max_size_};
  }

  /// The record whose key this is; nothing: no record's.
  std::optional<std::uint64_t> RecordOf(std::string_view key);

  /// Size of the longest key.
  std::size_t max_size() const { return max_size_; }

 private:
  std::string_view MakeOther(std::uint64_t record, char* text) const;

  const std::string prefix_;
  const bool ordered_;
  const std::size_t digits_;
  const bool is_usual_;  // hashed, and all digits
  const std::size_t max_size_;
  std::string texts_;  // each begins with the prefix
};

/// The key that KeyMaker makes with its defaults, as an object: for programs that keep many.
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

/// A record's fields, which stand one after the other in its value, without anything in between.
struct Fields {
  /// How long fields are: all `length`, or `least` to `length`, each as likely, or the shorter the likelier,
  /// or multiples of `block` with the given shares.
  enum class Lengths : std::uint8_t { kConstant = 1, kUniform = 2, kZipfian = 3, kHistogram = 4 };

  std::uint64_t count = 1;
  std::size_t least = 1;
  std::size_t length = 64;
  Lengths lengths = Lengths::kConstant;
  std::size_t block = 0;
  /// How many of shares.back() fields have at most 1, 2, 3, ... blocks.
  std::vector<std::uint64_t> shares{};

  /// Size of the longest field.
  std::size_t longest() const { return lengths == Lengths::kHistogram ? block * shares.size() : length; }
  /// Size of the largest value.
  std::size_t max_value_size() const;
};

/// Places of the fields of each record. A length is drawn by the numbers of record and field alone. So a
/// record keeps its size when it is written again, and nothing has to be stored beside the fields. A value
/// has at least kMinBenchValueSize bytes, though its fields be shorter.
///
/// Thread safety: const members may be called from many threads.
class FieldLayout {
 public:
  struct Extent {
    std::size_t offset = 0;
    std::size_t size = 0;
  };

  explicit FieldLayout(const Fields& fields);

  std::size_t ValueSize(std::uint64_t record) const;
  /// REQUIRES: field < fields.count.
  Extent FieldOf(std::uint64_t record, std::uint64_t field) const;

 private:
  std::size_t Length(std::uint64_t record, std::uint64_t field) const;

  const Fields fields_;
  const Zipfian zipfian_;
};

/// Makes values. Each differs from all others, does not compress, and can be verified with the record's
/// number: the checksum covers record, write number and every byte behind it. So a value of another record,
/// or with bytes of two writes, does not verify.
///
/// Thread safety: none.
class ValueMaker {
 public:
  /// REQUIRES: kMinBenchValueSize <= fields.max_value_size().
  explicit ValueMaker(const Fields& fields);
  /// One field of constant length.
  explicit ValueMaker(std::size_t value_size) : ValueMaker(Fields{.count = 1, .length = value_size}) {}

  /// `write_number` should not be used twice. The text is good until the next call.
  std::string_view Make(std::uint64_t record, std::uint64_t write_number) {
    Make(record, write_number, &value_);
    return value_;
  }
  /// Makes the value in memory of the caller's, which is used again.
  void Make(std::uint64_t record, std::uint64_t write_number, std::string* value) const;

  /// Makes one field of a value anew, and the value's checksum. False, and nothing is done: the value has not
  /// the size of this record's.
  bool ReplaceField(std::uint64_t record, std::uint64_t field, std::uint64_t write_number,
                    std::string* value);

 private:
  void Fill(std::uint64_t write_number, char* at, std::size_t size) const;

  const FieldLayout layout_;
  const std::string noise_;
  std::string value_;
};

/// Returns true if `value` was made, in whatever size, for `record`.
bool ValueBelongsTo(std::string_view value, std::uint64_t record);

}  // namespace remora::bench
