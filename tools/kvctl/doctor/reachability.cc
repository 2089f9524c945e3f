#include "tools/kvctl/doctor/reachability.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/base/absl_view.h"
#include "store/format/memory/layout.h"
#include "store/format/wire/messages.h"
#include "tools/kvctl/health.h"

namespace remora::doctor {
namespace {

// Some: the first may wake the server.
constexpr std::size_t kPings = 9;

double Microseconds(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

/// Returns "" for a status whose message says what to do.
std::string RemedyFor(const absl::Status& status, const std::string& address) {
  if (absl::IsPermissionDenied(status)) {
    return absl::StrContains(status.message(), "token") ? "name the file of a token: --token_file=FILE" : "";
  }
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    return absl::StrCat(
        "systemctl status kvserver shows there whether it runs; see that it listens at that address, and "
        "that ",
        absl::StartsWith(address, "local:") ? "this user may open the socket" : "no firewall is in between");
  }
  return "";
}

/// Adds an obstacle to the check of writes.
void AddObstacle(const Obstacle& obstacle, std::uint64_t value, const std::string& address, Check* writes) {
  std::string remedy;
  Verdict verdict = Verdict::kProblem;
  switch (obstacle.kind) {
    case Obstacle::Kind::kLoading:
      return;  // it has a check of its own
    case Obstacle::Kind::kFollows:
      verdict = Verdict::kWarning;
      remedy = absl::StrCat(
          "clients use its primary; if that is lost, promote this one: kvctl --server=", address, " promote");
      break;
    case Obstacle::Kind::kWaits:
      remedy =
          "start its followers; if one of them was promoted, stop this server; without those that are "
          "lost, start it without their --replicate_to; see docs/operating/replication.md";
      break;
    case Obstacle::Kind::kFollowerAway:
      remedy =
          "start it; without those that are lost, start the primary without their --replicate_to; see "
          "docs/operating/replication.md";
      break;
    case Obstacle::Kind::kDisk:
      remedy = "journalctl -u kvserver; see docs/operating/disk-failures.md";
      break;
    case Obstacle::Kind::kMemory:
      remedy = "raise its limit (ulimit -v, MemoryMax=), or lower --memory; journalctl -u kvserver";
      break;
  }
  const bool is_first = writes->verdict == Verdict::kOk;
  writes->verdict = std::max(writes->verdict, verdict);
  writes->found = absl::StrCat(is_first ? "" : writes->found + "; ", AbslView(obstacle.text));
  absl::StrAppend(&writes->remedy, is_first ? "" : "; ", remedy);
  if (obstacle.kind != Obstacle::Kind::kWaits && obstacle.kind != Obstacle::Kind::kFollowerAway) return;
  absl::StrAppend(&writes->found, "; followers that are away: ", value);
  writes->value = value;
  writes->limit = 0;
}

Check JudgeWrites(const MetricValues& values, const std::string& address) {
  Check writes = PassedCheck("writes", "the server takes writes");
  bool waits = false;
  for (const Obstacle& obstacle : ObstaclesOf(values)) {
    // A primary that waits for its followers says how many are away.
    if (waits && obstacle.kind == Obstacle::Kind::kFollowerAway) continue;
    waits = waits || obstacle.kind == Obstacle::Kind::kWaits;
    AddObstacle(obstacle, values("followers_away"), address, &writes);
  }
  if (const std::uint64_t failures = values("disk_failures");
      failures != 0 && writes.verdict == Verdict::kOk) {
    writes.verdict = Verdict::kWarning;
    writes.found = absl::StrFormat("the server takes writes; its disk has failed %d times", failures);
    writes.value = failures;
    writes.limit = 0;
    writes.remedy = "its log has the reason: journalctl -u kvserver";
  }
  return writes;
}

void JudgeHealth(const ServerFacts& facts, const std::string& address, Checks* checks) {
  const MetricValues values = [&](std::string_view name) -> std::uint64_t {
    const auto found = facts.metrics.find(name);
    return found == facts.metrics.end() ? 0 : found->second;
  };
  Check loading = PassedCheck("loading", "the store has loaded its keys");
  if (values("loading") != 0) {
    loading.verdict = Verdict::kWarning;
    loading.found = absl::StrFormat("the store loads its keys; %d so far", values("keys_loaded"));
    loading.remedy = "reads go to the disk until it is done; kvctl stats shows keys_loaded";
  }
  checks->push_back(loading);
  checks->push_back(JudgeWrites(values, address));

  const std::uint64_t free = values("memory_bytes_free");
  Check space = PassedCheck("space", absl::StrFormat("%s of its memory, %s, are free", BytesText(free),
                                                     BytesText(values("memory_bytes"))));
  space.value = free;
  if (const std::uint64_t waits = values("writes_put_off"); waits != 0) {
    space.verdict = Verdict::kWarning;
    absl::StrAppend(&space.found, "; writes had to wait for memory ", waits, " times");
    space.remedy = "give it more: kvserver --memory; kvctl size says how much so many records need";
  }
  checks->push_back(space);
}

}  // namespace

ServerFacts ReadServer(const Connector& connect) {
  const SteadyClock clock;
  ServerFacts facts;
  const TimePoint start = clock.Now();
  auto client = connect(clock);
  facts.connect_us = Microseconds(clock.Now() - start);
  facts.status = client.status();
  if (!client.ok()) return facts;
  facts.connected = true;
  std::array<double, kPings> pings = {};
  for (double& ping : pings) {
    const TimePoint sent = clock.Now();
    facts.status = (*client)->Ping();
    if (!facts.status.ok()) return facts;
    ping = Microseconds(clock.Now() - sent);
  }
  std::ranges::sort(pings);
  facts.round_trip_us = pings[kPings / 2];
  auto metrics = (*client)->Stats();
  facts.status = metrics.status();
  if (metrics.ok()) facts.metrics = {metrics->begin(), metrics->end()};
  return facts;
}

void JudgeServer(const std::optional<ServerFacts>& facts, const std::string& address, Checks* checks) {
  Check server = PassedCheck("server", "");
  if (!facts || !facts->connected) {
    server.verdict = Verdict::kProblem;
    server.found = facts ? absl::StrCat(address, ": ", facts->status.message())
                         : absl::StrCat(address, ": no answer in time");
    server.remedy = RemedyFor(facts ? facts->status : absl::UnavailableError(""), address);
    checks->push_back(server);
    return;
  }
  server.value = static_cast<std::uint64_t>(facts->connect_us);
  server.found = absl::StrFormat("connected to %s in %.1f ms, protocol %d, format %d", address,
                                 facts->connect_us / 1000, kProtocolVersion, kFormatVersion);
  checks->push_back(server);
  Check round_trip =
      PassedCheck("round_trip", absl::StrFormat("%.1f us, the median of %d", facts->round_trip_us, kPings));
  round_trip.value = static_cast<std::uint64_t>(facts->round_trip_us);
  if (!facts->status.ok()) {
    round_trip.verdict = Verdict::kProblem;
    round_trip.value = {};
    round_trip.found = std::string(facts->status.message());
    round_trip.remedy = RemedyFor(facts->status, address);
    checks->push_back(round_trip);
    return;
  }
  checks->push_back(round_trip);
  JudgeHealth(*facts, address, checks);
}

}  // namespace remora::doctor
