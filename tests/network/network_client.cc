// A client of the network tests, on one host. It writes keys of its own, reads them and others', and judges
// each answer, until it is told to end. Meanwhile network_test.py beside this file disturbs the network.
//   network_client work ADDRESS NAME OTHER TIMEOUT_MS   NAME begins its keys, OTHER those of another client
//   network_client connect ADDRESS COUNT TOGETHER       connects as often, and keeps so many connections
//   network_client notice ADDRESS get|put|nothing       calls until it fails, over its first connection
//   alone;
//                                                       prints when and why: [milliseconds, code]
//
// Each prints "connected" when it is. Commands to a worker come on standard input, a line each. "report"
// prints one line. "end" judges all keys once more, reports and ends the program, as does the end of the
// input. A report covers the time since the one before, in JSON:
//   calls, failed   how many calls, and how they ended that did not succeed
//   changes         [milliseconds of CLOCK_MONOTONIC, code] each time that calls began to succeed, or to fail
//   wrong           what may not be: an answer, an outcome that is not stated, or a call that ended late
//   reconnects, outcomes  since the client began: connections after the first, writes of which it had to ask
//   p50_us, p99_us  what GETs took that succeeded; longest_ms: what any call took
// The environment variable REMORA_TOKEN_FILE names a token for the server. Exit status: 0, or 1 if something
// was wrong.
#include <poll.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/session/credentials.h"
#include "rdma/adaptive_poll.h"
#include "store/base/absl_view.h"
#include "tests/network/judge.h"
#include "tests/support/self_describing.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Time by which a call may end later than its deadline. Two emulated CPUs that many programs share take
// some time to come back to one of them, and so does the end of a connection.
constexpr milliseconds kMargin{5000};
constexpr std::size_t kKeys = 16;
constexpr std::size_t kLargeSize = std::size_t{300} << 10;
constexpr std::size_t kNumbersOfAList = 100;

long long Millis(steady_clock::time_point time) {
  return std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count();
}

class Worker {
 public:
  Worker(Client& client, std::string name, std::string other, milliseconds timeout)
      : client_(client),
        name_(std::move(name)),
        other_(std::move(other)),
        timeout_(timeout),
        random_(static_cast<std::uint64_t>(getpid())) {}

  /// So that from its beginning on the server has for this client what it has for one that scans.
  void Begin() { Scan(); }

  /// One call, or a few.
  void Work() {
    const std::uint64_t dice = random_() % 100;
    const std::size_t key = random_() % kKeys;
    if (dice < 40) return Read(key);
    if (dice < 55) return ReadOther(key);
    if (dice < 70) return Write(key, random_() % 8000);
    if (dice < 80) return Append();
    if (dice < 90) return Add();
    if (dice < 95) return ReadMany();
    if (dice < 97) return Read(kKeys);
    if (dice < 99) return Scan();
    return Write(kKeys, kLargeSize);
  }

  void JudgeAll() {
    for (std::size_t key = 0; key <= kKeys; ++key) Read(key);
    JudgeList();
    std::string value;
    if (Timed([&] { return client_.Get(name_ + " sum", &value); }).ok()) {
      if (!sum_.Saw(std::strtoll(value.c_str(), nullptr, 10))) Wrong("the sum is " + value);
    }
  }

