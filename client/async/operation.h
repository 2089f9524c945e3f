// One operation of an AsyncClient, from its beginning until its place is free again.
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
#include "store/base/clock.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"

namespace remora {

class OperationList;

struct AsyncOperation {
  enum class Kind : std::uint8_t { kValue = 1, kPresence, kTtl, kMessage };

  std::uint32_t index = 0;  // among all
  std::uint64_t id = 0;     // 0: nobody can name it
  Kind kind = Kind::kMessage;
  bool ended = false;
  bool read_in_flight = false;
  std::uint32_t large_buffer = OperationBuffers::kNone;
  TimePoint deadline;
  Duration timeout{};  // for each piece of a large value
  std::string key;     // memory that is used again
  // Of the caller's: what the value is READ into, or gathered from. Until the callback is called.
  std::optional<RegisteredBytes> memory;

  // kValue, kPresence, kTtl
  Lookup lookup;
  std::span<std::byte> bytes;  // of the READ

  // kMessage
  Operation message = Operation::kPing;
  std::uint64_t key_hash = 0;
  std::string value;  // if it could not be sent at once, and is not in `memory`; memory that is used again
  PutOptions options{};
  // For a write whose reply was lost with its connection (reconnect.cc).
  std::uint64_t lost_id = 0;  // its request id; 0: none was
  bool undone = false;        // the server has said so

  AsyncResult result;
  AsyncClient::Done done;

  std::string_view value_to_put() const { return memory ? ValueIn(*memory) : std::string_view(value); }
  /// A put that may share a message with others.
  bool is_listable() const {
    return kind == Kind::kMessage && message == Operation::kPut && lost_id == 0 && !memory &&
           RequestChannel::List::Takes(options);
  }
  bool is_large_put() const { return kind == Kind::kMessage && message == Operation::kCommit; }

  // Of the list that it is in.
  OperationList* list = nullptr;
  AsyncOperation* before = nullptr;
  AsyncOperation* behind = nullptr;
};

/// First come, first served; who is in it can also leave. An operation is in one at most.
class OperationList {
 public:
  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  AsyncOperation& front() const { return *first_; }

  /// REQUIRES: it is in none.
  void Push(AsyncOperation& operation) {
    operation.list = this;
    operation.before = last_;
    operation.behind = nullptr;
    (last_ != nullptr ? last_->behind : first_) = &operation;
    last_ = &operation;
    ++size_;
  }
  /// The same, in front of all.
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
