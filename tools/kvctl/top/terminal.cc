#include "tools/kvctl/top/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace remora::top {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // another page, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

// For the handlers of signals.
termios saved_modes;
termios own_modes;
bool has_modes = false;  // standard input is the terminal, too
volatile std::sig_atomic_t must_redraw = 0;

/// Also in a handler of a signal.
void WriteAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Enter() {
  if (has_modes) tcsetattr(STDIN_FILENO, TCSANOW, &own_modes);
  WriteAll(kEnter);
}

void Leave() {
  WriteAll(kLeave);
  if (has_modes) tcsetattr(STDIN_FILENO, TCSANOW, &saved_modes);
}

void SetHandler(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(number, &action, nullptr);
}

void EndBy(int number) {
  Leave();
  SetHandler(number, SIG_DFL);
  raise(number);  // is delivered when this handler returns
}

void Pause(int) {
  const int error = errno;
  Leave();
  raise(SIGSTOP);
  Enter();
  must_redraw = 1;
  errno = error;
}

void Resized(int) { must_redraw = 1; }

constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

}  // namespace

bool HasTerminal() {
  const char* const name = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && name != nullptr && *name != '\0' && std::string_view(name) != "dumb";
}

Terminal::Terminal() {
  has_modes = tcgetattr(STDIN_FILENO, &saved_modes) == 0;
  own_modes = saved_modes;
  own_modes.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  // Another size counts only while Wait waits, so that none is overlooked before it.
  sigset_t resized;
  sigemptyset(&resized);
  sigaddset(&resized, SIGWINCH);
  sigprocmask(SIG_BLOCK, &resized, nullptr);
  SetHandler(SIGWINCH, Resized);
  SetHandler(SIGTSTP, Pause);
  for (const int number : kEnds) SetHandler(number, EndBy);
  Enter();
}

Terminal::~Terminal() {
  for (const int number : kEnds) SetHandler(number, SIG_DFL);
  SetHandler(SIGTSTP, SIG_DFL);
  SetHandler(SIGWINCH, SIG_DFL);
  Leave();
}

ScreenSize Terminal::size() const {
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_row == 0 || window.ws_col == 0) return {};
  return {.rows = window.ws_row, .columns = window.ws_col};
}

std::string Terminal::Drawn(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i > 0 ? "\r\n" : "") + lines[i] + "\x1b[K";
  return text + "\x1b[J";
}

Terminal::Event Terminal::Wait(std::chrono::milliseconds time) {
  pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  sigset_t now;
  sigprocmask(SIG_BLOCK, nullptr, &now);
  sigdelset(&now, SIGWINCH);
  const timespec wait = {.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
  const int ready = ppoll(&keys, has_modes ? 1 : 0, &wait, &now);
  if (must_redraw != 0) {
    must_redraw = 0;
    return Event::kRedraw;
  }
  if (ready == 0) return Event::kTime;
  char key = 0;
  if (ready < 0 || read(STDIN_FILENO, &key, 1) != 1) {
    has_modes = has_modes && ready < 0;  // no more keys will come
    return Event::kRedraw;
  }
  return key == 'q' || key == 'Q' ? Event::kQuit : Event::kRedraw;
}

}  // namespace remora::top
