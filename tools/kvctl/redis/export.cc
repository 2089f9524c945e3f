// export --to.
#include <sysexits.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/cluster_client.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/kvctl/history_check.h"
#include "tools/kvctl/progress.h"
#include "tools/kvctl/redis/comparison.h"
#include "tools/kvctl/redis/connection.h"
#include "tools/kvctl/redis/interruption.h"
#include "tools/kvctl/redis/transfer.h"

namespace remora::kvctl {
namespace {

// Commands that are sent together, at the most: so many, or some MiB.
constexpr std::size_t kCommandsAtOnce = 256;
constexpr std::size_t kBytesAtOnce = std::size_t{4} << 20;

class RedisExporter {
 public:
  RedisExporter(ClusterClient& client, const Arguments& arguments, const Clock& clock)
      : client_(client),
        arguments_(arguments),
        clock_(clock),
        history_(client),
        if_absent_(arguments.if_absent || (!arguments.resume_token.empty() && !arguments.overwrite)) {}

  Outcome Run() {
    if (const absl::Status begun = Begin(); !begun.ok()) {
      return is_lost() ? StartOver(FromStatus(begun)) : FromStatus(begun);
    }
    Outcome outcome = CopyAll();
    std::string counts =
        absl::StrFormat("%d records were exported, %d keys were there already", exported_, already_there_);
    if (is_lost()) {
      counts = absl::StrFormat("of %d records it is not known whether the Redis has them",
                               exported_ + already_there_);
      exported_ = already_there_ = 0;
    }
    if (Failed(outcome) && !is_lost() && resume_token_.empty()) {
      outcome.error += "; " + counts + "; begin again";
    } else if (Failed(outcome)) {
      outcome = Stopped(std::move(outcome), counts, is_lost() ? "" : resume_token_);
    }
    Outcome report =
        WriteOutput(absl::StrFormat("exported %d\nalready_there %d\n", exported_, already_there_), counts);
    if (Failed(report) && !Failed(outcome)) outcome = std::move(report);
    return Failed(outcome) || !arguments_.verify ? outcome : Verify();
  }

 private:
  /// The resume token is that of the scan, the run of the Redis, and the mark of the servers' histories, with
  /// dots between them.
  absl::Status Begin() {
    std::string_view run;
    std::string_view mark;
    scan_token_ = arguments_.resume_token;
    if (!arguments_.resume_token.empty()) {
      const std::string_view token = arguments_.resume_token;
      // The token of a scan may have dots, too.
      const std::size_t last = token.rfind('.');
      const std::size_t first = last == 0 ? last : token.rfind('.', last - 1);
      if (last == std::string_view::npos || first == std::string_view::npos || first == last || first == 0 ||
          last + 1 == token.size()) {
        return absl::InvalidArgumentError("--resume: this is no resume token of an export");
      }
      scan_token_ = token.substr(0, first);
      run = token.substr(first + 1, last - first - 1);
      mark = token.substr(last + 1);
    }
    REMORA_RETURN_IF_ERROR(history_.Begin(mark));
    REMORA_ASSIGN_OR_RETURN(const RedisAddress address, ParseRedisAddress(arguments_.to));
    REMORA_ASSIGN_OR_RETURN(
        connection_, RedisConnection::Connect(address, std::chrono::milliseconds(arguments_.timeout_ms)));
    connection_->Send({"INFO", "server"});
    REMORA_ASSIGN_OR_RETURN(const RedisReply info, connection_->Receive());
    run_ = RunIn(*info);
    if (!scan_token_.empty()) {
      if (run_.empty()) return Lost("does not tell its run (INFO server)");
      if (run_ != run)
        return Lost(absl::StrCat("was started anew since, as its run_id is not ", AbslView(run)));
      resume_token_ = arguments_.resume_token;
    }
    // Counting the keys of a prefix takes as long as a scan.
    if (!arguments_.prefix.empty()) return absl::OkStatus();
    REMORA_ASSIGN_OR_RETURN(records_, client_.Count());
    return absl::OkStatus();
  }

  absl::Status Lost(std::string_view why) {
    has_lost_ = true;
    return absl::FailedPreconditionError(
        absl::StrCat("redis: the Redis ", AbslView(why), ", and may have lost records of this copy"));
  }
  bool is_lost() const { return has_lost_ || history_.is_lost(); }

  absl::StatusOr<std::unique_ptr<ClusterScan>> Scan(std::string_view resume_token) {
    // A token has the range and the order of its scan.
    if (!resume_token.empty()) return client_.Scan({.resume_token = resume_token});
    return client_.Scan({.prefix = arguments_.prefix, .any_order = arguments_.any_order});
  }

  Outcome CopyAll() {
    const Interruption interruption;
    auto scan = Scan(scan_token_);
    if (!scan.ok()) {
      // With the same token, the next attempt would end so, too.
      const bool may_pass = absl::IsUnavailable(scan.status()) || absl::IsDeadlineExceeded(scan.status());
      if (!may_pass) resume_token_.clear();
      return FromStatus(scan.status());
    }
    Progress progress("records", records_, clock_);
    std::size_t bytes = 0;
    while ((*scan)->Next()) {
      SendRecord(**scan);
      bytes += (*scan)->key().size() + (*scan)->value().size();
      if (sent_ < kCommandsAtOnce && bytes < kBytesAtOnce && !interruption.came()) continue;
      if (Outcome outcome = TakeReplies(); Failed(outcome)) return outcome;
      bytes = 0;
      resume_token_ = absl::StrCat((*scan)->resume_token(), ".", run_, ".", history_.mark());
      progress.Show(exported_ + already_there_);
      if (interruption.came()) return {EX_TEMPFAIL, "interrupted"};
    }
    if (!(*scan)->status().ok()) return FromStatus((*scan)->status());
    if (Outcome outcome = TakeReplies(); Failed(outcome)) return outcome;
    // If the server lost its records during the scan, the scan ended early without an error.
    return FromStatus(history_.CompareNow());
  }

