// The digits of large numbers, for keys that are made while a clock runs. Many take longer to make than to
// look up if each digit is divided off by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace remora::bench {

/// Those that a number of 63 bits has at most.
inline constexpr std::size_t kHashDigits = 19;

/// The digits of each number below 1000. Four bytes each, so that one move takes them.
inline constexpr auto kThreeDigits = [] {
  std::array<std::array<char, 4>, 1000> digits{};
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t parts[] = {i / 100, i / 10 % 10, i % 10};
    for (std::size_t j = 0; j < 3; ++j) digits[i][j] = static_cast<char>('0' + parts[j]);
  }
  return digits;
}();

/// All of a number below 10^9. One byte behind them is overwritten too, unless they are the `last`.
inline void WriteNineDigits(std::uint64_t number, char* at, bool last) {
  // A fraction of 1, of which each multiplication by 1000 brings the next three digits before the point. It
  // is too large by less than 10^9 / 2^64, which does not reach the last of them: times 10^9, it is 0.06.
  std::uint64_t fraction = number * (~std::uint64_t{0} / 1'000'000'000 + 1);
  __extension__ using Wide = unsigned __int128;
  for (int i = 0; i < 3; ++i) {
    const Wide product = Wide{fraction} * 1000;
    std::memcpy(at + 3 * i, &kThreeDigits[static_cast<std::uint64_t>(product >> 64)], last && i == 2 ? 3 : 4);
    fraction = static_cast<std::uint64_t>(product);
  }
}

/// kHashDigits of a number below 2^63, with zeros in front of it if it has fewer.
inline void WriteHashDigits(std::uint64_t number, char* at) {
  constexpr std::uint64_t kNine = 1'000'000'000;
  static_assert(kHashDigits == 1 + 9 + 9);
  const std::uint64_t front = number / kNine;
  *at = static_cast<char>('0' + front / kNine);
  WriteNineDigits(front % kNine, at + 1, /*last=*/false);
  WriteNineDigits(number % kNine, at + 10, /*last=*/true);
}

}  // namespace remora::bench
