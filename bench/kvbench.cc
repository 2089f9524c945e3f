#include "bench/kvbench.h"

#include <sysexits.h>

#include <fstream>
#include <memory>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/report.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

constexpr int kSomethingFailed = 1;

using Sessions = std::vector<std::unique_ptr<Session>>;

absl::StatusOr<Sessions> OpenSessions(Target& target, std::uint32_t count) {
  Sessions sessions;
  for (std::uint32_t i = 0; i < count; ++i) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, target.NewSession());
    sessions.push_back(std::move(session));
  }
  return sessions;
}

int ExitStatusOf(const absl::Status& opening) {
  return opening.code() == absl::StatusCode::kInvalidArgument ? EX_USAGE : EX_UNAVAILABLE;
}

// One line, written over again and wiped at the end.
ProgressSink MakeProgressLine(std::ostream& err) {
  return [&err](std::string_view phase, std::uint64_t done, double seconds) {
    err << absl::StrFormat("\r%s: %d operations in %.0f s\x1b[K", AbslView(phase), done, seconds)
        << std::flush;
  };
}

class Bench {
 public:
  Bench(const BenchOptions& options, const Clock& clock, bool err_is_terminal, std::ostream& out,
        std::ostream& err)
      : options_(options), clock_(clock), err_is_terminal_(err_is_terminal), out_(out), err_(err) {
    if (err_is_terminal) progress_ = MakeProgressLine(err);
  }

  int Run() {
    absl::StatusOr<std::unique_ptr<Target>> target = OpenTarget(options_.target, clock_);
    if (!target.ok()) return Refuse(target.status());
    absl::StatusOr<Sessions> sessions = OpenSessions(**target, options_.threads);
    if (!sessions.ok()) return Refuse(sessions.status());

    out_ << DescribeRun(options_) << TableHeading() << std::flush;
    bool good = true;
    if (options_.load) good = Phase(RunLoad(options_.workload, *sessions, clock_, progress_));
    // A run on records that were not all loaded would measure something else.
    if (good && options_.run) good = Phase(RunMix(options_.workload, *sessions, clock_, progress_));
    return WriteJson() && good ? 0 : kSomethingFailed;
  }

 private:
  int Refuse(const absl::Status& status) {
    err_ << "kvbench: " << options_.target.address << ": " << status.message() << "\n";
    return ExitStatusOf(status);
  }

  bool Phase(PhaseResult result) {
    if (err_is_terminal_) err_ << "\r\x1b[K" << std::flush;
    out_ << TableRows(options_, result) << std::flush;
    err_ << DescribeErrors(result) << std::flush;
    results_.push_back(std::move(result));
    return results_.back().errors.total() == 0;
  }

  bool WriteJson() {
    if (options_.json_path.empty()) return true;
    std::ofstream file(options_.json_path);
    file << ToJson(options_, results_) << std::flush;
    if (file.good()) return true;
    err_ << "kvbench: cannot write " << options_.json_path << "\n";
    return false;
  }

  const BenchOptions& options_;
  const Clock& clock_;
  const bool err_is_terminal_;
  std::ostream& out_;
  std::ostream& err_;
  ProgressSink progress_;
  std::vector<PhaseResult> results_;
};

}  // namespace

int RunBench(const BenchOptions& options, const Clock& clock, bool err_is_terminal, std::ostream& out,
             std::ostream& err) {
  return Bench(options, clock, err_is_terminal, out, err).Run();
}

}  // namespace remora::bench
