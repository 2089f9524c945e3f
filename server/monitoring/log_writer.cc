#include "server/monitoring/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

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
      return;  // nobody is there to be told
    }
  }
}

}  // namespace

struct LogWriter::Queue {
  Queue(int descriptor, std::function<std::string(std::uint64_t)> line_of_drops)
      : fd(descriptor), describe_drops(std::move(line_of_drops)) {}

  void Run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return !lines.empty() || dropped > 0 || ends; });
      if (lines.empty() && dropped == 0) break;
      std::string text;
      if (!lines.empty()) {
        text = std::move(lines.front());
        lines.pop_front();
      } else {
        text = describe_drops(std::exchange(dropped, 0));
      }
      lock.unlock();
      WriteAll(fd, text + "\n");
      lock.lock();
    }
    has_ended = true;
    changed.notify_all();
  }

  const int fd;
  const std::function<std::string(std::uint64_t)> describe_drops;
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::deque<std::string> lines;
  std::uint64_t dropped = 0;  // behind those lines
  bool ends = false;
  bool has_ended = false;
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
  std::unique_lock lock(queue_->mutex);
  queue_->ends = true;
  queue_->changed.notify_all();
  queue_->changed.wait_for(lock, kPatience, [this] { return queue_->has_ended; });
}

void LogWriter::Write(std::string_view line) {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->dropped == 0 && queue_->lines.size() < kMostLines) {
    queue_->lines.emplace_back(line);
  } else {
    ++queue_->dropped;
  }
  queue_->changed.notify_all();
}

}  // namespace remora
