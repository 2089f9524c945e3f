#include "tools/command_line/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sysexits.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/command_line/nearest.h"
#include "tools/command_line/number_text.h"
#include "tools/command_line/say.h"

namespace remora::command_line {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

enum class Color { kRed, kGreen };

class CommandLineTest : public testing::Test {
 protected:
  /// Parses these words, and returns the result. An error is in `error_`.
  std::optional<int> Parse(std::vector<const char*> words) {
    words.insert(words.begin(), "/usr/bin/program");
    testing::internal::CaptureStderr();
    const std::optional<int> status = line_.Parse(static_cast<int>(words.size()), words.data());
    error_ = testing::internal::GetCapturedStderr();
    return status;
  }
  /// Parses these words, in which something is wrong, and returns the error.
  std::string Rejected(std::vector<const char*> words) {
    EXPECT_EQ(Parse(std::move(words)), EX_USAGE);
    return error_;
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

TEST_F(CommandLineTest, ErrorsNameTheFault) {
  int times = 1;
  Color color = Color::kRed;
  std::string even;
  bool quiet = false;
  line_.Add("--times", times).Range(1, 10);
  line_.AddChoice("--color", color, {{"red", Color::kRed}, {"green", Color::kGreen}}, "");
  line_.Add("--even", even).Check([](const std::string& text) {
    return text.size() % 2 == 0 ? std::string() : "has " + std::to_string(text.size()) + " characters";
  });
  line_.AddFlag("--quiet", quiet, "");
  for (const auto& [word, says] : std::vector<std::pair<const char*, const char*>>{
           {"--times=11", "--times: '11' is not a whole number from 1 to 10"},
           {"--times=many", "--times: 'many' is not a whole number"},
           {"--color=blue", "--color: 'blue' is none of red, green"},
           {"--color=0", "--color: '0' is none of red, green"},
           {"--even=odd", "--even: has 3 characters"},
           {"--quiet=no", "--quiet: 'no' is neither true nor false"},
           {"--quiet=True", "--quiet: 'True' is neither true nor false"},
           {"--quiet=", "--quiet: the value is empty"},
           {"-htrue", "-h: takes no value"},
           {"--unknown", "there is no flag --unknown"},
           {"--colour=red", "there is no flag --colour; the nearest is --color"},
           {"--COLOR=red", "there is no flag --COLOR; the nearest is --color"},
           {"--x=y", "there is no flag --x; write arguments that are no flags behind --"},
           {"-q", "there is no flag -q; write arguments that are no flags behind --"},
           {"--\x1b[2J", "there is no flag --\\x1b[2J; write arguments that are no flags behind --"},
           {"\x1b]0;title\a", "the argument '\\x1b]0;title\\x07' is one too many"},
           {"more", "the argument 'more' is one too many"},
           {"++", "the argument '++' is one too many"},
       }) {
    EXPECT_THAT(Rejected({word}),
                AllOf(StartsWith(std::string("program: ") + says), HasSubstr("; see program --help\n")));
  }
}

TEST_F(CommandLineTest, AFlagIsUnsetByFalse) {
  bool quiet = false;
  int level = 0;
  const Option flag = line_.AddFlag("-q,--quiet", quiet, "");
  const Option excluding = line_.Add("--level", level).Excludes(flag);
  bool loud = false;
  line_.AddFlag("--loud", loud, "").Needs(excluding);
  EXPECT_EQ(Parse({"--quiet=true"}), std::nullopt);
  EXPECT_TRUE(quiet);
  EXPECT_TRUE(line_.Has("--quiet"));
  // It is as if it were not given.
  EXPECT_EQ(Parse({"--quiet=false", "--level=3", "--loud=false"}), std::nullopt);
  EXPECT_FALSE(quiet);
  EXPECT_FALSE(line_.Has("--quiet"));
  EXPECT_EQ(Parse({"--loud=false"}), std::nullopt);
  EXPECT_THAT(Rejected({"--loud=true"}), HasSubstr("--loud needs --level"));
  EXPECT_THAT(Rejected({"--quiet=true", "--level=3"}), HasSubstr("exclude each other"));
  EXPECT_THAT(Rejected({"-q", "--quiet=false"}), HasSubstr("--quiet: is given twice"));
  EXPECT_THAT(Rejected({"--quiet", "false"}), HasSubstr("the argument 'false' is one too many"));
  line_.RequireOneOf({flag, excluding});
  EXPECT_THAT(Rejected({"--quiet=false"}), HasSubstr("say --quiet or --level"));
}

TEST_F(CommandLineTest, AnOptionalValueStandsBehindItsFlagAlone) {
  std::optional<std::string> device;
  std::string name;
  line_.Add("--device", device, "Which one").TypeName("NAME").ValueIsOptional();
  line_.Add("NAME", name);
  EXPECT_EQ(Parse({"word"}), std::nullopt);
  EXPECT_EQ(device, std::nullopt);
  EXPECT_EQ(Parse({"--device", "word"}), std::nullopt);
  EXPECT_EQ(device, "");
  EXPECT_EQ(name, "word");
  EXPECT_EQ(Parse({"--device=mlx5_0"}), std::nullopt);
  EXPECT_EQ(device, "mlx5_0");
  EXPECT_THAT(Rejected({"--device", "--device=a"}), HasSubstr("--device"));
  testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--help"}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("  --device[=NAME]           Which one"));
}

TEST_F(CommandLineTest, AnEmptyValueIsAValueAndTakesNoOther) {
  std::string prefix = "all";
  std::string folder;
  int times = 1;
  std::uint64_t size = 0;
  std::vector<std::string> names;
  std::vector<std::string> arguments;
  line_.Add("--prefix", prefix).MayBeEmpty();
  line_.Add("--folder", folder);
  line_.Add("--times", times);
  line_.Add("--size", size).Size();
  line_.Add("--names", names).Separator(',');
  line_.Add("ARGUMENTS", arguments);
  EXPECT_EQ(Parse({"--prefix=", "--times=3"}), std::nullopt);
  EXPECT_EQ(prefix, "");
  EXPECT_EQ(times, 3);
  for (const char* word : {"--folder=", "--times=", "--size=", "--names=", "--names=a,,b", ""}) {
    EXPECT_THAT(Rejected({word, "--prefix=x"}), HasSubstr("the value is empty")) << word;
  }
}

TEST_F(CommandLineTest, AFlagIsNoValue) {
  std::string folder;
  int times = 1;
  line_.Add("-f,--folder", folder);
  line_.Add("--times", times);
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"--folder", "--times=3"},
                                             {"--folder"},
                                             {"--folder", "--", "x"},
                                             {"-f", "--times=3"},
                                             {"-f", "-x"}}) {
    EXPECT_THAT(Rejected(words), HasSubstr("there is no value behind it; write --folder=VALUE"));
  }
  EXPECT_EQ(Parse({"--folder=--times=3", "--times", "-2"}), std::nullopt);
  EXPECT_EQ(folder, "--times=3");
  EXPECT_EQ(times, -2);
}

