// Coroutines over an AsyncClient: each awaits its own operations, and all run in one thread.
//
//   remora::Task<absl::Status> Copy(remora::CoroutineClient& kv, std::string from, std::string to) {
//     const absl::StatusOr<std::string> value = co_await kv.Get(from);
//     if (!value.ok()) co_return value.status();
//     co_return co_await kv.Put(to, *value);
//   }
//   remora::Task<void> CopyAll(remora::CoroutineClient& kv) { ... co_await Copy(kv, "a", "b"); ... }
//
//   remora::CoroutineClient kv(*remora::AsyncClient::Connect(address));
//   kv.Start(CopyAll(kv));
//   kv.Run(remora::DefaultClock().Now() + std::chrono::seconds(10));
//
// Errors are values, not exceptions. An object that a coroutine takes by reference must live until the
// coroutine ends. So must a lambda that is a coroutine: the lambda owns its captures, not the coroutine.
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

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/async_client.h"
#include "client/frame_memory.h"
#include "client/misuse.h"
#include "store/base/check.h"

namespace remora {

template <typename T>
class Task;

namespace internal {

/// Final awaiter of a task: resumes the coroutine that awaits the task.
struct TaskEnd {
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
    return ended.promise().continuation();
  }
  void await_resume() const noexcept {}
};

/// Common part of the promises of all tasks: the coroutine that awaits the task's end.
class TaskPromiseBase : public FrameMemory {
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

/// A coroutine that begins when another coroutine awaits it, at most one, or when it is passed to
/// CoroutineClient::Start. A task that has begun must end before it is destroyed; otherwise the process ends
/// with a message.
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

  /// Begins the task. The awaiting coroutine continues with its result when it has ended. REQUIRES: it has
  /// not begun.
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

/// A key's value, with the version and the expiry of the write that stored it (AsyncResult).
struct KeyRecord {
  std::string value{};
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;
};

/// A key's expiry (AsyncResult), and the version of the write that set it.
struct KeyExpiry {
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;
  std::optional<std::chrono::milliseconds> ttl{};
};

/// An AsyncClient for coroutines. Any number of coroutines may await operations at once: if more than `depth`
/// are in flight, the others wait in a first-in first-out queue.
///
/// Coroutines resume only inside Run, Poll, Start and the destructor. The destructor ends the operations that
/// are in flight with Cancelled, and operations that begin later with Unavailable. So a task that only awaits
/// operations, and heeds their errors, comes to its end. A task that awaits anything else must have ended
/// before; otherwise the process ends with a message.
///
/// The class has more than 25 methods: one for each operation of AsyncClient.
///
/// Thread safety: that of AsyncClient.
class CoroutineClient {
  /// An operation that a coroutine awaits. It lives in that coroutine's frame.
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
    /// Begins the operation. Returns false if it has ended already, so that the coroutine continues at once.
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
  /// Takes over the client. REQUIRES: it is not null.
  explicit CoroutineClient(std::unique_ptr<AsyncClient> client) : client_(std::move(client)) {}
  ~CoroutineClient() {
    stopping_ = true;
    client_.reset();
    while (!waiting_.empty()) Reject(waiting_.Pop());
    if (running_ > 0) {
      EndOnMisuse(
          "a CoroutineClient is destroyed while tasks that it has started wait for something else than its "
          "operations; let them come to their end first");
    }
  }
  CoroutineClient(const CoroutineClient&) = delete;
  CoroutineClient& operator=(const CoroutineClient&) = delete;

  /// Runs the task up to its first wait. The client owns the task from here on.
  void Start(Task<void> task) { RunDetached(*this, std::move(task)); }
  /// Returns how many tasks were started and have not ended.
  std::size_t running() const { return running_; }

  /// Polls until all started tasks have ended. Outcomes:
  ///   DeadlineExceeded: some tasks have not ended at `deadline`, a time of the client's clock.
  ///   FailedPrecondition: the tasks that remain wait for something other than this client.
  absl::Status Run(TimePoint deadline) {
    while (running_ > 0) {
      BeginWaiting();
      if (running_ == 0) break;
      if (client_->in_flight() == 0) {
        return absl::FailedPreconditionError("run: tasks wait, and no operation of this client is in flight");
      }
      const absl::StatusOr<std::size_t> ended = client_->Wait(deadline);
      if (!ended.ok()) return ended.status();
    }
    return absl::OkStatus();
  }
  /// Does all work that is due, as AsyncClient::Poll does, for an event loop that watches the descriptor of
  /// client(). Returns how many operations ended.
  std::size_t Poll() {
    const std::size_t ended = client_->Poll();
    BeginWaiting();
    return ended;
  }
  /// Returns the client, for its descriptor and deadlines, and for operations with callbacks. It belongs to
  /// this object.
  AsyncClient& client() { return *client_; }

  // --- Operations: co_await each where it is called. Keys and values must live until it ends. ---
  //
  // Each has the outcomes of AsyncClient's operation of that name, also those of its begin. But while `depth`
  // operations are in flight, it waits for its turn.