  void Report() {
    std::sort(gets_.begin(), gets_.end());
    const auto percentile = [&](std::size_t percent) {
      return gets_.empty() ? 0LL : gets_[std::min(gets_.size() - 1, gets_.size() * percent / 100)];
    };
    std::string failed, changes, wrong;
    for (const auto& [code, count] : failed_) {
      failed += (failed.empty() ? "\"" : ", \"") + code + "\": " + std::to_string(count);
    }
    for (const auto& [time, code] : changes_) {
      changes += (changes.empty() ? "[" : ", [") + std::to_string(time) + ", \"" + code + "\"]";
    }
    for (const std::string& what : wrong_) wrong += (wrong.empty() ? "\"" : ", \"") + what + "\"";
    std::printf(
        "{\"calls\": %llu, \"failed\": {%s}, \"changes\": [%s], \"wrong\": [%s], \"reconnects\": %llu, "
        "\"completion_queries\": %llu, \"p50_us\": %lld, \"p99_us\": %lld, \"longest_ms\": %lld}\n",
        static_cast<unsigned long long>(calls_), failed.c_str(), changes.c_str(), wrong.c_str(),
        static_cast<unsigned long long>(client_.counters().reconnects),
        static_cast<unsigned long long>(client_.counters().completion_queries), percentile(50),
        percentile(99), longest_);
    std::fflush(stdout);
    calls_ = 0;
    longest_ = 0;
    gets_.clear();
    failed_.clear();
    changes_.clear();
    wrong_.clear();
  }

  bool was_wrong() const { return was_wrong_; }

 private:
  std::string Key(std::size_t key) const { return name_ + " " + std::to_string(key); }

  void Wrong(std::string what) {
    std::replace_if(
        what.begin(), what.end(), [](char c) { return c < ' ' || c == '"' || c == '\\'; }, '?');
    wrong_.push_back(what.substr(0, 200));
    was_wrong_ = true;
  }

  /// Does a call, of `deadlines` deadlines one after the other, and notes how it ended. The status: OK, or
  /// not and a stated one.
  template <typename Call>
  absl::Status Timed(const Call& call, int deadlines = 1, bool is_get = false) {
    const steady_clock::time_point start = steady_clock::now();
    const absl::Status status = call();
    const steady_clock::time_point end = steady_clock::now();
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(end - start);
    ++calls_;
    longest_ = std::max<long long>(longest_, took.count() / 1000);
    const std::string code = absl::StatusCodeToString(status.code());
    if (took > timeout_ * deadlines + kMargin)
      Wrong("it took " + std::to_string(took.count() / 1000) + " ms: " + code);
    const bool is_stated = status.ok() || absl::IsNotFound(status) || absl::IsUnavailable(status) ||
                           absl::IsDeadlineExceeded(status) || absl::IsUnknown(status);
    if (!is_stated) Wrong("it ended with " + status.ToString());
    const bool is_answered = status.ok() || absl::IsNotFound(status);
    if (!is_answered) ++failed_[code];
    if (is_answered && is_get) gets_.push_back(took.count());
    if (changes_.empty() || (last_code_ == "OK") != is_answered)
      changes_.emplace_back(Millis(end), is_answered ? "OK" : code);
    last_code_ = is_answered ? "OK" : code;
    return status;
  }

  void Judge(std::size_t key, const absl::Status& status, std::string_view value) {
    if (status.ok()) {
      const auto number = NumberOf(Key(key), value);
      if (!number) return Wrong("torn or foreign: " + Key(key));
      if (!keys_[key].Saw(*number)) Wrong(Key(key) + " shows write " + std::to_string(*number));
    } else if (absl::IsNotFound(status) && !keys_[key].SawNothing()) {
      Wrong("lost: " + Key(key));
    }
  }

  void Read(std::size_t key) {
    std::string value;
    const bool is_large = key == kKeys;
    const absl::Status status =
        Timed([&] { return client_.Get(Key(key), &value); }, is_large ? 10 : 1, !is_large);
    Judge(key, status, value);
  }

  void ReadMany() {
    std::vector<std::string> names;
    for (std::size_t key = 0; key < kKeys; ++key) names.push_back(Key(key));
    const std::vector<std::string_view> views(names.begin(), names.end());
    std::vector<GetResult> results(views.size());
    Timed([&] { return client_.MultiGet(views, results); }).IgnoreError();
    for (std::size_t key = 0; key < kKeys; ++key) Judge(key, results[key].status, results[key].value);
  }

