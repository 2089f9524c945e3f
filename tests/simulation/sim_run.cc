// sim_run: many simulated worlds, one after the other, each under a seed of its own.
//
//   sim_run --seed=1 --operations=100000000      from a seed on
//   sim_run --operations=200000                  from a random one, which is printed
//   sim_run --seed=4711 --worlds=1               that one again
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/simulation/sim_world.h"
#include "tools/command_line/command_line.h"

namespace remora {
namespace {

char last_words[64];

/// From a signal's handler.
void Say(const char* words) {
  const auto written = ::write(STDERR_FILENO, words, std::char_traits<char>::length(words));
  static_cast<void>(written);
}

/// A check in the code that fails ends the process, and so does a world that goes on for ever: which one that
/// was is to be known.
void SayWhere(int signal) {
  if (signal == SIGALRM) Say("still going on ");
  Say(last_words);
  if (signal == SIGALRM) ::_exit(EXIT_FAILURE);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

struct Options {
  std::uint64_t seed = 0;
  std::uint64_t operations = 1'000'000;
  std::uint64_t world = 20'000;
  std::uint64_t worlds = 0;
  unsigned patience = 600;
  bool mirrors = false;
  bool one_sided = false;
  bool twice = false;
  bool verbose = false;
};

int Run(const Options& options) {
  using std::chrono::steady_clock;
  const auto start = steady_clock::now();
  SimCounts counts;
  int failed = 0;
  std::uint64_t undecided = 0;
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  for (std::uint64_t seed = options.seed; failed == 0; ++seed) {
    if (options.worlds > 0 ? counts.worlds >= options.worlds : counts.operations >= options.operations) break;
    std::snprintf(last_words, sizeof(last_words), "in world %llu\n", static_cast<unsigned long long>(seed));
    const auto world_start = steady_clock::now();
    ::alarm(options.patience);
    const SimWorldOptions world = {.seed = seed,
                                   .operations = options.world,
                                   .mirrors = options.mirrors,
                                   .one_sided = options.one_sided};
    const SimResult result = RunWorld(world);
    const double world_s = std::chrono::duration<double>(steady_clock::now() - world_start).count();
    counts += result.counts;
    const bool differs = options.twice && RunWorld(world).digest != result.digest;
    if (options.verbose || !result.ok() || differs) {
      std::printf("world %llu, %.1f s: %s\n  %s\n  digest %016llx\n", static_cast<unsigned long long>(seed),
                  world_s, result.settings.c_str(), Text(result.counts).c_str(),
                  static_cast<unsigned long long>(result.digest));
    }
    if (differs) std::printf("NOT THE SAME when it was run again\n");
    for (const std::string& complaint : result.complaints) std::printf("%s\n", complaint.c_str());
    std::printf("%s", linear::Text(result.verdict).c_str());
    const bool is_faulty = differs || !result.complaints.empty() || !result.verdict.faults.empty();
    if (is_faulty) {
      ++failed;
    } else if (!result.ok()) {
      ++undecided;
    }
    if (is_faulty || !result.ok()) {
      std::printf("again: sim_run --seed=%llu --worlds=1 --world=%llu%s%s\n",
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(options.world),
                  options.mirrors ? " --mirrors" : "", options.one_sided ? " --one_sided" : "");
    }
    std::fflush(stdout);
  }
  // Of a key with very many unanswered writes not all that may have been can be looked at. A world in so many
  // may be like that, or the judge proves too little.
  constexpr std::uint64_t kMostUndecided = 100;
  if (undecided * kMostUndecided > counts.worlds) ++failed;
  if (options.one_sided && counts.one_sided_scans == 0) {
    std::printf("no client has scanned one-sided\n");
    ++failed;
  }
  const double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
  std::printf("%s\n%.0f operations per second and core\n%llu worlds undecided\n%s\n", Text(counts).c_str(),
              static_cast<double>(counts.operations) / seconds, static_cast<unsigned long long>(undecided),
              failed == 0 ? "no faults" : "FAULTY");
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) {
  remora::Options options;
  remora::command_line::CommandLine line(
      "sim_run: a server and its clients in simulated worlds, and the judge of what they were told.");
  const remora::command_line::Option seed =
      line.Add("--seed", options.seed, "of the first world; the next has the next one. Random");
  line.Add("--operations", options.operations, "in all worlds together, about").ShowDefault();
  line.Add("--world", options.world, "operations of each world").ShowDefault().Positive();
  line.Add("--worlds", options.worlds, "as many, whatever --operations says");
  line.Add("--patience", options.patience, "seconds, after which a world is taken for one without an end")
      .ShowDefault();
  line.AddFlag("--mirrors", options.mirrors,
               "all clients mirror the index, and not those of half of the seeds");
  line.AddFlag("--one_sided", options.one_sided,
               "each server has an ordered index, and clients scan it one-sided");
  line.AddFlag("--twice", options.twice, "runs each world again, which must go the same way");
  line.AddFlag("--verbose", options.verbose, "says what each world was like");
  if (const std::optional<int> status = line.Parse(argc, argv)) return *status;
  if (seed.count() == 0) {
    options.seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) %
                   1'000'000'000;
  }
  // Any disk will do: no power cut is simulated here.
  if (std::filesystem::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", /*overwrite=*/0);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGALRM}) std::signal(signal, remora::SayWhere);
  return remora::Run(options);
}
