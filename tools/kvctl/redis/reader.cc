#include "tools/kvctl/redis/reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"

namespace remora::kvctl {
namespace {

constexpr std::string_view kKeysOfPage = "512";
// Bounds of one round trip.
constexpr std::size_t kStringsAtOnce = 256;
constexpr std::size_t kValueBytesAtOnce = std::size_t{4} << 20;

struct Token {
  std::string cursor;
  std::string database;
  std::string run;
};

bool IsNumber(std::string_view text) {
  constexpr std::size_t kMaxDigits = 20;
  return !text.empty() && text.size() <= kMaxDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<Token> ParseToken(std::string_view text) {
  const std::size_t first = text.find('.');
  const std::size_t second = first == std::string_view::npos ? first : text.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  Token token{std::string(text.substr(0, first)), std::string(text.substr(first + 1, second - first - 1)),
              std::string(text.substr(second + 1))};
  const bool is_run = std::all_of(token.run.begin(), token.run.end(),
                                  [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); });
  if (!IsNumber(token.cursor) || !IsNumber(token.database) || !is_run) return std::nullopt;
  return token;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisReader>> RedisReader::Begin(RedisConnection& connection, int database,
                                                                std::string_view resume_token,
                                                                const Clock& clock) {
  std::unique_ptr<RedisReader> reader(new RedisReader(connection, clock));
  connection.Send({"INFO", "server"});
  REMORA_ASSIGN_OR_RETURN(const RedisReply info, connection.Receive());
  reader->database_ = database;
  reader->run_ = RunIn(*info);
  if (resume_token.empty()) return reader;
  const std::optional<Token> token = ParseToken(resume_token);
  if (!token) return absl::InvalidArgumentError("--resume: this is no resume token of an import");
  if (token->database != std::to_string(database)) {
    return absl::InvalidArgumentError(absl::StrCat("--resume: the token is of the database ", token->database,
                                                   ", and --from names ", database,
                                                   "; name the same database"));
  }
  reader->begins_anew_ = reader->run_.empty() || token->run != reader->run_;
  if (!reader->begins_anew_) reader->cursor_ = reader->page_cursor_ = token->cursor;
  return reader;
}

std::string RedisReader::resume_token() const {
  return absl::StrCat(strings_.empty() ? cursor_ : page_cursor_, ".", database_, ".", run_);
}

absl::Status RedisReader::Next(std::vector<RedisRecord>* records, std::vector<RedisSkipped>* skipped) {
  records->clear();
  skipped->clear();
  if (strings_.empty()) REMORA_RETURN_IF_ERROR(ReadPage(skipped));
  return ReadStrings(records, skipped);
}

absl::Status RedisReader::ReadPage(std::vector<RedisSkipped>* skipped) {
  const absl::StatusOr<RedisReply> answer = connection_.Call({"SCAN", cursor_, "COUNT", kKeysOfPage});
  // The text of Redis for a cursor that it does not know. Other errors may be temporary.
  is_rejected_ = absl::StrContains(answer.status().message(), "invalid cursor");
  if (!answer.ok()) return answer.status();
  const RedisReply& page = *answer;
  const bool has_form = page->type == REDIS_REPLY_ARRAY && page->elements == 2 &&
                        page->element[0]->type == REDIS_REPLY_STRING &&
                        page->element[1]->type == REDIS_REPLY_ARRAY;
  if (!has_form || !IsNumber(TextOf(*page->element[0]))) return StrangeReply("SCAN");
  for (std::size_t i = 0; i < page->element[1]->elements; ++i) {
    if (page->element[1]->element[i]->type != REDIS_REPLY_STRING) return StrangeReply("SCAN");
  }
  std::vector<std::string> keys;
  const redisReply& names = *page->element[1];
  keys_ += names.elements;
  for (std::size_t i = 0; i < names.elements; ++i) {
    std::string key(TextOf(*names.element[i]));
    if (key.size() >= kMinKeySize && key.size() <= kMaxKeySize) {
      keys.push_back(std::move(key));
    } else {
      const char* const why = key.empty() ? "key_empty" : "key_too_large";
      skipped->push_back({std::move(key), why});
    }
  }
  // A page is sorted in parts, so that the requests of each fit into the buffers of a socket.
  std::vector<std::string> part;
  std::size_t bytes = 0;
  for (std::string& key : keys) {
    bytes += key.size();
    part.push_back(std::move(key));
    if (part.size() < kStringsAtOnce && bytes < kKeyBytesAtOnce) continue;
    REMORA_RETURN_IF_ERROR(Sort(std::exchange(part, {}), skipped));
    bytes = 0;
  }
  REMORA_RETURN_IF_ERROR(Sort(std::move(part), skipped));
  page_cursor_ = std::exchange(cursor_, std::string(TextOf(*page->element[0])));
  ended_ = cursor_.find_first_not_of('0') == std::string::npos;
  return absl::OkStatus();
}

absl::Status RedisReader::Sort(std::vector<std::string> keys, std::vector<RedisSkipped>* skipped) {
  for (const std::string& key : keys) {
    connection_.Send({"TYPE", key});
    connection_.Send({"STRLEN", key});
  }
  for (std::string& key : keys) {
    REMORA_ASSIGN_OR_RETURN(const RedisReply type, connection_.Receive());
    REMORA_ASSIGN_OR_RETURN(const RedisReply size, connection_.Receive());
    REMORA_RETURN_IF_ERROR(StatusOf(*type));
    if (type->type != REDIS_REPLY_STATUS) return StrangeReply("TYPE");
    const std::string_view name = TextOf(*type);
    if (name == "none") continue;
    if (name != "string") {
      skipped->push_back({std::move(key), std::string(name)});
      continue;
    }
    // It may have become a list meanwhile.
    if (StatusOf(*size).ok() && size->type != REDIS_REPLY_INTEGER) return StrangeReply("STRLEN");
    const std::size_t bytes = StatusOf(*size).ok() ? static_cast<std::size_t>(size->integer) : 0;
    if (bytes > kMaxValueSize) {
      skipped->push_back({std::move(key), "value_too_large"});
    } else {
      strings_.push_back({std::move(key), bytes});
    }
  }
  return absl::OkStatus();
}

absl::Status RedisReader::ReadStrings(std::vector<RedisRecord>* records, std::vector<RedisSkipped>* skipped) {
  std::size_t count = 0;
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;
  while (count < strings_.size() && count < kStringsAtOnce && key_bytes < kKeyBytesAtOnce &&
         (count == 0 || value_bytes + strings_[count].size <= kValueBytesAtOnce)) {
    const String& one = strings_[count++];
    key_bytes += one.key.size();
    value_bytes += one.size;
    connection_.Send({"GET", one.key});
    connection_.Send({"PTTL", one.key});
  }
  // The rest of a time counts from the request on, so that no record is there for longer than its source.
  const TimePoint asked = clock_.Now();
  for (; count > 0; --count) {
    REMORA_ASSIGN_OR_RETURN(const RedisReply value, connection_.Receive());
    REMORA_ASSIGN_OR_RETURN(const RedisReply left, connection_.Receive());
    String one = std::move(strings_.front());
    strings_.pop_front();
    if (value->type == REDIS_REPLY_ERROR && TextOf(*value).starts_with("WRONGTYPE")) {
      skipped->push_back({std::move(one.key), "not_a_string"});
      continue;
    }
    REMORA_RETURN_IF_ERROR(StatusOf(*value));
    REMORA_RETURN_IF_ERROR(StatusOf(*left));
    constexpr int kGone = -2;
    if (left->type != REDIS_REPLY_INTEGER || left->integer < kGone) return StrangeReply("PTTL");
    if (value->type != REDIS_REPLY_STRING && value->type != REDIS_REPLY_NIL) return StrangeReply("GET");
    if (value->type == REDIS_REPLY_NIL || left->integer == kGone) continue;
    if (value->len > kMaxValueSize) {
      skipped->push_back({std::move(one.key), "value_too_large"});
      continue;
    }
    RedisRecord& record = records->emplace_back();
    record.key = std::move(one.key);
    record.value = TextOf(*value);
    // A hundred years hence is for ever.
    constexpr long long kLongestMs = 100LL * 366 * 24 * 3600 * 1000;
    if (left->integer < 0 || left->integer > kLongestMs) continue;
    record.end = asked + std::chrono::milliseconds(left->integer);
  }
  return absl::OkStatus();
}

}  // namespace remora::kvctl
