#include "tools/kvctl/redis/connection.h"

#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora::kvctl {
namespace {

timeval TimevalOf(std::chrono::milliseconds time) {
  return {.tv_sec = static_cast<time_t>(time.count() / 1000),
          .tv_usec = static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

absl::Status WithCode(absl::StatusCode code, const redisReply& reply) {
  return absl::Status(code, absl::StrCat("the Redis answers: ", AbslView(TextOf(reply))));
}

}  // namespace

std::string_view TextOf(const redisReply& reply) {
  const bool has_text =
      reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS || reply.type == REDIS_REPLY_ERROR;
  return has_text ? std::string_view(reply.str, reply.len) : std::string_view();
}

absl::Status StatusOf(const redisReply& reply) {
  struct Word {
    std::string_view word;
    absl::StatusCode code;
  };
  constexpr auto kWords = std::to_array<Word>({
      {"NOAUTH", absl::StatusCode::kPermissionDenied},
      {"WRONGPASS", absl::StatusCode::kPermissionDenied},
      {"NOPERM", absl::StatusCode::kPermissionDenied},
      {"DENIED", absl::StatusCode::kPermissionDenied},
      {"OOM", absl::StatusCode::kResourceExhausted},
      {"MISCONF", absl::StatusCode::kDataLoss},
      {"READONLY", absl::StatusCode::kUnavailable},
      {"LOADING", absl::StatusCode::kUnavailable},
      {"MOVED", absl::StatusCode::kUnavailable},
      {"ASK", absl::StatusCode::kUnavailable},
      {"CLUSTERDOWN", absl::StatusCode::kUnavailable},
      {"MASTERDOWN", absl::StatusCode::kUnavailable},
      {"NOREPLICAS", absl::StatusCode::kUnavailable},
      {"BUSY", absl::StatusCode::kUnavailable},
  });
  if (reply.type != REDIS_REPLY_ERROR) return absl::OkStatus();
  const std::string_view text = TextOf(reply);
  const std::string_view first = text.substr(0, text.find(' '));
  for (const auto& [word, code] : kWords) {
    if (first == word) return WithCode(code, reply);
  }
  return WithCode(absl::StatusCode::kFailedPrecondition, reply);
}

std::string RunIn(const redisReply& info) {
  constexpr std::string_view kField = "run_id:";
  std::string_view text = info.type == REDIS_REPLY_ERROR ? std::string_view() : TextOf(info);
  const std::size_t at = text.find(kField);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + kField.size());
  text = text.substr(0, text.find_first_of("\r\n"));
  const bool is_name = std::all_of(text.begin(), text.end(),
                                   [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); });
  return is_name ? std::string(text) : "";
}

absl::Status StrangeReply(std::string_view command) {
  return absl::FailedPreconditionError(
      absl::StrCat("redis: the reply to ", AbslView(command), " has another form than that of a Redis"));
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Connect(const RedisAddress& address,
                                                                          std::chrono::milliseconds timeout) {
  const timeval time = TimevalOf(timeout);
  redisContext* const context = address.host.empty()
                                    ? redisConnectUnixWithTimeout(address.path.c_str(), time)
                                    : redisConnectWithTimeout(address.host.c_str(), address.port, time);
  if (context == nullptr) return absl::ResourceExhaustedError("redis: no memory for a connection");
  std::unique_ptr<RedisConnection> connection(new RedisConnection(address, context));
  if (context->err != 0) return connection->Broken();
  redisSetTimeout(context, time);
  REMORA_RETURN_IF_ERROR(connection->Begin());
  return connection;
}

absl::Status RedisConnection::Begin() {
  if (!address_.password.empty()) {
    if (address_.name.empty()) {
      Send({"AUTH", address_.password});
    } else {
      Send({"AUTH", address_.name, address_.password});
    }
    REMORA_ASSIGN_OR_RETURN(const RedisReply reply, Receive());
    if (reply->type == REDIS_REPLY_ERROR) {
      return WithCode(absl::StatusCode::kPermissionDenied, *reply);
    }
  }
  if (address_.database == 0) return Call({"PING"}).status();
  const absl::Status selected = Call({"SELECT", std::to_string(address_.database)}).status();
  // Here this is a number that is too large.
  if (absl::IsFailedPrecondition(selected)) return absl::InvalidArgumentError(selected.message());
  return selected;
}

absl::Status RedisConnection::Broken() const {
  const bool is_late = errno == EAGAIN && context_->err == REDIS_ERR_IO;
  return absl::UnavailableError(
      absl::StrCat(address_.ToString(), ": ", is_late ? "it does not answer in time" : context_->errstr));
}

void RedisConnection::Send(std::span<const std::string_view> words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string_view word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  // It fails without memory alone, and then marks the context.
  redisAppendCommandArgv(context_.get(), static_cast<int>(texts.size()), texts.data(), sizes.data());
}

absl::StatusOr<RedisReply> RedisConnection::Receive() {
  void* reply = nullptr;
  errno = 0;
  if (context_->err != 0 || redisGetReply(context_.get(), &reply) != REDIS_OK) return Broken();
  return RedisReply(static_cast<redisReply*>(reply));
}

absl::StatusOr<RedisReply> RedisConnection::Call(std::initializer_list<std::string_view> words) {
  Send(words);
  REMORA_ASSIGN_OR_RETURN(RedisReply reply, Receive());
  REMORA_RETURN_IF_ERROR(StatusOf(*reply));
  return reply;
}

}  // namespace remora::kvctl
