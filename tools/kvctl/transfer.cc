// export and import.
#include <poll.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/cluster/cluster_client.h"
#include "store/format/types/expiry.h"
#include "store/format/types/write_options.h"
#include "tools/kvctl/export_format.h"
#include "tools/kvctl/history_check.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/record_writer.h"

namespace remora::kvctl {

Outcome Export(ClusterClient& client, const Arguments& arguments) {
  HistoryCheck history(client);
  if (const absl::Status begun = history.Begin(""); !begun.ok()) return FromStatus(begun);
  const auto scan = client.Scan(
      {.prefix = arguments.prefix, .any_order = arguments.any_order, .one_moment = !arguments.any_order});
  if (!scan.ok()) return FromAnswer(scan.status());
  // Written in large pieces, and not all kept.
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::string lines;
  AddFirstLine(&lines);
  std::uint64_t records = 0;
  for (; (*scan)->Next(); ++records) {
    AddRecord((*scan)->key(), (*scan)->value(), (*scan)->expiry_ms(), (*scan)->version(), &lines);
    if (lines.size() < kPiece) continue;
    if (Outcome outcome = WriteOutput(lines); Failed(outcome)) return outcome;
    lines.clear();
  }
  if (absl::IsAborted((*scan)->status())) {
    const ShardPlace& shard = client.topology().shards().front();
    std::string server =
        shard.name.empty() ? "the server" : std::string((*scan)->status().message()) + ": it";
    return {EX_TEMPFAIL, server +
                             " ended the export of one moment: the output was not read for 30 s, or the "
                             "connection broke; start it again"};
  }
  if (!(*scan)->status().ok()) return FromAnswer((*scan)->status());
  // If the server lost its records during the scan, the scan ended early without an error.
  if (const absl::Status same = history.CompareNow(); !same.ok()) {
    Outcome outcome = FromStatus(same);
    outcome.error += "; the output has no last line; start the export again";
    return outcome;
  }
  AddLastLine(records, &lines);
  return WriteOutput(lines);
}

namespace {

/// Standard input, line by line.
class Lines {
 public:
  /// The next one, without its newline, until the one after it. Nothing: there is none, or `outcome` says
  /// why. One that is longer than any can be is cut off there.
  std::optional<std::string_view> Next() {
    std::size_t searched = begin_;
    for (;;) {
      const std::size_t end = std::min(buffer_.find('\n', searched), begin_ + kMaxExportLine + 1);
      if (end < buffer_.size()) return Take(end);
      searched = buffer_.size() - begin_;  // Read moves it to the front
      if (!Read()) break;
    }
    if (begin_ == buffer_.size() || Failed(outcome_)) return std::nullopt;
    return Take(buffer_.size());
  }

  /// Returns true if no whole line is there, and nothing more comes for a moment.
  bool IsSlow() const {
    constexpr int kMomentMs = 100;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return buffer_.find('\n', begin_) == std::string::npos && poll(&input, 1, kMomentMs) == 0;
  }

  const Outcome& outcome() const { return outcome_; }

 private:
  std::string_view Take(std::size_t end) {
    const std::string_view line = std::string_view(buffer_).substr(begin_, end - begin_);
    begin_ = std::min(end + 1, buffer_.size());
    return line;
  }

  /// False: the input has ended, or failed.
  bool Read() {
    buffer_.erase(0, begin_);
    begin_ = 0;
    constexpr std::size_t kPiece = std::size_t{256} << 10;
    const std::size_t size = buffer_.size();
    buffer_.resize(size + kPiece);
    ssize_t got = -1;
    do {
      got = read(STDIN_FILENO, buffer_.data() + size, kPiece);
    } while (got < 0 && errno == EINTR);
    if (got < 0) outcome_ = {EX_IOERR, absl::StrFormat("standard input: %s", std::strerror(errno))};
    buffer_.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return got > 0;
  }

  std::string buffer_;
  std::size_t begin_ = 0;  // of the next line
  Outcome outcome_;
};

class Importer {
 public:
  Importer(ClusterClient& client, const Arguments& arguments)
      : arguments_(arguments), writer_(client, arguments.if_absent) {}

