// Actions of another user than this process.
#pragma once

#include <grp.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace remora {

/// Returns what `action` returns on a thread of its own that is `user`, with the group of the same number and
/// no other. The rest of the process stays root: by system calls themselves, credentials are a thread's. (A
/// forked child would be the other way: but the address sanitizer of clang 14 may fork while another thread
/// holds its allocator.)
template <typename Action>
auto AsUser(uid_t user, Action action) {
  std::optional<decltype(action())> result;
  std::thread([&] {
    if (syscall(SYS_setgroups, 0, nullptr) != 0 || syscall(SYS_setresgid, user, user, user) != 0 ||
        syscall(SYS_setresuid, user, user, user) != 0) {
      throw std::runtime_error("only root can become another user");
    }
    result.emplace(action());
  }).join();
  return *std::move(result);
}

}  // namespace remora
