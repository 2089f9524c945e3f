// Coroutines over an AsyncClient: each waits for its own operations, all run in one thread.
//
//   remora::Task<absl::Status> Copy(remora::CoroutineClient& kv, std::string from, std::string to) {
//     const absl::StatusOr<std::string> value = co_await kv.Get(from);
//     if (!value.ok()) co_return value.status();
//     co_return co_await kv.Put(to, *value);
//   }
//   remora::Task<void> CopyAll(remora::CoroutineClient& kv) { ... co_await Copy(kv, "a", "b"); ... }
//
//   remora::CoroutineClient kv(*remora::AsyncClient::Connect(address, {}, {}, clock));
//   kv.Start(CopyAll(kv));
//   kv.Run(clock.Now() + std::chrono::seconds(10));
//
// Errors are values. What a coroutine takes by reference must live until it ends; so must what a lambda that
// is one has captured, which is the lambda's and not the coroutine's.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/async_client.h"
#include "client/misuse.h"
#include "store/base/check.h"

namespace remora {

template <typename T>
class Task;

namespace internal {

/// At the end of a task, whoever awaits it goes on.
struct TaskEnd {
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
    return ended.promise().continuation();
  }
  void await_resume() const noexcept {}
};

/// What promises of all tasks have: who waits for the end.
class TaskPromiseBase {
 public:
  std::suspend_always initial_suspend() const noexcept { return {}; }
  TaskEnd final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

  std::coroutine_handle<> continuation() const { return continuation_; }
  void set_continuation(std::coroutine_handle<> continuation) { continuation_ = continuation; }

 private:
  std::coroutine_handle<> continuation_ = std::noop_coroutine();
};

template <typename T>
class TaskPromise final : public TaskPromiseBase {
 public:
  Task<T> get_return_object();
  template <typename U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T Take() { return *std::move(value_); }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> final : public TaskPromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() const {}
  void Take() const {}
};

}  // namespace internal

/// A coroutine that begins when it is awaited, by one other, or handed to CoroutineClient::Start. One that
/// has begun must come to its end before it is destroyed.
template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::TaskPromise<T>;

  Task(Task&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), begun_(std::exchange(other.begun_, false)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (!handle_) return;
    if (begun_ && !handle_.done()) {
      EndOnMisuse(
          "a Task is destroyed before it has come to its end; let CoroutineClient::Run come to its own");
    }
    handle_.destroy();
  }

  auto operator co_await() && {
    struct Awaiter {
      Task& task;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) const noexcept {
        task.begun_ = true;
        task.handle_.promise().set_continuation(awaiting);
        return task.handle_;
      }
      T await_resume() const { return task.handle_.promise().Take(); }
    };
    REMORA_CHECK(handle_ && !begun_);
    return Awaiter{*this};
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
  bool begun_ = false;
};

namespace internal {

template <typename T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

}  // namespace internal

/// An AsyncClient for coroutines. They may await as many operations at once as they like: those for which
/// there is no room wait, first come, first served.
///
/// Coroutines go on inside Run, Poll, Start and the destructor alone. The destructor ends the operations that
/// are under way with Cancelled, and those begun later with Unavailable; a task that only awaits operations,
/// and heeds their errors, comes to its end thereby. One that waits for something else must be at its end
/// before; else the process ends with a message.
///
/// Thread Safety: as AsyncClient.
class CoroutineClient {
  /// An operation that somebody awaits. It lives in that coroutine.
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual AsyncClient::Begun Begin(AsyncClient& client, AsyncClient::Done done) = 0;
    virtual void Take(const AsyncResult& result) = 0;

