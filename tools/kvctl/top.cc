// top: a server's rates, again and again.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

}  // namespace

Outcome Top(const Arguments& arguments, const Clock& clock) {
  if (!arguments.json && top::HasTerminal()) return ShowPages(arguments, clock);
  return PrintLines(arguments, clock);
}

}  // namespace remora::kvctl