  /// Checks another client's writes, of which only their progress is known.
  void ReadOther(std::size_t key) {
    const std::string name = other_ + " " + std::to_string(key);
    std::string value;
    const absl::Status status = Timed([&] { return client_.Get(name, &value); }, 1, true);
    if (absl::IsNotFound(status) && others_[key] != 0) return Wrong("lost: " + name);
    if (!status.ok()) return;
    const auto number = NumberOf(name, value);
    if (!number) return Wrong("torn or foreign: " + name);
    if (*number < others_[key]) Wrong("stale: " + name);
    others_[key] = *number;
  }

  void Write(std::size_t key, std::size_t size) {
    NumberedKey& expected = keys_[key];
    const std::string value = MakeValue(Key(key), expected.Next(), size);
    const absl::Status status =
        Timed([&] { return client_.Put(Key(key), value); }, size >= kLargeSize ? 10 : 1);
    status.ok() ? expected.Acknowledged() : expected.Unanswered();
  }

  void Append() {
    const std::string number = list_.Next();
    const absl::Status status = Timed([&] { return client_.Append(ListKey(), number).status(); });
    status.ok() ? list_.Acknowledged() : list_.Unanswered();
    if (list_.size() >= kNumbersOfAList && JudgeList()) {
      list_ = {};
      ++lists_;
    }
  }

  std::string ListKey() const { return name_ + " list " + std::to_string(lists_); }

  /// False: it could not be read.
  bool JudgeList() {
    std::string value;
    const absl::Status status = Timed([&] { return client_.Get(ListKey(), &value); });
    if (!status.ok() && !absl::IsNotFound(status)) return false;
    if (!list_.Is(value)) Wrong("of " + std::to_string(list_.size()) + " there are " + value);
    return true;
  }

  void Add() {
    absl::StatusOr<std::int64_t> sum = absl::UnknownError("");
    const absl::Status status = Timed([&] { return (sum = client_.Increment(name_ + " sum", 1)).status(); });
    if (!status.ok()) return sum_.Unanswered();
    if (!sum_.Added(*sum)) Wrong("the sum is " + std::to_string(*sum));
  }

  void Scan() {
    std::vector<std::pair<std::string, std::string>> shown;
    const absl::Status status = Timed(
        [&] {
          auto scan = client_.Scan({.prefix = name_ + " "});
          if (!scan.ok()) return scan.status();
          while ((*scan)->Next()) shown.emplace_back((*scan)->key(), (*scan)->value());
          return (*scan)->status();
        },
        10);
    if (!status.ok()) return;
    for (std::size_t key = 0; key <= kKeys; ++key) {
      const auto found = std::find_if(shown.begin(), shown.end(),
                                      [&](const auto& entry) { return entry.first == Key(key); });
      if (found == shown.end()) {
        Judge(key, absl::NotFoundError(""), {});
      } else {
        Judge(key, absl::OkStatus(), found->second);
      }
    }
  }

  Client& client_;
  const std::string name_;
  const std::string other_;
  const milliseconds timeout_;
  std::mt19937_64 random_;

  std::array<NumberedKey, kKeys + 1> keys_;  // the last one's values are large
  std::array<std::uint64_t, kKeys> others_{};
  AppendedNumbers list_;
  int lists_ = 0;
  Sum sum_;

  bool was_wrong_ = false;
  std::string last_code_ = "OK";
  // Since the last report:
  std::uint64_t calls_ = 0;
  long long longest_ = 0;
  std::vector<long long> gets_;
  std::map<std::string, int> failed_;
  std::vector<std::pair<long long, std::string>> changes_;
  std::vector<std::string> wrong_;
};

/// The line that has come, without its end: "" for none, "end" at the end of the input.
std::string Command() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, 0) == 0) return "";
  std::array<char, 64> line;
  if (std::fgets(line.data(), line.size(), stdin) == nullptr) return "end";
  const std::string text = line.data();
  return text.substr(0, text.find('\n'));
}

int Fail(const char* what, const absl::Status& status) {
  std::fprintf(stderr, "network_client: %s: %s\n", what, status.ToString().c_str());
  return EX_UNAVAILABLE;
}

