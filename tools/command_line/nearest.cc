#include "tools/command_line/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace remora::command_line {
namespace {

char Lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// Upper and lower case count as the same.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (Lower(a[i]) == Lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
    }
  }
  return row.back();
}

}  // namespace

std::string Nearest(std::string_view name, const std::vector<std::string>& names) {
  const auto nearest =
      std::min_element(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
        return EditDistance(a, name) < EditDistance(b, name);
      });
  return nearest == names.end() ? std::string() : *nearest;
}

std::string SayNearest(std::string_view name, const std::vector<std::string>& names,
                       const std::string& before) {
  const std::string nearest = Nearest(name, names);
  // A letter too many, too few or wrong in every three, and two that are transposed.
  const bool is_near = !nearest.empty() &&
                       EditDistance(name, nearest) <= std::max(name.size() / 3, std::size_t{2}) &&
                       EditDistance(name, nearest) < name.size();
  return is_near ? "; the nearest is " + before + nearest : "";
}

}  // namespace remora::command_line
