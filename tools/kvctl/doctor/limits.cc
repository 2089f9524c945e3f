#include "tools/kvctl/doctor/limits.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "rdma/address.h"
#include "rdma/transport.h"
#include "server/connection/client_session.h"
#include "server/main/descriptors.h"
#include "server/memory/memory_budget.h"

namespace remora::doctor {
namespace {

bool HasCapability(unsigned capability) {
  std::ifstream file("/proc/self/status");
  std::string name, text;
  while (file >> name) {
    std::uint64_t effective = 0;
    if (name == "CapEff:" && file >> text && absl::SimpleHexAtoi(text, &effective))
      return (effective >> capability & 1) != 0;
    std::getline(file, text);
  }
  return false;
}

unsigned UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // A machine of more CPUs than the set has space for has enough of them.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return CPU_SETSIZE;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

Check JudgeMemlock(const LimitFacts& facts, const Plan& plan, bool has_device) {
  Check check = PassedCheck("memlock", "");
  check.limit = plan.memory;
  if (facts.may_lock_all || facts.memlock == kNoLimit) {
    check.found = facts.may_lock_all ? "this process may lock all memory (CAP_IPC_LOCK)"
                                     : "the memory that may be locked has no limit";
    return check;
  }
  check.value = facts.memlock;
  check.found = absl::StrFormat("%s may be locked (RLIMIT_MEMLOCK); RDMA needs as much as --memory, %s",
                                BytesText(facts.memlock), BytesText(plan.memory));
  if (facts.memlock >= plan.memory) return check;
  check.verdict = has_device || plan.needs_rdma ? Verdict::kProblem : Verdict::kWarning;
  check.remedy =
      "for a server with a verbs address, raise it: ulimit -l unlimited, LimitMEMLOCK=infinity in a unit of "
      "systemd, or memlock in /etc/security/limits.conf";
  return check;
}

Check JudgeDescriptors(const LimitFacts& facts, const Plan& plan) {
  std::vector<rdma::Address> addresses(plan.needs_rdma ? 3 : 2);
  constexpr std::array kKinds = {rdma::TransportKind::kLocal, rdma::TransportKind::kTcp,
                                 rdma::TransportKind::kVerbs};
  for (std::size_t i = 0; i < addresses.size(); ++i) addresses[i].kind = kKinds[i];
  // As kvserver plans them, for the memory. A plan that fails is a fault of the check `memory`.
  const absl::StatusOr<MemoryPlan> split = PlanMemory(
      plan.memory, std::nullopt, addresses, rdma::QueueLimits(), ClientSession::MaxRegisteredBytes());
  const std::uint32_t clients = split.ok() ? split->max_clients : 1;
  const std::size_t needed =
      DescriptorsNeeded(facts.open_descriptors, clients, /*is_durable=*/true, addresses);
  Check check = PassedCheck(
      "descriptors",
      absl::StrFormat("a process may open %d (RLIMIT_NOFILE, hard); a durable server with a local%s address "
                      "and %d clients, as %s hold them, takes %d",
                      facts.descriptors, plan.needs_rdma ? ", a TCP and a verbs" : " and a TCP", clients,
                      BytesText(plan.memory), needed));
  check.value = facts.descriptors;
  check.limit = needed;
  if (facts.descriptors >= needed) return check;
  const std::span<const rdma::Address> one_local(addresses.data(), 1);
  const bool starts =
      PlanDescriptors(facts.descriptors, facts.open_descriptors, 1, /*is_durable=*/true, one_local).ok();
  check.verdict = starts ? Verdict::kWarning : Verdict::kProblem;
  check.remedy = absl::StrFormat("%s; raise it: ulimit -n %d, or LimitNOFILE=%d in a unit of systemd",
                                 starts ? "such a server admits fewer clients" : "the server does not start",
                                 needed, needed);
  return check;
}

Check JudgeCpus(const LimitFacts& facts) {
  Check check = PassedCheck("cpus", absl::StrFormat("this process may run on %d", facts.cpus));
  check.value = facts.cpus;
  check.limit = 2;
  if (facts.cpus >= 2) return check;
  check.verdict = Verdict::kWarning;
  check.remedy =
      "server and clients share it, and a write takes several times as long; give the machine or the "
      "container another CPU";
  return check;
}

}  // namespace

LimitFacts ReadLimits() {
  LimitFacts facts;
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    facts.memlock = limit.rlim_cur == RLIM_INFINITY ? kNoLimit : limit.rlim_cur;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    facts.descriptors = limit.rlim_max == RLIM_INFINITY ? kNoLimit : limit.rlim_max;
  facts.may_lock_all = HasCapability(CAP_IPC_LOCK);
  facts.open_descriptors = OpenDescriptors();
  facts.cpus = std::max(UsableCpus(), 1U);
  return facts;
}

void JudgeLimits(const LimitFacts& facts, const Plan& plan, bool has_device, Checks* checks) {
  checks->push_back(JudgeMemlock(facts, plan, has_device));
  checks->push_back(JudgeDescriptors(facts, plan));
  checks->push_back(JudgeCpus(facts));
}

}  // namespace remora::doctor
