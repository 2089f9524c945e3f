// Scans, counts, drops and watches of clients: the cursors, and the pages that are made of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "server/connection/client_session.h"
#include "store/base/clock.h"
#include "store/delete_range.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/scan_messages.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "store/watch.h"

namespace remora {

/// Cursors of all connections. Each connection that scans has a buffer of the server's own, in
/// which its pages are made. Over verbs, its registration counts towards the memory that may be
/// locked. Clients reach nothing of it.
///
/// Thread safety: none; the server's one thread.
class ScanService {
 public:
  /// Requests that are answered in one step of the server, at most: writers wait for them.
  static constexpr std::size_t kMaxPerStep = 4;

  /// The store outlives this.
  explicit ScanService(ServerStore& store);
  ~ScanService();
  ScanService(const ScanService&) = delete;
  ScanService& operator=(const ScanService&) = delete;

  /// Does a bounded bit of what a kScan or kScanNext asks for: WRITEs the page, if that is what is asked for,
  /// and says in *reply what goes behind it. Aborted: nothing was done, ask again later.
  absl::Status Take(ClientSession& session, const Request& request, Reply* reply);

  /// Ends the connection's cursors. Before the connection goes.
  void End(rdma::Connection& connection);
  /// Ends those that nobody has used for long.
  void Expire();
  /// Returns when Expire has work next. Nothing: there is no cursor.
  std::optional<TimePoint> next_expiry() const { return next_check_; }

 private:
  struct Cursor {
    std::uint64_t id = 0;
    ScanKind kind{};
    RemoteRegion window;
    TimePoint used;
    std::unique_ptr<StoreScan> scan;          // of kDelete and kChanges: null
    std::unique_ptr<RangeDeletion> deletion;  // of others: null
    std::unique_ptr<StoreWatch> watch;        // of kChanges; then the others are null
    bool in_entry = false;                    // the scan is at an entry that is not sent, or not all of it
    std::size_t entry_sent = 0;               // bytes of it
    bool is_counting = false;                 // of kCount: it has made a step
    bool is_new = true;                       // its first request is being answered
    std::uint64_t groups = 0;                 // commit groups of the store until its last request
    std::optional<TimePoint> written;         // the last request behind a group; nothing: there was none

    bool has_pages() const {
      return kind == ScanKind::kEntries || kind == ScanKind::kKeys || kind == ScanKind::kChanges;
    }
  };
  struct Client {
    std::vector<Cursor> cursors;  // the one used least lately first
    // For one page. Destroyed in reverse.
    std::vector<std::byte> page;
    std::unique_ptr<rdma::Registration> registration;
    std::uint64_t page_reply = 0;  // when so many replies are done, the page may be overwritten
    TimePoint used;
  };
  struct PagePlace {
    std::uint64_t offset = 0;  // in the window
    std::size_t size = 0;
  };

  static bool PageIsInFlight(const ClientSession& session, const Client& client) {
    return client.page_reply > session.replies_done();
  }
  absl::Status Open(ClientSession& session, const Request& request, Reply* reply);
  /// Does some of the work of the last cursor.
  absl::Status GoOn(ClientSession& session, Client& client, const PagePlace& page, Reply* reply);
  // Each false: that was all. Aborted: nothing was done.
  absl::StatusOr<bool> SendPage(ClientSession& session, Client& client, Cursor& cursor,
                                const PagePlace& place, std::int64_t* size);
  /// Returns how many entries the next request of the cursor may look at: few if clients write, because
  /// they wait meanwhile, or else `most`. A cursor's first request tells nothing of writes, but those of
  /// other cursors may have done so.
  std::size_t LooksOf(Cursor& cursor, std::size_t most);
  static absl::StatusOr<bool> FillPage(Cursor& cursor, std::span<std::byte> page, std::size_t most,
                                       std::size_t* filled);
  /// Result of the next step of the cursor. Aborted: it is not known yet.
  enum class Found : std::uint8_t { kEntry = 1, kNotYet = 2, kEnd = 3, kPause = 4 };
  static absl::StatusOr<Found> Advance(Cursor& cursor);
  /// The entry that it is at: its header and its bytes.
  struct EntryBytes {
    std::array<std::byte, kMaxScanHeader> header;
    std::size_t header_size = 0;
    std::string_view key;
    std::string_view value;
    std::size_t size() const { return header_size + key.size() + value.size(); }
  };
  static EntryBytes BytesOf(const Cursor& cursor);
  absl::StatusOr<bool> CountSome(Cursor& cursor, std::int64_t* count);
  static absl::StatusOr<bool> DeleteSome(Cursor& cursor, std::int64_t* count);
  void Remove(Client& client, std::vector<Cursor>::iterator cursor);

  ServerStore& store_;
  absl::flat_hash_map<rdma::Connection*, Client> clients_;
  std::uint64_t next_id_;
  std::optional<TimePoint> next_check_;
  // State at the last request of any client, as that of a cursor is of its own:
  std::uint64_t groups_ = 0;
  std::optional<TimePoint> looked_;
  std::optional<TimePoint> written_;
};

}  // namespace remora
