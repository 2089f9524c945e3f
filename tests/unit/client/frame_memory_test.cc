#include "client/frame_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/sanitizers.h"

namespace remora::internal {
namespace {

constexpr bool kKeeps = !kAddressSanitizer && !kThreadSanitizer;

TEST(FrameMemoryTest, AFrameThatEndedIsUsedAgainForOneOfItsSize) {
  void* const first = TakeFrame(100);
  ReturnFrame(first, 100);
  void* const larger = TakeFrame(200);
  EXPECT_NE(larger, first);
  void* const again = TakeFrame(128);  // 100 bytes are rounded up to them
  if (kKeeps) {
    EXPECT_EQ(again, first);
  }
  std::memset(again, 1, 128);
  ReturnFrame(larger, 200);
  ReturnFrame(again, 128);
}

TEST(FrameMemoryTest, FramesInUseAreDistinct) {
  std::vector<void*> frames;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 2000; ++i) frames.push_back(TakeFrame(64 + i % 3 * 64));
    EXPECT_EQ(std::set<void*>(frames.begin(), frames.end()).size(), frames.size());
    for (std::size_t i = 0; i < 2000; ++i) {
      std::memset(frames[i], 0xff, 64 + i % 3 * 64);
      ReturnFrame(frames[i], 64 + i % 3 * 64);
    }
    frames.clear();
  }
}

TEST(FrameMemoryTest, LargeFramesAreTheAllocators) {
  void* const large = TakeFrame(1025);
  std::memset(large, 1, 1025);
  ReturnFrame(large, 1025);
}

// A client that is destroyed at the end of its thread ends the frames of its operations.
TEST(FrameMemoryTest, FramesEndInOtherThreadsAndAfterTheLastObjectOfTheirThread) {
  void* const here = TakeFrame(64);
  struct EndsLate {
    ~EndsLate() { ReturnFrame(frame, 64); }
    void* frame = nullptr;
  };
  std::thread([&] {
    thread_local EndsLate late;
    late.frame = TakeFrame(64);
    ReturnFrame(here, 64);
  }).join();
}

}  // namespace
}  // namespace remora::internal