  void SendRecord(const ClusterScan& scan) {
    const std::string expiry = std::to_string(scan.expiry_ms());
    std::vector<std::string_view> words{"SET", scan.key(), scan.value()};
    if (scan.expiry_ms() != 0) words.insert(words.end(), {"PXAT", expiry});
    if (if_absent_) words.push_back("NX");
    connection_->Send(words);
    ++sent_;
  }

  /// Takes the replies to all that was sent. Returns the first failure. Behind a connection that goes on, the
  /// Redis may be another: that of a gate is its server.
  Outcome TakeReplies() {
    Outcome outcome = TakeRepliesToSets();
    connection_->Send({"INFO", "server"});
    const absl::StatusOr<RedisReply> info = connection_->Receive();
    if (!info.ok()) return Failed(outcome) ? outcome : FromStatus(info.status());
    const std::string run = RunIn(**info);
    if (run == run_) return outcome;
    if (run.empty())
      return FromStatus(
          absl::UnavailableError("redis: the Redis does not tell its run (INFO server) any more"));
    return FromStatus(Lost("was started anew meanwhile"));
  }

  Outcome TakeRepliesToSets() {
    Outcome outcome;
    for (; sent_ > 0; --sent_) {
      const absl::StatusOr<RedisReply> reply = connection_->Receive();
      if (!reply.ok()) {
        sent_ = 0;
        return Failed(outcome) ? outcome : FromStatus(reply.status());
      }
      absl::Status status = StatusOf(**reply);
      const bool is_set = (*reply)->type == REDIS_REPLY_STATUS && TextOf(**reply) == "OK";
      const bool was_there = (*reply)->type == REDIS_REPLY_NIL && if_absent_;
      if (is_set || was_there) {
        ++(is_set ? exported_ : already_there_);
        continue;
      }
      if (status.ok()) {
        status = StrangeReply("SET");
      }
      if (Failed(outcome)) continue;
      outcome = FromStatus(status);
      if (absl::IsResourceExhausted(status)) outcome.exit_code = EX_CANTCREAT;
    }
    return outcome;
  }

  /// Scans the server once more, and asks the Redis for the keys.
  Outcome Verify() {
    const Interruption interruption;
    auto scan = Scan("");
    if (!scan.ok()) return FromStatus(scan.status());
    Progress progress("verified", records_, clock_);
    Comparison comparison;
    std::vector<std::pair<std::string, std::string>> records;
    std::size_t bytes = 0;
    std::size_t key_bytes = 0;
    std::uint64_t compared = 0;
    for (bool more = true; more;) {
      if (interruption.came()) return {EX_TEMPFAIL, "interrupted; all is exported, and not all was verified"};
      more = (*scan)->Next();
      if (more) {
        records.emplace_back((*scan)->key(), (*scan)->value());
        bytes += (*scan)->value().size();
        key_bytes += (*scan)->key().size();
        connection_->Send({"GET", records.back().first});
      }
      const bool has_space = bytes < kBytesAtOnce && key_bytes < kKeyBytesAtOnce;
      if (more && records.size() < kCommandsAtOnce && has_space) continue;
      std::string lines;
      if (const absl::Status status = Compare(records, &comparison, &lines); !status.ok()) {
        return FromStatus(status);
      }
      compared += records.size();
      records.clear();
      bytes = key_bytes = 0;
      if (!lines.empty()) progress.Hide();
      if (Outcome outcome = WriteOutput(lines); Failed(outcome)) return outcome;
      progress.Show(compared);
    }
    progress.Hide();
    if (!(*scan)->status().ok()) return FromStatus((*scan)->status());
    return comparison.Report();
  }

  absl::Status Compare(const std::vector<std::pair<std::string, std::string>>& records,
                       Comparison* comparison, std::string* lines) {
    for (const auto& [key, value] : records) {
      REMORA_ASSIGN_OR_RETURN(const RedisReply reply, connection_->Receive());
      const bool is_list = TextOf(*reply).starts_with("WRONGTYPE") && reply->type == REDIS_REPLY_ERROR;
      if (!is_list) REMORA_RETURN_IF_ERROR(StatusOf(*reply));
      std::optional<std::string_view> target;
      if (reply->type == REDIS_REPLY_STRING) target = TextOf(*reply);
      comparison->Add(key, value, target, lines);
    }
    return absl::OkStatus();
  }

  ClusterClient& client_;
  const Arguments& arguments_;
  const Clock& clock_;
  HistoryCheck history_;
  const bool if_absent_;
  std::unique_ptr<RedisConnection> connection_;
  std::string run_;            // of the Redis; empty: it does not tell
  bool has_lost_ = false;      // records, or may have: the Redis
  std::string scan_token_;     // where this copy begins
  std::uint64_t records_ = 0;  // of the server at the start; 0: it is not known
  std::string resume_token_;   // behind the records that the Redis has; empty: there is none to go on with
  std::size_t sent_ = 0;       // commands that have no reply yet
  std::uint64_t exported_ = 0;
  std::uint64_t already_there_ = 0;
};

}  // namespace

Outcome ExportToRedis(ClusterClient& client, const Arguments& arguments, const Clock& clock) {
  return RedisExporter(client, arguments, clock).Run();
}

}  // namespace remora::kvctl
