#include "server/main/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/transport.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

// The region, what wakes the server, tokens while they are read, a backup's marker and folders.
constexpr std::size_t kServer = 24;
// The store's, with few tables open at a time, and a backup while it is made.
constexpr std::size_t kMinOfStore = 96;

/// A plan that has only `others` and `each`.
DescriptorPlan SharesOf(std::size_t open, std::span<const rdma::Address> addresses) {
  DescriptorPlan plan;
  plan.others = open + kServer;
  for (const rdma::Address& address : addresses) {
    const rdma::Descriptors taken = rdma::DescriptorsOf(address.kind);
    plan.others += taken.listener;
    plan.each = std::max(plan.each, taken.connection);
  }
  return plan;
}

}  // namespace

absl::Status CheckReadyFd(int fd) {
  std::string_view why;
  if (const int status_flags = ::fcntl(fd, F_GETFL); fd <= STDERR_FILENO) {
    why = "0 to 2 are standard input, output and error; pass another descriptor";
  } else if (status_flags < 0) {
    why = "that descriptor is not open; pass one to kvserver, or leave this flag out";
  } else if ((status_flags & O_ACCMODE) == O_RDONLY) {
    why = "that descriptor is open for reading alone; pass one that can be written";
  }
  if (why.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--ready_fd=", fd, ": ", AbslView(why)));
}

std::size_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

std::size_t OpenDescriptors() {
  DIR* const own = ::opendir("/proc/self/fd");
  if (own == nullptr) return 3;
  std::size_t entries = 0;
  while (::readdir(own) != nullptr) ++entries;
  ::closedir(own);
  return entries - 3;  // ".", "..", and this one
}

std::size_t DescriptorPlan::StoreShare(std::uint32_t clients) const {
  return limit - others - std::min(clients, max_clients) * each;
}

std::size_t DescriptorsNeeded(std::size_t open, std::uint32_t clients, bool is_durable,
                              std::span<const rdma::Address> addresses) {
  const DescriptorPlan plan = SharesOf(open, addresses);
  return plan.others + (is_durable ? kMinOfStore : 0) + clients * plan.each;
}

absl::StatusOr<DescriptorPlan> PlanDescriptors(std::size_t limit, std::size_t open, std::uint32_t least,
                                               bool is_durable, std::span<const rdma::Address> addresses) {
  DescriptorPlan plan = SharesOf(open, addresses);
  plan.limit = limit;
  const std::size_t reserved = DescriptorsNeeded(open, 0, is_durable, addresses);
  const std::size_t needed = DescriptorsNeeded(open, least, is_durable, addresses);
  if (limit < needed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this process may have ", limit, " descriptors; with ", least, least == 1 ? " client" : " clients",
        " it takes ", needed, ": raise the limit (ulimit -n, LimitNOFILE=)",
        plan.each > 0 && least > 1 ? ", or let in fewer clients (--max_clients)" : ""));
  }
  constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
  plan.max_clients =
      static_cast<std::uint32_t>(plan.each == 0 ? kMax : std::min(kMax, (limit - reserved) / plan.each));
  return plan;
}

}  // namespace remora
