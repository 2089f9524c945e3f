// Reports on a terminal.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/kvbench/report/report.h"
#include "bench/kvbench/report/table.h"
#include "bench/kvbench/report/tables.h"
#include "tools/command_line/say.h"

namespace remora::bench {

std::string ToText(const std::vector<NamedReport>& reports) {
  std::string text;
  for (const std::string& warning : Warnings(reports)) absl::StrAppend(&text, warning, "\n");
  absl::StrAppend(&text, TextOf(MediansTable(reports)), TextOf(SummaryTable(reports)));
  const std::vector<std::string> errors = ErrorLines(reports);
  if (!errors.empty()) text += "\nErrors\n";
  for (const std::string& line : errors) absl::StrAppend(&text, command_line::Printable(line), "\n");
  if (reports.size() > 1) {
    absl::StrAppend(&text, TextOf(TextsTable("Machine and versions", reports, &RunReport::environment)),
                    TextOf(TextsTable("Settings", reports, &RunReport::settings)));
  }
  // Each table begins with an empty line; nothing stands before the first one.
  return text.starts_with('\n') ? text.substr(1) : text;
}

}  // namespace remora::bench