TEST_F(CommandLineTest, ArgumentsThatLookLikeMarks) {
  std::vector<std::string> arguments;
  line_.Add("ARGUMENTS", arguments);
  EXPECT_EQ(Parse({"-", "++", "-5", "+", "--", "--", "-x", "--help", "++"}), std::nullopt);
  EXPECT_THAT(arguments, ElementsAre("-", "++", "-5", "+", "--", "-x", "--help", "++"));
}

TEST_F(CommandLineTest, BehindTwoDashesNothingIsAFlagOfTheLineEither) {
  std::string key;
  bool quiet = false;
  line_.AddFlag("--quiet", quiet, "");
  line_.AddCommand("get", "Reads").Add("KEY", key);
  EXPECT_THAT(Rejected({"get", "key", "--", "--quiet"}), HasSubstr("'--quiet' is one too many"));
  EXPECT_FALSE(quiet);
}

TEST_F(CommandLineTest, NothingIsGivenTwice) {
  int times = 0;
  bool quiet = false;
  line_.Add("--times", times);
  line_.AddFlag("-q,--quiet", quiet, "");
  EXPECT_THAT(Rejected({"--times=1", "--times=2"}), HasSubstr("--times: is given twice"));
  EXPECT_THAT(Rejected({"--quiet", "-q"}), HasSubstr("-q: is given twice"));
}

