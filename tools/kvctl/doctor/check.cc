#include "tools/kvctl/doctor/check.h"

#include <array>
#include <cstddef>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace remora::doctor {

Check PassedCheck(std::string name, std::string found) {
  Check check;
  check.name = std::move(name);
  check.found = std::move(found);
  return check;
}

std::string BytesText(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrFormat("%d bytes", bytes);
  double number = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  return absl::StrFormat("%.1f %s", number, kUnits.at(unit));
}

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  absl::StripAsciiWhitespace(&line);
  return line;
}

std::string ChosenWord(const std::string& setting) {
  const std::size_t begin = setting.find('[');
  const std::size_t end = setting.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return setting;
  return setting.substr(begin + 1, end - begin - 1);
}

}  // namespace remora::doctor
