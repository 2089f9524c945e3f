// Implementation of a client's watch.
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

/// Pauses between looks at the end of a server's log, while no change comes: each is twice as long.
inline constexpr std::chrono::milliseconds kFirstWatchPause{1};
inline constexpr std::chrono::milliseconds kLongestWatchPause{16};

/// Returns whether no later call of Next can succeed: the server no longer has the position, or never had it.
bool IsFinalForWatch(const absl::Status& status);

/// The pages of a watch, each copied out of the window as soon as it has come, and the changes in them.
class ClientWatch::Impl {
 public:
  using Call = absl::FunctionRef<absl::Status(Session&)>;
  /// Runs a call, over a new connection if the old one is broken.
  using Caller = std::function<absl::Status(Call)>;

  /// Begins a watch and gets its first page. Objects to which `call` refers must live as long as the session.
  static absl::StatusOr<std::unique_ptr<Impl>> Begin(const WatchOptions& options, const Session& session,
                                                     Caller call);

  absl::StatusOr<bool> Next(std::chrono::milliseconds wait);
  ChangePosition position() const { return position_; }
  void set_watch(ClientWatch* watch) { watch_ = watch; }

 private:
  Impl(ScanRange range, const ChangePosition& position, const Session& session, Caller call);

  absl::Status FetchPage(Session& session);
  absl::StatusOr<ServerReply> Open(Session& session, const ScanWindow::View& window, std::size_t page_size);
  /// Returns whether the server has checked the watch's position since it was started.
  bool KnowsPlace(const Session& session) const;
  /// Returns whether the server has changes that the watch has not got, or has not checked its position.
  absl::StatusOr<bool> IsBehind(Session& session);
  /// Shows the next change. Returns false if it is not complete yet.
  absl::StatusOr<bool> TakeEntry();
  absl::Status Check(const ChangeEntry& header) const;

  const ScanRange range_;
  const std::weak_ptr<const void> life_;  // the client's: once expired, call_ and clock_ are invalid
  const Clock& clock_;
  const Caller call_;
  ChangePosition position_;  // behind the change shown last
  std::uint64_t cursor_ = 0;
  std::string page_;            // with the pages before it, if a change comes in several
  std::size_t taken_ = 0;       // bytes taken of page_
  std::uint64_t page_end_ = 0;  // the sequence number behind the page
  ClientWatch* watch_ = nullptr;
  absl::Status failed_;  // final
};

}  // namespace remora
