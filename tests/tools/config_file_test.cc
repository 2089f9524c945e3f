#include "tools/command_line/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/command_line/command_line.h"

namespace remora::command_line {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns the value of the file's only line.
std::string ValueOf(std::string_view text) {
  std::string error;
  const auto lines = ParseConfig(text, &error);
  if (!lines || lines->size() != 1) return "no value: " + error;
  EXPECT_EQ(lines->front().key, "key");
  return lines->front().value;
}

std::string ErrorOf(std::string_view text) {
  std::string error = "none";
  EXPECT_EQ(ParseConfig(text, &error), std::nullopt) << text;
  return error;
}

TEST(ConfigFileTest, ValuesAreWhatStandsBetweenBlanks) {
  EXPECT_EQ(ValueOf("key=value"), "value");
  EXPECT_EQ(ValueOf(" \t key \t = \t a value \t "), "a value");
  EXPECT_EQ(ValueOf("key = value\r\n"), "value");
  EXPECT_EQ(ValueOf("key = value # comment"), "value");
  EXPECT_EQ(ValueOf("key = value\t#comment"), "value");
  EXPECT_EQ(ValueOf("key = a#b#c #d"), "a#b#c");
  EXPECT_EQ(ValueOf("key = a=b"), "a=b");
  EXPECT_EQ(ValueOf("key = a\"b'c\\d"), "a\"b'c\\d");
  EXPECT_EQ(ValueOf("key ="), "");
  EXPECT_EQ(ValueOf("key = # nothing"), "");
  EXPECT_EQ(ValueOf("key = \xc3\xa4"), "\xc3\xa4");
}

TEST(ConfigFileTest, QuotesKeepBlanksAndComments) {
  EXPECT_EQ(ValueOf("key = \" a # b \""), " a # b ");
  EXPECT_EQ(ValueOf("key = \"\""), "");
  EXPECT_EQ(ValueOf("key = \"a\" # comment"), "a");
  EXPECT_EQ(ValueOf(R"(key = "a\"b\\c")"), R"(a"b\c)");
}

TEST(ConfigFileTest, LinesAreCounted) {
  std::string error;
  const auto lines = ParseConfig("# one\n\n \t\na = 1\n#\nb_2 = 2", &error);
  ASSERT_TRUE(lines) << error;
  ASSERT_EQ(lines->size(), 2u);
  EXPECT_EQ((*lines)[0].number, 4u);
  EXPECT_EQ((*lines)[1].number, 6u);
  EXPECT_EQ((*lines)[1].key, "b_2");
  EXPECT_TRUE(ParseConfig("", &error)->empty());
}

TEST(ConfigFileTest, BadLinesAreNamed) {
  EXPECT_THAT(ErrorOf("a = 1\nwords"), HasSubstr("line 2: write key = value"));
  EXPECT_THAT(ErrorOf("[server]"), HasSubstr("line 1: write key = value"));
  EXPECT_THAT(ErrorOf("--a = 1"), HasSubstr("line 1: '--a' is no key"));
  EXPECT_THAT(ErrorOf("= 1"), HasSubstr("line 1: '' is no key"));
  EXPECT_THAT(ErrorOf("a b = 1"), HasSubstr("line 1: 'a b' is no key"));
  EXPECT_THAT(ErrorOf("a = \"1"), HasSubstr("line 1: a: the closing quote is missing; end"));
  EXPECT_THAT(ErrorOf("a = \"1\\\""), HasSubstr("line 1: a: the closing quote is missing; end"));
  EXPECT_THAT(ErrorOf("a = \"\\n\""), HasSubstr("line 1: between quotes, a backslash"));
  EXPECT_THAT(ErrorOf("a = \"\\"), HasSubstr("line 1: between quotes, a backslash"));
  EXPECT_THAT(ErrorOf("a = \"1\" 2"), HasSubstr("line 1: behind the closing quote"));
  EXPECT_THAT(ErrorOf("a = '1'"), HasSubstr("line 1: a value stands between double quotes"));
  EXPECT_THAT(ErrorOf(std::string_view("a = 1\n\0", 7)), HasSubstr("line 2: there is a control character"));
  EXPECT_THAT(ErrorOf("a = \x1b[2J"), HasSubstr("line 1: there is a control character"));
  EXPECT_THAT(ErrorOf("# \x7f"), HasSubstr("line 1: there is a control character"));
  EXPECT_THAT(ErrorOf("a = 1\nb = 2\rc = 3"),
              HasSubstr("line 2: there is a CR within it: end each line with"));
}

TEST(ConfigFileTest, FilesOfOtherEditors) {
  for (const std::string_view text :
       {"\xef\xbb\xbfkey = value", "\xef\xbb\xbfkey = value\r\n\r\n# comment\r\n",
        "\xef\xbb\xbf# comment\r\nkey = \"value\" # comment\r\n"}) {
    EXPECT_EQ(ValueOf(text), "value");
  }
  EXPECT_THAT(ErrorOf("a = 1\n\xef\xbb\xbf"
                      "b = 1"),
              HasSubstr("line 2: '\xef\xbb\xbf"
                        "b' is no key"));
  const std::string_view utf16("\xff\xfek\0=\0v\0", 8);
  EXPECT_EQ(ErrorOf(utf16), "line 1: the file is in UTF-16; save it in UTF-8");
  EXPECT_THAT(ErrorOf("\xfe\xff"), HasSubstr("UTF-16"));
}

TEST(ConfigFileTest, AFormattedLineIsReadAsItWas) {
  for (const std::string_view value :
       {"", "value", " value", "value ", "a # b", "#", "a\"b", "\"", "'a'", "a\\", "a b", "a=b", "\ta"}) {
    EXPECT_EQ(ValueOf(FormatConfigLine("key", value)), value);
  }
  EXPECT_EQ(FormatConfigLine("key", "local:///tmp/a b"), "key = local:///tmp/a b");
}

/// A command line that reads a file.
class ConfiguredTest : public testing::Test {
 protected:
  ConfiguredTest() {
    folder_ = testing::TempDir() + "/config-" + std::to_string(::getpid());
    std::filesystem::create_directory(folder_);
    line_.Add("--listen", addresses_);
    line_.Add("--times", times_).Range(1, 10).ShowDefault();
    line_.Add("--name", name_);
    line_.AddChoice("--color", is_red_, {{"red", true}, {"green", false}}, "");
    line_.AddFlag("--quiet", quiet_, "");
    line_.ReadsConfigFile("");
    line_.Version("1");
  }
  ~ConfiguredTest() override { std::filesystem::remove_all(folder_); }

  std::optional<int> Parse(const std::string& file, std::vector<std::string> words = {}) {
    std::ofstream(path()) << file;
    words.push_back("--config=" + path());
    return ParseWords(std::move(words));
  }
  std::optional<int> ParseWords(std::vector<std::string> words) {
    words.insert(words.begin(), "program");
    std::vector<const char*> texts;
    for (const std::string& word : words) texts.push_back(word.c_str());
    testing::internal::CaptureStderr();
    const std::optional<int> status = line_.Parse(static_cast<int>(texts.size()), texts.data());
    error_ = testing::internal::GetCapturedStderr();
    return status;
  }
  /// Parses a file in which something is wrong, and returns the error behind the file's name.
  std::string Rejected(const std::string& file) {
    EXPECT_EQ(Parse(file), EX_CONFIG) << file;
    const std::string head = "program: " + path() + ": ";
    EXPECT_TRUE(error_.starts_with(head)) << error_;
    return error_.substr(std::min(head.size(), error_.size()));
  }
  std::string path() const { return folder_ + "/file"; }

  std::string folder_;
  CommandLine line_{"program: does something."};
  std::vector<std::string> addresses_;
  int times_ = 3;
  std::optional<std::string> name_;
  bool is_red_ = true;
  bool quiet_ = false;
  std::string error_;
};

TEST_F(ConfiguredTest, EachOptionHasAKey) {
  EXPECT_EQ(Parse("listen = a\ntimes = 7\nlisten = b\nname = \"n \"\ncolor = green\nquiet = true\n"),
            std::nullopt);
  EXPECT_THAT(addresses_, ElementsAre("a", "b"));
  EXPECT_EQ(times_, 7);
  EXPECT_EQ(name_, "n ");
  EXPECT_FALSE(is_red_);
  EXPECT_TRUE(quiet_);
  EXPECT_TRUE(line_.Has("--times"));
  EXPECT_EQ(Parse(""), std::nullopt);
  EXPECT_FALSE(line_.Has("--times"));
}

TEST_F(ConfiguredTest, TheCommandLineWins) {
  EXPECT_EQ(Parse("listen = a\nlisten = b\ntimes = 7\nname = n\nquiet = false\n",
                  {"--times=8", "--listen=c", "--quiet"}),
            std::nullopt);
  EXPECT_THAT(addresses_, ElementsAre("c"));
  EXPECT_EQ(times_, 8);
  EXPECT_EQ(name_, "n");
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(Parse("quiet = true\n", {"--quiet=false"}), std::nullopt);
  EXPECT_FALSE(quiet_);
  EXPECT_FALSE(line_.Has("--quiet"));
  EXPECT_THAT(ConfigText(line_.Settings()), HasSubstr("\nquiet = false\n"));
  // A bad value in the file is an error all the same.
  EXPECT_EQ(Parse("times = 11\n", {"--times=8"}), EX_CONFIG);
}

TEST_F(ConfiguredTest, ErrorsNameTheLine) {
  EXPECT_EQ(Rejected("\ntimse = 3"), "line 2: there is no key timse; the nearest is times\n");
  EXPECT_THAT(Rejected("Times = 3"), HasSubstr("line 1: 'Times' is no key"));
  EXPECT_THAT(error_, HasSubstr(": write key = value; the nearest is times\n"));
  EXPECT_THAT(Rejected("--times = 3"), HasSubstr("; the nearest is times\n"));
  EXPECT_EQ(Rejected("zzzzzzzzzzz = 3"), "line 1: there is no key zzzzzzzzzzz\n");
  EXPECT_EQ(Rejected("times = 11"), "line 1: times: '11' is not a whole number from 1 to 10\n");
  EXPECT_EQ(Rejected("times ="), "line 1: times: the value is empty\n");
  EXPECT_EQ(Rejected("color = blue"), "line 1: color: 'blue' is none of red, green\n");
  EXPECT_EQ(Rejected("quiet = yes"), "line 1: quiet: 'yes' is neither true nor false\n");
  EXPECT_EQ(Rejected("times = 3\n\ntimes = 3"), "line 3: times: stands in line 1, too; leave one out\n");
  EXPECT_EQ(Rejected("quiet = false\nquiet = true"), "line 2: quiet: stands in line 1, too; leave one out\n");
  for (const char* const key : {"config", "version", "help", "print_config"}) {
    EXPECT_EQ(Rejected(std::string(key) + " = true"),
              "line 1: " + std::string(key) + ": stands on the command line only\n");
  }
  EXPECT_EQ(Parse("listen = a", {"--bogus"}), EX_USAGE);
  EXPECT_THAT(error_, HasSubstr("there is no flag --bogus"));
}

TEST_F(ConfiguredTest, OnlyRegularFilesAreRead) {
  EXPECT_EQ(ParseWords({"--config=" + folder_}), EX_NOINPUT);
  EXPECT_THAT(error_, HasSubstr("it is a directory"));
  EXPECT_EQ(ParseWords({"--config=" + folder_ + "/none"}), EX_NOINPUT);
  EXPECT_THAT(error_, HasSubstr("there is no such file"));
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ParseWords({"--config=" + folder_ + "/pipe"}), EX_NOINPUT);
  EXPECT_THAT(error_, HasSubstr("no regular file"));
  EXPECT_THAT(Rejected(std::string(10 << 20, '#')), HasSubstr("more than 1 MiB"));
  EXPECT_EQ(Parse(std::string(kMaxConfigBytes, '#')), std::nullopt);
}

TEST_F(ConfiguredTest, ThePrintedFileSaysTheSame) {
  EXPECT_EQ(Parse("times = 7\nname = \"#1\"\nquiet = false",
                  {"--listen=a", "--listen=b c", "--times=8", "--print_config"}),
            std::nullopt);
  EXPECT_TRUE(line_.asks_for_config());
  const std::string text = ConfigText(line_.Settings());
  EXPECT_EQ(text, "listen = a\nlisten = b c\ntimes = 8\nname = \"#1\"\n# color =\nquiet = false\n");
  EXPECT_EQ(Parse(text), std::nullopt);
  EXPECT_EQ(ConfigText(line_.Settings()), text);
  EXPECT_EQ(ParseWords({}), std::nullopt);
  EXPECT_EQ(ConfigText(line_.Settings()), "# listen =\n# times = 3\n# name =\n# color =\n# quiet = false\n");
}

}  // namespace
}  // namespace remora::command_line
