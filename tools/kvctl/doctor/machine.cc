#include "tools/kvctl/doctor/machine.h"

#include <rocksdb/version.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/format/memory/layout.h"
#include "store/format/wire/messages.h"

namespace remora::doctor {
namespace {

constexpr char kClocks[] = "/sys/devices/system/clocksource/clocksource0/";

/// Those that a process reads without a system call.
constexpr std::array<std::string_view, 4> kFastClocks = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
                                                         "arch_sys_counter"};

Check JudgeClock(const MachineFacts& facts) {
  Check check = PassedCheck("clock_source", facts.clock_source);
  if (std::ranges::find(kFastClocks, facts.clock_source) != kFastClocks.end()) return check;
  if (facts.clock_source.empty()) {
    check.found = "the system does not tell it";
    return check;
  }
  check.verdict = Verdict::kWarning;
  check.found = absl::StrFormat("%s, which costs a system call each time; each GET reads the clock",
                                facts.clock_source);
  check.remedy = absl::StrContains(facts.clock_sources, "tsc")
                     ? absl::StrFormat("as root: echo tsc >%scurrent_clocksource", kClocks)
                     : "the system has no faster one; if it gave up the TSC, dmesg | grep -i tsc says why";
  return check;
}

}  // namespace

MachineFacts ReadMachine() {
  MachineFacts facts;
  facts.clock_source = ReadLine(absl::StrCat(kClocks, "current_clocksource"));
  facts.clock_sources = ReadLine(absl::StrCat(kClocks, "available_clocksource"));
  utsname system = {};
  if (uname(&system) == 0) {
    facts.release = system.release;
    facts.architecture = system.machine;
  }
  facts.rocksdb = rocksdb::GetRocksVersionAsString();
  return facts;
}

void JudgeMachine(const MachineFacts& facts, const std::string& version, Checks* checks) {
  checks->push_back(JudgeClock(facts));
  const auto add = [&](const char* name, std::string found) {
    checks->push_back(PassedCheck(name, std::move(found)));
  };
  add("kernel", absl::StrFormat("Linux %s, %s", facts.release, facts.architecture));
  add("program",
      absl::StrFormat("kvctl %s, format %d, protocol %d", version, kFormatVersion, kProtocolVersion));
  add("rocksdb", facts.rocksdb);
}

}  // namespace remora::doctor
