// The settings of a running server.
#include <jansson.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "store/base/status_macros.h"
#include "tools/command_line/config_file.h"
#include "tools/command_line/say.h"
#include "tools/json/json.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {
namespace {

struct ShownSetting {
  std::string key;
  std::string value;
  std::string source;
};

/// Returns an error for a text that another program than kvserver could have sent.
absl::StatusOr<std::vector<ShownSetting>> ReadSettings(std::string_view text) {
  const auto reject = [] {
    return absl::DataLossError(
        "config: the server's settings are no JSON of this form; use kvctl of its release");
  };
  const json::Value array(json_loadb(text.data(), text.size(), JSON_REJECT_DUPLICATES, nullptr));
  if (!json_is_array(array.get())) return reject();
  std::vector<ShownSetting> settings;
  for (std::size_t i = 0; i < json_array_size(array.get()); ++i) {
    const json_t* const object = json_array_get(array.get(), i);
    ShownSetting& setting = settings.emplace_back();
    for (const auto& [name, into] : std::array<std::pair<const char*, std::string*>, 3>{
             {{"key", &setting.key}, {"value", &setting.value}, {"source", &setting.source}}}) {
      const json_t* const string = json_object_get(object, name);
      if (!json_is_string(string)) return reject();
      *into = std::string(json_string_value(string), json_string_length(string));
    }
  }
  return settings;
}

}  // namespace

absl::StatusOr<std::string> ReadSetting(Client& client, std::string_view key) {
  REMORA_ASSIGN_OR_RETURN(const std::string text, client.Settings());
  REMORA_ASSIGN_OR_RETURN(const std::vector<ShownSetting> settings, ReadSettings(text));
  const auto found = std::ranges::find(settings, key, &ShownSetting::key);
  return found == settings.end() ? std::string() : found->value;
}

Outcome Config(Client& client, const Arguments& arguments) {
  const absl::StatusOr<std::string> text = client.Settings();
  if (!text.ok()) return FromStatus(text.status());
  const absl::StatusOr<std::vector<ShownSetting>> settings = ReadSettings(*text);
  if (!settings.ok()) return FromStatus(settings.status());
  if (arguments.json) {
    return WriteOutput(json::Text(json::Parse(*text).get(), JSON_ENSURE_ASCII) + "\n");
  }
  std::size_t width = 0;
  std::vector<std::string> lines;
  for (const ShownSetting& setting : *settings) {
    const std::string written = setting.value.empty()
                                    ? setting.key + " ="
                                    : command_line::FormatConfigLine(setting.key, setting.value);
    // In a file, a flag of a transport that is not served would be an error.
    const bool is_default = setting.source == "default";
    const std::string& line = lines.emplace_back((is_default ? "# " : "") + command_line::Printable(written));
    width = std::max(width, std::min<std::size_t>(line.size(), 40));
  }
  std::string shown;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t blanks = width > lines[i].size() ? width - lines[i].size() : 0;
    absl::StrAppend(&shown, lines[i], std::string(blanks, ' '), "  # ",
                    command_line::Printable((*settings)[i].source), "\n");
  }
  return WriteOutput(shown);
}

}  // namespace remora::kvctl
