// Helpers of the calls of remora.h. They stop every exception, and turn every status into a code and a
// message.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/c/remora.h"
#include "client/client.h"
#include "client/cluster/cluster_client.h"

namespace remora::c {

/// Steady clock of a client, which also asks the `interrupted` function of remora_connect_interruptible while
/// a call waits.
///
/// Thread safety: that of its client.
class CallersClock final : public SteadyClock {
 public:
  CallersClock(int (*interrupted)(void*), void* context) : interrupted_(interrupted), context_(context) {}

  void Sleep(Duration duration) const override;
  bool IsInterrupted() const override;
  Duration LongestSleep() const override { return interrupted_ == nullptr ? Duration::max() : kBetweenAsks; }

 private:
  static constexpr std::chrono::milliseconds kBetweenAsks{50};

  int (*const interrupted_)(void*);  // null: no function ends a wait
  void* const context_;
  mutable TimePoint next_ask_{};
};

}  // namespace remora::c

struct remora_client {
  ~remora_client();
  remora_client(int (*interrupted)(void*), void* context) : clock(interrupted, context) {}

  const remora::c::CallersClock clock;
  // One of these two; the other is null:
  std::unique_ptr<remora::Client> client;
  std::unique_ptr<remora::ClusterClient> cluster;
  std::unordered_set<remora_scan*> cluster_scans;  // which the caller has not ended
  std::string value;                               // of remora_get
  // For remora_multi_get:
  std::vector<std::string_view> keys;
  std::vector<remora::GetResult> results;
  std::vector<std::string> messages;  // also of the results of remora_multi_put
  // For remora_multi_put:
  std::vector<remora::PutRequest> puts;
  std::vector<remora::PutResult> put_results;
};

struct remora_scan {
  // One of the first two; the other is null. Both are null if its client, of a cluster, is closed.
  std::unique_ptr<remora::ClientScan> scan;
  std::unique_ptr<remora::ClusterScan> cluster_scan;
  remora_client* client = nullptr;  // of a cluster; null: it is closed, or of one server
  std::string token;
};

struct remora_buffer {
  std::unique_ptr<remora::RegisteredBuffer> buffer;
};

struct remora_batch {
  remora::WriteBatch batch;
};

namespace remora::c {

using std::chrono::milliseconds;

remora_code CodeOf(const absl::Status& status);
/// Returns the status's code. Unless it is REMORA_OK, stores the message for this thread's remora_message.
remora_code End(const absl::Status& status);
remora_code EndWithoutMemory();

/// Returns the result of one key of a call with many. Stores its text in *message, which must outlive it.
remora_result ResultOf(const absl::Status& status, std::string_view value, std::uint64_t version,
                       std::string* message);

// Runs the body of a call, which returns a Status, and returns its code. Turns an exception into a code.
template <typename Body>
remora_code Call(const Body& body) noexcept {
  try {
    return End(body());
  } catch (const std::bad_alloc&) {
    return EndWithoutMemory();
  } catch (const std::exception& error) {
    return End(absl::InternalError(error.what()));
  }
}

inline absl::Status CheckPointers(bool all_there) {
  return all_there ? absl::OkStatus()
                   : absl::InvalidArgumentError("arguments: a pointer is null that must not be");
}

inline bool AreBytes(const void* key, size_t size) { return key != nullptr || size == 0; }
inline std::string_view View(const void* bytes, size_t size) {
  return {static_cast<const char*>(bytes), size};
}

/// Returns the result of `call` with the client of a server, or of a cluster, which has calls of the same
/// names.
template <typename Call>
auto With(const remora_client& client, const Call& call) {
  return client.cluster == nullptr ? call(*client.client) : call(*client.cluster);
}

/// Returns the client of a server. Unimplemented: it is one of a cluster. `name` is that of the call.
inline absl::StatusOr<Client*> OneServers(const remora_client* client, const char* name) {
  if (absl::Status status = CheckPointers(client != nullptr); !status.ok()) return status;
  if (client->cluster == nullptr) return client->client.get();
  return absl::UnimplementedError(
      std::string(name) +
      ": a client of a cluster does not have this call; connect to the server of a shard for it");
}

/// Rejects an empty token: a program that has lost its position must not start from now without notice.
inline absl::Status CheckToken(const char* token, const char* what) {
  if (token == nullptr || *token != '\0') return absl::OkStatus();
  return absl::InvalidArgumentError(
      std::string(what) +
      ": the resume token is empty; pass the one that you got, or null to start from now");
}

/// Returns a part of a buffer. InvalidArgument: the part is not all inside, or the buffer is null.
inline absl::StatusOr<RegisteredBytes> PartOf(const remora_buffer* buffer, size_t offset, size_t size) {
  if (absl::Status status = CheckPointers(buffer != nullptr); !status.ok()) return status;
  const size_t all = buffer->buffer->bytes().size();
  if (offset <= all && size <= all - offset) return buffer->buffer->Part(offset, size);
  return absl::InvalidArgumentError(
      "arguments: the bytes are not all inside the buffer; check offset and size");
}

/// Registers `size` bytes at `bytes` with a client of either kind, and stores the new buffer in *buffer.
template <typename Client>
absl::Status Register(Client& client, void* bytes, size_t size, remora_buffer** buffer) {
  absl::Status status = CheckPointers(bytes != nullptr && buffer != nullptr);
  if (status.ok() && size == 0) status = absl::InvalidArgumentError("register: the buffer has 0 bytes");
  if (!status.ok()) return status;
  auto registered = std::make_unique<remora_buffer>();
  auto made = client.Register({static_cast<std::byte*>(bytes), size});
  if (!made.ok()) return made.status();
  registered->buffer = *std::move(made);
  *buffer = registered.release();
  return absl::OkStatus();
}

inline milliseconds TtlOf(int64_t ttl_ms) {
  return ttl_ms == REMORA_TTL_FOREVER ? kNeverExpires : milliseconds(ttl_ms);
}

/// Makes a remora_async of the client that it opens, as remora_async_open_interruptible.
absl::Status Open(const std::string& address, const ClientOptions& options, size_t depth,
                  int (*interrupted)(void*), void* context, remora_async** async);

/// Has the next connection go to these addresses (AsyncClient::SetAddresses).
absl::Status SetAddresses(remora_async& async, const std::string& addresses);

/// Returns the options of the C++ client for those of a connect.
absl::StatusOr<ClientOptions> ClientOptionsOf(const remora_options* options);
/// Returns the options of the C++ client for those of a write.
absl::StatusOr<PutOptions> PutOptionsOf(const remora_write_options* options);
WriteOptions WithoutTtl(const PutOptions& options);

// Copies options of the struct's version with which the caller was compiled. If the library is newer, the
// caller's struct is shorter: the missing fields keep the values of remora_..._init. If the library is older,
// the caller's struct is longer: the fields that the library does not know must be zero.
template <typename Options>
absl::Status TakeOptions(const Options* given, Options* taken) {
  if (given == nullptr) return absl::OkStatus();
  const size_t size = given->struct_size;
  if (size < sizeof(size_t))
    return absl::InvalidArgumentError(
        "options: they were not initialised; call the function that initialises them first");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Options); i < size; ++i) {
    if (bytes[i] != 0) {
      return absl::UnimplementedError(
          "options: some are unknown to this version of the library; leave them 0, or use the newer library");
    }
  }
  std::memcpy(taken, given, size < sizeof(Options) ? size : sizeof(Options));
  return absl::OkStatus();
}

}  // namespace remora::c
