#include "tools/kvctl/doctor/memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace remora::doctor {
namespace {

constexpr char kShared[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// "has no limit": a value that the system does not tell (SystemMemory).
std::string AmountText(std::uint64_t bytes) {
  return bytes == UINT64_MAX ? "an unknown amount" : BytesText(bytes);
}

Check JudgeSize(const SystemMemory& system, const Plan& plan) {
  Check check = PassedCheck("memory", absl::StrFormat("%s has %s; --memory is %s", system.whose,
                                                      AmountText(system.most), BytesText(plan.memory)));
  check.value = system.most;
  check.limit = plan.memory;
  if (CheckMemory(plan.memory, system).ok()) return check;
  check.verdict = Verdict::kProblem;
  check.remedy = absl::StrFormat(
      "the server does not start; give it less, for example kvserver --memory=%dM, or raise the limit of "
      "the group (memory.max, MemoryMax= in a unit of systemd)",
      DefaultMemory(system) >> 20);
  return check;
}

Check JudgeAvailable(const SystemMemory& system, const Plan& plan) {
  const std::uint64_t beside = BesideMemory(system, /*is_durable=*/true);
  Check check =
      PassedCheck("memory_available",
                  absl::StrFormat("%s has %s available; a durable server takes %s beside --memory",
                                  system.whose_available, AmountText(system.available), BytesText(beside)));
  check.value = system.available;
  check.limit = plan.memory + beside;
  if (FitsAvailable(plan.memory, system, /*is_durable=*/true)) return check;
  check.verdict = Verdict::kWarning;
  check.remedy =
      "when the server's memory fills, the system may kill it; end other programs (top -o %MEM names them), "
      "or lower --memory";
  return check;
}

Check JudgeHugePages(const PageFacts& pages) {
  Check check = PassedCheck("huge_pages", "");
  const bool by_itself = pages.shared == "always" || pages.shared == "within_size" || pages.shared == "force";
  if (by_itself || (pages.can_collapse && !pages.shared.empty() && pages.shared != "deny")) {
    check.found = absl::StrFormat("shared memory gets them (shmem_enabled: %s%s)", pages.shared,
                                  by_itself ? "" : "; the server asks for each");
    return check;
  }
  check.verdict = Verdict::kWarning;
  check.found = pages.shared.empty()
                    ? "this kernel has none for shared memory"
                    : absl::StrFormat("shared memory gets none (shmem_enabled: %s)", pages.shared);
  check.remedy = "READs of a large memory take longer; as root: ";
  if (pages.shared.empty()) {
    check.remedy = "READs of a large memory take longer; use a kernel with CONFIG_TRANSPARENT_HUGEPAGE";
  } else if (pages.shared == "deny") {
    absl::StrAppend(&check.remedy, "echo advise >", kShared);
  } else {
    absl::StrAppend(&check.remedy, "echo within_size >", kShared, ", or use Linux 6.1");
  }
  return check;
}

Check JudgeReserved(const PageFacts& pages) {
  Check check = PassedCheck(
      "reserved_pages",
      pages.reserved_free == 0
          ? "no memory is set aside for hugetlbfs and unused"
          : absl::StrFormat("%s are set aside for hugetlbfs, which Remora does not use, and unused",
                            BytesText(pages.reserved_free)));
  check.value = pages.reserved_free;
  check.limit = 0;
  if (pages.reserved_free == 0) return check;
  check.verdict = Verdict::kWarning;
  check.remedy = "unless another program needs them, as root: sysctl vm.nr_hugepages=0";
  return check;
}

}  // namespace

bool CanCollapse(const std::string& release) {
  unsigned major = 0, minor = 0;
  if (std::sscanf(release.c_str(), "%u.%u", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 1);
}

PageFacts ReadPages(const std::string& release) {
  PageFacts facts;
  facts.shared = ChosenWord(ReadLine(kShared));
  facts.can_collapse = CanCollapse(release);
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::uint64_t pages = 0, page = 0;
  for (std::uint64_t number = 0; file >> name >> number;) {
    if (name == "HugePages_Free:") pages = number;
    if (name == "Hugepagesize:") page = number << 10;
    std::getline(file, unit);
  }
  facts.reserved_free = pages * page;
  return facts;
}

void JudgeMemory(const SystemMemory& system, const PageFacts& pages, const Plan& plan, Checks* checks) {
  checks->push_back(JudgeSize(system, plan));
  checks->push_back(JudgeAvailable(system, plan));
  checks->push_back(JudgeHugePages(pages));
  checks->push_back(JudgeReserved(pages));
}

}  // namespace remora::doctor
