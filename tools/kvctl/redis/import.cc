// import --from.
#include <sysexits.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
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
#include "store/base/status_macros.h"
#include "store/format/types/expiry.h"
#include "tools/command_line/say.h"
#include "tools/kvctl/progress.h"
#include "tools/kvctl/record_writer.h"
#include "tools/kvctl/redis/comparison.h"
#include "tools/kvctl/redis/connection.h"
#include "tools/kvctl/redis/interruption.h"
#include "tools/kvctl/redis/reader.h"
#include "tools/kvctl/redis/transfer.h"

namespace remora::kvctl {

Outcome Stopped(Outcome why, const std::string& counts, const std::string& resume_token) {
  why.error += absl::StrCat("; ", counts);
  if (resume_token.empty()) return StartOver(std::move(why));
  why.error += absl::StrCat("; go on by the same command with --resume=", resume_token);
  return why;
}

Outcome StartOver(Outcome why) {
  why.error += "; start over without --resume (--if_absent leaves alone what is there)";
  return why;
}

namespace {

class RedisImporter {
 public:
  RedisImporter(ClusterClient& client, const Arguments& arguments, const Clock& clock)
      : client_(client),
        arguments_(arguments),
        clock_(clock),
        writer_(client, arguments.if_absent || (!arguments.resume_token.empty() && !arguments.overwrite)) {}

  Outcome Run() {
    if (Outcome outcome = BeginAtToken(); Failed(outcome)) return outcome;
    if (reader_->begins_anew()) {
      command_line::SayError(
          "kvctl: import: the Redis was started anew since, and has another order: the import begins at the "
          "first key again");
    }
    Outcome outcome = CopyAll();
    if (Failed(outcome)) {
      const bool goes_on = !writer_.history().is_lost() && !reader_->is_rejected();
      outcome = Stopped(std::move(outcome), writer_.Summary(), goes_on ? resume_token_ : "");
    }
    if (Outcome report = Report(); Failed(report) && !Failed(outcome)) outcome = std::move(report);
    if (Failed(outcome) || !arguments_.verify) return outcome;
    return Verify();
  }

 private:
  /// The resume token is that of the reader, a dot, and the mark of the server's history.
  Outcome BeginAtToken() {
    const std::string_view token = arguments_.resume_token;
    const std::size_t dot = token.rfind('.');
    if (!token.empty() && (dot == std::string_view::npos || dot + 1 == token.size())) {
      return {EX_USAGE, "--resume: this is no resume token of an import"};
    }
    const std::string_view of_reader = token.substr(0, token.empty() ? 0 : dot);
    if (const absl::Status begun = BeginReader(of_reader); !begun.ok()) return FromStatus(begun);
    if (const absl::Status begun = writer_.Begin(token.empty() ? token : token.substr(dot + 1));
        !begun.ok()) {
      return writer_.history().is_lost() ? StartOver(FromStatus(begun)) : FromStatus(begun);
    }
    resume_token_ = ResumeToken();
    return {};
  }

  std::string ResumeToken() const {
    return absl::StrCat(reader_->resume_token(), ".", writer_.history().mark());
  }

  absl::Status BeginReader(std::string_view resume_token) {
    REMORA_ASSIGN_OR_RETURN(const RedisAddress address, ParseRedisAddress(arguments_.from));
    const std::chrono::milliseconds timeout{arguments_.timeout_ms};
    REMORA_ASSIGN_OR_RETURN(connection_, RedisConnection::Connect(address, timeout));
    REMORA_ASSIGN_OR_RETURN(const RedisReply size, connection_->Call({"DBSIZE"}));
    if (size->type != REDIS_REPLY_INTEGER || size->integer < 0) {
      return StrangeReply("DBSIZE");
    }
    keys_ = static_cast<std::uint64_t>(size->integer);
    REMORA_ASSIGN_OR_RETURN(reader_,
                            RedisReader::Begin(*connection_, address.database, resume_token, clock_));
    return absl::OkStatus();
  }

  Outcome CopyAll() {
    const Interruption interruption;
    Progress progress("keys", keys_, clock_);
    std::vector<RedisRecord> records;
    std::vector<RedisSkipped> skipped;
    while (!reader_->is_done()) {
      if (interruption.came()) return {EX_TEMPFAIL, "interrupted"};
      if (const absl::Status read = reader_->Next(&records, &skipped); !read.ok()) return FromStatus(read);
      if (Outcome outcome = ListSkipped(skipped, &progress); Failed(outcome)) return outcome;
      if (Outcome outcome = Put(records); Failed(outcome)) return outcome;
      resume_token_ = ResumeToken();
      progress.Show(reader_->keys());
    }
    return writer_.End();
  }

