#include "tools/kvgate/commands/set_options.h"

#include <cstddef>
#include <utility>

#include "tools/kvgate/command_table.h"

namespace remora::kvgate {
namespace {

std::optional<TimeForm> TimeFormOf(std::string_view word) {
  constexpr std::pair<std::string_view, TimeForm> kForms[] = {{"EX", TimeForm::kSeconds},
                                                              {"PX", TimeForm::kMilliseconds},
                                                              {"EXAT", TimeForm::kUnixSeconds},
                                                              {"PXAT", TimeForm::kUnixMilliseconds}};
  for (const auto& [name, form] : kForms) {
    if (IsWord(word, name)) return form;
  }
  return std::nullopt;
}

/// Takes a time at *index, and moves it to the last argument of the option. Returns false if there is none,
/// or another option excludes it.
bool TakeTime(const Request& request, std::size_t* index, SetOptions* options) {
  const std::optional<TimeForm> form = TimeFormOf(request[*index]);
  if (!form || options->time_form || options->keeps_ttl || options->persists) return false;
  if (*index + 1 >= request.size()) return false;
  options->time_form = form;
  options->time = request[++*index];
  return true;
}

bool TakeOnly(SetOptions::Only only, SetOptions* options) {
  if (options->only != SetOptions::Only::kAlways && options->only != only) return false;
  options->only = only;
  return true;
}

}  // namespace

std::optional<SetOptions> ParseSetOptions(const Request& request) {
  SetOptions options;
  for (std::size_t i = 3; i < request.size(); ++i) {
    const std::string_view word = request[i];
    bool is_right = true;
    if (IsWord(word, "NX")) {
      is_right = TakeOnly(SetOptions::Only::kIfAbsent, &options);
    } else if (IsWord(word, "XX")) {
      is_right = TakeOnly(SetOptions::Only::kIfPresent, &options);
    } else if (IsWord(word, "GET")) {
      options.gets = true;
    } else if (IsWord(word, "KEEPTTL")) {
      is_right = !options.time_form;
      options.keeps_ttl = true;
    } else {
      is_right = TakeTime(request, &i, &options);
    }
    if (!is_right) return std::nullopt;
  }
  return options;
}

std::optional<SetOptions> ParseGetExOptions(const Request& request) {
  SetOptions options;
  for (std::size_t i = 2; i < request.size(); ++i) {
    if (IsWord(request[i], "PERSIST")) {
      if (options.time_form) return std::nullopt;
      options.persists = true;
    } else if (!TakeTime(request, &i, &options)) {
      return std::nullopt;
    }
  }
  return options;
}

}  // namespace remora::kvgate
