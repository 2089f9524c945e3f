#include "tools/json/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace remora::json {
namespace {

using namespace std::literals;

TEST(Json, ACharactersSize) {
  EXPECT_EQ(CharacterSize("a"), 1u);
  EXPECT_EQ(CharacterSize("\0"sv), 1u);
  EXPECT_EQ(CharacterSize("\u00e4b"), 2u);
  EXPECT_EQ(CharacterSize("\u20ac"), 3u);
  EXPECT_EQ(CharacterSize("\U0001f41f"), 4u);
  for (const std::string_view none : {"\x80", "\xff", "\xc3", "\xe2\x82", "\xc0\x80", "\xe0\x80\x80",
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3z"}) {
    EXPECT_EQ(CharacterSize(none), 0u);
  }
}

TEST(Json, InvalidUtf8IsReplaced) {
  const auto written = [](std::string_view bytes) {
    const Value value(NewString(bytes));
    return std::string(json_string_value(value.get()), json_string_length(value.get()));
  };
  EXPECT_EQ(written("\u00e4 \u20ac \U0001f41f"), "\u00e4 \u20ac \U0001f41f");
  EXPECT_EQ(written("a\xff\xfe z"), "a\uFFFD\uFFFD z");
  EXPECT_EQ(written("a\0b\xe2\x82"sv), "a\0b\uFFFD\uFFFD"s);
  EXPECT_EQ(written(""), "");
}

TEST(Json, CountsBeyondJanssonsIntegersAreNegative) {
  EXPECT_EQ(json_integer_value(Value(NewCount(5)).get()), 5);
  EXPECT_EQ(json_integer_value(Value(NewCount(~std::uint64_t{0})).get()), -1);
}

}  // namespace
}  // namespace remora::json
