// top: the rates of a server, or of the shards of a cluster, again and again.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cluster/topology.h"
#include "store/base/status_macros.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/top/lines.h"
#include "tools/kvctl/top/sample.h"
#include "tools/kvctl/top/screen.h"
#include "tools/kvctl/top/terminal.h"

namespace remora::kvctl {
namespace {

using std::chrono::milliseconds;

/// A connection, which is made again when it is broken.
class Source {
 public:
  /// `waits`: a sample waits for a server that is away, as long as each call of a client does.
  Source(const Arguments& arguments, const Clock& clock, bool waits)
      : arguments_(arguments), clock_(clock), waits_(waits) {}

  /// READs the superblock two times or more, as a GET READs a record: the server does nothing for it.
  absl::StatusOr<top::Sample> Take() {
    if (client_ == nullptr) {
      REMORA_ASSIGN_OR_RETURN(client_, Connect(arguments_, clock_, waits_));
    }
    const auto metrics = client_->Stats();
    if (!metrics.ok()) {
      client_.reset();
      return metrics.status();
    }
    top::Sample sample;
    sample.seconds = std::chrono::duration<double>(clock_.Now().time_since_epoch()).count();
    sample.unix_ms = static_cast<std::uint64_t>(clock_.UnixMillis());
    sample.metrics = {metrics->begin(), metrics->end()};
    return sample;
  }

 private:
  const Arguments& arguments_;
  const Clock& clock_;
  const bool waits_;
  std::unique_ptr<Client> client_;
};

milliseconds Left(const Clock& clock, TimePoint due) {
  return std::max(std::chrono::ceil<milliseconds>(due - clock.Now()), milliseconds(0));
}

Outcome PrintLines(const Arguments& arguments, const Clock& clock) {
  Source source(arguments, clock, /*waits=*/true);
  absl::StatusOr<top::Sample> before = source.Take();
  if (!before.ok()) return FromStatus(before.status());
  if (!arguments.json) {
    if (Outcome outcome = WriteOutput(top::Header()); Failed(outcome)) return outcome;
  }
  TimePoint due = clock.Now();
  for (std::uint64_t shown = 0; arguments.limit == 0 || shown < arguments.limit; ++shown) {
    due += *arguments.interval;
    std::this_thread::sleep_for(Left(clock, due));
    absl::StatusOr<top::Sample> after = source.Take();
    if (!after.ok()) return FromStatus(after.status());
    const top::Interval interval(*before, *after);
    Outcome outcome = WriteOutput(arguments.json ? top::JsonLine(interval) : top::Line(interval));
    if (Failed(outcome)) return outcome;
    before = std::move(after);
  }
  return {};
}

/// Goes on while the server is away: the page says so, and each sample tries to connect.
Outcome ShowPages(const Arguments& arguments, const Clock& clock) {
  Source source(arguments, clock, /*waits=*/false);
  const absl::StatusOr<top::Sample> first = source.Take();
  if (!first.ok()) return FromStatus(first.status());
  top::Sample before = *first;
  top::Sample after = *first;
  top::Page page;
  AppendEscaped(arguments.server, &page.server);
  top::Terminal terminal;
  TimePoint due = clock.Now();
  for (std::uint64_t shown = 0;;) {
    const auto lines =
        PageLines(page, top::Interval(before, after), top::Interval(*first, after), terminal.size());
    if (Outcome outcome = WriteOutput(top::Terminal::Drawn(lines)); Failed(outcome)) return outcome;
    if (arguments.limit != 0 && shown == arguments.limit) return {};
    if (due <= clock.Now()) due = clock.Now() + *arguments.interval;
    const top::Terminal::Event event = terminal.Wait(Left(clock, due));
    if (event == top::Terminal::Event::kQuit) return {};
    if (event == top::Terminal::Event::kRedraw) continue;
    ++shown;
    absl::StatusOr<top::Sample> sample = source.Take();
    page.trouble.clear();
    if (sample.ok()) {
      before = std::exchange(after, *std::move(sample));
    } else {
      AppendEscaped(std::string(sample.status().message()), &page.trouble);
    }
  }
}

/// A shard of a cluster, whose server may be away for a while.
class WatchedShard {
 public:
  WatchedShard(const Arguments& arguments, std::size_t shard, const Clock& clock)
      : place_(arguments.topology->shards()[shard]),
        arguments_(OfShard(arguments, shard)),
        source_(arguments_, clock, /*waits=*/false) {}

  const ShardPlace& place() const { return place_; }
  const absl::Status& status() const { return status_; }

