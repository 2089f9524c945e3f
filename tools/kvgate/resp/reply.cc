#include "tools/kvgate/resp/reply.h"

#include <array>
#include <charconv>

namespace remora::kvgate {
namespace {

constexpr std::string_view kEnd = "\r\n";

}  // namespace

void Reply::Head(char type, std::int64_t number) {
  std::array<char, 24> text{};
  text[0] = type;
  char* const end = std::to_chars(text.data() + 1, text.data() + text.size(), number).ptr;
  bytes_.append(text.data(), end);
  bytes_ += kEnd;
}

void Reply::Simple(std::string_view text) {
  bytes_ += '+';
  bytes_ += text;
  bytes_ += kEnd;
}

void Reply::Error(std::string_view text) {
  bytes_ += '-';
  for (const char c : text) bytes_ += c == '\r' || c == '\n' ? ' ' : c;
  bytes_ += kEnd;
}

void Reply::Integer(std::int64_t number) { Head(':', number); }

void Reply::Bulk(std::string_view bytes) {
  Head('$', static_cast<std::int64_t>(bytes.size()));
  bytes_ += bytes;
  bytes_ += kEnd;
}

void Reply::Verbatim(std::string_view text) {
  if (protocol_ == 2) return Bulk(text);
  constexpr std::string_view kForm = "txt:";
  Head('=', static_cast<std::int64_t>(kForm.size() + text.size()));
  bytes_ += kForm;
  bytes_ += text;
  bytes_ += kEnd;
}

void Reply::Null() { bytes_ += protocol_ == 2 ? "$-1\r\n" : "_\r\n"; }
void Reply::NullArray() { bytes_ += protocol_ == 2 ? "*-1\r\n" : "_\r\n"; }
void Reply::Array(std::size_t size) { Head('*', static_cast<std::int64_t>(size)); }

void Reply::Map(std::size_t size) {
  if (protocol_ == 2) return Array(2 * size);
  Head('%', static_cast<std::int64_t>(size));
}

void Reply::Set(std::size_t size) { Head(protocol_ == 2 ? '*' : '~', static_cast<std::int64_t>(size)); }
void Reply::Push(std::size_t size) { Head(protocol_ == 2 ? '*' : '>', static_cast<std::int64_t>(size)); }

}  // namespace remora::kvgate
