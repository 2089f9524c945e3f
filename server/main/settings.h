// The settings in force: each flag of kvserver, its value, and what it comes from. `kvctl config` shows them.
// They have paths of files with secrets, and no secret.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/command_line/command_line.h"

namespace remora {

/// The list of the settings in force, also as JSON.
///
/// Thread safety: none; the server's one thread, once it serves.
class Settings {
 public:
  Settings() = default;
  explicit Settings(std::vector<command_line::Setting> list) : list_(std::move(list)) { Render(); }

  /// A JSON array of objects with the strings key, value and source (command_line.h). An option that may be
  /// repeated has one for each of its values.
  std::string_view json() const { return json_; }
  const std::vector<command_line::Setting>& list() const { return list_; }

  /// Notes the value that the program has chosen for a default.
  void SetDefault(std::string_view key, std::string_view value);
  /// Takes over the values of these keys, and where they come from.
  void Take(const std::vector<std::string>& keys, const Settings& from);

 private:
  void Render();

  std::vector<command_line::Setting> list_;
  std::string json_ = "[]";
};

/// Returns the keys that were set to other values, in the order of `before`. Two defaults are the same.
std::vector<std::string> ChangedKeys(const Settings& before, const Settings& after);

}  // namespace remora
