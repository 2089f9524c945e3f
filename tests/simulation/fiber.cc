#include "tests/simulation/fiber.h"

#include <utility>

#include "store/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define REMORA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REMORA_ASAN 1
#endif
#endif

#ifdef REMORA_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace remora {
namespace {

void BeginSwitch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* stack,
                 [[maybe_unused]] std::size_t size) {
#ifdef REMORA_ASAN
  __sanitizer_start_switch_fiber(fake_stack, stack, size);
#endif
}

void EndSwitch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** stack,
               [[maybe_unused]] std::size_t* size) {
#ifdef REMORA_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, stack, size);
#endif
}

thread_local Fiber* current = nullptr;

}  // namespace

Fiber* Fiber::Current() { return current; }

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(kStackSize) {
  REMORA_CHECK(getcontext(&context_) == 0);
  context_.uc_stack.ss_sp = stack_.data();
  context_.uc_stack.ss_size = stack_.size();
  context_.uc_link = nullptr;
  makecontext(&context_, &Fiber::Start, 0);
}

Fiber::~Fiber() { REMORA_CHECK(has_ended_ || !has_started_); }

void Fiber::Resume() {
  REMORA_CHECK(current == nullptr && !has_ended_);
  current = this;
  has_started_ = true;
  BeginSwitch(&resumer_fake_stack_, stack_.data(), stack_.size());
  REMORA_CHECK(swapcontext(&resumer_, &context_) == 0);
  EndSwitch(resumer_fake_stack_, nullptr, nullptr);
  current = nullptr;
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Fiber::Yield() {
  REMORA_CHECK(current != nullptr);
  current->SwitchBack();
}

void Fiber::SwitchBack() {
  // One that has ended does not come back.
  BeginSwitch(has_ended_ ? nullptr : &fake_stack_, resumer_stack_, resumer_stack_size_);
  REMORA_CHECK(swapcontext(&context_, &resumer_) == 0);
  EndSwitch(fake_stack_, &resumer_stack_, &resumer_stack_size_);
}

void Fiber::Start() {
  Fiber* const self = current;
  EndSwitch(nullptr, &self->resumer_stack_, &self->resumer_stack_size_);
  try {
    self->body_();
  } catch (...) {
    self->thrown_ = std::current_exception();
  }
  self->has_ended_ = true;
  self->SwitchBack();
}

}  // namespace remora