    std::coroutine_handle<> awaiting;
    Operation* next = nullptr;
  };

  class Queue {
   public:
    bool empty() const { return first_ == nullptr; }
    void Push(Operation& operation) {
      (last_ != nullptr ? last_->next : first_) = &operation;
      last_ = &operation;
    }
    Operation& Pop() {
      Operation& operation = *first_;
      first_ = operation.next;
      if (first_ == nullptr) last_ = nullptr;
      return operation;
    }

   private:
    Operation* first_ = nullptr;
    Operation* last_ = nullptr;
  };

  template <typename T, typename BeginCall, typename TakeResult>
  class Awaiter final : public Operation {
   public:
    Awaiter(CoroutineClient& kv, BeginCall begin, TakeResult take)
        : kv_(kv), begin_(std::move(begin)), take_(std::move(take)) {}
    bool await_ready() const noexcept { return false; }
    /// False: it has ended already.
    bool await_suspend(std::coroutine_handle<> handle) {
      awaiting = handle;
      return kv_.Begin(*this);
    }
    T await_resume() { return *std::move(result_); }

    AsyncClient::Begun Begin(AsyncClient& client, AsyncClient::Done done) override {
      return begin_(client, std::move(done));
    }
    void Take(const AsyncResult& result) override { result_.emplace(take_(result)); }

   private:
    CoroutineClient& kv_;
    const BeginCall begin_;
    const TakeResult take_;
    std::optional<T> result_;
  };

  template <typename T, typename BeginCall, typename TakeResult>
  auto Await(BeginCall begin, TakeResult take) {
    return Awaiter<T, BeginCall, TakeResult>(*this, std::move(begin), std::move(take));
  }
  static absl::Status StatusOf(const AsyncResult& result) { return result.status; }

 public:
  explicit CoroutineClient(std::unique_ptr<AsyncClient> client) : client_(std::move(client)) {}
  ~CoroutineClient() {
    stopping_ = true;
    client_.reset();
    while (!waiting_.empty()) Refuse(waiting_.Pop());
    if (running_ > 0) {
      EndOnMisuse(
          "a CoroutineClient is destroyed while tasks that it has started wait for something else than its "
          "operations; let them come to their end first");
    }
  }
  CoroutineClient(const CoroutineClient&) = delete;
  CoroutineClient& operator=(const CoroutineClient&) = delete;

  /// Runs the task up to where it first waits.
  void Start(Task<void> task) { RunDetached(*this, std::move(task)); }
  /// Tasks that were started, and are not at their end.
  std::size_t running() const { return running_; }

  /// Until no task runs. DeadlineExceeded: some still do. FailedPrecondition: those that do wait for
  /// something else than this client.
  absl::Status Run(TimePoint deadline) {
    while (running_ > 0) {
      BeginWaiting();
      if (running_ == 0) break;
      if (client_->in_flight() == 0) {
        return absl::FailedPreconditionError("tasks that wait, but for no operation of this client");
      }
      const absl::StatusOr<std::size_t> ended = client_->Wait(deadline);
      if (!ended.ok()) return ended.status();
    }
    return absl::OkStatus();
  }
  /// As AsyncClient::Poll, for who drives client() by its descriptor.
  std::size_t Poll() {
    const std::size_t ended = client_->Poll();
    BeginWaiting();
    return ended;
  }
  /// For its descriptor and deadlines; and for operations with callbacks.
  AsyncClient& client() { return *client_; }

  // --- Operations: to be awaited where they are called. Keys and values must live until then.
  // ----------------

  auto Get(std::string_view key, std::uint64_t* version = nullptr, const CallOptions& call = {}) {
    return Await<absl::StatusOr<std::string>>(
        [=](AsyncClient& client, AsyncClient::Done done) { return client.Get(key, std::move(done), call); },
        [=](const AsyncResult& got) -> absl::StatusOr<std::string> {
          if (!got.status.ok()) return got.status;
          if (version != nullptr) *version = got.version;
          return std::string(got.value);
        });
  }
  /// The value's size.
  auto Get(std::string_view key, const RegisteredBytes& into, std::uint64_t* version = nullptr,
           const CallOptions& call = {}) {
    return Await<absl::StatusOr<std::size_t>>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Get(key, into, std::move(done), call);
        },
        [=](const AsyncResult& got) -> absl::StatusOr<std::size_t> {
          if (!got.status.ok()) return got.status;
          if (version != nullptr) *version = got.version;
          return got.value.size();
        });
  }
  auto Exists(std::string_view key, const CallOptions& call = {}) {
    return Await<absl::StatusOr<bool>>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Exists(key, std::move(done), call);
        },
        [](const AsyncResult& found) -> absl::StatusOr<bool> {
          if (!found.status.ok() && !absl::IsNotFound(found.status)) return found.status;
          return found.status.ok();
        });
  }
  auto Ttl(std::string_view key, const CallOptions& call = {}) {
    using Left = std::optional<std::chrono::milliseconds>;
    return Await<absl::StatusOr<Left>>(
        [=](AsyncClient& client, AsyncClient::Done done) { return client.Ttl(key, std::move(done), call); },
        [](const AsyncResult& left) -> absl::StatusOr<Left> {
          if (!left.status.ok()) return left.status;
          return left.ttl;
        });
  }
  auto Put(std::string_view key, std::string_view value, const PutOptions& options = {},
           const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Put(key, value, options, std::move(done), call);
        },
        StatusOf);
  }
  auto Put(std::string_view key, const RegisteredBytes& value, const PutOptions& options = {},
           const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Put(key, value, options, std::move(done), call);
        },
        StatusOf);
  }
  auto Delete(std::string_view key, const WriteOptions& options = {}, const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Delete(key, options, std::move(done), call);
        },
        StatusOf);
  }
  auto Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options = {},
             const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Touch(key, ttl, options, std::move(done), call);
        },
        StatusOf);
  }
  auto Persist(std::string_view key) { return Touch(key, kNeverExpires); }
  auto Increment(std::string_view key, std::int64_t delta, const PutOptions& options = {},
                 const CallOptions& call = {}) {
    return Await<absl::StatusOr<std::int64_t>>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Increment(key, delta, options, std::move(done), call);
        },
        [](const AsyncResult& sum) -> absl::StatusOr<std::int64_t> {
          if (!sum.status.ok()) return sum.status;
          return sum.number;
        });
  }
  auto Append(std::string_view key, std::string_view bytes, const PutOptions& options = {},
              const CallOptions& call = {}) {
    return Await<absl::StatusOr<std::size_t>>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Append(key, bytes, options, std::move(done), call);
        },
        [](const AsyncResult& size) -> absl::StatusOr<std::size_t> {
          if (!size.status.ok()) return size.status;
          return static_cast<std::size_t>(size.number);
        });
  }
  auto Apply(const WriteBatch& batch, const CallOptions& call = {}) {
    return Await<absl::Status>(
        [&batch, call](AsyncClient& client, AsyncClient::Done done) {
          return client.Apply(batch, std::move(done), call);
        },
        StatusOf);
  }

 private:
  /// False: it has ended already, and was given its result.
  bool Begin(Operation& operation) {
    if (stopping_) {
      operation.Take({.status = absl::UnavailableError("the client is being destroyed")});
      return false;
    }
    if (!waiting_.empty() || client_->room() == 0) {
      waiting_.Push(operation);
      return true;
    }
    return BeginNow(operation);
  }
  bool BeginNow(Operation& operation) {
    const AsyncClient::Begun begun = operation.Begin(*client_, [this, &operation](const AsyncResult& result) {
      operation.Take(result);
      operation.awaiting.resume();
      if (!stopping_) BeginWaiting();
    });
    if (begun.ok()) return true;
    operation.Take({.status = begun.status()});
    return false;
  }
  void BeginWaiting() {
    while (!waiting_.empty() && client_->room() > 0) {
      Operation& operation = waiting_.Pop();
      if (!BeginNow(operation)) operation.awaiting.resume();
    }
  }
  void Refuse(Operation& operation) {
    operation.Take({.status = absl::CancelledError("the client was destroyed")});
    operation.awaiting.resume();
  }

  struct Detached {
    struct promise_type {
      Detached get_return_object() const { return {}; }
      std::suspend_never initial_suspend() const noexcept { return {}; }
      std::suspend_never final_suspend() const noexcept { return {}; }
      void return_void() const {}
      [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
  };
  static Detached RunDetached(CoroutineClient& kv, Task<void> task) {
    ++kv.running_;
    co_await std::move(task);
    --kv.running_;
  }

  std::unique_ptr<AsyncClient> client_;
  Queue waiting_;
  std::size_t running_ = 0;
  bool stopping_ = false;
};

}  // namespace remora
