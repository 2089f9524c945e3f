// What the calls of remora.h are made of: every exception ends here, and every status becomes a code and a
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
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/c/remora.h"
#include "client/client.h"

namespace remora::c {

/// The machine's clock, and what the caller of remora_connect_interruptible has asked for.
///
/// Thread Safety: that of its client.
class CallersClock final : public SteadyClock {
 public:
  CallersClock(int (*interrupted)(void*), void* context) : interrupted_(interrupted), context_(context) {}

  void Sleep(Duration duration) const override;
  bool IsInterrupted() const override;
  Duration LongestSleep() const override { return interrupted_ == nullptr ? Duration::max() : kBetweenAsks; }

 private:
  static constexpr std::chrono::milliseconds kBetweenAsks{50};

  int (*const interrupted_)(void*);  // null: nothing ends a wait
  void* const context_;
  mutable TimePoint next_ask_{};
};

}  // namespace remora::c

struct remora_client {
  remora_client(int (*interrupted)(void*), void* context) : clock(interrupted, context) {}

  const remora::c::CallersClock clock;
  std::unique_ptr<remora::Client> client;
  std::string value;  // of remora_get
  // Of remora_multi_get.
  std::vector<std::string_view> keys;
  std::vector<remora::GetResult> results;
  std::vector<std::string> messages;  // of its results, and those of remora_multi_put
  // Of remora_multi_put.
  std::vector<remora::PutRequest> puts;
  std::vector<remora::PutResult> put_results;
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
/// The code; unless it is REMORA_OK, the message is this thread's last one.
remora_code End(const absl::Status& status);
remora_code EndWithoutMemory();

/// What became of one of many, with its message in `message`.
remora_result ResultOf(const absl::Status& status, std::string_view value, std::uint64_t version,
                       std::string* message);

// Runs the body of a call, which returns a Status.
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
  return all_there ? absl::OkStatus() : absl::InvalidArgumentError("a null pointer where something must be");
}

inline bool AreBytes(const void* key, size_t size) { return key != nullptr || size == 0; }
inline std::string_view View(const void* bytes, size_t size) {
  return {static_cast<const char*>(bytes), size};
}

/// A program that has lost its place must not begin anew without notice.
inline absl::Status CheckToken(const char* token, const char* what) {
  if (token == nullptr || *token != '\0') return absl::OkStatus();
  return absl::InvalidArgumentError(
      std::string(what) + ": an empty token is none; pass one that was given, or no token, to begin anew");
}

/// InvalidArgument: it is not all inside.
inline absl::StatusOr<RegisteredBytes> PartOf(const remora_buffer* buffer, size_t offset, size_t size) {
  if (absl::Status status = CheckPointers(buffer != nullptr); !status.ok()) return status;
  const size_t all = buffer->buffer->bytes().size();
  if (offset <= all && size <= all - offset) return buffer->buffer->Part(offset, size);
  return absl::InvalidArgumentError("bytes that are not all inside the buffer");
}

/// Registers it with a client of either kind.
template <typename Client>
absl::Status Register(Client& client, void* bytes, size_t size, remora_buffer** buffer) {
  absl::Status status = CheckPointers(bytes != nullptr && buffer != nullptr);
  if (status.ok() && size == 0) status = absl::InvalidArgumentError("a buffer of 0 bytes");
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

/// What the caller of a connect wants, in the words of the C++ client.
absl::StatusOr<ClientOptions> ClientOptionsOf(const remora_options* options);
/// Of a write, the same.
absl::StatusOr<PutOptions> PutOptionsOf(const remora_write_options* options);
WriteOptions WithoutTtl(const PutOptions& options);

// A version of a struct that its caller was compiled with: shorter, when the library is newer; then what it
// does not have is as remora_..._init fills it. Longer, when the library is older; then what this does not
// know must be zero.
template <typename Options>
absl::Status TakeOptions(const Options* given, Options* taken) {
  if (given == nullptr) return absl::OkStatus();
  const size_t size = given->struct_size;
  if (size < sizeof(size_t)) return absl::InvalidArgumentError("options that were not initialised");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Options); i < size; ++i) {
    if (bytes[i] != 0) {
      return absl::UnimplementedError("options that this version of the library does not know");
    }
  }
  std::memcpy(taken, given, size < sizeof(Options) ? size : sizeof(Options));
  return absl::OkStatus();
}

}  // namespace remora::c
