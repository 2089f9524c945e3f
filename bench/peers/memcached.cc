// memcached, through libmemcached.
#include <libmemcached/memcached.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "bench/peers/peers.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

struct ClientDeleter {
  void operator()(memcached_st* client) const { memcached_free(client); }
};
using MemcachedClient = std::unique_ptr<memcached_st, ClientDeleter>;

class MemcachedSession final : public BatchSession {
 public:
  explicit MemcachedSession(MemcachedClient client) : client_(std::move(client)) {
    memcached_result_create(client_.get(), &result_);
  }
  ~MemcachedSession() override { memcached_result_free(&result_); }

  absl::Status Get(std::string_view key, std::string* value) override {
    const char* const begin = key.data();
    const std::size_t size = key.size();
    REMORA_RETURN_IF_ERROR(StatusOf(memcached_mget(client_.get(), &begin, &size, 1)));
    memcached_return_t code = MEMCACHED_SUCCESS;
    if (memcached_fetch_result(client_.get(), &result_, &code) == nullptr) return Missing(code);
    value->assign(memcached_result_value(&result_), memcached_result_length(&result_));
    // The end of the reply, behind the last value, has to be read, too.
    while (memcached_fetch_result(client_.get(), &result_, &code) != nullptr) {
    }
    return absl::OkStatus();
  }

  absl::Status Put(std::string_view key, std::string_view value) override {
    return StatusOf(memcached_set(client_.get(), key.data(), key.size(), value.data(), value.size(),
                                  /*expiration=*/0, /*flags=*/0));
  }

 private:
  void GetAll(std::span<Request* const> requests) override {
    begins_.clear();
    sizes_.clear();
    for (const Request* const request : requests) {
      begins_.push_back(request->key.data());
      sizes_.push_back(request->key.size());
    }
    memcached_return_t code = memcached_mget(client_.get(), begins_.data(), sizes_.data(), requests.size());
    absl::Status status = StatusOf(code);
    // Values come in the order of the keys, without those that are missing.
    std::size_t next = 0;
    while (status.ok() && memcached_fetch_result(client_.get(), &result_, &code) != nullptr) {
      const std::string_view key(memcached_result_key_value(&result_), memcached_result_key_length(&result_));
      while (next < requests.size() && requests[next]->key != key) requests[next++]->status = Missing(code);
      if (next == requests.size()) break;
      requests[next]->found->assign(memcached_result_value(&result_), memcached_result_length(&result_));
      requests[next++]->status = absl::OkStatus();
    }
    if (status.ok()) status = Missing(code);
    while (next < requests.size()) requests[next++]->status = status;
  }

  void PutAll(std::span<Request* const> requests) override {
    for (Request* const request : requests) request->status = Put(request->key, request->value);
  }

  // Of a key that no value came for.
  absl::Status Missing(memcached_return_t code) const {
    if (memcached_success(code) || code == MEMCACHED_NOTFOUND) return absl::NotFoundError("no such key");
    return StatusOf(code);
  }

  absl::Status StatusOf(memcached_return_t code) const {
    if (memcached_success(code)) return absl::OkStatus();
    const std::string text = absl::StrCat(memcached_strerror(client_.get(), code), ": ",
                                          memcached_last_error_message(client_.get()));
    if (code == MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE) return absl::ResourceExhaustedError(text);
    if (code == MEMCACHED_E2BIG || code == MEMCACHED_BAD_KEY_PROVIDED)
      return absl::InvalidArgumentError(text);
    return absl::UnavailableError(text);
  }

  const MemcachedClient client_;
  memcached_result_st result_;
  std::vector<const char*> begins_;
  std::vector<std::size_t> sizes_;
};

class MemcachedTarget final : public Target {
 public:
  explicit MemcachedTarget(PeerAddress address) : address_(std::move(address)) {}

  absl::StatusOr<std::unique_ptr<Session>> NewSession(std::uint32_t) override {
    MemcachedClient client(memcached_create(nullptr));
    if (client == nullptr) return absl::ResourceExhaustedError("connect: no memory for a connection");
    memcached_behavior_set(client.get(), MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
    const memcached_return_t added =
        address_.path.empty()
            ? memcached_server_add(client.get(), address_.host.c_str(), static_cast<in_port_t>(address_.port))
            : memcached_server_add_unix_socket(client.get(), address_.path.c_str());
    if (!memcached_success(added)) {
      return absl::InvalidArgumentError(memcached_strerror(client.get(), added));
    }
    // It would connect with the first request.
    if (const memcached_return_t code = memcached_version(client.get()); !memcached_success(code)) {
      return absl::UnavailableError(absl::StrCat(memcached_strerror(client.get(), code), ": ",
                                                 memcached_last_error_message(client.get())));
    }
    return std::make_unique<MemcachedSession>(std::move(client));
  }

 private:
  const PeerAddress address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> OpenMemcached(const TargetOptions& options) {
  REMORA_ASSIGN_OR_RETURN(PeerAddress address, ParsePeerAddress(options.address));
  return std::make_unique<MemcachedTarget>(std::move(address));
}

}  // namespace remora::bench
