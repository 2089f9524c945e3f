#include "server/main/config_reload.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/monitoring/log_events.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

// The keys that TakeEffect changes; docs/operating/running.md has the same list.
constexpr std::array<std::string_view, 4> kChangeWhileServing = {"log_level", "quiet", "log_format",
                                                                 "backup_keep"};
// With --shards, the first process has the gate, and watches the servers. It reports these.
constexpr std::array<std::string_view, 5> kOfFirstProcess = {"redis", "redis_token_file", "cluster_nodes",
                                                             "cluster_announce", "hang_timeout"};

template <std::size_t kCount>
bool IsOneOfKeys(std::string_view key, const std::array<std::string_view, kCount>& keys) {
  return std::ranges::find(keys, key) != keys.end();
}

std::string ShownValue(const Settings& settings, std::string_view key) {
  for (const command_line::Setting& setting : settings.list()) {
    if (setting.key == key) return setting.value;
  }
  return "";
}

}  // namespace

ConfigReload::ConfigReload(int argc, char** argv, const Flags& flags, ServerLog& log)
    : argc_(argc),
      argv_(argv),
      log_(log),
      has_first_process_(flags.shards.number >= 0),
      settings_(flags.settings) {}

void ConfigReload::Reload() {
  Flags fresh;
  std::string fault;
  const bool is_bad = ParseFlags(argc_, argv_, FlagsFor::kReload, &fresh, [&](const std::string& error) {
                        if (fault.empty()) fault = error;
                      }).has_value();
  if (is_bad) {
    return log_.Write(LogEvent::kReloadFailed, absl::StrCat("kept all settings as they were: ", fault));
  }
  std::vector<std::string> taken = ChangedKeys(settings_, fresh.settings);
  if (has_first_process_) {
    std::erase_if(taken, [](const std::string& key) { return IsOneOfKeys(key, kOfFirstProcess); });
  }
  const auto needs_restart = std::stable_partition(taken.begin(), taken.end(), [](const std::string& key) {
    return IsOneOfKeys(key, kChangeWhileServing);
  });
  const std::vector<std::string> left(needs_restart, taken.end());
  taken.erase(needs_restart, taken.end());

  const auto news = absl::StrJoin(taken, ", ", [&](std::string* text, const std::string& key) {
    absl::StrAppend(text, key, " is ", ShownValue(fresh.settings, key), ", it was ",
                    ShownValue(settings_, key));
  });
  const std::string line =
      absl::StrCat("read the file of --config anew: ", news.empty() ? "no setting has changed" : news);
  // Whichever level is the lower one, this line is written if one of the two has it.
  const bool is_more_quiet = fresh.log_level < log_.level();
  if (is_more_quiet) log_.Write(LogEvent::kConfigReloaded, line);
  TakeEffect(fresh);
  settings_.Take({kChangeWhileServing.begin(), kChangeWhileServing.end()}, fresh.settings);
  if (!is_more_quiet) log_.Write(LogEvent::kConfigReloaded, line);
  if (left.empty()) return;
  log_.Write(LogEvent::kRestartNeeded,
             absl::StrCat("changed in the file of --config, and in force only after a restart: ",
                          absl::StrJoin(left, ", ")));
}

void ConfigReload::TakeEffect(const Flags& fresh) {
  log_.set_level(fresh.log_level);
  log_.set_format(fresh.log_format);
  if (server_ != nullptr) server_->SetBackupKeep(fresh.server.backup_keep);
}

}  // namespace remora