  void Take() {
    absl::StatusOr<top::Sample> sample = source_.Take();
    status_ = sample.status();
    if (!sample.ok()) return;
    before_ = has_sample_ ? std::move(after_) : *sample;
    after_ = *std::move(sample);
    has_sample_ = true;
  }

  /// Returns the last interval. It is valid until the next Take.
  top::ShardInterval interval() const {
    top::ShardInterval interval{.name = place_.name, .interval = std::nullopt, .trouble = ""};
    if (status_.ok()) {
      interval.interval.emplace(before_, after_);
    } else {
      AppendEscaped(std::string(status_.message()), &interval.trouble);
    }
    return interval;
  }

 private:
  const ShardPlace& place_;
  const Arguments arguments_;
  Source source_;
  absl::Status status_;
  bool has_sample_ = false;
  top::Sample before_;
  top::Sample after_;
};

/// All shards of a topology.
class WatchedShards {
 public:
  WatchedShards(const Arguments& arguments, const Clock& clock) {
    for (std::size_t i = 0; i < arguments.topology->shards().size(); ++i) {
      shards_.push_back(std::make_unique<WatchedShard>(arguments, i, clock));
    }
  }

  /// Takes a sample of each shard. Returns the failure if none answers.
  Outcome Take() {
    failures_ = {};
    bool has_one = false;
    for (const auto& shard : shards_) {
      shard->Take();
      has_one = has_one || shard->status().ok();
      if (!shard->status().ok()) failures_.Add(shard->place(), shard->status());
    }
    return has_one ? Outcome() : failures_.outcome();
  }

  /// Returns the failure of the shards that did not answer the last time.
  Outcome failure() const { return failures_.outcome(); }
  std::vector<top::ShardInterval> intervals() const {
    std::vector<top::ShardInterval> intervals;
    for (const auto& shard : shards_) intervals.push_back(shard->interval());
    return intervals;
  }

 private:
  std::vector<std::unique_ptr<WatchedShard>> shards_;
  ShardFailures failures_;
};

/// Prints a table for each interval, or one line of JSON.
Outcome PrintShards(const Arguments& arguments, const Clock& clock) {
  WatchedShards shards(arguments, clock);
  if (Outcome outcome = shards.Take(); Failed(outcome)) return outcome;
  TimePoint due = clock.Now();
  for (std::uint64_t shown = 0; arguments.limit == 0 || shown < arguments.limit; ++shown) {
    due = std::max(due, clock.Now()) + *arguments.interval;
    std::this_thread::sleep_for(Left(clock, due));
    if (Outcome outcome = shards.Take(); Failed(outcome)) return outcome;
    const std::vector<top::ShardInterval> intervals = shards.intervals();
    Outcome outcome =
        WriteOutput(arguments.json ? top::JsonLine(static_cast<std::uint64_t>(clock.UnixMillis()), intervals)
                                   : absl::StrCat(absl::StrJoin(top::TableOf(intervals), "\n"), "\n\n"));
    if (Failed(outcome)) return outcome;
  }
  return shards.failure();
}

/// Goes on while servers are away, as ShowPages does.
Outcome ShowShardPages(const Arguments& arguments, const Clock& clock) {
  WatchedShards shards(arguments, clock);
  if (Outcome outcome = shards.Take(); Failed(outcome)) return outcome;
  const TimePoint start = clock.Now();
  top::ShardsPage page;
  AppendEscaped(arguments.topology_file, &page.topology);
  top::Terminal terminal;
  TimePoint due = start;
  for (std::uint64_t shown = 0;;) {
    page.seconds = std::chrono::duration<double>(clock.Now() - start).count();
    const auto lines = PageLines(page, shards.intervals(), terminal.size());
    if (Outcome outcome = WriteOutput(top::Terminal::Drawn(lines)); Failed(outcome)) return outcome;
    if (arguments.limit != 0 && shown == arguments.limit) return {};
    if (due <= clock.Now()) due = clock.Now() + *arguments.interval;
    const top::Terminal::Event event = terminal.Wait(Left(clock, due));
    if (event == top::Terminal::Event::kQuit) return {};
    if (event == top::Terminal::Event::kRedraw) continue;
    ++shown;
    shards.Take();
  }
}

}  // namespace

Outcome Top(const Arguments& arguments, const Clock& clock) {
  const bool has_page = !arguments.json && top::HasTerminal();
  if (!arguments.topology_file.empty()) {
    return has_page ? ShowShardPages(arguments, clock) : PrintShards(arguments, clock);
  }
  return has_page ? ShowPages(arguments, clock) : PrintLines(arguments, clock);
}

}  // namespace remora::kvctl
