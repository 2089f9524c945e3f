#include "bench/kvbench/report/charts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "bench/kvbench/report/report.h"
#include "store/base/absl_view.h"

namespace remora::bench {
namespace {

// Okabe and Ito's, which people tell apart however they see colours.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

const char* Colour(std::size_t number) { return kColours[number % std::size(kColours)]; }

// Where a line chart's plot lies in its picture.
constexpr double kChartWidth = 720;
constexpr double kHeight = 300;
constexpr double kLeft = 110;
constexpr double kRight = 30;
constexpr double kTop = 15;
constexpr double kBottom = 45;
constexpr double kLegendLine = 18;

double PlaceX(const Axis& axis, double x) {
  const double part = std::clamp((x - axis.low) / (axis.high - axis.low), 0.0, 1.0);
  return kLeft + part * (kChartWidth - kLeft - kRight);
}
double PlaceY(const Axis& axis, double y) {
  const double part = std::clamp((y - axis.low) / (axis.high - axis.low), 0.0, 1.0);
  return kHeight - kBottom - part * (kHeight - kTop - kBottom);
}

void Text(std::string* svg, double x, double y, const char* anchor, std::string_view text) {
  absl::StrAppendFormat(svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                        Escaped(text));
}

void Rule(std::string* svg, double x1, double y1, double x2, double y2) {
  absl::StrAppendFormat(svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"rule\"/>\n", x1,
                        y1, x2, y2);
}

void Axes(std::string* svg, const Axis& x, const Axis& y) {
  for (const auto& [place, text] : x.marks) {
    const double at = PlaceX(x, place);
    Rule(svg, at, kTop, at, kHeight - kBottom);
    Text(svg, at, kHeight - kBottom + 16, "middle", text);
  }
  for (const auto& [place, text] : y.marks) {
    const double at = PlaceY(y, place);
    Rule(svg, kLeft, at, kChartWidth - kRight, at);
    Text(svg, kLeft - 6, at + 4, "end", text);
  }
  Text(svg, (kLeft + kChartWidth - kRight) / 2, kHeight - 8, "middle", x.title);
  absl::StrAppendFormat(
      svg, "<text transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
      (kTop + kHeight - kBottom) / 2, Escaped(y.title));
}

std::string Opening(double height) {
  return absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\">\n",
                         kChartWidth, height);
}

}  // namespace

std::string Escaped(std::string_view text) {
  return absl::StrReplaceAll(
      AbslView(text), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

Axis LinearAxis(std::string title, double high) {
  constexpr double kMaxMarks = 6;
  const double wanted = std::max(high, 1e-9) / kMaxMarks;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= wanted) step = factor * power;
  }
  Axis axis{std::move(title), 0, 0, {}};
  for (int i = 0; i == 0 || axis.high < high; ++i) {
    axis.high = i * step;
    axis.marks.emplace_back(axis.high, axis.high >= 1000 ? Grouped(static_cast<std::uint64_t>(axis.high))
                                                         : std::string(absl::StrCat(axis.high)));
  }
  if (axis.high == 0) axis.high = step;
  return axis;
}

Axis LogTimeAxis(std::string title, double low, double high) {
  Axis axis{std::move(title), std::floor(std::log10(low)), std::ceil(std::log10(high)), {}};
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  for (int power = static_cast<int>(axis.low); power <= static_cast<int>(axis.high); ++power) {
    const int unit = std::min(power / 3, 3);
    axis.marks.emplace_back(power, absl::StrFormat("%.0f %s", std::pow(10, power - 3 * unit), kUnits[unit]));
  }
  return axis;
}

std::string LineChart(const Axis& x, const Axis& y, const std::vector<Series>& series) {
  std::string svg = Opening(kHeight + kLegendLine * static_cast<double>(series.size()));
  Axes(&svg, x, y);
  for (std::size_t i = 0; i < series.size(); ++i) {
    absl::StrAppendFormat(&svg, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"",
                          Colour(series[i].colour));
    for (const auto& [px, py] : series[i].points) {
      absl::StrAppendFormat(&svg, "%.1f,%.1f ", PlaceX(x, px), PlaceY(y, py));
    }
    svg += "\"/>\n";
    const double at = kHeight + kLegendLine * static_cast<double>(i);
    absl::StrAppendFormat(&svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n",
                          kLeft, at, Colour(series[i].colour));
    Text(&svg, kLeft + 18, at + 10, "start", series[i].label);
  }
  return svg + "</svg>\n";
}

std::string BarChart(const std::vector<Bar>& bars) {
  constexpr double kLine = 24;
  constexpr double kLabels = 260;
  constexpr double kTexts = 110;
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.value);
  std::string svg = Opening(kLine * static_cast<double>(bars.size()));
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double at = kLine * static_cast<double>(i);
    const double width = most > 0 ? bars[i].value / most * (kChartWidth - kLabels - kTexts) : 0;
    Text(&svg, kLabels - 8, at + 16, "end", bars[i].label);
    absl::StrAppendFormat(&svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"16\" fill=\"%s\"/>\n",
                          kLabels, at + 4, width, Colour(bars[i].colour));
    Text(&svg, kLabels + width + 6, at + 16, "start", bars[i].text);
  }
  return svg + "</svg>\n";
}

}  // namespace remora::bench
