// Inside a client's scan, and what else is asked for in the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/scan.h"
#include "client/session/session.h"
#include "store/format/types/scan_options.h"
#include "store/format/types/scan_range.h"
#include "store/format/wire/scan_messages.h"

namespace remora {

/// See Client. REQUIRES: Session::BeginCall was OK.
absl::StatusOr<std::uint64_t> CountRange(Session& session, const ScanRange& range);
absl::StatusOr<std::uint64_t> DropRange(Session& session, const ScanRange& range);

/// The pages of a scan, and the entries in them.
class ClientScan::Impl final : public ScanWindow::Owner {
 public:
  /// Opens it, and has its first page. REQUIRES: Session::BeginCall was OK.
  static absl::StatusOr<std::unique_ptr<Impl>> Begin(Session& session, const ScanOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Whose entries these are. Before Next.
  void set_scan(ClientScan* scan) { scan_ = scan; }
  /// As ClientScan's. REQUIRES: the client is there.
  bool Next();
  /// What Next is where it is not: false.
  bool EndWithClient();
  InUse& in_use() const { return session_.in_use(); }
  /// Then nothing else of the session is there.
  bool client_is_gone() const { return life_.expired(); }
  const absl::Status& status() const { return failure_; }
  std::string token() const;
  /// Another scan needs it, or it is another connection's: what is still to be shown of it is copied.
  /// REQUIRES: nothing is under way aside.
  void GiveUpWindow() override;

 private:
  Impl(Session& session, const ScanOptions& options, ScanRange range);

  ScanRange Rest() const;

  // --- Pages

  /// From behind the last entry shown, as of now.
  absl::Status Open();
  /// What order the server has, where any is allowed.
  absl::Status TakeOrder(bool by_hash);
  absl::Status TakeWindow();
  absl::Status AskForNext();
  /// Makes what came the page.
  absl::Status TakePage(const ServerReply& answer, std::size_t half);
  /// True: there is another page, maybe an empty one. False: there is none.
  absl::StatusOr<bool> NextPage();

  // --- Entries

  struct Entry {
    ScanEntry header;
    std::string_view key;
    std::string_view value;
  };
  /// The next one. False: it is not all there yet.
  absl::StatusOr<bool> TakeEntry(Entry* entry);
  absl::StatusOr<bool> Step();
  absl::Status CheckHeader(const ScanEntry& header) const;
  absl::Status CheckKey(std::string_view key) const;
  absl::StatusOr<bool> IsOver(std::uint64_t expiry_ms);

  Session& session_;
  const std::weak_ptr<const void> life_ = session_.life();
  ScanRange range_;
  const bool keys_only_;
  const bool one_moment_;
  const bool has_limit_;
  std::uint64_t left_;  // of the limit
  absl::Status failure_;

  ScanWindow::View window_;
  std::size_t page_size_ = 0;
  std::uint64_t cursor_ = 0;      // 0: the server has none, and all was sent
  std::uint64_t connection_ = 0;  // whose it is: ClientCounters::reconnects
  std::size_t half_ = 0;          // where the page is
  bool asked_ = false;            // the next page is under way, to the other half
  bool lost_ = false;             // the server has no such cursor any more
  bool dropped_ = false;          // an entry expired on its way
  std::string_view page_;         // what is left of it: in the window, or of own_
  std::string own_;
  bool has_ahead_ = false;
  std::string ahead_;  // the page behind it, copied out of the window
  absl::Status ahead_failed_;
  bool over_ = false;

  ClientScan* scan_ = nullptr;
  std::string pieces_;         // an entry that comes in several pages
  bool pieces_shown_ = false;  // it is the one that is shown
  std::string value_;          // of the entry shown, when the window was given up
};

}  // namespace remora
