// kvctl doctor: one check, and its verdict.
//
// Each group of checks has a file with two parts. One collects facts from the machine or a server. The other
// judges facts that it is given, so that tests judge machines which they do not have.
//
//   limits.h         memory that may be locked, descriptors, CPUs
//   memory.h         physical memory, control groups, huge pages
//   machine.h        clock source, versions
//   disk.h           the data directory
//   devices.h        RDMA devices
//   loopback.h       requests of an RDMA device to itself
//   perftest.h       perftest's times of the same device
//   reachability.h   a server
//   doctor.h         which groups there are, and the output
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace remora::doctor {

enum class Verdict : std::uint8_t { kOk = 1, kWarning, kProblem };

struct Check {
  std::string name;  // for programs, too: it stays the same
  Verdict verdict = Verdict::kOk;
  std::string found;                   // a clause for a person
  std::optional<std::uint64_t> value;  // the number in `found`: bytes, a count, or us; from 2^63 on: no limit
  std::optional<std::uint64_t> limit;  // the number that `value` was compared with
  std::string remedy;  // the action, with its command; empty if the verdict is kOk, or `found` says it
};
using Checks = std::vector<Check>;

/// A check that found no fault.
Check PassedCheck(std::string name, std::string found);

/// The server that is to run on this machine.
struct Plan {
  std::uint64_t memory = 0;                   // kvserver --memory
  std::optional<std::uint64_t> commit_log{};  // --commit_log, in bytes, 0: off; nothing: the disk's default
  bool needs_rdma = false;                    // it is to be reached over RDMA: each lack of RDMA is a problem
};

/// "512 bytes", "64.0 MiB".
std::string BytesText(std::uint64_t bytes);

/// The first line of a file of the system, without blanks at its ends; empty: it cannot be read. `path`:
/// below /proc or /sys, where no read waits for a device.
std::string ReadLine(const std::string& path);
/// The word in brackets of a setting of the system, as "advise" of "always [advise] never"; else all of it.
std::string ChosenWord(const std::string& setting);

}  // namespace remora::doctor
