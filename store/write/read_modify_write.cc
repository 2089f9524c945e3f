// TOUCH, INCREMENT and APPEND: records made of those that are there. A published record never changes
// (layout.h, I4), so each is a whole record, written beside the old one.
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

// A number as a value spells it: digits, and before them a minus sign when it is negative.
constexpr std::size_t kMaxDigits = std::numeric_limits<std::int64_t>::digits10 + 2;

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return number;
}

absl::StatusOr<std::int64_t> Sum(std::string_view value, std::int64_t delta) {
  const std::optional<std::int64_t> number = ParseNumber(value);
  if (!number) {
    return absl::FailedPreconditionError(
        absl::StrCat("the value, of ", value.size(), " bytes, is not a number of 64 bits in decimal digits"));
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, delta, &sum)) {
    return absl::OutOfRangeError(absl::StrCat(*number, " and ", delta, " make no number of 64 bits"));
  }
  return sum;
}

absl::Status TooLarge(std::size_t size) {
  return absl::OutOfRangeError(absl::StrCat("the value would have ", size, " bytes; what is appended to has ",
                                            kMaxSmallValueSize, " at most"));
}

}  // namespace

template <typename Take>
absl::Status Store::Impl::ReadOld(const Staged& staged, const Known& old, const Take& take) const {
  if (!old.place) {
    return core_.tier->Get(staged.key, [&](const DurableTier::Entry& stored) {
      return take(stored.value, HashValue(stored.value.data(), stored.value.size()));
    });
  }
  const std::string_view value = core_.log.Value(*old.place);
  const std::uint64_t hash = HashValue(value.data(), value.size());
  // Bytes that rotted here must not be given a checksum that fits. What was staged just now has none yet.
  REMORA_CHECK(!core_.log.IsLive(*old.place) || core_.log.Header(*old.place).checksum ==
                                                    core_.log.Checksum(*old.place, staged.key_hash, hash));
  return take(value, hash);
}

absl::Status Store::Impl::Modify(Staged& staged, const Known& old, bool exists, TimePoint now) {
  std::optional<Place> place;
  const auto append = [&](std::string_view value, std::uint64_t value_hash) {
    staged.value_hash = value_hash;
    place = core_.log.Append(ValueLog::Head::kWrites, staged.key, value, now);
  };
  if (staged.write->kind == Write::Kind::kTouch) {
    REMORA_RETURN_IF_ERROR(ReadOld(staged, old, [&](std::string_view value, std::uint64_t value_hash) {
      append(value, value_hash);
      return absl::OkStatus();
    }));
  } else if (staged.write->kind == Write::Kind::kIncrement) {
    std::int64_t number = 0;
    std::memcpy(&number, staged.value.data(), sizeof(number));
    if (exists) {
      REMORA_RETURN_IF_ERROR(ReadOld(staged, old, [&](std::string_view value, std::uint64_t) {
        const absl::StatusOr<std::int64_t> sum = Sum(value, number);
        if (sum.ok()) number = *sum;
        return sum.status();
      }));
    }
    std::array<char, kMaxDigits> text;
    const char* const end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    const std::string_view value(text.data(), static_cast<std::size_t>(end - text.data()));
    // gcc warns of what a hash reads of longer ones (array-bounds).
    REMORA_CHECK(value.size() <= text.size());
    append(value, HashValue(value.data(), value.size()));
    staged.write->result = number;
  } else {
    REMORA_CHECK(staged.write->kind == Write::Kind::kAppend);
    appended_.clear();
    if (exists) {
      REMORA_RETURN_IF_ERROR(ReadOld(staged, old, [&](std::string_view value, std::uint64_t) {
        const std::size_t size = value.size() + staged.value.size();
        if (size > kMaxSmallValueSize) return TooLarge(size);
        appended_ = value;
        return absl::OkStatus();
      }));
    } else if (staged.value.size() > kMaxSmallValueSize) {
      return TooLarge(staged.value.size());
    }
    appended_ += staged.value;
    append(appended_, HashValue(appended_.data(), appended_.size()));
    staged.write->result = static_cast<std::int64_t>(appended_.size());
  }
  if (!place) return absl::AbortedError("no room in the log");
  staged.place = *place;
  staged.value = core_.log.Value(*place);
  return absl::OkStatus();
}

}  // namespace remora
