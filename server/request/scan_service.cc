#include "server/request/scan_service.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "server/request/request_decoder.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

// Of one request: about half a millisecond of small values.
constexpr std::size_t kMaxLooks = 1024;
constexpr std::size_t kMaxCounted = 2048;
// The same while clients write, and for kWritersPause after the last write. Writers wait for a request, which
// then takes some 30 us.
constexpr std::size_t kFewLooks = 64;
// The same of the first request of a scan. So short scans are of one page: those of YCSB E have up to 100
// keys, beside writes of the same client.
constexpr std::size_t kFirstLooks = 256;
constexpr std::chrono::seconds kWritersPause{1};

constexpr std::chrono::seconds kIdle{kCursorSeconds};
constexpr std::chrono::seconds kCheckPause{1};

absl::Status Invalid() {
  return absl::InvalidArgumentError("protocol error: a scan out of bounds, or a page outside of its window");
}

absl::Status NoSuchCursor() {
  return absl::NotFoundError("scan: the server has closed its cursor; start a new scan");
}

absl::Status Busy() { return absl::AbortedError("scan: the last page is in flight"); }

/// Returns the status of a scan. If the store has given up its moment, its cursor is lost as if the server
/// had closed it: the client continues with another one, or ends the scan (ScanOptions::one_moment).
absl::Status StatusOf(const StoreScan& scan) {
  return absl::IsAborted(scan.status()) ? NoSuchCursor() : scan.status();
}

/// Copies bytes [from, from + to.size()) of what `pieces` are one behind the other.
void CopyPart(std::span<const std::string_view> pieces, std::size_t from, std::span<std::byte> to) {
  for (const std::string_view piece : pieces) {
    if (to.empty()) return;
    if (from >= piece.size()) {
      from -= piece.size();
      continue;
    }
    const std::size_t size = std::min(piece.size() - from, to.size());
    std::memcpy(to.data(), piece.data() + from, size);
    to = to.subspan(size);
    from = 0;
  }
}

}  // namespace

// Cursors of another server, or of this one before it was started anew, are not taken for one of these.
ScanService::ScanService(ServerStore& store) : store_(store), next_id_(store.superblock().incarnation | 1) {}
ScanService::~ScanService() = default;

absl::Status ScanService::Take(ClientSession& session, const Request& request, Reply* reply) {
  if (request.operation == Operation::kScan) return Open(session, request, reply);
  const auto known = clients_.find(&session.connection());
  if (known == clients_.end()) return NoSuchCursor();
  Client& client = known->second;
  const auto found = std::find_if(client.cursors.begin(), client.cursors.end(),
                                  [&](const Cursor& cursor) { return cursor.id == request.condition; });
  if (found == client.cursors.end()) return NoSuchCursor();
  std::rotate(found, found + 1, client.cursors.end());
  return GoOn(session, client, {request.payload_offset, request.value_size}, reply);
}

