// Memory of the frames of coroutines, which come and go with each operation.
#pragma once

#include <cstddef>

namespace remora::internal {

/// Returns memory for a frame. Frames of up to 1 KiB that ended in this thread are used again, so most
/// operations ask no allocator. A thread keeps 512 of each size at most, and frees them at its end.
///
/// Thread safety: any number of threads may call both at once. A frame may end in another thread than the
/// one that it began in.
void* TakeFrame(std::size_t bytes);
/// `bytes`: as it was taken.
void ReturnFrame(void* frame, std::size_t bytes) noexcept;

/// Base of a promise whose frames have that memory.
struct FrameMemory {
  static void* operator new(std::size_t bytes) { return TakeFrame(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept { ReturnFrame(frame, bytes); }
};

}  // namespace remora::internal