/// Returns the options with the token of REMORA_TOKEN_FILE, if it is set, and patience to connect.
ClientOptions OptionsOfEnvironment() {
  ClientOptions options{.connect_timeout = std::chrono::seconds(30)};
  const char* const file = std::getenv("REMORA_TOKEN_FILE");
  if (file == nullptr) return options;
  absl::StatusOr<std::string> token = ReadTokenFile(file);
  if (!token.ok()) std::exit(Fail("token", token.status()));
  options.token = *std::move(token);
  return options;
}

int Work(const std::string& address, const std::string& name, const std::string& other,
         milliseconds timeout) {
  const SteadyClock clock;
  ClientOptions options = OptionsOfEnvironment();
  options.timeout = timeout;
  auto client = Client::Connect(address, options, clock);
  if (!client.ok()) return Fail("connect", client.status());
  Worker worker(**client, name, other, timeout);
  worker.Begin();
  std::printf("connected\n");
  std::fflush(stdout);
  for (;;) {
    worker.Work();
    const std::string command = Command();
    if (command.empty()) continue;
    if (command == "end") worker.JudgeAll();
    worker.Report();
    if (command == "end") return worker.was_wrong() ? 1 : EX_OK;
  }
}

int Notice(const std::string& address, const std::string& what) {
  const SteadyClock clock;
  ClientOptions options = OptionsOfEnvironment();
  options.reconnect = false;
  auto client = Client::Connect(address, options, clock);
  if (!client.ok()) return Fail("connect", client.status());
  std::printf("connected\n");
  std::fflush(stdout);
  rdma::AdaptivePoller spinner;
  for (;;) {
    // To be told of the end of a connection that is not used takes no call.
    std::array<rdma::Completion, 8> completions;
    const absl::Status status = what == "get" ? (*client)->Get("notice").status()
                                : what == "put"
                                    ? (*client)->Put("notice", what)
                                    : rdma::PollUntil((*client)->connection(), completions,
                                                      clock.Now() + std::chrono::hours(1), spinner)
                                          .status();
    const absl::Status& ended = what == "nothing" ? (*client)->connection().status() : status;
    if (!ended.ok() && !absl::IsNotFound(ended)) {
      std::printf("[%lld, \"%s\"]\n", Millis(steady_clock::now()),
                  absl::StatusCodeToString(ended.code()).c_str());
      return EX_OK;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

int Connect(const std::string& address, std::size_t count, std::size_t together) {
  const SteadyClock clock;
  ClientOptions options = OptionsOfEnvironment();
  options.location_cache_bytes = 0;
  std::deque<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < count; ++i) {
    auto client = Client::Connect(address, options, clock);
    if (!client.ok()) return Fail("connect", client.status());
    if (const absl::Status put = (*client)->Put("connects", std::to_string(i)); !put.ok())
      return Fail("put", put);
    if (clients.size() == together) clients.pop_front();
    clients.push_back(*std::move(client));
  }
  std::printf("connected\n");
  std::fflush(stdout);
  char byte = 0;
  return read(STDIN_FILENO, &byte, 1) == 0 ? EX_OK : EX_IOERR;
}

}  // namespace
}  // namespace remora

int main(int argc, char** argv) {
  std::setvbuf(stdin, nullptr, _IONBF, 0);  // so that poll sees what is left
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 5 && arguments[0] == "work") {
    return remora::Work(arguments[1], arguments[2], arguments[3],
                        std::chrono::milliseconds(std::atoi(argv[5])));
  }
  if (arguments.size() == 4 && arguments[0] == "connect") {
    return remora::Connect(arguments[1], std::strtoull(argv[3], nullptr, 10),
                           std::strtoull(argv[4], nullptr, 10));
  }
  if (arguments.size() == 3 && arguments[0] == "notice") return remora::Notice(arguments[1], arguments[2]);
  std::fprintf(stderr,
               "usage: network_client work ADDRESS NAME OTHER TIMEOUT_MS | connect ADDRESS COUNT TOGETHER | "
               "notice ADDRESS get|put|nothing\n");
  return EX_USAGE;
}
