#include "bench/kvbench/report/table.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "bench/kvbench/report/charts.h"
#include "tools/command_line/say.h"

namespace remora::bench {
namespace {

const char* ClassOf(Table::Kind kind) {
  switch (kind) {
    case Table::Kind::kName:
      return " class=\"name\"";
    case Table::Kind::kLong:
      return " class=\"long\"";
    case Table::Kind::kNumber:
      break;
  }
  return "";
}

void Cell(std::string* html, const char* tag, std::string_view text, const char* kind) {
  absl::StrAppend(html, "<", tag, kind, ">", Escaped(text), "</", tag, ">");
}

}  // namespace

std::string HtmlOf(const Table& table) {
  if (table.columns.empty()) return {};
  std::string html = absl::StrCat("<h2>", table.title, "</h2>\n<div class=\"wide\"><table>\n<tr>");
  for (const Table::Column& column : table.columns) {
    Cell(&html, "th", column.heading, column.kind == Table::Kind::kName ? ClassOf(column.kind) : "");
  }
  html += "</tr>\n";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) Cell(&html, "td", row[i], ClassOf(table.columns[i].kind));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string TextOf(const Table& table) {
  if (table.columns.empty()) return {};
  std::vector<std::vector<std::string>> lines(1);
  for (const Table::Column& column : table.columns) {
    lines[0].push_back(command_line::Printable(column.heading));
  }
  for (const std::vector<std::string>& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const std::string& text : row) line.push_back(command_line::Printable(text));
  }
  std::string text = absl::StrCat("\n", table.title, "\n");
  for (const std::vector<std::string>& line : lines) {
    std::string shown;
    for (std::size_t i = 0; i < line.size(); ++i) {
      std::size_t width = 0;
      for (const std::vector<std::string>& other : lines) width = std::max(width, other[i].size());
      const std::string blanks(width - line[i].size(), ' ');
      const bool is_number = table.columns[i].kind == Table::Kind::kNumber;
      absl::StrAppend(&shown, i == 0 ? "" : "  ", is_number ? blanks : "", line[i], is_number ? "" : blanks);
    }
    shown.erase(shown.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, shown, "\n");
  }
  return text;
}

}  // namespace remora::bench
