#include "bench/kvbench/load/records.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "bench/kvbench/load/random.h"
#include "store/format/memory/record.h"

namespace remora::bench {
namespace {

// Of odd numbers, modulo 2^64: each step of Newton's doubles the bits that are right, of which there are 3.
constexpr std::uint64_t InverseOf(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

// The other way round than HashedNumber.
std::uint64_t UnhashedNumber(std::uint64_t hashed) {
  constexpr std::uint64_t kMask = ~std::uint64_t{0} >> 1;
  std::uint64_t x = (hashed ^ hashed >> 32) * InverseOf(0xd6e8feb86659fd93) & kMask;
  x = (x ^ x >> 32) * InverseOf(0x9e3779b97f4a7c15) & kMask;
  return x;
}

// Writes prefix and digits, so that they end at `end`. Returns where they begin.
char* WriteKey(std::string_view prefix, std::uint64_t number, std::size_t digits, char* end) {
  const absl::AlphaNum text(number);
  char* at = end - std::max(text.size(), digits);
  std::fill(at, end - text.size(), '0');
  std::memcpy(end - text.size(), text.data(), text.size());
  at -= prefix.size();
  std::memcpy(at, prefix.data(), prefix.size());
  return at;
}

// Values take their filler from some place of a longer stretch of noise; so far apart are those places.
constexpr std::size_t kNoisePlaces = 4096;

std::string MakeNoise(std::size_t size) {
  std::string noise(size, '\0');
  Random random(0);
  for (char& c : noise) c = static_cast<char>(random.Next());
  return noise;
}

struct ValueHeader {
  std::uint64_t write_number;
  std::uint64_t checksum;
};
static_assert(sizeof(ValueHeader) == kMinBenchValueSize);

std::uint64_t Checksum(std::uint64_t record, std::uint64_t write_number, std::string_view filler) {
  return Mix64(Mix64(Mix64(record) ^ write_number) ^ HashValue(filler.data(), filler.size()));
}

void WriteHeader(std::uint64_t record, std::uint64_t write_number, std::string* value) {
  const std::string_view filler = std::string_view(*value).substr(sizeof(ValueHeader));
  const ValueHeader header{write_number, Checksum(record, write_number, filler)};
  std::memcpy(value->data(), &header, sizeof(header));
}

}  // namespace

KeyMaker::KeyMaker(const KeyOptions& options, std::size_t places)
    : prefix_(options.prefix),
      ordered_(options.ordered),
      digits_(options.digits.value_or(options.ordered ? 1 : kHashDigits)),
      is_usual_(!ordered_ && digits_ == kHashDigits),
      max_size_(prefix_.size() + std::max(digits_, kHashDigits)),
      texts_(places * max_size_, '\0') {
  for (std::size_t place = 0; place < places; ++place) {
    std::memcpy(texts_.data() + place * max_size_, prefix_.data(), prefix_.size());
  }
}

std::string_view KeyMaker::MakeOther(std::uint64_t record, char* text) const {
  char* const end = text + max_size_;
  const char* const begin = WriteKey(prefix_, ordered_ ? record : HashedNumber(record), digits_, end);
  return {begin, static_cast<std::size_t>(end - begin)};
}

std::optional<std::uint64_t> KeyMaker::RecordOf(std::string_view key) {
  if (!key.starts_with(prefix_)) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data() + prefix_.size(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  const std::uint64_t record = ordered_ ? number : UnhashedNumber(number);
  // Of several ways to write a number, a key is one.
  return Make(record) == key ? std::optional(record) : std::nullopt;
}

KeyText::KeyText(std::uint64_t record) {
  constexpr std::string_view kPrefix = "user";
  std::memcpy(text_.data(), kPrefix.data(), kPrefix.size());
  WriteHashDigits(HashedNumber(record), text_.data() + kPrefix.size());
}

std::size_t Fields::max_value_size() const { return std::max(count * longest(), kMinBenchValueSize); }

FieldLayout::FieldLayout(const Fields& fields)
    : fields_(fields), zipfian_(std::max<std::uint64_t>(fields.length - fields.least + 1, 3)) {}

std::size_t FieldLayout::Length(std::uint64_t record, std::uint64_t field) const {
  Random random(Mix64(record) + field);
  if (fields_.lengths == Fields::Lengths::kConstant) return fields_.length;
  if (fields_.lengths == Fields::Lengths::kHistogram) {
    const std::vector<std::uint64_t>& shares = fields_.shares;
    const auto found = std::ranges::upper_bound(shares, random.NextBelow(shares.back()));
    return fields_.block * static_cast<std::size_t>(found - shares.begin() + 1);
  }
  const std::size_t lengths = fields_.length - fields_.least + 1;
  if (fields_.lengths == Fields::Lengths::kUniform) return fields_.least + random.NextBelow(lengths);
  for (;;) {
    // More ranks than lengths only when there are one or two.
    if (const std::size_t rank = zipfian_.Next(random); rank < lengths) return fields_.least + rank;
  }
}

FieldLayout::Extent FieldLayout::FieldOf(std::uint64_t record, std::uint64_t field) const {
  if (fields_.lengths == Fields::Lengths::kConstant) return {field * fields_.length, fields_.length};
  Extent extent{0, Length(record, 0)};
  for (std::uint64_t i = 1; i <= field; ++i) extent = {extent.offset + extent.size, Length(record, i)};
  return extent;
}

std::size_t FieldLayout::ValueSize(std::uint64_t record) const {
  const Extent last = FieldOf(record, fields_.count - 1);
  return std::max(last.offset + last.size, kMinBenchValueSize);
}

ValueMaker::ValueMaker(const Fields& fields)
    : layout_(fields), noise_(MakeNoise(fields.max_value_size() + kNoisePlaces)) {
  value_.reserve(fields.max_value_size());
}

void ValueMaker::Fill(std::uint64_t write_number, char* at, std::size_t size) const {
  std::memcpy(at, noise_.data() + Mix64(write_number) % kNoisePlaces, size);
}

void ValueMaker::Make(std::uint64_t record, std::uint64_t write_number, std::string* value) const {
  value->resize(layout_.ValueSize(record));
  Fill(write_number, value->data() + sizeof(ValueHeader), value->size() - sizeof(ValueHeader));
  WriteHeader(record, write_number, value);
}

bool ValueMaker::ReplaceField(std::uint64_t record, std::uint64_t field, std::uint64_t write_number,
                              std::string* value) {
  if (value->size() != layout_.ValueSize(record)) return false;
  const FieldLayout::Extent extent = layout_.FieldOf(record, field);
  Fill(write_number, value->data() + extent.offset, extent.size);
  WriteHeader(record, write_number, value);
  return true;
}

bool ValueBelongsTo(std::string_view value, std::uint64_t record) {
  ValueHeader header;
  if (value.size() < sizeof(header)) return false;
  std::memcpy(&header, value.data(), sizeof(header));
  return header.checksum == Checksum(record, header.write_number, value.substr(sizeof(header)));
}

}  // namespace remora::bench
