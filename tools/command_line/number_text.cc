#include "tools/command_line/number_text.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace remora::command_line {
namespace {

constexpr std::string_view kUnits = "KMGT";

/// The digits that the text begins with, all of which are taken off it.
std::optional<std::uint64_t> TakeDigits(std::string_view* text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return number;
}

std::optional<Number> ReadWhole(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const std::optional<std::uint64_t> number = TakeDigits(&text);
  if (!number || !text.empty()) return std::nullopt;
  return is_negative ? -static_cast<Number>(*number) : static_cast<Number>(*number);
}

std::optional<Number> ReadSize(std::string_view text) {
  const std::optional<std::uint64_t> number = TakeDigits(&text);
  if (!number) return std::nullopt;
  std::string unit(text);
  for (char& letter : unit) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  if (unit.empty() || unit == "B") return static_cast<Number>(*number);
  const std::size_t power = kUnits.find(unit[0]);
  const std::string behind = unit.substr(1);
  if (power == std::string_view::npos || (!behind.empty() && behind != "B" && behind != "IB")) {
    return std::nullopt;
  }
  return std::ldexp(static_cast<Number>(*number), 10 * (static_cast<int>(power) + 1));
}

std::optional<Number> ReadReal(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace

std::optional<Number> NumberRule::Read(std::string_view text) const {
  const std::optional<Number> number = form == Form::kWhole  ? ReadWhole(text)
                                       : form == Form::kSize ? ReadSize(text)
                                                             : ReadReal(text);
  if (!number || *number < least || *number > most) return std::nullopt;
  if (without_bounds && (*number == least || *number == most)) return std::nullopt;
  return number;
}

std::string NumberRule::Allowed() const {
  const bool is_real = form == Form::kReal;
  const std::string what = is_real ? "a number" : form == Form::kSize ? "a size" : "a whole number";
  constexpr Number kMaxNumber = std::numeric_limits<std::uint64_t>::max();
  const bool has_most = most < (is_real ? Number{std::numeric_limits<double>::max()} : kMaxNumber);
  if (without_bounds && has_most) {
    return what + " between " + NumberText(form, least) + " and " + NumberText(form, most) +
           ", and neither of them";
  }
  if (without_bounds) return what + " above " + NumberText(form, least);
  std::string bounds;
  if (!is_real || least > std::numeric_limits<double>::lowest()) bounds += " from " + NumberText(form, least);
  if (!is_real || has_most) bounds += " to " + NumberText(form, most);
  if (form != Form::kSize) return what + bounds;
  return what + bounds + ": " + kSizeText;
}

std::string NumberText(NumberRule::Form form, Number number) {
  char text[64];
  if (form == NumberRule::Form::kReal) {
    std::snprintf(text, sizeof(text), "%.10Lg", number);
    return text;
  }
  std::string unit;
  if (form == NumberRule::Form::kSize && number > 0) {
    for (const char letter : kUnits) {
      if (std::fmod(number, Number{1024}) != 0) break;
      number /= 1024;
      unit = letter;
    }
  }
  std::snprintf(text, sizeof(text), "%.0Lf", number);
  return text + unit;
}

}  // namespace remora::command_line
