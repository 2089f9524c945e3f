#include "client/session/address_choice.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/session.h"
#include "rdma/address_list.h"
#include "store/base/status_macros.h"

namespace remora {

AddressChoice::AddressChoice(std::vector<rdma::Address> addresses, const ClientOptions& options,
                             const Clock& clock)
    : addresses_(std::move(addresses)),
      options_(options),
      clock_(&clock),
      deadline_(clock.Now() + options.connect_timeout) {}

absl::StatusOr<AddressChoice> AddressChoice::Of(std::string_view addresses, const ClientOptions& options,
                                                const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(std::vector<rdma::Address> parsed, rdma::ParseAddresses(addresses));
  return AddressChoice(std::move(parsed), options, clock);
}

void PassOn(const Dialer& dialer) {
  if (const auto* const list = dialer.target<ListDialer>()) list->PassOn();
}

std::string AddressOf(const Dialer& dialer) {
  if (const auto* const list = dialer.target<ListDialer>()) return AddressOf(list->current());
  const auto* const one = dialer.target<AddressDialer>();
  return one == nullptr ? std::string() : one->address.ToString();
}

absl::StatusOr<Dialer> AddressChoice::DialerOf(const rdma::Address& address) const {
  ClientOptions options = options_;
  // One text has the certificates for all addresses, and Dial rejects them where there is no TLS.
  const bool any_tls = std::ranges::any_of(addresses_, &rdma::Address::tls);
  if (any_tls && !address.tls) options.tls = {};
  return DialerFor(address, options, *clock_);
}

absl::StatusOr<Dialer> AddressChoice::MakeDialer() const {
  if (addresses_.size() == 1) return DialerOf(current());
  std::vector<Dialer> dialers;
  for (const rdma::Address& address : addresses_) {
    REMORA_ASSIGN_OR_RETURN(Dialer dialer, DialerOf(address));
    dialers.push_back(std::move(dialer));
  }
  return Dialer(ListDialer(std::move(dialers), current_));
}

ClientOptions AddressChoice::Options() const {
  ClientOptions options = ResolvedFor(current(), options_);
  if (addresses_.size() == 1) return options;
  const Duration left = std::max(deadline_ - clock_->Now(), Duration(0));
  const auto share = left / static_cast<Duration::rep>(addresses_.size() - current_);
  options.connect_timeout = std::chrono::ceil<std::chrono::milliseconds>(share);
  return options;
}

bool AddressChoice::PassOver(const absl::Status& failure) {
  // With any other failure a server has answered and rejected the client. It would do so at its other
  // addresses, too.
  const bool may_pass = absl::IsUnavailable(failure) || absl::IsDeadlineExceeded(failure) ||
                        absl::IsFailedPrecondition(failure);
  if (!may_pass || current_ + 1 == addresses_.size()) return false;
  absl::StrAppend(&passed_over_, "; not ", current().ToString(), ": ", failure.message());
  ++current_;
  return true;
}

absl::Status AddressChoice::StatusOf(const absl::Status& failure) const {
  if (addresses_.size() == 1) return failure;
  return absl::Status(failure.code(),
                      absl::StrCat(current().ToString(), ": ", failure.message(), passed_over_));
}

std::string AddressChoice::Description() const {
  return absl::StrCat(current().ToString(), ", ", rdma::DescriptionOf(current()), passed_over_);
}

}  // namespace remora
