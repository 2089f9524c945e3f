#include "bench/kvbench/report/environment.h"

#include <rocksdb/version.h>
#include <sched.h>
#include <sys/utsname.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/memory/system_memory.h"

namespace remora::bench {
namespace {

// The commit from which this program was built.
constexpr const char* kCommit =
#include "server/commit.inc"
    ;

/// Returns what follows `name` and `separator` in the first line of the file that has them; without quotes.
std::string ReadValue(const char* path, absl::string_view name, char separator) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, name)) continue;
    rest = absl::StripLeadingAsciiWhitespace(rest);
    if (rest.empty() || rest.front() != separator) continue;
    rest = absl::StripAsciiWhitespace(rest.substr(1));
    if (absl::ConsumePrefix(&rest, "\"")) absl::ConsumeSuffix(&rest, "\"");
    return std::string(rest);
  }
  return {};
}

}  // namespace

Texts ReadEnvironment(pid_t server_pid) {
  Texts environment;
  const auto add = [&environment](const char* name, std::string value) {
    if (!value.empty()) environment.emplace_back(name, std::move(value));
  };
  utsname system = {};
  const bool is_known = uname(&system) == 0;
  add("date", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()));
  add("host", is_known ? system.nodename : "");
  const std::string model = ReadValue("/proc/cpuinfo", "model name", ':');
  add("cpu", model.empty() && is_known ? system.machine : model);
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) == 0) add("cpus", absl::StrCat(CPU_COUNT(&usable)));
  const auto cpus_of = [](const std::string& process) {
    return ReadValue(absl::StrCat("/proc/", process, "/status").c_str(), "Cpus_allowed_list", ':');
  };
  add("client_cpus", cpus_of("self"));
  if (server_pid != 0) add("server_cpus", cpus_of(absl::StrCat(server_pid)));
  const std::uint64_t memory = ReadSystemMemory().most;
  if (memory != UINT64_MAX) {
    add("memory", absl::StrFormat("%.1f GiB", static_cast<double>(memory) / (1 << 30)));
  }
  add("system", ReadValue("/etc/os-release", "PRETTY_NAME", '='));
  add("kernel", is_known ? absl::StrCat(system.sysname, " ", system.release) : "");
  double load = 0;
  if (getloadavg(&load, 1) == 1) add("load_average", absl::StrFormat("%.2f", load));
  add("kvbench", REMORA_VERSION);
  add("commit", kCommit);
  add("rocksdb", absl::StrCat(ROCKSDB_MAJOR, ".", ROCKSDB_MINOR, ".", ROCKSDB_PATCH));
  return environment;
}

}  // namespace remora::bench