  Outcome Run() {
    if (const absl::Status begun = writer_.Begin(""); !begun.ok()) return FromStatus(begun);
    Outcome outcome = ReadAll();
    // The lines before one that stops the import are imported.
    if (Outcome put = PutGroup(); Failed(put)) outcome = std::move(put);
    if (outcome.exit_code != EX_UNAVAILABLE) {
      if (Outcome end = writer_.End(); Failed(end)) outcome = std::move(end);
    }
    if (writer_.history().is_lost()) outcome.error += "; import all lines again";
    const std::string counts =
        absl::StrFormat("imported %d\nalready_there %d\nexpired %d\nskipped_bad %d\n", writer_.imported(),
                        writer_.already_there(), writer_.expired(), bad_);
    if (Failed(outcome) && line_number_ == 1) return outcome;
    if (Failed(outcome)) {
      outcome.error += "; " + writer_.Summary();
      return outcome;
    }
    return WriteOutput(counts, absl::StrFormat("%d records were imported, %d were there already",
                                               writer_.imported(), writer_.already_there()));
  }

 private:
  struct Record {
    std::uint64_t line_number = 0;
    ExportLine line;
  };

  Outcome ReadAll() {
    bool ended = false;
    for (line_number_ = 1;; ++line_number_) {
      // The writer of the lines may wait for the result of these, and a rejection must end the import.
      if (!group_.empty() && lines_.IsSlow()) {
        if (Outcome outcome = PutGroup(); Failed(outcome)) return outcome;
      }
      const std::optional<std::string_view> text = lines_.Next();
      if (!text) break;
      if (ended) return At(line_number_, "there is more behind the last line of an export");
      absl::StatusOr<ExportLine> line = ParseExportLine(*text);
      if (line_number_ == 1) {
        if (!line.ok() || line->kind != ExportLine::Kind::kFirst) {
          return At(1, "an export begins with {\"remora_export\":1}");
        }
        if (line->format != kExportFormat) {
          return At(1, absl::StrFormat("the export has format %d, this kvctl knows format %d; use that of "
                                       "the release that made it, or a newer one",
                                       line->format, kExportFormat));
        }
        continue;
      }
      if (line.ok() && line->kind == ExportLine::Kind::kFirst)
        line =
            absl::InvalidArgumentError("import: a first line of an export, behind the first; leave it out");
      if (!line.ok() && !arguments_.skip_bad) return At(line_number_, line.status().message());
      if (!line.ok()) {
        ++bad_;
        continue;
      }
      ended = line->kind == ExportLine::Kind::kLast;
      if (ended) continue;
      if (Outcome outcome = Add(*std::move(line)); Failed(outcome)) return outcome;
    }
    if (Failed(lines_.outcome())) return lines_.outcome();
    if (ended) return {};
    if (line_number_ == 1) {
      return {EX_DATAERR, "standard input is empty; it must bring an export, as `kvctl export` writes it"};
    }
    if (arguments_.without_footer) return {};
    return At(
        line_number_,
        "the export ends before its last line, {\"records\":...}: it was cut off, or a filter took that "
        "line out (--without_footer takes it so); all records that came are stored, and importing them again "
        "does no harm");
  }

  Outcome Add(ExportLine line) {
    // Little enough to be answered within a call's time.
    constexpr std::size_t kMaxRecords = 256;
    constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
    bytes_ += line.key.size() + line.value.size();
    group_.push_back({line_number_, std::move(line)});
    return group_.size() < kMaxRecords && bytes_ < kMaxBytes ? Outcome{} : PutGroup();
  }

  Outcome PutGroup() {
    if (group_.empty()) return {};
    std::vector<PutRequest> requests;
    for (const Record& record : group_) {
      PutRequest& request = requests.emplace_back();
      request.key = record.line.key;
      request.value = record.line.value;
      // By the server's clock: a record that has expired by then is rejected, whatever time the import has
      // taken.
      const std::uint64_t expires_ms = record.line.expires_ms;
      request.options.ttl = expires_ms == 0 ? kNeverExpires : Until(std::min(expires_ms, kMaxExpiry));
    }
    Outcome outcome;
    if (auto failure = writer_.Put(std::move(requests)); failure && writer_.history().is_lost()) {
      outcome = std::move(failure->outcome);
    } else if (failure) {
      outcome = At(group_[failure->index].line_number, failure->outcome.error);
      outcome.exit_code = failure->outcome.exit_code;
    }
    group_.clear();
    bytes_ = 0;
    return outcome;
  }

  static Outcome At(std::uint64_t line_number, absl::string_view why) {
    return {EX_DATAERR, absl::StrFormat("line %d: %s", line_number, why)};
  }

  const Arguments& arguments_;
  RecordWriter writer_;
  Lines lines_;
  std::uint64_t line_number_ = 0;
  std::vector<Record> group_;
  std::size_t bytes_ = 0;  // of the group
  std::uint64_t bad_ = 0;
};

}  // namespace

Outcome Import(ClusterClient& client, const Arguments& arguments) {
  return Importer(client, arguments).Run();
}

}  // namespace remora::kvctl
