// A table, and its two forms: for a page, and for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace remora::bench {

struct Table {
  enum class Kind : std::uint8_t { kNumber = 1, kName, kLong };
  struct Column {
    std::string heading;
    Kind kind = Kind::kNumber;  // kLong: a text that a page may break
  };

  std::string title{};
  std::vector<Column> columns{};
  std::vector<std::vector<std::string>> rows{};  // each with a text for each column
};

/// Returns well-formed XML; empty if the table has no rows and no columns.
std::string HtmlOf(const Table& table);

/// Returns the title and lines whose columns stand below each other, with a newline before; empty as above.
/// Bytes that a terminal would obey are escaped.
std::string TextOf(const Table& table);

}  // namespace remora::bench
