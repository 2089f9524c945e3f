#include "server/main/service_notifier.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

constexpr int kReadyPatienceMs = 500;
constexpr std::uint64_t kLongestBeatMs = 3'600'000;

std::optional<std::uint64_t> WholeNumber(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Sends a datagram. Returns what failed, with errno; empty: nothing.
std::string_view SendDatagram(const std::string& to, std::string_view message, int patience_ms) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, to.data(), to.size());
  if (to.front() == '@') address.sun_path[0] = '\0';  // an abstract name
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + to.size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return "socket";
  std::string_view failed;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    failed = "connect";
  } else {
    pollfd space{fd, POLLOUT, 0};
    ::poll(&space, 1, patience_ms);
    if (::send(fd, message.data(), message.size(), MSG_NOSIGNAL) < 0) failed = "send";
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  return failed;
}

/// Returns the address, or nothing, with a warning, for a value that is none.
std::string NotifySocket(const char* value, const std::function<void(std::string_view)>& warn) {
  const std::string_view text = value == nullptr ? "" : value;
  if (text.empty()) return "";
  const bool has_form = (text[0] == '/' || text[0] == '@') && text.size() > 1;
  if (has_form && text.size() < sizeof(sockaddr_un::sun_path)) return std::string(text);
  warn(absl::StrCat("NOTIFY_SOCKET=", value,
                    ": is no path and no @name of a Unix socket; nobody is told how this service is"));
  return "";
}

}  // namespace

ServiceNotifier::ServiceNotifier(const char* socket, std::function<void(std::string_view)> warn)
    : socket_(NotifySocket(socket, warn)), warn_(std::move(warn)) {}

void ServiceNotifier::Ready() { Send("READY=1", kReadyPatienceMs); }

void ServiceNotifier::Stopping() { Send("STOPPING=1\nSTATUS=stopping", 0); }

void ServiceNotifier::Beat() { Send("WATCHDOG=1", 0); }

void ServiceNotifier::Status(std::string_view status) {
  std::string message = "STATUS=" + std::string(status);
  std::ranges::replace(message, '\n', ' ');
  Send(message, 0);
}

void ServiceNotifier::Send(const std::string& message, int patience_ms) {
  if (!has_manager()) return;
  const std::string_view failed = SendDatagram(socket_, message, patience_ms);
  if (failed.empty()) return;
  const int error = errno;
  if (has_warned_.exchange(true)) return;
  warn_(absl::StrCat("NOTIFY_SOCKET=", socket_, ": ", AbslView(failed), ": ", std::strerror(error),
                     "; the service manager is not told how this service is"));
}

std::chrono::milliseconds BeatInterval(const char* usec, const char* pid,
                                       const std::function<void(std::string_view)>& warn) {
  constexpr std::chrono::milliseconds kNever{0};
  if (usec == nullptr || *usec == '\0') return kNever;
  const std::optional<std::uint64_t> time = WholeNumber(usec);
  if (!time || *time == 0) {
    warn(absl::StrCat("WATCHDOG_USEC=", usec, ": is no number of microseconds; no watchdog is told of"));
    return kNever;
  }
  const bool is_for_another =
      pid != nullptr && *pid != '\0' && WholeNumber(pid) != static_cast<std::uint64_t>(::getpid());
  if (is_for_another) return kNever;
  return std::chrono::milliseconds(std::clamp<std::uint64_t>(*time / 2000, 1, kLongestBeatMs));
}

}  // namespace remora