TEST_F(CommandLineTest, OptionsMayNeedOrExcludeOthers) {
  int a = 0;
  int b = 0;
  int c = 0;
  const Option first = line_.Add("--a", a);
  line_.Add("--b", b).Needs(first);
  line_.Add("--c", c).Excludes(first);
  EXPECT_EQ(Parse({"--a=1", "--b=2"}), std::nullopt);
  EXPECT_EQ(first.count(), 1u);
  EXPECT_TRUE(line_.Has("--b"));
  EXPECT_FALSE(line_.Has("--c"));
  EXPECT_THAT(Rejected({"--a=1", "--c=1"}), HasSubstr("--c and --a exclude each other"));
  EXPECT_THAT(Rejected({"--b=1"}), HasSubstr("--b needs --a"));
}

TEST_F(CommandLineTest, AnAliasIsTheSameOption) {
  std::string place;
  line_.Add("--data_dir", place, "The place").Alias("--data");
  EXPECT_EQ(Parse({"--data=one"}), std::nullopt);
  EXPECT_EQ(place, "one");
  EXPECT_TRUE(line_.Has("--data_dir"));
  EXPECT_THAT(Rejected({"--data=one", "--data_dir=two"}), HasSubstr("--data_dir"));
  testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--help"}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::Not(HasSubstr("--data,")));
}

TEST_F(CommandLineTest, OneOfSomeIsRequired) {
  int a = 0;
  int b = 0;
  const Option first = line_.Add("--a", a);
  line_.RequireOneOf({first, line_.Add("--b", b)});
  EXPECT_THAT(Rejected({}), HasSubstr("say --a or --b"));
  EXPECT_EQ(Parse({"--b=1"}), std::nullopt);
}

TEST_F(CommandLineTest, ARequiredOneIsMissed) {
  std::string name;
  line_.Add("NAME", name).Required();
  EXPECT_THAT(Rejected({}), HasSubstr("NAME is missing"));
}

TEST_F(CommandLineTest, TheEnvironmentSaysWhatTheCommandLineDoesNot) {
  int times = 1;
  line_.Add("--times", times).Environment("COMMAND_LINE_TEST_TIMES");
  ::setenv("COMMAND_LINE_TEST_TIMES", "4", 1);
  EXPECT_EQ(Parse({}), std::nullopt);
  EXPECT_EQ(times, 4);
  EXPECT_FALSE(line_.Has("--times"));
  ::setenv("COMMAND_LINE_TEST_TIMES", "0x4", 1);
  EXPECT_THAT(Rejected({}),
              HasSubstr("the environment variable COMMAND_LINE_TEST_TIMES: '0x4' is not a whole"));
  EXPECT_EQ(Parse({"--times=5"}), std::nullopt);
  EXPECT_EQ(times, 5);
  ::setenv("COMMAND_LINE_TEST_TIMES", "", 1);
}

TEST_F(CommandLineTest, TheEnvironmentMayHaveARequiredOne) {
  std::string server;
  line_.Add("--server", server).Environment("COMMAND_LINE_TEST_SERVER").Required();
  EXPECT_THAT(Rejected({}), HasSubstr("--server is missing"));
  ::setenv("COMMAND_LINE_TEST_SERVER", "here", 1);
  EXPECT_EQ(Parse({}), std::nullopt);
  EXPECT_EQ(server, "here");
  ::unsetenv("COMMAND_LINE_TEST_SERVER");
}

