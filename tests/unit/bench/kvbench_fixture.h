// kvbench as a whole, on a real store in this process.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "bench/kvbench/kvbench.h"
#include "bench/kvbench/options.h"
#include "bench/kvbench/report/report.h"
#include "store/base/clock.h"

namespace remora::bench {

// Indices of what is counted by the kind of operation.
constexpr auto kRead = static_cast<std::size_t>(OperationKind::kRead);
constexpr auto kUpdate = static_cast<std::size_t>(OperationKind::kUpdate);
constexpr auto kInsert = static_cast<std::size_t>(OperationKind::kInsert);
constexpr auto kScan = static_cast<std::size_t>(OperationKind::kScan);
constexpr auto kReadModifyWrite = static_cast<std::size_t>(OperationKind::kReadModifyWrite);

class KvbenchTest : public ::testing::Test {
 protected:
  KvbenchTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "kvbench_test-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~KvbenchTest() override { std::filesystem::remove_all(directory_); }

  /// Runs `kvbench FLAGS...`; returns its exit status.
  int Kvbench(std::vector<const char*> flags) {
    flags.insert(flags.begin(), "kvbench");
    const auto parsed = ParseCommandLine(static_cast<int>(flags.size()), flags.data());
    if (const int* status = std::get_if<int>(&parsed)) return *status;
    std::ostringstream out;
    std::ostringstream err;
    const SteadyClock clock;
    const int status = RunBench(std::get<BenchOptions>(parsed), clock, /*err_is_terminal=*/false, out, err);
    out_ = out.str();
    err_ = err.str();
    return status;
  }

  std::string JsonFlag() const { return "--json=" + directory_ + "/out.json"; }
  std::string File(const std::string& name) const {
    std::ifstream file(directory_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + "/" + name) << text;
  }
  /// Reads JsonFlag's file.
  RunReport Report() const {
    const auto report = ParseReport(File("out.json"));
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : RunReport();
  }

  std::string directory_;
  std::string out_;
  std::string err_;
};

}  // namespace remora::bench
