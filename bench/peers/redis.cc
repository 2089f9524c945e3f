// Redis, and what speaks its protocol, through hiredis.
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <deque>

#include "absl/strings/str_cat.h"
#include "bench/peers/peers.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

// A server that says nothing for so long has failed; hiredis would wait for ever.
constexpr int kPatienceS = 4;

struct ContextDeleter {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct ReplyDeleter {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, ContextDeleter>;
using Reply = std::unique_ptr<redisReply, ReplyDeleter>;

// REQUIRES: the last call of hiredis failed, and nothing has changed errno since.
absl::Status WhyBroken(const redisContext& context) {
  if (context.err == REDIS_ERR_IO && (errno == EAGAIN || errno == ETIMEDOUT)) {
    return absl::UnavailableError(absl::StrCat("the server did not answer for ", kPatienceS,
                                               " s: it is stopped, or speaks another protocol"));
  }
  return absl::UnavailableError(context.errstr);
}

// Translates a reply. A Get's value goes to `found`.
absl::Status Take(const redisReply& reply, std::string* found) {
  switch (reply.type) {
    case REDIS_REPLY_NIL:
      return absl::NotFoundError("no such key");
    case REDIS_REPLY_STRING:
      if (found != nullptr) found->assign(reply.str, reply.len);
      return absl::OkStatus();
    case REDIS_REPLY_STATUS:
      return absl::OkStatus();
    case REDIS_REPLY_ERROR:
      // Out of its maxmemory.
      if (std::string_view(reply.str, reply.len).starts_with("OOM")) {
        return absl::ResourceExhaustedError(reply.str);
      }
      return absl::InternalError(reply.str);
    default:
      return absl::InternalError(absl::StrCat("a reply of an unexpected type, ", reply.type));
  }
}

class RedisSession final : public Session {
 public:
  explicit RedisSession(Context context) : context_(std::move(context)) {}

  /// Shows that a Redis server answers, and serves this client.
  absl::Status Ping() { return Call({"PING"}, nullptr); }

  absl::Status Get(std::string_view key, std::string* value) override { return Call({"GET", key}, value); }
  absl::Status Put(std::string_view key, std::string_view value) override {
    return Call({"SET", key, value}, nullptr);
  }

  void Begin(Request* request) override {
    if (request->is_put) {
      Append({"SET", request->key, request->value});
    } else {
      Append({"GET", request->key});
    }
    in_flight_.push_back(request);
  }

  void Advance(bool wait, std::vector<Request*>* ended) override {
    absl::Status status = Flush();
    const std::size_t before = ended->size();
    while (status.ok()) {
      status = TakeReplies(ended);
      if (!status.ok() || ended->size() > before) break;
      if (!wait && !IsReadable()) return;
      if (redisBufferRead(context_.get()) != REDIS_OK) status = Broken();
    }
    if (status.ok()) return;
    for (Request* const request : in_flight_) {
      request->status = status;
      ended->push_back(request);
    }
    in_flight_.clear();
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  void Append(Words words) {
    std::array<const char*, 3> begins;
    std::array<std::size_t, 3> sizes;
    int count = 0;
    for (const std::string_view word : words) {
      begins[static_cast<std::size_t>(count)] = word.data();
      sizes[static_cast<std::size_t>(count++)] = word.size();
    }
    // Fails only where memory does; then the context says so when it is read.
    redisAppendCommandArgv(context_.get(), count, begins.data(), sizes.data());
  }

  absl::Status Call(Words words, std::string* found) {
    Append(words);
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK) return Broken();
    return Take(*Reply(static_cast<redisReply*>(reply)), found);
  }

  absl::Status Flush() {
    for (int done = 0; done == 0;) {
      if (redisBufferWrite(context_.get(), &done) != REDIS_OK) return Broken();
    }
    return absl::OkStatus();
  }

  // Those that have come.
  absl::Status TakeReplies(std::vector<Request*>* ended) {
    while (!in_flight_.empty()) {
      void* next = nullptr;
      if (redisGetReplyFromReader(context_.get(), &next) != REDIS_OK) return Broken();
      if (next == nullptr) break;
      const Reply reply(static_cast<redisReply*>(next));
      Request* const request = in_flight_.front();
      in_flight_.pop_front();
      request->status = Take(*reply, request->found);
      ended->push_back(request);
    }
    return absl::OkStatus();
  }

  bool IsReadable() const {
    pollfd entry{context_->fd, POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
  }

  absl::Status Broken() const { return WhyBroken(*context_); }

  const Context context_;
  std::deque<Request*> in_flight_;  // in the order in which replies come
};

class RedisTarget final : public Target {
 public:
  explicit RedisTarget(PeerAddress address) : address_(std::move(address)) {}

  absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t) override {
    constexpr timeval kPatience{kPatienceS, 0};
    Context context(address_.path.empty()
                        ? redisConnectWithTimeout(address_.host.c_str(), address_.port, kPatience)
                        : redisConnectUnixWithTimeout(address_.path.c_str(), kPatience));
    if (context == nullptr) return absl::ResourceExhaustedError("no memory for a connection");
    if (context->err != 0 || redisSetTimeout(context.get(), kPatience) != REDIS_OK) {
      return WhyBroken(*context);
    }
    auto session = std::make_unique<RedisSession>(std::move(context));
    REMORA_RETURN_IF_ERROR(session->Ping());
    return session;
  }

 private:
  const PeerAddress address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> OpenRedis(const TargetOptions& options) {
  REMORA_ASSIGN_OR_RETURN(PeerAddress address, ParsePeerAddress(options.address));
  return std::make_unique<RedisTarget>(std::move(address));
}

}  // namespace remora::bench
