#include "bench/kvbench/load/digits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/kvbench/load/random.h"

namespace remora::bench {
namespace {

std::string Digits(std::uint64_t number) {
  std::string text(kHashDigits + 2, '|');
  WriteHashDigits(number, text.data() + 1);
  return text;
}

// Returns the digits of the standard library, and nothing beside them.
std::string Wanted(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return "|" + std::string(kHashDigits - digits.size(), '0') + digits + "|";
}

TEST(Digits, AreThoseOfTheNumber) {
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t number = random.Next() >> (1 + i % 63);
    ASSERT_EQ(Digits(number), Wanted(number));
  }
}

// Where a part ends, a fraction that is a little off would come to another number.
TEST(Digits, AreRightWhereGroupsOfThreeBeginAndEnd) {
  std::vector<std::uint64_t> numbers = {(std::uint64_t{1} << 63) - 1};
  for (std::uint64_t power = 1; power <= 1'000'000'000'000'000'000; power *= 10) {
    for (std::uint64_t digit = 1; digit <= 9; ++digit) {
      for (const std::uint64_t number : {digit * power - 1, digit * power, digit * power + 1}) {
        numbers.push_back(number);
        if (power < 1'000'000'000) numbers.push_back(8'999'999'999'000'000'000 + number);
        if (power < 1'000'000'000) numbers.push_back(number * 1'000'000'000 + 999'999'999);
      }
    }
  }
  for (const std::uint64_t number : numbers) ASSERT_EQ(Digits(number), Wanted(number));
}

}  // namespace
}  // namespace remora::bench