  /// Reads the key's value. `version`, unless null, gets its version.
  auto Get(std::string_view key, std::uint64_t* version = nullptr, const CallOptions& call = {}) {
    return Await<absl::StatusOr<std::string>>(
        [=](AsyncClient& client, AsyncClient::Done done) { return client.Get(key, std::move(done), call); },
        [=](const AsyncResult& got) -> absl::StatusOr<std::string> {
          if (!got.status.ok()) return got.status;
          if (version != nullptr) *version = got.version;
          return std::string(got.value);
        });
  }
  /// Reads the value to the beginning of `into`. The awaiting coroutine gets the value's size in bytes.
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
  /// Calls `show` with the value where it is, as AsyncClient::Visit does. `show` must live until the
  /// operation ends; a lambda in the expression that has the co_await does.
  auto Visit(std::string_view key, absl::FunctionRef<void(std::string_view value)> show,
             std::uint64_t* version = nullptr, const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Visit(key, show, std::move(done), call);
        },
        [=](const AsyncResult& shown) {
          if (shown.status.ok() && version != nullptr) *version = shown.version;
          return shown.status;
        });
  }
  /// Reads the key's value, with its version and expiry, all of the same write.
  auto GetRecord(std::string_view key, const CallOptions& call = {}) {
    return Await<absl::StatusOr<KeyRecord>>(
        [=](AsyncClient& client, AsyncClient::Done done) { return client.Get(key, std::move(done), call); },
        [](const AsyncResult& got) -> absl::StatusOr<KeyRecord> {
          if (!got.status.ok()) return got.status;
          return KeyRecord{std::string(got.value), got.version, got.expiry_ms};
        });
  }
  /// Tests whether the key exists.
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
  /// Reads the time until the key expires; nullopt means for ever.
  auto Ttl(std::string_view key, const CallOptions& call = {}) {
    using Left = std::optional<std::chrono::milliseconds>;
    return Await<absl::StatusOr<Left>>(
        [=](AsyncClient& client, AsyncClient::Done done) { return client.Ttl(key, std::move(done), call); },
        [](const AsyncResult& left) -> absl::StatusOr<Left> {
          if (!left.status.ok()) return left.status;
          return left.ttl;
        });
  }
  /// Reads what Ttl does, and the version and expiry of the same write.
  auto GetExpiry(std::string_view key, const CallOptions& call = {}) {
    return Await<absl::StatusOr<KeyExpiry>>(
        [=](AsyncClient& client, AsyncClient::Done done) { return client.Ttl(key, std::move(done), call); },
        [](const AsyncResult& left) -> absl::StatusOr<KeyExpiry> {
          if (!left.status.ok()) return left.status;
          return KeyExpiry{left.version, left.expiry_ms, left.ttl};
        });
  }
  /// Stores the key's value, or replaces it.
  auto Put(std::string_view key, std::string_view value, const PutOptions& options = {},
           const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Put(key, value, options, std::move(done), call);
        },
        StatusOf);
  }
  /// Puts a value that is in memory which the client registered, without a copy.
  auto Put(std::string_view key, const RegisteredBytes& value, const PutOptions& options = {},
           const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Put(key, value, options, std::move(done), call);
        },
        StatusOf);
  }
  /// Deletes the key.
  auto Delete(std::string_view key, const WriteOptions& options = {}, const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Delete(key, options, std::move(done), call);
        },
        StatusOf);
  }
  /// Sets the key's time to live to `ttl` from now on; Persist removes its expiry.
  auto Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options = {},
             const CallOptions& call = {}) {
    return Await<absl::Status>(
        [=](AsyncClient& client, AsyncClient::Done done) {
          return client.Touch(key, ttl, options, std::move(done), call);
        },
        StatusOf);
  }
  auto Persist(std::string_view key) { return Touch(key, kNeverExpires); }
  /// Adds `delta` to the number that the key's value spells. The awaiting coroutine gets the sum.
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
  /// Appends bytes to the key's value. The awaiting coroutine gets the new size in bytes.
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
  /// Does all writes of a batch or none. The batch must live until the operation ends.
  auto Apply(const WriteBatch& batch, const CallOptions& call = {}) {
    return Await<absl::Status>(
        [&batch, call](AsyncClient& client, AsyncClient::Done done) {
          return client.Apply(batch, std::move(done), call);
        },
        StatusOf);
  }

 private:
  /// Begins the operation or queues it. Returns false if it has ended already and has its result.
  bool Begin(Operation& operation) {
    if (stopping_) {
      operation.Take({.status = absl::UnavailableError("async: the client is being destroyed")});
      return false;
    }
    if (!waiting_.empty() || client_->free_slots() == 0) {
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
    while (!waiting_.empty() && client_->free_slots() > 0) {
      Operation& operation = waiting_.Pop();
      if (!BeginNow(operation)) operation.awaiting.resume();
    }
  }
  void Reject(Operation& operation) {
    operation.Take({.status = absl::CancelledError("async: the client was destroyed")});
    operation.awaiting.resume();
  }

  struct Detached {
    struct promise_type : internal::FrameMemory {
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
