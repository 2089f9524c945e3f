#include "client/frame_memory.h"

#include <array>
#include <cstdint>
#include <new>
#include <utility>

namespace remora::internal {
namespace {

constexpr std::size_t kStep = 64;
constexpr std::size_t kSizes = 16;
constexpr std::uint32_t kMostKept = 512;

// A sanitizer has to see when each frame ends.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeeps = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif
#else
constexpr bool kKeeps = true;
#endif

struct EndedFrame {
  EndedFrame* next = nullptr;
};

struct OfOneSize {
  EndedFrame* first = nullptr;
  std::uint32_t count = 0;
};

/// Frames that have ended, by size. Without a destructor: other thread-local objects may still end frames
/// after it.
struct Kept {
  std::array<OfOneSize, kSizes> sizes{};
  bool is_over = false;  // the thread ends
};
constinit thread_local Kept kept;

struct EndOfThread {
  ~EndOfThread() {
    kept.is_over = true;
    for (OfOneSize& size : kept.sizes) {
      while (size.first != nullptr) ::operator delete(std::exchange(size.first, size.first->next));
    }
  }
  /// Has the destructor run at the end of this thread.
  void Await() {}
};
thread_local EndOfThread end_of_thread;

constexpr std::size_t SizeOf(std::size_t bytes) { return (bytes + kStep - 1) / kStep - 1; }

}  // namespace

void* TakeFrame(std::size_t bytes) {
  const std::size_t number = SizeOf(bytes);
  if (number >= kSizes) return ::operator new(bytes);
  OfOneSize& size = kept.sizes[number];
  if (size.first == nullptr) return ::operator new((number + 1) * kStep);
  --size.count;
  return std::exchange(size.first, size.first->next);
}

void ReturnFrame(void* frame, std::size_t bytes) noexcept {
  const std::size_t number = SizeOf(bytes);
  if (!kKeeps || number >= kSizes || kept.is_over || kept.sizes[number].count >= kMostKept) {
    return ::operator delete(frame);
  }
  OfOneSize& size = kept.sizes[number];
  if (size.count == 0) end_of_thread.Await();
  size.first = ::new (frame) EndedFrame{size.first};
  ++size.count;
}

}  // namespace remora::internal
