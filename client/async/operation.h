// An operation of an AsyncClient, from its beginning until its place is free again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "client/async/operation_buffers.h"
#include "client/async_client.h"
#include "client/get/lookup.h"
#include "client/registered_buffer.h"
#include "client/rpc/request_channel.h"
#include "client/session/session.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"

namespace remora {

class OperationList;

/// A place for one operation, and the state of the operation in it.
struct AsyncOperation {
  enum class Kind : std::uint8_t { kValue = 1, kPresence, kTtl, kMessage };

  std::uint32_t index = 0;  // of this place
  std::uint64_t id = 0;     // the OperationId; 0: the caller cannot name the operation any more
  Kind kind = Kind::kMessage;
  bool ended = false;
  bool read_in_flight = false;
  std::uint32_t large_buffer = OperationBuffers::kNone;
  TimePoint deadline;
  Duration timeout{};   // for each piece of a large value
  TimePoint read_at{};  // when its result had come, while it waits for a lease
  // Only if the client records metrics:
  TimePoint began{};
  std::size_t put_bytes = 0;  // size of the value of a Put

  std::string key;  // keeps its memory for later operations
  // The caller's memory that the value is READ into, or gathered from. Set until the client calls the
  // callback.
  std::optional<RegisteredBytes> memory;

  // For kValue, kPresence and kTtl:
  Lookup lookup;
  std::span<std::byte> bytes;  // target of the READ
  rdma::FoundRecord found;     // came with a bucket, in the operation's buffer for a record

  // For kMessage:
  Operation message = Operation::kPing;  // a large put is named by its last message
  std::uint64_t key_hash = 0;
  std::string value;  // copy of a value that could not be sent at once and is not in `memory`
  PutOptions options{};
  // For a write whose reply was lost with its connection (reconnect.cc):
  std::uint64_t lost_id = 0;  // its request ID; 0: no reply was lost
  bool undone = false;        // the server has said that the write was not done

  AsyncResult result;
  AsyncClient::Done done;

  std::string_view value_to_put() const { return memory ? ValueIn(*memory) : std::string_view(value); }
  /// Returns whether this is a put that may share a message with others.
  bool is_listable() const {
    return kind == Kind::kMessage && message == Operation::kPut && lost_id == 0 && !memory &&
           RequestChannel::List::Takes(options);
  }
  bool is_large_put() const { return kind == Kind::kMessage && message == Operation::kFinishLargePut; }

  // Links of the list that it is in:
  OperationList* list = nullptr;
  AsyncOperation* before = nullptr;
  AsyncOperation* behind = nullptr;
};

/// Returns the scatter-gather element of the operation's registered memory; nullopt: it has none.
inline std::optional<rdma::Sge> MemoryOf(const AsyncOperation& operation) {
  if (!operation.memory) return std::nullopt;
  return Endpoint::SgeOf(*operation.memory);
}

/// A first-in first-out queue of operations, which an operation can also leave from the middle. An operation
/// is in at most one list.
class OperationList {
 public:
  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  AsyncOperation& front() const { return *first_; }

  /// Adds the operation at the end. REQUIRES: it is in no list.
  void Push(AsyncOperation& operation) {
    operation.list = this;
    operation.before = last_;
    operation.behind = nullptr;
    (last_ != nullptr ? last_->behind : first_) = &operation;
    last_ = &operation;
    ++size_;
  }
  /// Adds the operation at the front. REQUIRES: it is in no list.
  void PushFront(AsyncOperation& operation) {
    operation.list = this;
    operation.before = nullptr;
    operation.behind = first_;
    (first_ != nullptr ? first_->before : last_) = &operation;
    first_ = &operation;
    ++size_;
  }
  AsyncOperation& Pop() {
    AsyncOperation& operation = *first_;
    Remove(operation);
    return operation;
  }
  static void Leave(AsyncOperation& operation) {
    if (operation.list != nullptr) operation.list->Remove(operation);
  }

 private:
  void Remove(AsyncOperation& operation) {
    (operation.before != nullptr ? operation.before->behind : first_) = operation.behind;
    (operation.behind != nullptr ? operation.behind->before : last_) = operation.before;
    operation.list = nullptr;
    --size_;
  }

  AsyncOperation* first_ = nullptr;
  AsyncOperation* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace remora
