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
#include "absl/strings/str_format.h"
#include "client/client.h"
#include "store/base/status_macros.h"
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
  RedisExporter(Client& client, const Arguments& arguments, const Clock& clock)
      : client_(client),
        arguments_(arguments),
        clock_(clock),
        if_absent_(arguments.if_absent || (!arguments.resume_token.empty() && !arguments.overwrite)),
        resume_token_(arguments.resume_token) {}

  Outcome Run() {
    if (const absl::Status begun = Begin(); !begun.ok()) return FromStatus(begun);
    Outcome outcome = CopyAll();
    const std::string counts =
        absl::StrFormat("%d records were exported, %d keys were there already", exported_, already_there_);
    if (Failed(outcome) && resume_token_.empty()) {
      outcome.error += "; " + counts + "; begin again";
    } else if (Failed(outcome)) {
      outcome = Stopped(std::move(outcome), counts, resume_token_);
    }
    Outcome report =
        WriteOutput(absl::StrFormat("exported %d\nalready_there %d\n", exported_, already_there_), counts);
    if (Failed(report) && !Failed(outcome)) outcome = std::move(report);
    return Failed(outcome) || !arguments_.verify ? outcome : Verify();
  }

 private:
  absl::Status Begin() {
    REMORA_ASSIGN_OR_RETURN(const RedisAddress address, ParseRedisAddress(arguments_.to));
    REMORA_ASSIGN_OR_RETURN(
        connection_, RedisConnection::Connect(address, std::chrono::milliseconds(arguments_.timeout_ms)));
    // Counting the keys of a prefix takes as long as a scan.
    if (!arguments_.prefix.empty()) return absl::OkStatus();
    REMORA_ASSIGN_OR_RETURN(records_, client_.Count());
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<ClientScan>> Scan(std::string_view resume_token) {
    // A token has the range and the order of its scan.
    if (!resume_token.empty()) return client_.Scan({.resume_token = resume_token});
    return client_.Scan({.prefix = arguments_.prefix, .any_order = arguments_.any_order});
  }

  Outcome CopyAll() {
    const Interruption interruption;
    auto scan = Scan(arguments_.resume_token);
    if (!scan.ok()) return FromStatus(scan.status());
    Progress progress("records", records_, clock_);
    std::size_t bytes = 0;
    while ((*scan)->Next()) {
      SendRecord(**scan);
      bytes += (*scan)->key().size() + (*scan)->value().size();
      if (sent_ < kCommandsAtOnce && bytes < kBytesAtOnce && !interruption.came()) continue;
      if (Outcome outcome = TakeReplies(); Failed(outcome)) return outcome;
      bytes = 0;
      resume_token_ = (*scan)->resume_token();
      progress.Show(exported_ + already_there_);
      if (interruption.came()) return {EX_TEMPFAIL, "interrupted"};
    }
    if (!(*scan)->status().ok()) return FromStatus((*scan)->status());
    return TakeReplies();
  }

  void SendRecord(const ClientScan& scan) {
    const std::string expiry = std::to_string(scan.expiry_ms());
    std::vector<std::string_view> words{"SET", scan.key(), scan.value()};
    if (scan.expiry_ms() != 0) words.insert(words.end(), {"PXAT", expiry});
    if (if_absent_) words.push_back("NX");
    connection_->Send(words);
    ++sent_;
  }

  /// Takes the replies to all that was sent. Returns the first failure.
  Outcome TakeReplies() {
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
      const bool has_room = bytes < kBytesAtOnce && key_bytes < kKeyBytesAtOnce;
      if (more && records.size() < kCommandsAtOnce && has_room) continue;
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

  Client& client_;
  const Arguments& arguments_;
  const Clock& clock_;
  const bool if_absent_;
  std::unique_ptr<RedisConnection> connection_;
  std::uint64_t records_ = 0;  // of the server at the begin; 0: it is not known
  std::string resume_token_;   // behind the records that the Redis has; empty: before the first one
  std::size_t sent_ = 0;       // commands that have no reply yet
  std::uint64_t exported_ = 0;
  std::uint64_t already_there_ = 0;
};

}  // namespace

Outcome ExportToRedis(Client& client, const Arguments& arguments, const Clock& clock) {
  return RedisExporter(client, arguments, clock).Run();
}

}  // namespace remora::kvctl
