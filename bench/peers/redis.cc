// Redis, and what speaks its protocol, through hiredis.
#include <array>
#include <deque>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "bench/peers/peers.h"
#include "bench/peers/redis_connection.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

using Words = std::initializer_list<std::string_view>;
using Connection = std::unique_ptr<RedisConnection>;

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
      return absl::InternalError(absl::StrCat("redis: a reply of an unexpected type, ", reply.type));
  }
}

absl::Status CallWith(RedisConnection& connection, Words words, std::string* found) {
  connection.Append(std::span(words.begin(), words.size()));
  REMORA_ASSIGN_OR_RETURN(const RedisReply reply, connection.Call());
  return Take(*reply, found);
}

/// The calls of one operation, of both kinds of session.
template <typename Kind>
class RedisCalls : public Kind {
 public:
  explicit RedisCalls(Connection connection) : connection_(std::move(connection)) {}

  absl::Status Get(std::string_view key, std::string* value) override {
    return CallWith(*connection_, {"GET", key}, value);
  }
  absl::Status Put(std::string_view key, std::string_view value) override {
    return CallWith(*connection_, {"SET", key, value}, nullptr);
  }

 protected:
  const Connection connection_;
};

/// Sends commands one behind the other, and goes on as replies come.
class RedisSession final : public RedisCalls<Session> {
 public:
  using RedisCalls::RedisCalls;

  void Begin(Request* request) override {
    const std::array<std::string_view, 3> words = {request->is_put ? "SET" : "GET", request->key,
                                                   request->value};
    connection_->Append(std::span(words).first(request->is_put ? 3 : 2));
    in_flight_.push_back(request);
  }

  void Advance(bool wait, std::vector<Request*>* ended) override {
    absl::Status status = connection_->Flush();
    const std::size_t before = ended->size();
    while (status.ok()) {
      status = TakeReplies(ended);
      if (!status.ok() || ended->size() > before) break;
      if (!wait && !connection_->IsReadable()) return;
      status = connection_->Receive();
    }
    if (status.ok()) return;
    for (Request* const request : in_flight_) {
      request->status = status;
      ended->push_back(request);
    }
    in_flight_.clear();
  }

 private:
  // Those that have come.
  absl::Status TakeReplies(std::vector<Request*>* ended) {
    while (!in_flight_.empty()) {
      REMORA_ASSIGN_OR_RETURN(const RedisReply reply, connection_->NextReply());
      if (reply == nullptr) break;
      Request* const request = in_flight_.front();
      in_flight_.pop_front();
      request->status = Take(*reply, request->found);
      ended->push_back(request);
    }
    return absl::OkStatus();
  }

  std::deque<Request*> in_flight_;  // in the order in which replies come
};

/// Does the requests in flight by one MGET and one MSET.
class RedisBatchSession final : public RedisCalls<BatchSession> {
 public:
  using RedisCalls::RedisCalls;

 private:
  void GetAll(std::span<Request* const> requests) override {
    words_.assign(1, "MGET");
    for (const Request* const request : requests) words_.push_back(request->key);
    connection_->Append(words_);
    const absl::StatusOr<RedisReply> reply = connection_->Call();
    absl::Status status = reply.status();
    if (status.ok() && ((*reply)->type != REDIS_REPLY_ARRAY || (*reply)->elements != requests.size())) {
      const absl::Status error = Take(**reply, nullptr);
      status = error.ok() ? absl::InternalError("MGET: a reply of another number of values") : error;
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i]->status = status.ok() ? Take(*(*reply)->element[i], requests[i]->found) : status;
    }
  }

  void PutAll(std::span<Request* const> requests) override {
    words_.assign(1, "MSET");
    for (const Request* const request : requests) {
      words_.push_back(request->key);
      words_.push_back(request->value);
    }
    connection_->Append(words_);
    const absl::StatusOr<RedisReply> reply = connection_->Call();
    const absl::Status status = reply.ok() ? Take(**reply, nullptr) : reply.status();
    for (Request* const request : requests) request->status = status;
  }

  std::vector<std::string_view> words_;
};

class RedisTarget final : public Target {
 public:
  RedisTarget(PeerAddress address, std::shared_ptr<const rdma::TlsContext> tls, bool batch)
      : address_(std::move(address)), tls_(std::move(tls)), batch_(batch) {}

  absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t depth) override {
    REMORA_ASSIGN_OR_RETURN(Connection connection, RedisConnection::Connect(address_, tls_));
    if (depth > 1 && batch_) return std::make_unique<RedisBatchSession>(std::move(connection));
    return std::make_unique<RedisSession>(std::move(connection));
  }

 private:
  const PeerAddress address_;
  const std::shared_ptr<const rdma::TlsContext> tls_;
  const bool batch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> OpenRedis(const TargetOptions& options) {
  REMORA_ASSIGN_OR_RETURN(PeerAddress address, ParsePeerAddress(options.address));
  std::shared_ptr<const rdma::TlsContext> tls;
  if (options.address.starts_with("rediss://")) {
    if (!address.path.empty()) return absl::InvalidArgumentError("address: rediss:// needs HOST:PORT");
    REMORA_ASSIGN_OR_RETURN(tls, rdma::TlsContext::OfClient({.files = options.client.tls, .secret = ""}));
  }
  return std::make_unique<RedisTarget>(std::move(address), std::move(tls), options.batch);
}

}  // namespace remora::bench
