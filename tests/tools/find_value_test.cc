#include "tools/command_line/find_value.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace remora::command_line {
namespace {

std::optional<std::string> Find(std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return FindValue(static_cast<int>(words.size()), words.data(), "--log_format");
}

/// A file for --config, which goes with the object.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("find_value_test." + std::to_string(::getpid()))) {
    std::ofstream(path_) << text;
  }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  ~ConfigFile() { std::filesystem::remove(path_); }

  std::string flag() const { return "--config=" + path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(FindValueTest, AmongWordsThatAreWrong) {
  EXPECT_EQ(Find({"--log_format=json"}), "json");
  EXPECT_EQ(Find({"--memory=much", "--no_such_flag", "--log-format=json"}), "json");
  EXPECT_EQ(Find({"--data_dir", "--log_format", "json", "one too many"}), "json");
  EXPECT_EQ(Find({"--log_format="}), "");
  EXPECT_EQ(Find({"--log_format=json", "--log_format=text"}), "json");
}

TEST(FindValueTest, NothingWhereThereIsNone) {
  EXPECT_EQ(Find({}), std::nullopt);
  EXPECT_EQ(Find({"--log_format"}), std::nullopt);
  EXPECT_EQ(Find({"--log_format", "--quiet"}), std::nullopt);
  EXPECT_EQ(Find({"--log_formats=json", "log_format=json", "-log_format=json"}), std::nullopt);
  EXPECT_EQ(Find({"--", "--log_format=json"}), std::nullopt);
  EXPECT_EQ(Find({"--config=/no/such/file"}), std::nullopt);
}

TEST(FindValueTest, InAFileWithBadLines) {
  const ConfigFile file(
      "memory\n\x01\n# log_format = text\nlog_format = \"json\"  # an object\nlog_format = text");
  EXPECT_EQ(Find({file.flag().c_str()}), "json");
  EXPECT_EQ(Find({"--log_format=text", file.flag().c_str()}), "text") << "the words win";
  const ConfigFile without("log_formats = json\n");
  EXPECT_EQ(Find({without.flag().c_str()}), std::nullopt);
}

}  // namespace
}  // namespace remora::command_line
