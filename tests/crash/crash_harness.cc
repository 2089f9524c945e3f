// Kills a kvserver at random moments, time and again, under clients that write and read. Cuts the power under
// some of the kills (cut.h). Judges the answers that the clients got (history.h).
//   crash_harness [--kills=N] [--cuts=PERCENT] ...     exit status 1, and what is wrong, if a rule is broken
#include <stdlib.h>
#include <sysexits.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "clients.h"
#include "cut.h"
#include "history.h"
#include "server_process.h"
#include "tools/command_line/command_line.h"

namespace remora {
namespace {

struct Flags {
  std::string program = REMORA_KVSERVER;
  std::size_t kills = 30;
  std::size_t cuts = 50;
  std::size_t kills_per_store = 10;
  std::size_t longest_ms = 400;
  std::uint64_t seed = 0;
  bool lying_disk = false;
  std::vector<std::string> until;
  bool discard = false;
  std::vector<std::string> server{};
};

struct Totals {
  std::size_t kills = 0;
  std::size_t early = 0;  // of them, before the server was ready
  std::size_t cuts = 0;
  CutReport lost;
  std::size_t writes = 0;
  std::size_t unknown = 0;
  std::size_t rejected = 0;
  std::size_t reads = 0;
  std::size_t faults = 0;
  bool convicted = false;  // by a rule of Flags::until
};

int Complain(const std::string& what) {
  std::fprintf(stderr, "crash_harness: %s\n", what.c_str());
  return EX_SOFTWARE;
}

void Count(const History& history, Totals& totals) {
  totals.writes += history.writes.size();
  totals.reads += history.reads.size();
  for (const HistoryWrite& write : history.writes) {
    totals.unknown += write.outcome == HistoryWrite::Outcome::kUnknown ? 1 : 0;
    totals.rejected += write.outcome == HistoryWrite::Outcome::kRejected ? 1 : 0;
  }
}

/// One store, from its first start on, and so many kills of its servers.
class Life {
 public:
  Life(const Flags& flags, std::string root, std::mt19937_64& random)
      : flags_(flags), root_(std::move(root)), place_(root_), random_(random) {}

  /// 0, or an exit status.
  int Run(std::size_t kills, Totals& totals) {
    // As a disk takes its time: so long, writes are pending.
    constexpr std::array<std::uint8_t, 4> kDelaysMs = {0, 1, 3, 20};
    place_.Set(Fault::kSyncDelayMs, kDelaysMs[random_() % kDelaysMs.size()]);
    if (flags_.lying_disk) {
      place_.Set(Fault::kOnly, 'g');  // NUMBER.log
      place_.Set(Fault::kSyncLies, 1);
    }
    if (const int status = StartInTheEnd(totals); status != 0) return status;
    ClientsOptions options;
    options.synced = random_() % 2 == 0 ? 50 : 4;
    options.address = place_.address();
    options.spared = flags_.cuts > 0 ? Durability::kSynced : Durability::kLogged;
    options.seed = random_();
    Clients clients(options);
    int status = 0;
    for (const std::size_t end = totals.kills + kills; totals.kills < end && status == 0;)
      status = KillOnce(clients, totals);
    if (status != 0) {
      if (flags_.discard) std::filesystem::remove_all(root_);
      _Exit(status);  // clients wait for a server that does not come
    }
    const History history = clients.Stop();
    server_->Kill();
    Count(history, totals);
    std::vector<std::string> faults = Judge(history);
    faults.insert(faults.end(), clients.complaints().begin(), clients.complaints().end());
    constexpr std::size_t kShown = 5;
    std::map<std::string, std::size_t> shown;  // by rule
    for (const std::string& fault : faults) {
      if (shown[fault.substr(0, fault.find(':'))]++ < kShown) std::printf("%s\n", fault.c_str());
    }
    totals.faults += faults.size();
    for (const std::string& rule : flags_.until) {
      totals.convicted |= std::any_of(faults.begin(), faults.end(), [&](const std::string& fault) {
        return fault.starts_with(rule + ":");
      });
    }
    return 0;
  }

 private:
  int Start() {
    std::vector<std::string> arguments = {"--memory=64M", "--durability=logged", "--quiet"};
    arguments.insert(arguments.end(), flags_.server.begin(), flags_.server.end());
    auto server = ServerProcess::Start(flags_.program, place_, arguments);
    if (!server.ok()) return Complain(std::string(server.status().message()));
    server_ = *std::move(server);
    return 0;
  }

