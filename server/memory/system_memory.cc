#include "server/memory/system_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace remora {
namespace {

/// "max", and what is not there, are no limit.
std::uint64_t ReadLimit(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::uint64_t limit = 0;
  return file >> text && absl::SimpleAtoi(text, &limit) ? limit : UINT64_MAX;
}

/// A line of memory.stat; 0: it has none of that name.
std::uint64_t ReadStatistic(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) {
    if (name == wanted) return value;
  }
  return 0;
}

/// How the files of one version are called.
struct GroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // in memory.stat: of files that were read or written, and not used lately
};
constexpr GroupFiles kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};

/// Lowers what `system` says to what the group and those above it let this process have.
void LimitToGroup(const std::string& root, std::string group, const GroupFiles& files, SystemMemory* system) {
  for (;;) {
    while (group.ends_with('/')) group.pop_back();
    const std::string folder = absl::StrCat(root, files.mount, group, "/");
    const std::uint64_t limit = ReadLimit(folder + files.limit);
    const std::uint64_t usage = ReadLimit(folder + files.usage);
    constexpr char kGroup[] = "this process's control group";
    if (limit < system->most) {
      system->most = limit;
      system->whose = kGroup;
    }
    if (limit != UINT64_MAX && usage != UINT64_MAX) {
      const std::uint64_t reclaimable = ReadStatistic(folder + "memory.stat", files.reclaimable);
      const std::uint64_t taken = usage - std::min(usage, reclaimable);
      if (const std::uint64_t left = limit - std::min(limit, taken); left < system->available) {
        system->available = left;
        system->whose_available = kGroup;
      }
    }
    if (group.empty()) return;
    group.resize(group.rfind('/'));
  }
}

/// Lines of /proc/self/cgroup: "0::/group", of version 2; "4:memory:/group", of version 1.
void LimitToGroups(const std::string& root, SystemMemory* system) {
  std::ifstream groups(root + "/proc/self/cgroup");

  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos || line[second + 1] != '/') continue;
    const std::string group = line.substr(second + 1);
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (controllers.empty()) LimitToGroup(root, group, kVersion2, system);
    if (controllers == "memory") LimitToGroup(root, group, kVersion1, system);
  }
}

}  // namespace

SystemMemory ReadSystemMemory(const std::string& root) {
  SystemMemory system;
  std::ifstream file(root + "/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kib = 0; file >> name >> kib;) {
    if (name == "MemTotal:") system.most = kib << 10;
    if (name == "MemAvailable:") system.available = kib << 10;
    std::getline(file, unit);
  }
  LimitToGroups(root, &system);
  return system;
}

std::size_t WriteBufferFor(const SystemMemory& system) {
  return std::clamp<std::uint64_t>(system.most / 16, std::uint64_t{4} << 20, std::uint64_t{64} << 20);
}

std::size_t BesideMemory(const SystemMemory& system, bool is_durable) {
  // Measured while a store was filled, with 64 MiB: up to 136 MiB of them, and 3 MiB of a store in memory.
  // The rest is for the program's own pages, and for those of files that it is about to write.
  constexpr std::size_t kProgram = std::size_t{36} << 20;
  return kProgram + (is_durable ? 3 * WriteBufferFor(system) : 0);
}

std::size_t DefaultMemory(const SystemMemory& system) {
  constexpr std::uint64_t kMin = std::uint64_t{20} << 20;
  constexpr std::uint64_t kMax = std::uint64_t{256} << 20;
  const std::uint64_t beside = BesideMemory(system, /*is_durable=*/true);
  const std::uint64_t rest = system.most - std::min(system.most, beside);
  return std::clamp(std::min(rest, system.most / 2), kMin, kMax) & ~((std::uint64_t{1} << 20) - 1);
}

bool FitsAvailable(std::size_t memory, const SystemMemory& system, bool is_durable) {
  const std::uint64_t beside = BesideMemory(system, is_durable);
  return memory <= system.available - std::min(beside, system.available);
}

absl::Status CheckMemory(std::size_t memory, const SystemMemory& system) {
  if (memory <= system.most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a memory of ", memory, " bytes is more than ",
                                                   system.whose, " has, ", system.most,
                                                   ": give it less (--memory)"));
}

absl::Status CheckChangeLog(std::size_t change_log, std::size_t memory, const SystemMemory& system) {
  if (change_log <= system.most - memory) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a change log of ", change_log, " bytes beside a memory of ", memory, " bytes is more than ",
      system.whose, " has, ", system.most, ": give it less (--change_log), or the memory (--memory)"));
}

}  // namespace remora
