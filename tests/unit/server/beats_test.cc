// The beats of a server of --shards, and the process that counts them.
#include "server/main/beats.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "store/base/clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLimit{8};
constexpr seconds kInterval{1};

TEST(BeatWatchTest, AChildThatBeatsDoesNotHang) {
  BeatWatch watch(kLimit);
  TimePoint now{};
  watch.Begin(now);
  for (int i = 0; i < 100; ++i) {
    watch.TakeBeat();
    EXPECT_FALSE(watch.Hangs(now += kInterval));
  }
}

TEST(BeatWatchTest, AChildHangsAfterTheLimit) {
  BeatWatch watch(kLimit);
  const TimePoint begin{};
  watch.Begin(begin);
  watch.TakeBeat();
  EXPECT_TRUE(watch.has_beaten());
  for (TimePoint now = begin; now <= begin + kLimit; now += milliseconds(100)) EXPECT_FALSE(watch.Hangs(now));
  EXPECT_FALSE(watch.has_beaten());
  EXPECT_TRUE(watch.Hangs(begin + kLimit + kInterval));
  // And again, if it goes on.
  for (TimePoint now = begin + kLimit + kInterval; now < begin + 2 * kLimit + kInterval; now += kInterval) {
    EXPECT_FALSE(watch.Hangs(now));
  }
  EXPECT_TRUE(watch.Hangs(begin + 2 * kLimit + kInterval));
}

TEST(BeatWatchTest, ABeatBeginsTheLimitAnew) {
  BeatWatch watch(kLimit);
  TimePoint now{};
  watch.Begin(now);
  for (int round = 0; round < 3; ++round) {
    for (int look = 0; look < BeatWatch::kLooks - 1; ++look) EXPECT_FALSE(watch.Hangs(now += kInterval));
    watch.TakeBeat();
    EXPECT_FALSE(watch.Hangs(now += kInterval));
  }
}

TEST(BeatWatchTest, TimeInWhichTheProcessDidNotWorkCountsOnce) {
  BeatWatch watch(kLimit);
  TimePoint now{};
  watch.Begin(now);
  // The machine was suspended, again and again: after each time, the child gets to send its beat.
  for (int i = 0; i < BeatWatch::kLooks - 1; ++i) EXPECT_FALSE(watch.Hangs(now += std::chrono::hours(1)));
  watch.TakeBeat();
  EXPECT_FALSE(watch.Hangs(now += std::chrono::hours(1)));
}

TEST(BeatWatchTest, ALookIsDueOnceInAnInterval) {
  BeatWatch watch(kLimit);
  const TimePoint begin{};
  watch.Begin(begin);
  EXPECT_EQ(watch.UntilLook(begin), kInterval);
  EXPECT_EQ(watch.UntilLook(begin + milliseconds(999)), milliseconds(1));
  EXPECT_EQ(watch.UntilLook(begin + seconds(5)), milliseconds(0));
  EXPECT_FALSE(watch.Hangs(begin + seconds(5)));
  EXPECT_EQ(watch.UntilLook(begin + seconds(5)), kInterval);
}

TEST(BeatWatchTest, WithoutALimitNobodyHangs) {
  BeatWatch watch(milliseconds(0));
  EXPECT_FALSE(watch.is_on());
  watch.Begin(TimePoint{});
  for (int i = 1; i < 100; ++i) EXPECT_FALSE(watch.Hangs(TimePoint{} + std::chrono::hours(i)));
}

TEST(BeatsTest, TheParentAloneIsAnswered) {
  EXPECT_EQ(AskedBeats(BeatVariable(17, milliseconds(7500)).c_str(), 17), milliseconds(7500));
  EXPECT_EQ(AskedBeats(BeatVariable(17, milliseconds(7500)).c_str(), 18), milliseconds(0));
  EXPECT_EQ(AskedBeats(BeatVariable(17, milliseconds(0)).c_str(), 17), milliseconds(0));
  EXPECT_EQ(AskedBeats(nullptr, 17), milliseconds(0));
  for (const char* const value : {"", "17", "17:", ":", ":5", "17:x", "17:5x", "17:5:", "x17:5", "17:-5",
                                  "17:3600001", "17:99999999999999999999", "17: 5", "+17:5"}) {
    EXPECT_EQ(AskedBeats(value, 17), milliseconds(0)) << value;
  }
}

/// Standard output is a pipe as long as this exists.
class OutputPipe {
 public:
  OutputPipe() : output_(::dup(STDOUT_FILENO)) {
    EXPECT_EQ(::pipe(ends_), 0);
    ::dup2(ends_[1], STDOUT_FILENO);
  }
  ~OutputPipe() {
    ::dup2(output_, STDOUT_FILENO);
    for (const int fd : {output_, ends_[0], ends_[1]}) ::close(fd);
  }
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }

 private:
  const int output_;
  int ends_[2] = {-1, -1};
};

TEST(BeatsTest, ABeatIsAByteAndWaitsForNobody) {
  const OutputPipe pipe;
  BeatToParent();
  char bytes[2];
  EXPECT_EQ(::read(pipe.reader(), bytes, sizeof(bytes)), 1);
  // A parent that takes none: the pipe fills up, and the beat is dropped.
  ::fcntl(pipe.writer(), F_SETFL, O_NONBLOCK);
  while (::write(pipe.writer(), bytes, 1) == 1) continue;
  ::fcntl(pipe.writer(), F_SETFL, 0);
  BeatToParent();
}

TEST(BeatsTest, AProcessThatADebuggerHoldsIsSpared) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ASSERT_GT(child, 0);
  EXPECT_FALSE(ReasonToSpare(child));
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, child, nullptr, nullptr), 0);
  EXPECT_EQ(ReasonToSpare(child), "a debugger holds it");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(ReasonToSpare(child));
}

}  // namespace
}  // namespace remora
