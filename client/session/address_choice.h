// Choice among the addresses of a server.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/options.h"
#include "rdma/address.h"
#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora {

/// Dials an address. It is the Dialer of a session.
///
/// Thread safety: that of a value.
struct AddressDialer {
  rdma::Address address;
  rdma::ClientTls tls;
  const Clock* clock;

  absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> operator()(TimePoint deadline) const {
    return rdma::Dial(address, rdma::QueueLimits(), *clock, deadline, tls);
  }
};

/// Dials one address of a list, until PassOn makes it dial the next one. It is the Dialer of a session.
///
/// Thread safety: none; its copies share their state.
class ListDialer {
 public:
  /// Dials `first` of these first. REQUIRES: first < dialers.size().
  ListDialer(std::vector<Dialer> dialers, std::size_t first)
      : state_(std::make_shared<State>(State{std::move(dialers), first})) {}

  absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> operator()(TimePoint deadline) const {
    return state_->dialers[state_->current](deadline);
  }
  /// Returns the dialer of the address that is dialled now.
  const Dialer& current() const { return state_->dialers[state_->current]; }
  /// Goes on with the next address, and behind the last one with the first.
  void PassOn() const { state_->current = (state_->current + 1) % state_->dialers.size(); }

 private:
  struct State {
    std::vector<Dialer> dialers;
    std::size_t current;
  };

  std::shared_ptr<State> state_;
};

/// Has the dialer of a session take its next address, if it has several.
void PassOn(const Dialer& dialer);
/// Returns the address that the dialer of a session dials now; empty: the dialer is a caller's own.
std::string AddressOf(const Dialer& dialer);

/// Takes the addresses of a list one after the other, until a client is connected to one of them.
///
/// Thread safety: none.
class AddressChoice {
 public:
  /// Reads the list (rdma/address_list.h). `clock` must outlive the dialers. Errors as ParseAddresses.
  static absl::StatusOr<AddressChoice> Of(std::string_view addresses, const ClientOptions& options,
                                          const Clock& clock);

  /// Returns a dialer for all addresses, which begins with the current one. Errors as SecretOfToken.
  absl::StatusOr<Dialer> MakeDialer() const;
  /// Returns the options for the current address, with defaults in place of unset values. The address has its
  /// share of the time that is left until ClientOptions::connect_timeout.
  ClientOptions Options() const;
  /// Takes the next address, because the current one failed so. False: the failure is final, or the current
  /// address is the last one.
  bool PassOver(const absl::Status& failure);
  /// Returns the status of the list, whose current address failed so after those that were passed over.
  absl::Status StatusOf(const absl::Status& failure) const;
  /// Returns the current address, its transport, and why those before it were passed over.
  std::string Description() const;

 private:
  AddressChoice(std::vector<rdma::Address> addresses, const ClientOptions& options, const Clock& clock);
  const rdma::Address& current() const { return addresses_[current_]; }
  absl::StatusOr<Dialer> DialerOf(const rdma::Address& address) const;

  std::vector<rdma::Address> addresses_;
  ClientOptions options_;
  const Clock* clock_;
  TimePoint deadline_;
  std::size_t current_ = 0;
  std::string passed_over_;  // "; not ADDRESS: reason" for each
};

/// Returns the client that `connect`, given a dialer and options, makes for the first address of the list
/// that serves one. `description`, unless null, gets AddressChoice::Description.
template <typename Connect>
auto ConnectToFirst(std::string_view addresses, const ClientOptions& options, const Clock& clock,
                    std::string* description, Connect connect) -> decltype(connect(Dialer(), options)) {
  absl::StatusOr<AddressChoice> choice = AddressChoice::Of(addresses, options, clock);
  if (!choice.ok()) return choice.status();
  for (;;) {
    absl::StatusOr<Dialer> dialer = choice->MakeDialer();
    if (!dialer.ok()) return dialer.status();
    auto connected = connect(*std::move(dialer), choice->Options());
    if (connected.ok()) {
      if (description != nullptr) *description = choice->Description();
      return connected;
    }
    if (!choice->PassOver(connected.status())) return choice->StatusOf(connected.status());
  }
}

}  // namespace remora
