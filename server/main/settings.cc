#include "server/main/settings.h"

#include <jansson.h>

#include <algorithm>

#include "tools/json/json.h"

namespace remora {
namespace {

/// None: nobody set it, whatever its default is now. A flag always has a value.
std::vector<std::string> ValuesOf(const Settings& settings, std::string_view key) {
  std::vector<std::string> values;
  for (const command_line::Setting& setting : settings.list()) {
    const bool is_set = setting.is_flag || setting.source != command_line::Source::kDefault;
    if (setting.key == key && is_set) values.push_back(setting.value);
  }
  return values;
}

}  // namespace

void Settings::SetDefault(std::string_view key, std::string_view value) {
  for (command_line::Setting& setting : list_) {
    if (setting.key == key && setting.source == command_line::Source::kDefault) setting.value = value;
  }
  Render();
}

void Settings::Take(const std::vector<std::string>& keys, const Settings& from) {
  for (command_line::Setting& setting : list_) {
    if (std::ranges::find(keys, setting.key) == keys.end()) continue;
    const auto found = std::ranges::find(from.list(), setting.key, &command_line::Setting::key);
    if (found != from.list().end()) setting = *found;
  }
  Render();
}

void Settings::Render() {
  const json::Value array(json_array());
  for (const command_line::Setting& setting : list_) {
    const json::Value object(json_object());
    json_object_set_new(object.get(), "key", json::NewString(setting.key));
    json_object_set_new(object.get(), "value", json::NewString(setting.value));
    json_object_set_new(object.get(), "source", json::NewString(command_line::SourceName(setting.source)));
    json_array_append(array.get(), object.get());
  }
  json_ = json::Text(array.get());
}

std::vector<std::string> ChangedKeys(const Settings& before, const Settings& after) {
  std::vector<std::string> keys;
  for (const command_line::Setting& setting : before.list()) {
    const bool is_known = !keys.empty() && keys.back() == setting.key;
    if (!is_known && ValuesOf(before, setting.key) != ValuesOf(after, setting.key))
      keys.push_back(setting.key);
  }
  return keys;
}

}  // namespace remora
