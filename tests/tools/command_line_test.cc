#include "tools/command_line/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace remora::command_line {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Color { kRed, kGreen };

class CommandLineTest : public testing::Test {
 protected:
  /// Parses these words; what it returns. An error is in `error_`, with the status 7.
  std::optional<int> Parse(std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    return line_.Parse(static_cast<int>(words.size()), words.data(), [this](const std::string& error) {
      error_ = error;
      return 7;
    });
  }

  CommandLine line_{"program: does something."};
  std::string error_;
};

TEST_F(CommandLineTest, VariablesKeepTheirValueWhereNothingIsGiven) {
  int times = 3;
  std::string name = "nobody";
  std::optional<std::string> color;
  bool quiet = false;
  line_.Add("--times", times);
  line_.Add("NAME", name);
  line_.Add("--color", color);
  line_.AddFlag("--quiet", quiet, "");
  EXPECT_EQ(Parse({}), std::nullopt);
  EXPECT_EQ(times, 3);
  EXPECT_EQ(name, "nobody");
  EXPECT_EQ(color, std::nullopt);
  EXPECT_FALSE(quiet);
}

TEST_F(CommandLineTest, EachKindOfValueIsRead) {
  int times = 0;
  std::uint64_t bytes = 0;
  double ratio = 0;
  std::optional<unsigned> limit;
  std::vector<std::string> names;
  bool quiet = false;
  Color color = Color::kRed;
  line_.Add("--times", times);
  line_.Add("--bytes", bytes).Size();
  line_.Add("--ratio", ratio);
  line_.Add("--limit", limit);
  line_.Add("NAMES", names);
  line_.AddFlag("--quiet", quiet, "");
  line_.AddChoice("--color", color, {{"red", Color::kRed}, {"green", Color::kGreen}}, "");
  EXPECT_EQ(Parse({"--times=-2", "--bytes=64M", "--ratio", "0.5", "--limit=9", "--quiet", "--color=green",
                   "a", "b"}),
            std::nullopt);
  EXPECT_EQ(times, -2);
  EXPECT_EQ(bytes, std::uint64_t{64} << 20);
  EXPECT_EQ(ratio, 0.5);
  EXPECT_EQ(limit, 9u);
  EXPECT_THAT(names, ElementsAre("a", "b"));
  EXPECT_TRUE(quiet);
  EXPECT_EQ(color, Color::kGreen);
}

TEST_F(CommandLineTest, WhatIsWrongIsGivenToFail) {
  int times = 1;
  Color color = Color::kRed;
  std::string even;
  line_.Add("--times", times).Range(1, 10);
  line_.AddChoice("--color", color, {{"red", Color::kRed}}, "");
  line_.Add("--even", even).Check([](const std::string& text) {
    return text.size() % 2 == 0 ? std::string() : "has " + std::to_string(text.size()) + " characters";
  });
  for (const auto& [word, says] : std::vector<std::pair<const char*, const char*>>{
           {"--times=11", "11 not in range"},
           {"--times=many", "many"},
           {"--color=blue", "blue"},
           {"--even=odd", "has 3 characters"},
           {"--unknown", "--unknown"},
       }) {
    error_.clear();
    EXPECT_EQ(Parse({word}), 7) << word;
    EXPECT_THAT(error_, HasSubstr(says)) << word;
  }
}

TEST_F(CommandLineTest, OptionsMayNeedOrExcludeOthers) {
  int a = 0;
  int b = 0;
  int c = 0;
  const Option first = line_.Add("--a", a);
  line_.Add("--b", b).Needs(first);
  line_.Add("--c", c).Excludes(first);
  EXPECT_EQ(Parse({"--b=1"}), 7);
  EXPECT_EQ(Parse({"--a=1", "--c=1"}), 7);
  EXPECT_EQ(Parse({"--a=1", "--b=2"}), std::nullopt);
  EXPECT_EQ(first.count(), 1u);
  EXPECT_TRUE(line_.Has("--b"));
  EXPECT_FALSE(line_.Has("--c"));
}

TEST_F(CommandLineTest, ARequiredOneIsMissed) {
  std::string name;
  line_.Add("NAME", name).Required();
  EXPECT_EQ(Parse({}), 7);
  EXPECT_THAT(error_, HasSubstr("NAME"));
}

TEST_F(CommandLineTest, OneCommandIsGiven) {
  std::string key;
  bool quiet = false;
  line_.AddFlag("--quiet", quiet, "");
  line_.AddCommand("get", "Reads").Add("KEY", key).Required();
  line_.AddCommand("list", "Lists");
  EXPECT_EQ(Parse({}), 7);
  EXPECT_EQ(Parse({"get"}), 7);
  EXPECT_EQ(Parse({"get", "name", "--quiet"}), std::nullopt);
  EXPECT_EQ(line_.command(), "get");
  EXPECT_EQ(key, "name");
  EXPECT_TRUE(quiet);
}

TEST_F(CommandLineTest, HelpAndVersionEndTheProgramWell) {
  int times = 4;
  line_.Add("--times", times, "How often").ShowDefault().TypeName("COUNT");
  line_.Version("program 1.2");
  line_.Footer("At the end.");
  testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--help"}), 0);
  const std::string help = testing::internal::GetCapturedStdout();
  for (const char* part : {"program: does something.", "--times", "COUNT", "4", "How often", "At the end."}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
  testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--version"}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "program 1.2\n");
}

}  // namespace
}  // namespace remora::command_line
