// Classes of keyspace notifications, as the setting notify-keyspace-events of Redis names them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace remora::kvgate {

inline constexpr std::string_view kNotifySetting = "notify-keyspace-events";
inline constexpr std::string_view kUnknownEventClass =
    "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";

/// Channels of a key begin with the first, and have the key behind it; channels of an event with the second.
inline constexpr std::string_view kKeyspacePrefix = "__keyspace@0__:";
inline constexpr std::string_view kKeyeventPrefix = "__keyevent@0__:";

/// A set of letters: K and E choose the channels, the others the classes of events. The gate keeps all that
/// Redis knows, and has events of the classes $ (set) and g (del).
///
/// Thread safety: a value.
class EventFlags {
 public:
  EventFlags() = default;

  /// Returns the flags of a text. Nullopt: it has a letter that Redis does not know.
  static std::optional<EventFlags> Parse(std::string_view text);
  /// Returns the letters in the order of Redis, with A for all classes that it stands for.
  std::string ToString() const;

  bool empty() const { return bits_ == 0; }
  bool has_keyspace() const { return Has('K'); }
  bool has_keyevent() const { return Has('E'); }
  bool has_sets() const { return Has('$'); }
  bool has_deletions() const { return Has('g'); }

  friend bool operator==(const EventFlags&, const EventFlags&) = default;

 private:
  bool Has(char letter) const;

  std::uint32_t bits_ = 0;  // by the place of the letter in kLetters
};

}  // namespace remora::kvgate
