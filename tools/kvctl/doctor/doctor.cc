#include "tools/kvctl/doctor/doctor.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/memory/system_memory.h"
#include "tools/json/json.h"
#include "tools/kvctl/doctor/devices.h"
#include "tools/kvctl/doctor/disk.h"
#include "tools/kvctl/doctor/limits.h"
#include "tools/kvctl/doctor/loopback.h"
#include "tools/kvctl/doctor/machine.h"
#include "tools/kvctl/doctor/memory.h"
#include "tools/kvctl/doctor/perftest.h"
#include "tools/kvctl/doctor/time_limit.h"

namespace remora::doctor {
namespace {

// A disk that sleeps takes some seconds to turn, and libibverbs loads a library for each kind of card.
constexpr std::chrono::seconds kPatience{60};

const char* VerdictName(Verdict verdict) {
  if (verdict == Verdict::kOk) return "ok";
  return verdict == Verdict::kWarning ? "warning" : "problem";
}

std::size_t CountOf(const Checks& checks, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(checks, verdict, &Check::verdict));
}

/// Returns "1 warning", "2 warnings".
std::string CountText(std::size_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace

Checks RunChecks(const Options& options) {
  const SystemMemory system = ReadSystemMemory();
  const MachineFacts machine = ReadMachine();
  const std::optional<RdmaFacts> devices = Within<RdmaFacts>(kPatience, [] { return ReadDevices(); });
  const Plan plan = {.memory = options.memory == 0 ? DefaultMemory(system) : options.memory,
                     .commit_log = options.commit_log,
                     .needs_rdma = options.device || absl::StrContains(options.address, "verbs://")};
  Checks checks;
  JudgeLimits(ReadLimits(), plan, !devices || !devices->in_kernel.empty(), &checks);
  JudgeMemory(system, ReadPages(machine.release), plan, &checks);
  JudgeMachine(machine, options.version, &checks);
  JudgeDevices(devices, plan, &checks);
  if (options.device) {
    const auto run = [device = *options.device] { return RunLoopback(device); };
    const std::optional<LoopbackFacts> loopback = Within<LoopbackFacts>(kPatience, run);
    JudgeLoopback(loopback, *options.device, &checks);
    if (loopback && !loopback->device.empty() && loopback->failure.empty()) {
      const auto compare = [loopback = *loopback] { return RunPerftest(loopback); };
      JudgePerftest(Within<PerftestFacts>(kPatience, compare), *loopback, &checks);
    }
  }
  if (!options.data_dir.empty()) {
    const auto read = [data_dir = options.data_dir, system] { return ReadDisk(data_dir, system); };
    JudgeDisk(Within<DiskFacts>(kPatience, read), plan, &checks);
  }
  if (!options.address.empty()) {
    const auto read = [connect = options.connect] { return ReadServer(connect); };
    JudgeServer(Within<ServerFacts>(options.patience, read), options.address, &checks);
  }
  return checks;
}

std::string ToText(const Checks& checks) {
  std::string text;
  for (const Check& check : checks) {
    absl::StrAppendFormat(&text, "%-8s %s: %s%s%s\n", VerdictName(check.verdict), check.name, check.found,
                          check.remedy.empty() ? "" : "; ", check.remedy);
  }
  absl::StrAppend(&text, CountText(checks.size(), "check"), ", ",
                  CountText(CountOf(checks, Verdict::kWarning), "warning"), ", ",
                  CountText(CountOf(checks, Verdict::kProblem), "problem"), "\n");
  return text;
}

std::string ToJson(const Checks& checks, const std::string& version) {
  json_t* const list = json_array();
  for (const Check& check : checks) {
    json_t* const one = json_pack("{s:o, s:s, s:o}", "name", json::NewString(check.name), "verdict",
                                  VerdictName(check.verdict), "found", json::NewString(check.found));
    if (check.value && *check.value <= INT64_MAX)
      json_object_set_new(one, "value", json::NewCount(*check.value));
    if (check.limit) json_object_set_new(one, "limit", json::NewCount(*check.limit));
    if (!check.remedy.empty()) json_object_set_new(one, "remedy", json::NewString(check.remedy));
    json_array_append_new(list, one);
  }
  const json::Value all(json_pack("{s:o, s:I, s:I, s:o}", "version", json::NewString(version), "warnings",
                                  static_cast<json_int_t>(CountOf(checks, Verdict::kWarning)), "problems",
                                  static_cast<json_int_t>(CountOf(checks, Verdict::kProblem)), "checks",
                                  list));
  return json::Text(all.get()) + "\n";
}

bool HasProblem(const Checks& checks) { return CountOf(checks, Verdict::kProblem) > 0; }

}  // namespace remora::doctor