TEST_F(CommandLineTest, AHyphenMeansAnUnderscoreInNamesAndOnlyThere) {
  std::string size;
  line_.Add("--value_size", size);
  bool keys_only = false;
  Command command = line_.AddCommand("create_token", "");
  command.AddFlag("--keys_only", keys_only, "");
  EXPECT_EQ(Parse({"--value-size=a-b", "create-token", "--keys-only"}), std::nullopt);
  EXPECT_EQ(size, "a-b");
  EXPECT_TRUE(keys_only);
  EXPECT_THAT(Rejected({"create_token", "--keys_only", "--keys-only"}), HasSubstr("given twice"));
}

TEST_F(CommandLineTest, OneCommandIsGiven) {
  std::string key;
  bool quiet = false;
  line_.AddFlag("--quiet", quiet, "");
  line_.AddCommand("get", "Reads").Add("KEY", key).Required();
  line_.AddCommand("list", "Lists").FormerName("show_all");
  EXPECT_THAT(Rejected({}), HasSubstr("say which command"));
  EXPECT_THAT(Rejected({"gt", "x"}), HasSubstr("there is no command 'gt'; the nearest is get; see"));
  EXPECT_THAT(Rejected({"GET", "x"}), HasSubstr("there is no command 'GET'; the nearest is get; see"));
  EXPECT_THAT(Rejected({"frobnicate"}), HasSubstr("there is no command 'frobnicate'; see"));
  EXPECT_THAT(Rejected({"show-all"}), HasSubstr("the command 'show-all' is list now; see program --help"));
  EXPECT_THAT(Rejected({"get"}), HasSubstr("KEY is missing; see program get --help"));
  EXPECT_EQ(Parse({"get", "name", "--quiet"}), std::nullopt);
  EXPECT_EQ(line_.command(), "get");
  EXPECT_EQ(key, "name");
  EXPECT_TRUE(quiet);
}

struct NumberCase {
  const char* text;
  std::optional<double> whole;
  std::optional<double> size;
  std::optional<double> real;
};

TEST(NumberText, IsDecimalAndNothingElse) {
  constexpr double k64M = 64 << 20;
  constexpr double kBelow = -9.0e18;
  constexpr double kAbove = 1.9e19;
  const auto rule = [](NumberRule::Form form) {
    return NumberRule{.form = form, .least = kBelow, .most = kAbove};
  };
  const auto none = std::nullopt;
  for (const NumberCase& each :
       std::vector<NumberCase>{{"0", 0, 0, 0},
                               {"12", 12, 12, 12},
                               {"010", 10, 10, 10},
                               {"0100M", none, 100 << 20, none},
                               {"-3", -3, none, -3},
                               {"+3", none, none, none},
                               {" 3", none, none, none},
                               {"3 ", none, none, none},
                               {"", none, none, none},
                               {"0x10", none, none, none},
                               {"1e3", none, none, 1000},
                               {"0.5", none, none, 0.5},
                               {"1.5G", none, none, none},
                               {"G", none, none, none},
                               {"-", none, none, none},
                               {"64M", none, k64M, none},
                               {"64m", none, k64M, none},
                               {"64MB", none, k64M, none},
                               {"64MiB", none, k64M, none},
                               {"64mib", none, k64M, none},
                               {"65536K", none, k64M, none},
                               {"64 M", none, none, none},
                               {"64Mi", none, none, none},
                               {"64MM", none, none, none},
                               {"5B", none, 5, none},
                               {"5P", none, none, none},
                               {"-5M", none, none, none},
                               {"inf", none, none, none},
                               {"nan", none, none, none},
                               {"1e999", none, none, none},
                               {"1_000", none, none, none},
                               {"1,000", none, none, none},
                               {"true", none, none, none},
                               {"18446744073709551616", none, none, 18446744073709551616.0},
                               {"18446744073709551615T", none, none, none},
                               {"0b1", none, none, none},
                               {"--3", none, none, none}}) {
    EXPECT_EQ(rule(NumberRule::Form::kWhole).Read(each.text), each.whole) << each.text;
    EXPECT_EQ(rule(NumberRule::Form::kSize).Read(each.text), each.size) << each.text;
    EXPECT_EQ(rule(NumberRule::Form::kReal).Read(each.text), each.real) << each.text;
  }
}

