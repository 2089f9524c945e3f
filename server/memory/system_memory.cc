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

/// The least of a group and of those above it.
std::uint64_t LeastLimit(const std::string& mount, std::string group, const char* name) {
  std::uint64_t least = UINT64_MAX;
  for (;;) {
    while (group.ends_with('/')) group.pop_back();
    least = std::min(least, ReadLimit(absl::StrCat(mount, group, "/", name)));
    if (group.empty()) return least;
    group.resize(group.rfind('/'));
  }
}

/// Lines of /proc/self/cgroup: "0::/group", of version 2; "4:memory:/group", of version 1.
std::uint64_t GroupLimit(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::uint64_t least = UINT64_MAX;
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos || line[second + 1] != '/') continue;
    const std::string group = line.substr(second + 1);
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (controllers.empty()) {
      least = std::min(least, LeastLimit(root + "/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers == "memory") {
      least = std::min(least, LeastLimit(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
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
  if (const std::uint64_t group = GroupLimit(root); group < system.most) {
    system.most = group;
    system.whose = "this process's control group";
  }
  return system;
}

std::size_t DefaultMemory(const SystemMemory& system) {
  return std::min<std::uint64_t>(std::uint64_t{256} << 20, system.most / 2);
}

absl::Status CheckMemory(std::size_t memory, const SystemMemory& system) {
  if (memory <= system.most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a memory of ", memory, " bytes is more than ",
                                                   system.whose, " has, ", system.most,
                                                   ": give it less (--memory)"));
}

}  // namespace remora
