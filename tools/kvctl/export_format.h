// The lines of an export: JSON, one object on each line.
//
//   {"remora_export":1}                                              the first line: the format's version
//   {"key":"user/1","value":"Ada","version":17}                      a record
//   {"key":"session","value":"x","expires_ms":1795305600000,"version":18}
//   {"key_base64":"AP8=","value_base64":"gIGC","version":19}         bytes, not UTF-8 or longer as text
//   {"records":3}                                                    the last line: all of it is there
//
// `expires_ms`: the moment of the server's clock, in ms since 1970, which stays the same when it is imported;
// none: never. `version` is for readers of the export; an imported record gets a version of its own. The
// import does not compare the number of exported records with the number that comes: a filter may have taken
// some out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/format/memory/layout.h"

namespace remora::kvctl {

inline constexpr int kExportFormat = 1;

/// No line is longer, its newline not counted: JSON has six characters for a byte, at the most.
inline constexpr std::size_t kMaxExportLine = 6 * (kMaxKeySize + kMaxValueSize) + 1024;

struct ExportLine {
  enum class Kind : std::uint8_t { kFirst = 1, kRecord = 2, kLast = 3 };

  Kind kind = Kind::kRecord;
  int format = 0;  // kFirst
  // kRecord
  std::string key;
  std::string value;
  std::uint64_t expires_ms = 0;  // 0: never
};

// Each adds a line, and its newline.
void AddFirstLine(std::string* lines);
void AddRecord(std::string_view key, std::string_view value, std::uint64_t expires_ms, std::uint64_t version,
               std::string* lines);
void AddLastLine(std::uint64_t records, std::string* lines);

/// InvalidArgument: why it is no line of an export, for a person.
absl::StatusOr<ExportLine> ParseExportLine(std::string_view line);

}  // namespace remora::kvctl
