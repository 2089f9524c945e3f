#include "tools/kvgate/pubsub/event_flags.h"

#include <cstddef>

namespace remora::kvgate {
namespace {

// In the order in which Redis shows them. A stands for the classes up to `d`; beside it, `n` is not shown.
constexpr std::string_view kLetters = "g$lshzxetdnKEm";
constexpr std::string_view kLettersOfAll = "g$lshzxetd";

constexpr std::uint32_t BitOf(char letter) {
  const std::size_t place = kLetters.find(letter);
  return place == std::string_view::npos ? 0 : std::uint32_t{1} << place;
}

constexpr std::uint32_t BitsOfAll() {
  std::uint32_t bits = 0;
  for (const char letter : kLettersOfAll) bits |= BitOf(letter);
  return bits;
}

}  // namespace

bool EventFlags::Has(char letter) const { return (bits_ & BitOf(letter)) != 0; }

std::optional<EventFlags> EventFlags::Parse(std::string_view text) {
  EventFlags flags;
  // Text of C stops at a zero byte, and so does Redis.
  for (const char letter : text.substr(0, text.find('\0'))) {
    const std::uint32_t bits = letter == 'A' ? BitsOfAll() : BitOf(letter);
    if (bits == 0) return std::nullopt;
    flags.bits_ |= bits;
  }
  return flags;
}

std::string EventFlags::ToString() const {
  const bool has_all = (bits_ & BitsOfAll()) == BitsOfAll();
  std::string text = has_all ? "A" : "";
  for (const char letter : kLetters) {
    const bool is_hidden = has_all && (letter == 'n' || (BitOf(letter) & BitsOfAll()) != 0);
    if (Has(letter) && !is_hidden) text += letter;
  }
  return text;
}

}  // namespace remora::kvgate
