#include "bench/workload.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/format/record.h"

namespace remora::bench {
namespace {

// A bijection of 63-bit numbers, which are those that 19 digits always hold: each step can be undone modulo
// 2^63.
std::uint64_t HashedNumber(std::uint64_t record) {
  constexpr std::uint64_t kMask = ~std::uint64_t{0} >> 1;
  std::uint64_t x = record * 0x9e3779b97f4a7c15 & kMask;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93 & kMask;
  return x ^ x >> 32;
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

}  // namespace

absl::StatusOr<Mix> ParseMix(std::string_view name) {
  if (name == "a" || name == "A") return Mix{'a', 50};
  if (name == "b" || name == "B") return Mix{'b', 95};
  if (name == "c" || name == "C") return Mix{'c', 100};
  return absl::InvalidArgumentError(
      absl::StrCat("no workload is called '", AbslView(name), "'; there are a, b and c"));
}

KeyText::KeyText(std::uint64_t record) {
  std::memcpy(text_.data(), "user", 4);
  std::uint64_t number = HashedNumber(record);
  for (std::size_t place = kKeySize; place > 4; number /= 10) {
    text_[--place] = static_cast<char>('0' + number % 10);
  }
}

ValueMaker::ValueMaker(std::size_t value_size)
    : noise_(MakeNoise(value_size + kNoisePlaces)), value_(value_size, '\0') {}

std::string_view ValueMaker::Make(std::uint64_t record, std::uint64_t write_number) {
  const std::size_t filler_size = value_.size() - sizeof(ValueHeader);
  char* const filler = value_.data() + sizeof(ValueHeader);
  std::memcpy(filler, noise_.data() + Mix64(write_number) % kNoisePlaces, filler_size);
  const ValueHeader header{write_number, Checksum(record, write_number, {filler, filler_size})};
  std::memcpy(value_.data(), &header, sizeof(header));
  return value_;
}

bool ValueBelongsTo(std::string_view value, std::uint64_t record) {
  ValueHeader header;
  if (value.size() < sizeof(header)) return false;
  std::memcpy(&header, value.data(), sizeof(header));
  return header.checksum == Checksum(record, header.write_number, value.substr(sizeof(header)));
}

Steps::Steps(const Mix& mix, const RecordChooser& chooser, std::uint64_t count, Random random)
    : drawn_(std::min<std::uint64_t>(count, kMaxDrawn)) {
  for (std::uint32_t& step : drawn_) {
    const bool is_read = random.NextBelow(100) < mix.read_percent;
    step = static_cast<std::uint32_t>(chooser.Next(random)) << 1 | static_cast<std::uint32_t>(is_read);
  }
}

}  // namespace remora::bench
