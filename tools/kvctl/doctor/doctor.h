// All checks of kvctl doctor, in their order, and their output.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/kvctl/doctor/check.h"
#include "tools/kvctl/doctor/reachability.h"

namespace remora::doctor {

struct Options {
  std::string version;                      // of this program
  std::string address;                      // of a server; empty: none
  Connector connect;                        // to it
  std::chrono::milliseconds patience{0};    // with it
  std::string data_dir;                     // empty: none
  std::uint64_t memory = 0;                 // 0: the server's default
  std::optional<std::uint64_t> commit_log;  // bytes, 0: off; nothing: the server's default
  std::optional<std::string> device;        // RDMA is to be used; that one, or empty: any
};

/// Runs all checks. Changes nothing, and waits for nothing longer than some seconds, or `patience`.
Checks RunChecks(const Options& options);

/// A line for each check, and one that counts the verdicts.
std::string ToText(const Checks& checks);
/// One object of JSON, on a line, with all of each check.
std::string ToJson(const Checks& checks, const std::string& version);

/// Returns whether one of them is a problem.
bool HasProblem(const Checks& checks);

}  // namespace remora::doctor
