// Clients in one thread that take turns where a test says so.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <vector>

namespace remora {

/// A function with a stack of its own. It runs when it is resumed, until it yields, or ends.
///
/// Thread safety: none; all fibers of a thread are resumed by what is no fiber.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  /// REQUIRES: it has ended, or was never resumed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Returns when the fiber yields or ends. Throws the exception that the body throws. REQUIRES:
  /// !has_ended().
  void Resume();
  bool has_ended() const { return has_ended_; }

  /// The fiber that runs; null: none does.
  static Fiber* Current();
  /// Back to who resumed the current one, until it is resumed again. Not where an exception is being handled.
  static void Yield();

 private:
  static constexpr std::size_t kStackSize = std::size_t{512} << 10;

  static void Start();
  void SwitchBack();

  const std::function<void()> body_;
  std::vector<std::byte> stack_;
  ucontext_t context_;
  ucontext_t resumer_;
  std::exception_ptr thrown_;
  bool has_started_ = false;
  bool has_ended_ = false;
  // AddressSanitizer is told of each change of stacks.
  void* fake_stack_ = nullptr;
  void* resumer_fake_stack_ = nullptr;
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_size_ = 0;
};

}  // namespace remora
