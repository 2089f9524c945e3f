// One thread has many operations in flight (an AsyncClient), and another one waits for the server. The second
// has a Client with a connection of its own, for a watch; a scan, a count or a backup would do the same. It
// passes what it learns to the first thread through a queue, and wakes it up. The program counts orders as
// they come, until one is "last"; it needs a logged server (kvserver --durability=logged).
//   example_beside ADDRESS
#include <poll.h>
#include <remora/async_client.h>
#include <remora/client.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

[[noreturn]] void Fail(std::string_view what, const absl::Status& status) {
  std::cerr << what << ": " << status << '\n';
  std::_Exit(1);  // the other thread is still at it
}

/// From the thread that waits to the one that does not.
class Queue {
 public:
  Queue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Queue() { close(fd_); }
  int fd() const { return fd_; }  // readable: there is something

  void Push(std::string item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    eventfd_write(fd_, 1);
  }
  std::vector<std::string> TakeAll() {
    const std::lock_guard lock(mutex_);
    eventfd_t ignored;
    eventfd_read(fd_, &ignored);
    return std::exchange(items_, {});
  }

 private:
  const int fd_;
  std::mutex mutex_;
  std::vector<std::string> items_;
};

/// Runs in a thread of its own, with a client of its own: neither is shared.
void Watch(const std::string& address, Queue& orders, const std::atomic<bool>& stop) {
  auto client = remora::Client::Connect(address);
  if (!client.ok()) Fail("connecting", client.status());
  auto watch = (*client)->Watch({.prefix = "order/"});
  if (!watch.ok()) Fail("watch", watch.status());
  orders.Push("");  // from now on, none is missed
  while (!stop) {
    const absl::StatusOr<bool> came = (*watch)->Next(std::chrono::milliseconds(100));
    if (!came.ok()) Fail("watch", came.status());
    if (*came && (*watch)->kind() == remora::ChangeKind::kPut) orders.Push(std::string((*watch)->value()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: example_beside ADDRESS\n";
    return 64;
  }
  auto client = remora::AsyncClient::Connect(argv[1]);
  if (!client.ok()) Fail("connecting", client.status());
  remora::AsyncClient& kv = **client;
  Queue orders;
  std::atomic<bool> stop = false;
  std::thread watcher([&] { Watch(argv[1], orders, stop); });

  // The loop sleeps on both.
  for (bool last = false; !last || kv.in_flight() > 0;) {
    kv.Arm();
    kv.Poll();
    std::array<pollfd, 2> ready{pollfd{kv.fd(), POLLIN, 0}, pollfd{orders.fd(), POLLIN, 0}};
    poll(ready.data(), ready.size(), 100);
    kv.Disarm();
    kv.Poll();
    for (const std::string& order : orders.TakeAll()) {
      if (order.empty()) {
        std::cout << "watching" << std::endl;
        continue;
      }
      last |= order == "last";
      while (kv.free_slots() == 0) {
        const auto ended = kv.Wait(remora::DefaultClock().Now() + std::chrono::seconds(10));
        if (!ended.ok()) Fail("increment", ended.status());
      }
      const auto begun = kv.Increment("ordered/" + order, 1, [order](const remora::AsyncResult& sum) {
        if (!sum.status.ok()) Fail("increment", sum.status);
        std::cout << order << ": " << sum.number << std::endl;
      });
      if (!begun.ok()) Fail("increment", begun.status());
    }
  }
  stop = true;
  watcher.join();
  return 0;
}
