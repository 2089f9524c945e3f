#include "tools/kvctl/top/screen.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/base/absl_view.h"
#include "tools/kvctl/health.h"

namespace remora::top {
namespace {

struct Row {
  const char* title;
  const char* metric;
};

constexpr Row kRows[] = {
    {"puts", "puts"},
    {"deletes", "deletes"},
    {"touches", "touches"},
    {"scans", "scans"},
    {"scan pages", "scan_pages"},
    {"reads reported", "reads_reported"},
    {"locates", "locates"},
    {"messages", "receive_completions"},
};

constexpr std::string_view kReady = "ready";

std::string State(const MetricValues& values) {
  const std::vector<Obstacle> obstacles = ObstaclesOf(values);
  if (obstacles.empty()) return std::string(kReady);
  std::string text = absl::StrCat("NOT READY: ", AbslView(obstacles.front().text));
  if (obstacles.front().kind == Obstacle::Kind::kLoading) {
    absl::StrAppendFormat(&text, "; %s so far", ShortNumber(static_cast<double>(values("keys_loaded"))));
  }
  return text;
}

/// Adds the text, on as many lines as it needs, between words; all but the first are indented.
void AddWrapped(std::string_view text, int columns, std::vector<std::string>* lines) {
  constexpr std::string_view kIndent = "  ";
  const auto width = static_cast<std::size_t>(std::max(columns, 1));
  std::string line;
  while (line.size() + text.size() > width) {
    const std::size_t space = width > line.size() ? text.rfind(' ', width - line.size()) : text.npos;
    if (space == text.npos || space == 0) break;  // a word that does not fit is cut off
    lines->push_back(absl::StrCat(line, AbslView(text.substr(0, space))));
    text.remove_prefix(space + 1);
    line = kIndent;
  }
  lines->push_back(absl::StrCat(line, AbslView(text)));
}

std::string Elapsed(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::max(seconds, 0.0));
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

/// The parts of the memory, each by its letter.
std::string MemoryBar(const Interval& interval, std::size_t width) {
  const std::uint64_t total = interval.Value("memory_bytes");
  if (total == 0 || width == 0) return "";
  const std::uint64_t dead = interval.Value("log_bytes_dead");
  const std::uint64_t used = interval.Value("log_bytes_used");
  const std::uint64_t live = used - std::min(used, dead);
  std::string bar;
  std::uint64_t sum = 0;
  const std::array<std::pair<std::uint64_t, char>, 3> parts = {
      {{interval.Value("index_bytes"), 'i'}, {live, '#'}, {dead, '-'}}};
  for (const auto& [bytes, letter] : parts) {
    sum = std::min(sum + bytes, total);
    const double share = static_cast<double>(sum) / static_cast<double>(total);
    const auto end = static_cast<std::size_t>(share * static_cast<double>(width) + 0.5);
    bar.resize(std::max(end, bar.size()), letter);
  }
  const double free = static_cast<double>(interval.Value("memory_bytes_free")) / static_cast<double>(total);
  const auto free_width = static_cast<std::size_t>(std::clamp(free, 0.0, 1.0) * static_cast<double>(width));
  // Between them: segments that are partly used, or rest.
  bar.resize(std::max(bar.size(), width - free_width), ':');
  bar.resize(width, '.');
  return "[" + bar + "]";
}

/// Returns the transports that have clients, and the rate of the READs that the server itself answers (TCP).
std::string Transports(const Interval& last) {
  std::string text;
  for (const std::string_view name : {"local", "verbs", "tcp", "tls"}) {
    const std::uint64_t connections = last.Value(absl::StrCat("connections_", AbslView(name)));
    if (connections == 0) continue;
    absl::StrAppendFormat(&text, "%s%s %d", text.empty() ? "" : ", ", AbslView(name), connections);
  }
  if (text.empty()) text = "none in use";
  const double reads = last.Rate("tcp_reads");
  if (reads == 0 && last.Value("connections_tcp") + last.Value("connections_tls") == 0) {
    return "transports: " + text;
  }
  return absl::StrFormat("transports: %s; READs over TCP %s/s, %s/s", text, ShortNumber(reads),
                         ShortBytes(static_cast<std::uint64_t>(last.Rate("tcp_read_bytes"))));
}

void AddMemory(const Interval& last, int columns, std::vector<std::string>* lines) {
  const std::uint64_t dead = last.Value("log_bytes_dead");
  const std::uint64_t used = last.Value("log_bytes_used");
  lines->push_back(absl::StrFormat("memory %s: index %s (i), live %s (#), dead %s (-), free %s (.)",
                                   ShortBytes(last.Value("memory_bytes")),
                                   ShortBytes(last.Value("index_bytes")),
                                   ShortBytes(used - std::min(used, dead)), ShortBytes(dead),
                                   ShortBytes(last.Value("memory_bytes_free"))));
  lines->push_back(MemoryBar(last, static_cast<std::size_t>(std::clamp(columns - 2, 0, 78))));
  std::string misses = absl::StrFormat("cold reads %s/s, evictions %s/s, cleaned %s/s",
                                       ShortNumber(last.Rate("fetches")), ShortNumber(last.Rate("evictions")),
                                       ShortBytes(static_cast<std::uint64_t>(last.Rate("bytes_moved"))));
  // Clients report only a part of their reads.
  if (const double reads = last.Rate("reads_reported"); reads > 0) {
    absl::StrAppendFormat(&misses, ", hits %.1f %% of reads reported",
                          100 * (1 - std::min(last.Rate("fetches") / reads, 1.0)));
  }
  lines->push_back(misses);
}

void AddDurability(const Interval& last, std::vector<std::string>* lines) {
  std::string text = absl::StrFormat("disk: commit groups %s/s, syncs %s/s, writes unsynced %s, failures %d",
                                     ShortNumber(last.Rate("commit_groups")), ShortNumber(last.Rate("syncs")),
                                     ShortNumber(static_cast<double>(last.Value("writes_unsynced"))),
                                     last.Value("disk_failures"));
  if (last.Value("commit_log_unapplied_bytes") > 0) {
    absl::StrAppend(&text, ", not in RocksDB ", ShortBytes(last.Value("commit_log_unapplied_bytes")));
  }
  lines->push_back(text);
}

/// NAME_p50_ns, NAME_p99_ns and NAME_max_ns, of each NAME that the server has.
void AddLatencies(const Interval& last, std::vector<std::string>* lines) {
  constexpr std::string_view kEnd = "_p99_ns";
  for (const auto& [name, p99] : last.after().metrics) {
    if (!name.ends_with(kEnd) || p99 == 0) continue;
    const std::string base = name.substr(0, name.size() - kEnd.size());
    lines->push_back(absl::StrFormat("%-20s p50 %8s  p99 %8s  max %8s", base,
                                     ShortTime(last.Value(base + "_p50_ns")), ShortTime(p99),
                                     ShortTime(last.Value(base + "_max_ns"))));
  }
}

/// Adds the state of the server, and its part in replication.
void AddState(const Page& page, const Interval& last, const Interval& all, int columns,
              std::vector<std::string>* lines) {
  if (!page.trouble.empty()) {
    lines->push_back(absl::StrCat("NO ANSWER: ", page.trouble));
    return;
  }
  const MetricValues values = [&](std::string_view name) { return last.Value(name); };
  AddWrapped(State(values), columns, lines);
  const std::string watched = "watched for " + Elapsed(all.seconds());
  if (lines->back().size() + 2 + watched.size() <= static_cast<std::size_t>(std::max(columns, 1))) {
    absl::StrAppend(&lines->back(), "  ", watched);
  } else {
    lines->push_back("  " + watched);
  }
  if (const std::string text = ReplicationText(values); !text.empty()) {
    AddWrapped("replication: " + text, columns, lines);
  }
}

/// Removes what the terminal does not show: empty lines first.
void Fit(ScreenSize size, std::vector<std::string>* lines) {
  const auto rows = static_cast<std::size_t>(std::max(size.rows, 1));
  if (lines->size() > rows) std::erase(*lines, "");
  lines->resize(std::min(lines->size(), rows));
  for (std::string& line : *lines)
    line.resize(std::min(line.size(), static_cast<std::size_t>(std::max(size.columns, 1))));
}

}  // namespace

std::vector<std::string> PageLines(const Page& page, const Interval& last, const Interval& all,
                                   ScreenSize size) {
  std::vector<std::string> lines = {absl::StrCat("kvctl top  ", page.server)};
  AddState(page, last, all, size.columns, &lines);
  lines.push_back(absl::StrFormat("clients %d (new %s/s, rejected %d), keys %s, cold %s",
                                  last.Value("connections"), ShortNumber(last.Rate("connections_accepted")),
                                  last.Value("connections_refused"),
                                  ShortNumber(static_cast<double>(last.Value("keys"))),
                                  ShortNumber(static_cast<double>(last.Value("cold_keys")))));
  lines.push_back(Transports(last));
  lines.emplace_back();
  lines.push_back(absl::StrFormat("%-16s%9s%10s%10s", "operations/s", "now", "average", "total"));
  for (const Row& row : kRows) {
    lines.push_back(absl::StrFormat("  %-14s%9s%10s%10s", row.title, ShortNumber(last.Rate(row.metric)),
                                    ShortNumber(all.Rate(row.metric)),
                                    ShortNumber(static_cast<double>(last.Value(row.metric)))));
  }
  lines.emplace_back();
  AddMemory(last, size.columns, &lines);
  AddDurability(last, &lines);
  AddLatencies(last, &lines);
  Fit(size, &lines);
  return lines;
}

std::vector<std::string> PageLines(const ShardsPage& page, std::span<const ShardInterval> shards,
                                   ScreenSize size) {
  std::vector<std::string> troubles;
  std::size_t ready = 0;
  for (const ShardInterval& shard : shards) {
    const std::string state = shard.interval
                                  ? State([&](std::string_view name) { return shard.interval->Value(name); })
                                  : "NO ANSWER: " + shard.trouble;
    if (state == kReady) {
      ++ready;
    } else {
      AddWrapped(absl::StrCat("shard ", shard.name, ": ", state), size.columns, &troubles);
    }
  }
  std::vector<std::string> lines = {absl::StrCat("kvctl top  ", page.topology)};
  lines.push_back(absl::StrFormat("%d shards, %s  watched for %s", shards.size(),
                                  ready == shards.size() ? "all ready" : absl::StrFormat("%d ready", ready),
                                  Elapsed(page.seconds)));
  lines.insert(lines.end(), troubles.begin(), troubles.end());
  lines.emplace_back();
  const std::vector<std::string> table = TableOf(shards);
  lines.insert(lines.end(), table.begin(), table.end());
  Fit(size, &lines);
  return lines;
}

}  // namespace remora::top
