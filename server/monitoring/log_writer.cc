#include "server/monitoring/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

/// Waits as long as the descriptor takes nothing.
void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // the maker of the descriptor has set O_NONBLOCK
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;  // the log has no reader any more
    }
  }
}

}  // namespace

struct LogWriter::Queue {
  Queue(int descriptor, std::function<std::string(std::uint64_t)> line_of_drops)
      : fd(descriptor), describe_drops(std::move(line_of_drops)) {}

  void Run() {
    MutexLock lock(mutex);
    for (;;) {
      while (lines.empty() && dropped == 0 && !ends) lock.Wait(changed);
      if (lines.empty() && dropped == 0) break;
      std::string text;
      if (!lines.empty()) {
        text = std::move(lines.front());
        lines.pop_front();
      } else {
        text = describe_drops(std::exchange(dropped, 0));
      }
      lock.Unlock();
      WriteAll(fd, text + "\n");
      lock.Lock();
    }
    has_ended = true;
    changed.notify_all();
  }

  const int fd;
  const std::function<std::string(std::uint64_t)> describe_drops;
  Mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  std::uint64_t dropped ABSL_GUARDED_BY(mutex) = 0;  // behind those lines
  bool ends ABSL_GUARDED_BY(mutex) = false;
  bool has_ended ABSL_GUARDED_BY(mutex) = false;
};

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Start(
    int fd, std::function<std::string(std::uint64_t)> describe_drops) {
  auto queue = std::make_shared<Queue>(fd, std::move(describe_drops));
  REMORA_ASSIGN_OR_RETURN(std::thread thread,
                          StartThread([&] { return std::thread([queue] { queue->Run(); }); }));
  thread.detach();
  return std::unique_ptr<LogWriter>(new LogWriter(std::move(queue)));
}

LogWriter::~LogWriter() {
  MutexLock lock(queue_->mutex);
  queue_->ends = true;
  queue_->changed.notify_all();
  const TimePoint until = std::chrono::steady_clock::now() + kPatience;
  while (!queue_->has_ended && lock.WaitUntil(queue_->changed, until)) {
  }
}

void LogWriter::Write(std::string_view line) {
  const MutexLock lock(queue_->mutex);
  if (queue_->dropped == 0 && queue_->lines.size() < kMaxLines) {
    queue_->lines.emplace_back(line);
  } else {
    ++queue_->dropped;
  }
  queue_->changed.notify_all();
}

}  // namespace remora
