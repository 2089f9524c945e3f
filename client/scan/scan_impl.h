// Implementation of a client's scan, and of counts and deletions, which use the same requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/scan.h"
#include "client/scan/leaf_scan.h"
#include "client/session/session.h"
#include "store/format/types/scan_options.h"
#include "store/format/types/scan_range.h"
#include "store/format/wire/scan_messages.h"

namespace remora {

/// Implement Client::Count and Client::DeleteRange for a range. REQUIRES: Session::BeginCall was OK.
absl::StatusOr<std::uint64_t> CountRange(Session& session, const ScanRange& range);
absl::StatusOr<std::uint64_t> DeleteRange(Session& session, const ScanRange& range);

/// The pages of a scan, and the entries in them.
///
/// The class has more than 25 methods and 15 fields, because a scan outlives connections. It keeps what it
/// was asked for, the page at hand, and the page that it has asked for. A one-sided scan makes its pages
/// itself, and has the server make some where it cannot.
class ClientScan::Impl final : public ScanWindow::Owner {
 public:
  /// Opens a scan and gets its first page. REQUIRES: Session::BeginCall was OK.
  static absl::StatusOr<std::unique_ptr<Impl>> Begin(Session& session, const ScanOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Sets the scan that shows the entries. Call it before Next.
  void set_scan(ClientScan* scan) { scan_ = scan; }
  /// Does ClientScan::Next. REQUIRES: the client exists.
  bool Next();
  /// Does ClientScan::Next after the client was destroyed: sets the status, and returns false.
  bool EndWithClient();
  InUse& in_use() const { return session_.in_use(); }
  /// Returns whether the client, and with it the session, was destroyed.
  bool client_is_gone() const { return life_.expired(); }
  const absl::Status& status() const { return failure_; }
  std::string resume_token() const;
  /// Copies the entries that are not shown yet out of the window, because another scan needs it or the
  /// connection is another one. REQUIRES: no page is in flight.
  void GiveUpWindow() override;

 private:
  Impl(Session& session, const ScanOptions& options, ScanRange range);

  ScanRange Rest() const;
  std::uint64_t Limit() const;

  // --- Pages

  /// Opens the scan at the server, behind the last entry shown, as of now.
  absl::Status Open();
  /// Takes the order of the server's store, for a scan in any order.
  absl::Status TakeOrder(bool by_hash);
  absl::Status TakeWindow();
  absl::Status AskForNext();
  /// Makes the bytes that arrived in a half of the window the current page.
  absl::Status TakePage(const ServerReply& answer, std::size_t half);
  /// Goes to the next page, which may be empty. Returns false if there is none.
  absl::StatusOr<bool> NextPage();
  absl::StatusOr<bool> NextLeafPage();
  /// Goes on one-sided behind the keys that the server has shown. Returns false if there were no more.
  bool EndPart();

  // --- Entries

  struct Entry {
    ScanEntry header;
    std::string_view key;
    std::string_view value;
  };
  /// Takes the next entry of the page. Returns false if the entry is not complete yet.
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
  std::uint64_t left_;  // rest of the limit
  absl::Status failure_;

  ScanWindow::View window_;
  std::size_t page_size_ = 0;
  std::uint64_t cursor_ = 0;      // 0: the server has none, and has sent all entries
  std::uint64_t connection_ = 0;  // of the cursor: ClientCounters::reconnects then
  std::size_t half_ = 0;          // half of the window with the page
  bool asked_ = false;            // the request for the next page, into the other half, is in flight
  bool lost_ = false;             // the server has dropped the cursor
  bool dropped_ = false;          // an entry expired before it arrived
  std::string_view page_;         // rest of the page: in the window, or in own_
  std::string own_;
  bool has_ahead_ = false;
  std::string ahead_;  // the page after it, copied out of the window
  absl::Status ahead_failed_;
  bool over_ = false;

  std::unique_ptr<LeafScan> leaves_;  // null: the server makes all pages
  bool in_part_ = false;              // of a one-sided scan: the server makes these pages
  std::uint64_t part_left_ = 0;       // entries of them that may come yet

  ClientScan* scan_ = nullptr;
  std::string pieces_;         // an entry that comes in several pages
  bool pieces_shown_ = false;  // the entry shown is in pieces_
  std::string value_;          // value of the entry shown, after the window was given up
};

}  // namespace remora
