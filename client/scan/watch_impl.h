// Inside a client's watch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/session.h"
#include "client/watch.h"
#include "store/format/types/change.h"
#include "store/format/types/scan_range.h"

namespace remora {

/// The pages of a watch, each copied out of the window as soon as it has come, and the changes in them.
class ClientWatch::Impl {
 public:
  using Call = absl::FunctionRef<absl::Status(Session&)>;
  /// Does a call, over another connection if need be.
  using Caller = std::function<absl::Status(Call)>;

  /// Has its first page. What `call` refers to lives as long as the session.
  static absl::StatusOr<std::unique_ptr<Impl>> Begin(const WatchOptions& options, const Session& session,
                                                     Caller call);

  absl::StatusOr<bool> Next(std::chrono::milliseconds wait);
  ChangePlace place() const { return place_; }
  void set_watch(ClientWatch* watch) { watch_ = watch; }

 private:
  Impl(ScanRange range, const ChangePlace& place, const Session& session, Caller call);

  absl::Status FetchPage(Session& session);
  absl::StatusOr<ServerReply> Open(Session& session, const ScanWindow::View& window, std::size_t page_size);
  /// Whether there is anything to ask for.
  absl::StatusOr<bool> IsBehind(Session& session);
  /// Shows the next one. False: it is not all there yet.
  absl::StatusOr<bool> TakeEntry();
  absl::Status Check(const ChangeEntry& header) const;

  const ScanRange range_;
  const std::weak_ptr<const void> life_;  // the client's: what stands below is of use as long
  const Clock& clock_;
  const Caller call_;
  ChangePlace place_;  // behind what was shown
  std::uint64_t cursor_ = 0;
  std::string page_;            // and those before it, of a change that comes in several
  std::size_t taken_ = 0;       // bytes of it
  std::uint64_t page_end_ = 0;  // the sequence behind the page
  ClientWatch* watch_ = nullptr;
  absl::Status failed_;  // for good
};

}  // namespace remora