  /// Some servers are killed before they are ready.
  int StartInTheEnd(Totals& totals) {
    for (;;) {
      if (const int status = Start(); status != 0) return status;
      if (random_() % 4 != 0) break;
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 40'000));
      ++totals.early;
      if (const int status = Kill(totals); status != 0) return status;
    }
    const absl::Status ready = server_->WaitUntilReady();
    return ready.ok() ? 0 : Complain(std::string(ready.message()) + ": " + place_.LastError());
  }

  int Kill(Totals& totals) {
    if (!server_->Kill()) return Complain("kvserver ended by itself: " + place_.LastError());
    ++totals.kills;
    if (random_() % 100 >= flags_.cuts) return 0;
    const absl::StatusOr<CutReport> report = CutPower(place_.journal(), random_);
    if (!report.ok()) return Complain(std::string(report.status().message()));
    place_.StartMachine(random_());
    ++totals.cuts;
    totals.lost.files += report->files;
    totals.lost.bytes += report->bytes;
    totals.lost.names += report->names;
    return 0;
  }

  int KillOnce(Clients& clients, Totals& totals) {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % (flags_.longest_ms * 1000)));
    HistoryCrash crash;
    crash.begun = clients.Tick();
    const std::size_t cuts = totals.cuts;
    if (const int status = Kill(totals); status != 0) return status;
    if (const int status = StartInTheEnd(totals); status != 0) return status;
    crash.survives = totals.cuts > cuts ? Durability::kSynced : Durability::kLogged;
    crash.ended = clients.Tick();
    clients.Note(crash);
    return 0;
  }

  const Flags& flags_;
  const std::string root_;
  const ServerPlace place_;
  std::mt19937_64& random_;
  std::unique_ptr<ServerProcess> server_;
};

int Run(const Flags& flags) {
  std::mt19937_64 random(flags.seed);
  Totals totals;
  while (totals.kills < flags.kills && !totals.convicted) {
    std::string root = std::filesystem::temp_directory_path() / "crash-XXXXXX";
    if (mkdtemp(root.data()) == nullptr) return Complain("cannot make a folder in " + root);
    const std::size_t faults = totals.faults;
    const std::size_t kills = std::min(flags.kills_per_store, flags.kills - totals.kills);
    std::fprintf(stderr, "crash_harness: seed %llu, in %s\n", static_cast<unsigned long long>(flags.seed),
                 root.c_str());
    if (const int status = Life(flags, root, random).Run(kills, totals); status != 0) return status;
    if (totals.faults == faults || flags.discard) std::filesystem::remove_all(root);
  }
  std::printf(
      "%zu kills, %zu of them before the server was ready, %zu with a cut (%llu files lost %llu bytes, %llu "
      "changes of names undone)\n"
      "%zu writes (%zu rejected, %zu unknown), %zu reads, %zu faults\n",
      totals.kills, totals.early, totals.cuts, static_cast<unsigned long long>(totals.lost.files),
      static_cast<unsigned long long>(totals.lost.bytes), static_cast<unsigned long long>(totals.lost.names),
      totals.writes, totals.rejected, totals.unknown, totals.reads, totals.faults);
  return totals.faults == 0 ? EX_OK : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  flags.seed = std::random_device{}();
  command_line::CommandLine line(
      "crash_harness: kills a kvserver under its clients, cuts its power, and judges what is left.");
  line.Add("--kills", flags.kills, "How often").ShowDefault();
  line.Add("--cuts", flags.cuts, "How many of a hundred kills lose what was not synced")
      .Range(0, 100)
      .ShowDefault();
  line.Add("--kills_per_store", flags.kills_per_store, "Before the next, empty one").Positive().ShowDefault();
  line.Add("--longest_ms", flags.longest_ms, "From ready to killed, at most").Positive().ShowDefault();
  line.Add("--seed", flags.seed, "Of all choices but the moments at which threads take turns");
  line.Add("--program", flags.program, "Another kvserver").ShowDefault();
  line.AddFlag("--lying_disk", flags.lying_disk,
               "Its fsync keeps nothing of the log: faults are to be found");
  line.Add("--until", flags.until, "No further store after one with a fault by one of these rules: H2,H7")
      .Separator(',');
  line.AddFlag("--discard", flags.discard, "Keep no folder, also where faults were found");
  line.Add("server", flags.server, "More flags for kvserver, behind --");
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  return Run(flags);
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) { return remora::Main(argc, argv); }