TEST_F(CommandLineTest, NumbersHaveTheBoundsOfTheirTypes) {
  int narrow = 0;
  unsigned natural = 0;
  std::uint64_t wide = 0;
  std::uint64_t size = 0;
  line_.Add("--narrow", narrow);
  line_.Add("--natural", natural);
  line_.Add("--wide", wide);
  line_.Add("--size", size).Size();
  for (const char* word :
       {"--narrow=2147483648", "--narrow=-2147483649", "--natural=-1", "--natural=4294967296",
        "--wide=18446744073709551616", "--wide=-1", "--size=16777216T", "--size=-1"}) {
    EXPECT_THAT(Rejected({word}), HasSubstr("' is not a ")) << word;
  }
  EXPECT_THAT(Rejected({"--size=16777216T"}), HasSubstr(" a size from 0 to 18446744073709551615: "));
  EXPECT_EQ(Parse({"--narrow=-2147483648", "--natural=4294967295", "--wide=18446744073709551615",
                   "--size=16777215T"}),
            std::nullopt);
  EXPECT_EQ(narrow, std::numeric_limits<int>::min());
  EXPECT_EQ(natural, std::numeric_limits<unsigned>::max());
  EXPECT_EQ(wide, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(size, std::uint64_t{16777215} << 40);
}

TEST(NumberText, SaysWhatIsAllowed) {
  const auto allowed = [](NumberRule rule) { return rule.Allowed(); };
  EXPECT_EQ(allowed({.form = NumberRule::Form::kWhole, .least = -1, .most = 9}),
            "a whole number from -1 to 9");
  EXPECT_THAT(allowed({.form = NumberRule::Form::kSize, .least = 16, .most = 64 << 20}),
              StartsWith("a size from 16 to 64M: "));
  EXPECT_EQ(allowed({.form = NumberRule::Form::kReal, .least = 0.01, .most = 1e6}),
            "a number from 0.01 to 1000000");
  EXPECT_EQ(allowed({.form = NumberRule::Form::kReal,
                     .least = 0,
                     .most = std::numeric_limits<double>::max(),
                     .without_bounds = true}),
            "a number above 0");
  EXPECT_EQ(allowed({.form = NumberRule::Form::kReal, .least = 0, .most = 100, .without_bounds = true}),
            "a number between 0 and 100, and neither of them");
}

TEST(Say, TextsThatOthersChoseCommandNoTerminal) {
  EXPECT_EQ(Printable("plain, \\ and \xc3\xa9\xe2\x82\xac"), "plain, \\ and \xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(Printable("a\nb\tc\x7f"), "a\\x0ab\\x09c\\x7f");
  EXPECT_EQ(Printable("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b") << "CSI of C1";
  EXPECT_EQ(Printable("\xc2\xa0\xc2"), "\xc2\xa0\xc2");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Nearest, TakesTheFewestChanges) {
  const std::vector<std::string> names = {"put", "get", "delete", "touch"};
  EXPECT_EQ(Nearest("gte", names), "get");
  EXPECT_EQ(Nearest("tuoch", names), "touch");
  EXPECT_EQ(SayNearest("delte", names), "; the nearest is delete");
  EXPECT_EQ(SayNearest("list", names), "");
  EXPECT_EQ(SayNearest("x", names), "");
  EXPECT_EQ(SayNearest("x", {}), "");
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
