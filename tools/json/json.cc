#include "tools/json/json.h"

#include <cstdlib>

namespace remora::json {

Value Parse(std::string_view text) { return Value(json_loadb(text.data(), text.size(), 0, nullptr)); }

std::string Text(const json_t* value, std::size_t flags) {
  const std::unique_ptr<char, decltype(&std::free)> text(json_dumps(value, JSON_COMPACT | flags), std::free);
  return text.get();
}

std::string_view StringOf(const json_t* value) {
  return {json_string_value(value), json_string_length(value)};
}

std::size_t CharacterSize(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  // The range of the second byte tells the rest apart.
  const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  return size;
}

json_t* NewString(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t size = CharacterSize(bytes);
    text += size == 0 ? std::string_view("\uFFFD") : bytes.substr(0, size);
    bytes.remove_prefix(size == 0 ? 1 : size);
  }
  return json_stringn(text.data(), text.size());
}

json_t* NewCount(std::uint64_t number) { return json_integer(static_cast<json_int_t>(number)); }

}  // namespace remora::json
