#include "tools/kvgate/resp/number_text.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace remora::kvgate {

std::optional<std::int64_t> ParseInteger(std::string_view text) {
  if (text == "0") return 0;
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  if (first >= text.size() || text[first] < '1' || text[first] > '9') return std::nullopt;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return number;
}

std::optional<long double> ParseFloat(std::string_view text) {
  std::array<char, 256> copy{};  // with a zero at its end
  if (text.empty() || text.size() >= copy.size() || std::isspace(static_cast<unsigned char>(text[0])) != 0) {
    return std::nullopt;
  }
  text.copy(copy.data(), text.size());
  char* end = nullptr;
  errno = 0;
  const long double number = std::strtold(copy.data(), &end);
  if (end != copy.data() + text.size() || std::isnan(number)) return std::nullopt;
  if (errno == ERANGE && (std::isinf(number) || number == 0)) return std::nullopt;
  return number;
}

std::string FormatFloat(long double number) {
  constexpr int kDigits = 17;
  const int size = std::snprintf(nullptr, 0, "%.*Lf", kDigits, number);
  std::string text(static_cast<std::size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, "%.*Lf", kDigits, number);
  text.resize(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace remora::kvgate
