#include "bench/kvbench/kvbench.h"

#include <sysexits.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "bench/kvbench/floor/floor.h"
#include "bench/kvbench/load/driver.h"
#include "bench/kvbench/load/interruption.h"
#include "bench/kvbench/load/runner.h"
#include "bench/kvbench/load/shared.h"
#include "bench/kvbench/report/environment.h"
#include "bench/kvbench/report/output_file.h"
#include "bench/kvbench/report/report.h"
#include "server/memory/system_memory.h"
#include "store/base/shortage.h"
#include "tools/command_line/say.h"

namespace remora::bench {
namespace {

constexpr int kSomethingFailed = 1;
constexpr int kSignalled = 128;  // and the signal's number, as shells say it

int ExitStatusOf(const absl::Status& opening) {
  if (IsShortage(opening)) return EX_OSERR;
  if (absl::IsPermissionDenied(opening)) return EX_NOPERM;
  return absl::IsInvalidArgument(opening) ? EX_USAGE : EX_UNAVAILABLE;
}

/// Writes a line. Servers and the command line have their part in it.
void SayTo(std::ostream& err, absl::string_view text) {
  err << "kvbench: " << command_line::Printable({text.data(), text.size()}) << std::endl;
}

// One line, written over again and wiped at the end: a bar where it is known how much there is to do.
ProgressSink MakeProgressLine(std::ostream& err) {
  return [&err](std::string_view phase, std::uint64_t done, std::uint64_t total, double seconds) {
    constexpr std::uint64_t kWidth = 30;
    err << "\r" << phase << ": ";
    if (total > 0) {
      const double part = static_cast<double>(done) / static_cast<double>(total);
      const auto full = static_cast<std::size_t>(part * kWidth);
      err << absl::StrFormat("[%s%s] %3.0f %%, ", std::string(full, '#'), std::string(kWidth - full, ' '),
                             part * 100);
    }
    err << absl::StrFormat("%s operations in %.0f s\x1b[K", Grouped(done), seconds) << std::flush;
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
    if (options_.server_pid != 0) {
      if (const auto time = ProcessorTime(options_.server_pid); !time.ok()) return Reject(time.status());
    }
    for (const std::string* path : {&options_.json_path, &options_.csv_path, &options_.html_path}) {
      if (path->empty()) continue;
      auto file = OutputFile::Open(*path);
      if (!file.ok()) return Say(EX_CANTCREAT, file.status());
      files_[path] = *std::move(file);
    }
    if (options_.target.address == kEmbeddedTarget) {
      const absl::Status fits = CheckMemory(options_.target.store.memory_size, ReadSystemMemory());
      if (!fits.ok()) return Say(EX_OSERR, fits);
    }
    const std::size_t workers = std::size_t{options_.workload.threads} * options_.processes;
    const absl::StatusOr<std::unique_ptr<Shared>> shared = Shared::Make(workers, options_.workload.records);
    if (!shared.ok()) return Reject(shared.status());
    std::optional<Interruption> interruption;
    const int status = RunPhases(**shared, interruption);
    const bool is_written = results_.empty() || WriteFiles(interruption->signal() != 0);
    if (status != 0) return status;
    if (!is_written) return EX_IOERR;
    return options_.floor ? Floor((*shared)->stop(), *interruption) : 0;
  }

 private:
  int RunPhases(Shared& shared, std::optional<Interruption>& interruption) {
    const absl::StatusOr<std::unique_ptr<Runner>> runner = options_.processes > 1
                                                               ? OpenProcesses(options_, clock_, shared)
                                                               : OpenThreads(options_, clock_, shared);
    if (!runner.ok()) return Reject(runner.status());
    // Not before: till then nothing was measured, and a signal ends what may wait for a server.
    interruption.emplace(shared.stop());

    if (options_.format == OutputFormat::kTable)
      out_ << DescribeRun(options_) << TableHeading() << std::flush;
    std::vector<PhaseKind> phases;
    if (options_.load) phases.push_back(PhaseKind::kLoad);
    if (options_.run && options_.workload.warm_up_seconds > 0) phases.push_back(PhaseKind::kWarmUp);
    if (options_.run) phases.push_back(PhaseKind::kRun);
    // A run on records that were not all loaded would measure something else.
    for (const PhaseKind phase : phases) {
      const int status = interruption->signal() == 0 ? Phase(phase, **runner, *interruption) : 0;
      if (interruption->signal() != 0) return EndedBy(interruption->signal());
      if (status != 0) return status;
      // Ends, because neither standard output nor a file takes the results.
      if (!out_.good() && files_.empty()) return kSomethingFailed;
    }
    return 0;
  }

  int Reject(const absl::Status& status) {
    SayTo(err_, absl::StrCat(options_.target.address, ": ", status.message()));
    return ExitStatusOf(status);
  }

  int Say(int exit_status, const absl::Status& status) {
    SayTo(err_, status.message());
    return exit_status;
  }

  int EndedBy(int signal) {
    SayTo(err_, absl::StrCat("ended by signal ", signal, "; what was measured till then is reported"));
    return kSignalled + signal;
  }

  /// Returns the exit status; 0: go on.
  int Phase(PhaseKind phase, Runner& runner, const Interruption& interruption) {
    absl::StatusOr<PhaseResult> result = runner.Run(phase, progress_);
    if (err_is_terminal_) err_ << "\r\x1b[K" << std::flush;
    if (!result.ok()) {
      SayTo(err_, result.status().message());
      // FailedPrecondition: the server was started anew (RestartCheck).
      return absl::IsFailedPrecondition(result.status()) ? EX_UNAVAILABLE : kSomethingFailed;
    }
    err_ << DescribeErrors(*result) << std::flush;
    const bool good = result->errors.total() == 0;
    result->cut_short = interruption.signal() != 0;
    // A warm-up is reported only if it failed, or if it was the last phase that ran.
    if (phase == PhaseKind::kWarmUp && good && !result->cut_short) return 0;
    out_ << (options_.format == OutputFormat::kTable ? TableRows(options_, *result) : ToYcsb(*result))
         << std::flush;
    results_.push_back(*std::move(result));
    return good ? 0 : kSomethingFailed;
  }

  int Floor(const std::atomic<bool>& stop, const Interruption& interruption) {
    const absl::StatusOr<std::string> text = MeasureFloor(options_, clock_, stop);
    if (text.ok()) {
      out_ << *text << std::flush;
    } else if (interruption.signal() == 0) {
      SayTo(err_, absl::StrCat("floor: ", text.status().message()));
      return kSomethingFailed;
    }
    return interruption.signal() == 0 ? 0 : EndedBy(interruption.signal());
  }

  bool WriteFiles(bool cut_short) {
    RunReport report = MakeReport(options_, std::move(environment_), std::move(results_));
    report.cut_short = cut_short;
    bool good = true;
    const auto write = [&](const std::string& path, auto make) {
      if (path.empty()) return;
      const absl::Status written = files_.at(&path)->Commit(make(report));
      if (!written.ok()) good = Say(EX_IOERR, written) == 0;
    };
    write(options_.json_path, [](const RunReport& r) { return ToJson(r); });
    write(options_.csv_path, [](const RunReport& r) { return ToCsv(r); });
    write(options_.html_path, [this](const RunReport& r) { return ToHtml({{options_.workload.name, r}}); });
    return good;
  }

  const BenchOptions& options_;
  const Clock& clock_;
  const bool err_is_terminal_;
  std::ostream& out_;
  std::ostream& err_;
  ProgressSink progress_;
  Texts environment_ = ReadEnvironment(options_.server_pid);
  std::vector<PhaseResult> results_;
  std::map<const std::string*, std::unique_ptr<OutputFile>> files_;  // by the option that names it
};

std::optional<std::string> ReadToEnd(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  char part[1 << 12];
  while (file.good()) {
    file.read(part, sizeof(part));
    text.append(part, static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) return std::nullopt;
  return text;
}

// Shows what other runs wrote.
int ShowReports(const BenchOptions& options, std::ostream& out, std::ostream& err) {
  std::unique_ptr<OutputFile> page;
  if (!options.html_path.empty()) {
    auto opened = OutputFile::Open(options.html_path);
    if (!opened.ok()) {
      SayTo(err, opened.status().message());
      return EX_CANTCREAT;
    }
    page = *std::move(opened);
  }
  std::vector<NamedReport> reports;
  for (const std::string& path : options.reports) {
    const std::optional<std::string> text = ReadToEnd(path);
    if (!text) {
      SayTo(err, absl::StrCat("cannot read ", path));
      return EX_NOINPUT;
    }
    absl::StatusOr<RunReport> report = ParseReport(*text);
    if (!report.ok()) {
      SayTo(err, absl::StrCat(path, ": ", report.status().message()));
      return EX_DATAERR;
    }
    reports.push_back({std::filesystem::path(path).stem().string(), *std::move(report)});
  }
  if (page == nullptr) {
    out << ToText(reports) << std::flush;
    return out.good() ? 0 : EX_IOERR;
  }
  std::string curves;
  if (!options.by.empty()) {
    absl::StatusOr<std::string> made = Curves(reports, options.by);
    if (!made.ok()) {
      SayTo(err, made.status().message());
      return EX_DATAERR;
    }
    curves = *std::move(made);
  }
  const absl::Status written = page->Commit(ToHtml(reports, curves));
  if (!written.ok()) SayTo(err, written.message());
  return written.ok() ? 0 : EX_IOERR;
}

}  // namespace

int RunBench(const BenchOptions& options, const Clock& clock, bool err_is_terminal, std::ostream& out,
             std::ostream& err) {
  if (!options.reports.empty()) return ShowReports(options, out, err);
  return Bench(options, clock, err_is_terminal, out, err).Run();
}

}  // namespace remora::bench
