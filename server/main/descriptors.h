// The descriptors of a server: how many its clients and its store may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "rdma/address.h"

namespace remora {

/// Raises the soft limit of descriptors to the hard one, and returns it. For a program at its
/// start.
std::size_t RaiseDescriptorLimit();

/// Returns the descriptors that this process has open now.
std::size_t OpenDescriptors();

/// Returns InvalidArgument if `fd`, which --ready_fd names, cannot take the line: it is a standard stream, is
/// closed, or cannot be written. REQUIRES: the program has opened no file yet. The next file that is opened
/// gets the number of a closed descriptor, so a file of the store would get the line.
absl::Status CheckReadyFd(int fd);

struct DescriptorPlan {
  std::uint32_t max_clients = 0;  // so many fit
  std::size_t others = 0;         // the store gets what clients leave of the limit, but for these

  /// StoreOptions::max_open_files, with so many clients.
  std::size_t StoreShare(std::uint32_t clients) const;

  std::size_t limit = 0;
  std::size_t each = 0;  // client
};

/// Returns the descriptors that such a server takes with so many clients, at least.
std::size_t DescriptorsNeeded(std::size_t open, std::uint32_t clients, bool is_durable,
                              std::span<const rdma::Address> addresses);

/// Plans descriptors for a server that listens at `addresses`, with a durable tier or without,
/// where `open` are open already. ResourceExhausted: not even `least` clients fit (says the
/// numbers, and what to do).
absl::StatusOr<DescriptorPlan> PlanDescriptors(std::size_t limit, std::size_t open, std::uint32_t least,
                                               bool is_durable, std::span<const rdma::Address> addresses);

}  // namespace remora
