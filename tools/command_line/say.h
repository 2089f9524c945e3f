// Texts for a person at a terminal, of parts that others chose: arguments, file names, a server's words.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>

namespace remora::command_line {

/// Returns how many bytes at the start of `text` are one control character, which a terminal would obey: of
/// ASCII (also DEL), or of C1 in UTF-8. 0: it begins with none.
std::size_t ControlCharacterAt(std::string_view text);

/// The text on one line, with control characters as \x1b.
std::string Printable(std::string_view text);

/// Writes `text`, control characters included, to standard error. It drops the text if no
/// reader takes any of it for 2 s, as with a full pipe, so that a program with an error can end. After that
/// it does not wait again until the reader takes something.
void WriteError(std::string_view text);

/// Hands what a stream is told to WriteError, at each flush.
class ErrorBuffer final : public std::stringbuf {
 protected:
  int sync() override;
};

/// From here on, an allocation for which there is no memory ends the process with EX_OSERR (71), and a line:
/// `program`, a string that stays, and what is the matter.
void EndWithoutMemory(const char* program);

/// Writes a line to standard error: Printable, and a newline.
void SayError(std::string_view line);

}  // namespace remora::command_line