  Outcome Put(const std::vector<RedisRecord>& records) {
    std::vector<PutRequest> requests;
    const TimePoint now = clock_.Now();
    for (const RedisRecord& record : records) {
      std::chrono::milliseconds ttl = kNeverExpires;
      if (record.end) {
        ttl = std::chrono::floor<std::chrono::milliseconds>(*record.end - now);
        if (ttl.count() <= 0) {
          writer_.AddExpired();
          continue;
        }
      }
      PutRequest& request = requests.emplace_back();
      request.key = record.key;
      request.value = record.value;
      request.options.ttl = ttl;
    }
    if (requests.empty()) return {};
    auto failure = writer_.Put(std::move(requests));
    return failure ? std::move(failure->outcome) : Outcome{};
  }

  Outcome ListSkipped(const std::vector<RedisSkipped>& skipped, Progress* progress) {
    if (skipped.empty()) return {};
    std::string lines;
    for (const RedisSkipped& one : skipped) {
      ++skipped_[one.why];
      lines += "skipped\t";
      AppendEscaped(one.why, &lines);
      lines.push_back('\t');
      AppendEscaped(one.key, &lines);
      lines.push_back('\n');
    }
    progress->Hide();
    return WriteOutput(lines);
  }

  Outcome Report() const {
    std::string text = absl::StrFormat("imported %d\nalready_there %d\nexpired %d\n", writer_.imported(),
                                       writer_.already_there(), writer_.expired());
    for (const auto& [why, count] : skipped_) {
      text += "skipped_";
      AppendEscaped(why, &text);
      absl::StrAppend(&text, " ", count, "\n");
    }
    return WriteOutput(text, writer_.Summary());
  }

  /// Reads all strings of the Redis once more, and their keys from the server.
  Outcome Verify() {
    if (const absl::Status begun = BeginReader(""); !begun.ok()) return FromStatus(begun);
    const Interruption interruption;
    Progress progress("verified", keys_, clock_);
    Comparison comparison;
    std::vector<RedisRecord> records;
    std::vector<RedisSkipped> skipped;
    while (!reader_->is_done()) {
      if (interruption.came()) return {EX_TEMPFAIL, "interrupted; all is imported, and not all was verified"};
      if (const absl::Status read = reader_->Next(&records, &skipped); !read.ok()) return FromStatus(read);
      std::string lines;
      if (const absl::Status compared = Compare(records, &comparison, &lines); !compared.ok()) {
        return FromStatus(compared);
      }
      if (!lines.empty()) progress.Hide();
      if (Outcome outcome = WriteOutput(lines); Failed(outcome)) return outcome;
      progress.Show(reader_->keys());
    }
    progress.Hide();
    return comparison.Report();
  }

  absl::Status Compare(const std::vector<RedisRecord>& records, Comparison* comparison, std::string* lines) {
    std::vector<std::string_view> keys;
    for (const RedisRecord& record : records) keys.push_back(record.key);
    std::vector<GetResult> results(keys.size());
    REMORA_RETURN_IF_ERROR(client_.MultiGet(keys, results));
    for (std::size_t i = 0; i < records.size(); ++i) {
      std::optional<std::string_view> value;
      if (results[i].status.ok()) {
        value = results[i].value;
      } else if (!absl::IsNotFound(results[i].status)) {
        return results[i].status;
      }
      comparison->Add(records[i].key, records[i].value, value, lines);
    }
    return absl::OkStatus();
  }

  ClusterClient& client_;
  const Arguments& arguments_;
  const Clock& clock_;
  RecordWriter writer_;
  std::unique_ptr<RedisConnection> connection_;
  std::unique_ptr<RedisReader> reader_;  // uses the connection
  std::uint64_t keys_ = 0;               // that the Redis had at the start
  std::string resume_token_;             // behind the records that are put
  std::map<std::string, std::uint64_t> skipped_;
};

}  // namespace

Outcome ImportFromRedis(ClusterClient& client, const Arguments& arguments, const Clock& clock) {
  return RedisImporter(client, arguments, clock).Run();
}

}  // namespace remora::kvctl
