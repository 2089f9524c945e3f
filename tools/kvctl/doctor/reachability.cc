#include "tools/kvctl/doctor/reachability.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/format/memory/layout.h"
#include "store/format/wire/messages.h"

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

void JudgeHealth(const ServerFacts& facts, Checks* checks) {
  const auto metric = [&](const char* name) -> std::optional<std::uint64_t> {
    const auto found = facts.metrics.find(name);
    if (found == facts.metrics.end()) return std::nullopt;
    return found->second;
  };
  Check loading = PassedCheck("loading", "the store has loaded its keys");
  if (metric("loading").value_or(0) != 0) {
    loading.verdict = Verdict::kWarning;
    loading.found = absl::StrFormat("the store loads its keys; %d so far", metric("keys_loaded").value_or(0));
    loading.remedy = "reads go to the disk until it is done; kvctl stats shows keys_loaded";
  }
  checks->push_back(loading);

  Check writes = PassedCheck("writes", "the server takes writes");
  if (metric("disk_refuses").value_or(0) != 0) {
    writes.verdict = Verdict::kProblem;
    writes.found = "the server rejects writes because of its disk";
    writes.remedy = "its log has the reason: journalctl -u kvserver; see docs/operating/disk-failures.md";
  } else if (metric("memory_refuses").value_or(0) != 0) {
    writes.verdict = Verdict::kProblem;
    writes.found = "the server rejects writes because the system gives it no memory";
    writes.remedy = "raise its limit (ulimit -v, MemoryMax=), or lower --memory; journalctl -u kvserver";
  } else if (const std::uint64_t failures = metric("disk_failures").value_or(0); failures != 0) {
    writes.verdict = Verdict::kWarning;
    writes.found = absl::StrFormat("the server takes writes; its disk has failed %d times", failures);
    writes.value = failures;
    writes.limit = 0;
    writes.remedy = "its log has the reason: journalctl -u kvserver";
  }
  checks->push_back(writes);

  const std::uint64_t memory = metric("memory_bytes").value_or(0);
  const std::uint64_t free = metric("memory_bytes_free").value_or(0);
  Check room = PassedCheck(
      "room", absl::StrFormat("%s of its memory, %s, are free", BytesText(free), BytesText(memory)));
  room.value = free;
  if (metric("writes_put_off").value_or(0) != 0) {
    room.verdict = Verdict::kWarning;
    absl::StrAppend(&room.found, "; writes had to wait for memory ", *metric("writes_put_off"), " times");
    room.remedy = "give it more: kvserver --memory; kvctl size says how much so many records need";
  }
  checks->push_back(room);
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
  JudgeHealth(*facts, checks);
}

}  // namespace remora::doctor