absl::Status ScanService::Open(ClientSession& session, const Request& request, Reply* reply) {
  // Before anything is opened.
  const auto known = clients_.find(&session.connection());
  if (known != clients_.end() && PageIsInFlight(session, known->second)) return Busy();
  // Copied, then verified, then looked at: the client may still be writing.
  const auto shared = session.DecodePart(request);
  const std::string copy(reinterpret_cast<const char*>(shared.data()), shared.size());
  if (!VerifyPayload(&request, HashKey({}), HashValue(copy.data(), copy.size()))) {
    return absl::DataLossError(
        "scan: the range does not match its checksum, so its bytes were damaged in flight; send it again");
  }
  ScanRange range;
  const std::optional<ScanStart> start = ReadScanStart(copy, &range);
  if (!start) return Invalid();
  if (start->kind == ScanKind::kDelete && session.is_read_only()) {
    store_.Add(Metric::kRequestsDenied, 1);
    return NeedsWriterError();
  }
  Cursor cursor;
  cursor.id = next_id_;
  cursor.kind = start->kind;
  cursor.window = start->window;
  cursor.groups = store_.Read(Metric::kCommitGroups);
  if (cursor.has_pages() && !IsPage(start->window, start->page_offset, start->page_size)) return Invalid();
  if (start->kind == ScanKind::kChanges) {
    REMORA_ASSIGN_OR_RETURN(cursor.watch, store_.Watch(range, start->from));
  } else if (start->kind == ScanKind::kDelete) {
    REMORA_ASSIGN_OR_RETURN(cursor.deletion,
                            store_.BeginDeleteRangeWithoutWaiting({.begin = range.begin, .end = range.end}));
  } else {
    if (start->kind == ScanKind::kCount) range.by_hash = true;
    REMORA_ASSIGN_OR_RETURN(cursor.scan,
                            store_.Scan(std::move(range), start->limit, start->kind != ScanKind::kEntries));
    if (cursor.scan->by_hash()) reply->slot = kScanByHash;
  }
  ++next_id_;
  store_.Add(start->kind == ScanKind::kChanges ? Metric::kWatches : Metric::kScans, 1);
  Client& client = clients_[&session.connection()];
  const auto ended = std::find_if(client.cursors.begin(), client.cursors.end(),
                                  [&](const Cursor& other) { return other.id == start->ends; });
  if (ended != client.cursors.end()) Remove(client, ended);
  if (client.cursors.size() == kMaxCursors) {
    Remove(client, client.cursors.begin());
    store_.Add(Metric::kScanCursorsPushedOut, 1);
  }
  client.cursors.push_back(std::move(cursor));
  store_.Add(Metric::kScanCursors, 1);
  if (!next_check_) next_check_ = store_.clock().Coarse() + kCheckPause;
  const absl::Status status = GoOn(session, client, {start->page_offset, start->page_size}, reply);
  // It is open, once and not again: the first page is empty.
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

absl::Status ScanService::GoOn(ClientSession& session, Client& client, const PagePlace& page, Reply* reply) {
  Cursor& cursor = client.cursors.back();
  client.used = cursor.used = store_.clock().Coarse();
  absl::StatusOr<bool> more = false;
  if (!cursor.has_pages()) {
    if (page.offset != 0 || page.size != 0) return Invalid();
    more = cursor.kind == ScanKind::kDelete ? DeleteSome(cursor, &reply->result)
                                            : CountSome(cursor, &reply->result);
  } else {
    if (!IsPage(cursor.window, page.offset, page.size)) return Invalid();
    more = SendPage(session, client, cursor, page, &reply->result);
    if (cursor.watch != nullptr) {
      reply->slot = cursor.in_entry ? cursor.watch->sequence() : cursor.watch->position().sequence;
    }
  }
  // Nothing is lost: the same request finds it again.
  if (absl::IsAborted(more.status())) {
    reply->version = cursor.id;
    return more.status();
  }
  if (more.ok() && *more) {
    reply->version = cursor.id;
    return absl::OkStatus();
  }
  Remove(client, client.cursors.end() - 1);
  return more.status();
}

absl::StatusOr<bool> ScanService::SendPage(ClientSession& session, Client& client, Cursor& cursor,
                                           const PagePlace& place, std::int64_t* size) {
  if (client.registration == nullptr) {
    client.page.resize(kMaxPageSize);
    REMORA_ASSIGN_OR_RETURN(client.registration, session.connection().RegisterMessages(client.page));
    store_.Add(Metric::kScanBufferBytes, static_cast<std::int64_t>(kMaxPageSize));
  }
  if (PageIsInFlight(session, client)) return Busy();
  const TimePoint begin = store_.clock().Now();
  std::size_t filled = 0;
  REMORA_ASSIGN_OR_RETURN(const bool more, FillPage(cursor, std::span(client.page).first(place.size),
                                                    LooksOf(cursor, kMaxLooks), &filled));
  *size = static_cast<std::int64_t>(filled);
  if (filled == 0) return more;
  const rdma::Sge from = rdma::MakeSge(*client.registration, 0, filled);
  REMORA_RETURN_IF_ERROR(session.connection().PostWritev(std::span(&from, 1), cursor.window, place.offset));
  client.page_reply = session.replies_sent() + 1;  // the reply goes behind it
  store_.Add(Metric::kScanPages, 1);
  store_.Record(Metric::kScanPageTime, store_.clock().Now() - begin);
  return more;
}

absl::StatusOr<ScanService::Found> ScanService::Advance(Cursor& cursor) {
  if (cursor.watch != nullptr) {
    REMORA_ASSIGN_OR_RETURN(const StoreWatch::Step step, cursor.watch->Advance());
    switch (step) {
      case StoreWatch::Step::kChange:
        return Found::kEntry;
      case StoreWatch::Step::kNotYet:
        return Found::kNotYet;
      case StoreWatch::Step::kNone:
        return Found::kPause;
      case StoreWatch::Step::kOpening:
        return absl::AbortedError("watch: the server searches for the position in the log; ask again");
    }
  }
  switch (cursor.scan->Advance()) {
    case StoreScan::Step::kEntry:
      return Found::kEntry;
    case StoreScan::Step::kNotYet:
      return Found::kNotYet;
    default:
      REMORA_RETURN_IF_ERROR(StatusOf(*cursor.scan));
      return Found::kEnd;
  }
}

ScanService::EntryBytes ScanService::BytesOf(const Cursor& cursor) {
  EntryBytes bytes;
  const auto set = [&](auto header, const auto& from) {
    bytes.key = from.key();
    bytes.value = from.value();
    header.version = from.version();
    header.expiry_ms = from.expiry_ms();
    header.key_size = static_cast<std::uint16_t>(bytes.key.size());
    header.value_size = static_cast<std::uint32_t>(bytes.value.size());
    bytes.header_size = sizeof(header);
    std::memcpy(bytes.header.data(), &header, sizeof(header));
  };
  if (cursor.watch != nullptr) {
    set(ChangeEntry{.sequence = cursor.watch->sequence(), .kind = cursor.watch->kind()}, *cursor.watch);
  } else {
    set(ScanEntry{}, *cursor.scan);
  }
  return bytes;
}

std::size_t ScanService::LooksOf(Cursor& cursor, std::size_t most) {
  if (cursor.watch != nullptr) return most;  // it shows what clients write
  const std::uint64_t groups = store_.Read(Metric::kCommitGroups);
  if (std::exchange(cursor.groups, groups) != groups) cursor.written = cursor.used;
  // A request long ago does not tell when clients wrote since.
  const bool is_told = looked_ && cursor.used - *looked_ < kWritersPause;
  if (std::exchange(groups_, groups) != groups && is_told) written_ = cursor.used;
  looked_ = cursor.used;
  const bool is_first = std::exchange(cursor.is_new, false);
  const auto is_recent = [&](const std::optional<TimePoint>& written) {
    return written && cursor.used - *written < kWritersPause;
  };
  if (!is_recent(cursor.written) && !is_recent(written_)) return most;
  return is_first ? kFirstLooks : kFewLooks;
}

absl::StatusOr<bool> ScanService::FillPage(Cursor& cursor, std::span<std::byte> page, std::size_t most,
                                           std::size_t* filled) {
  for (std::size_t looks = 0; looks < most;) {
    if (!cursor.in_entry) {
      const absl::StatusOr<Found> advanced = Advance(cursor);
      // The client gets what the page has before it gets the error: the next request finds that again.
      if (!advanced.ok() && *filled > 0) return true;
      REMORA_ASSIGN_OR_RETURN(const Found found, advanced);
      ++looks;
      if (found == Found::kNotYet) continue;
      if (found != Found::kEntry) return found == Found::kPause;
      cursor.in_entry = true;
      cursor.entry_sent = 0;
    }
    const EntryBytes entry = BytesOf(cursor);
    const std::span<std::byte> space = page.subspan(*filled);
    if (cursor.entry_sent == 0 && entry.size() <= space.size()) {
      std::byte* to = space.data();
      std::memcpy(to, entry.header.data(), entry.header_size);
      std::memcpy(to += entry.header_size, entry.key.data(), entry.key.size());
      to += entry.key.size();
      if (!entry.value.empty()) std::memcpy(to, entry.value.data(), entry.value.size());
      *filled += entry.size();
      cursor.in_entry = false;
      continue;
    }
    // An entry that fits into one page is in one page, so its reader need not join pieces.
    if (cursor.entry_sent == 0 && entry.size() <= page.size()) return true;
    const std::array<std::string_view, 3> pieces = {
        std::string_view(reinterpret_cast<const char*>(entry.header.data()), entry.header_size), entry.key,
        entry.value};
    const std::size_t part = std::min(entry.size() - cursor.entry_sent, space.size());
    CopyPart(pieces, cursor.entry_sent, space.first(part));
    *filled += part;
    cursor.entry_sent += part;
    cursor.in_entry = cursor.entry_sent < entry.size();
    if (cursor.in_entry) return true;
  }
  return true;
}

absl::StatusOr<bool> ScanService::CountSome(Cursor& cursor, std::int64_t* count) {
  if (!std::exchange(cursor.is_counting, true)) {
    if (const std::optional<std::uint64_t> all = cursor.scan->CountAtOnce()) {
      *count = static_cast<std::int64_t>(*all);
      return false;
    }
  }
  const std::size_t most = LooksOf(cursor, kMaxCounted);
  for (std::size_t looks = 0; looks < most; ++looks) {
    const StoreScan::Step step = cursor.scan->Advance();
    if (step == StoreScan::Step::kEntry) ++*count;
    if (step != StoreScan::Step::kEnd) continue;
    REMORA_RETURN_IF_ERROR(StatusOf(*cursor.scan));
    return false;
  }
  return true;
}

absl::StatusOr<bool> ScanService::DeleteSome(Cursor& cursor, std::int64_t* count) {
  const std::uint64_t before = cursor.deletion->deleted();
  const absl::StatusOr<bool> more = cursor.deletion->StepWithoutWaiting();
  *count = static_cast<std::int64_t>(cursor.deletion->deleted() - before);
  // The client is told what was deleted, even before the space runs out. Else another step of the
  // server continues: it serves others while the disk takes its time.
  if (absl::IsAborted(more.status()) && *count > 0) return true;
  return more;
}

// --- Ends -----------------------------------------------------------------------------------------------

void ScanService::Remove(Client& client, std::vector<Cursor>::iterator cursor) {
  client.cursors.erase(cursor);
  store_.Add(Metric::kScanCursors, -1);
}

void ScanService::End(rdma::Connection& connection) {
  const auto known = clients_.find(&connection);
  if (known == clients_.end()) return;
  Client& client = known->second;
  while (!client.cursors.empty()) Remove(client, client.cursors.end() - 1);
  if (client.registration != nullptr) {
    store_.Add(Metric::kScanBufferBytes, -static_cast<std::int64_t>(kMaxPageSize));
  }
  clients_.erase(known);
}

void ScanService::Expire() {
  if (!next_check_) return;
  const TimePoint now = store_.clock().Coarse();
  if (now < *next_check_) return;
  std::vector<rdma::Connection*> idle;
  for (auto& [connection, client] : clients_) {
    // The first is the one used least lately.
    while (!client.cursors.empty() && now - client.cursors.front().used >= kIdle) {
      Remove(client, client.cursors.begin());
      store_.Add(Metric::kScanCursorsIdle, 1);
    }
    // By then, what was in flight has arrived, or the connection is broken.
    if (client.cursors.empty() && now - client.used >= kIdle) idle.push_back(connection);
  }
  for (rdma::Connection* connection : idle) End(*connection);
  next_check_ = clients_.empty() ? std::nullopt : std::optional(now + kCheckPause);
}

}  // namespace remora
