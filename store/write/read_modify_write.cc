#include "store/write/read_modify_write.h"

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
#include "store/format/memory/record.h"
#include "store/read/cold_read.h"

namespace remora {
namespace {

// Maximum length of a number as text: its digits, and a minus sign if it is negative.
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
    return absl::FailedPreconditionError(absl::StrCat("increment: the value, of ", value.size(),
                                                      " bytes, is not a 64-bit number in decimal digits"));
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, delta, &sum)) {
    return absl::OutOfRangeError(
        absl::StrCat("increment: the sum of ", *number, " and ", delta, " is not a 64-bit number"));
  }
  return sum;
}

absl::Status TooLarge(std::size_t size) {
  return absl::OutOfRangeError(absl::StrCat("append: the value would have ", size,
                                            " bytes; a value that grows has ", kMaxSmallValueSize,
                                            " at most"));
}

}  // namespace

template <typename Take>
absl::Status ReadModifyWrite::ReadOld(const StagedWrite& staged, const KnownRecord& old,
                                      const Take& take) const {
  if (old.read != nullptr) {
    return take(old.read->value, HashValue(old.read->value.data(), old.read->value.size()));
  }
  if (!old.place) {
    return core_.tier->Get(staged.key, [&](const DurableTier::Entry& stored) REMORA_WRITER {
      return take(stored.value, HashValue(stored.value.data(), stored.value.size()));
    });
  }
  const std::string_view value = core_.log.Value(*old.place);
  const std::uint64_t hash = HashValue(value.data(), value.size());
  // A record that was staged in this group has no checksum yet, so only live ones are checked.
  if (core_.log.IsLive(*old.place)) core_.log.CheckIntact(*old.place, staged.key_hash, hash);
  return take(value, hash);
}

absl::Status ReadModifyWrite::Apply(StagedWrite& staged, const KnownRecord& old, bool exists, TimePoint now) {
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
    // Without this check, gcc assumes a longer value and warns that the hash reads out of bounds
    // (array-bounds).
    REMORA_CHECK(value.size() <= text.size());
    append(value, HashValue(value.data(), value.size()));
    staged.write->result = number;
  } else {
    REMORA_CHECK(staged.write->kind == Write::Kind::kAppend);
    appended_.clear();
    if (exists) {
      REMORA_RETURN_IF_ERROR(ReadOld(staged, old, [&](std::string_view value, std::uint64_t) REMORA_WRITER {
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
  if (!place) return absl::AbortedError("write: no space in the log; try again");
  staged.place = *place;
  staged.value = core_.log.Value(*place);
  return absl::OkStatus();
}

}  // namespace remora
