#include "client/scan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/put/put.h"
#include "client/scan/scan_impl.h"
#include "client/session/call_guard.h"
#include "client/session/confirm.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"

namespace remora {
namespace {

// Entries that the server shows of a one-sided scan before the client looks for a leaf again.
constexpr std::uint64_t kPartEntries = 256;

absl::Status NoScanPage(const char* why) {
  return absl::InternalError(
      absl::StrCat("protocol error: the server's message is no page of this scan: ", why));
}

std::string StartBytes(ScanStart start, const ScanRange& range) {
  start.begin_size = static_cast<std::uint16_t>(range.begin.size());
  start.end_size = static_cast<std::uint16_t>(range.end.size());
  if (range.reverse) start.flags |= kReverse;
  if (range.by_hash) start.flags |= kAnyOrder;
  std::string bytes(reinterpret_cast<const char*>(&start), sizeof(start));
  bytes += range.begin;
  bytes += range.end;
  bytes += range.after;
  return bytes;
}

absl::StatusOr<ServerReply> Start(Session& session, ScanStart start, const ScanRange& range) {
  start.ends = session.scan_window().TakeAbandonedCursor();
  return session.calls().Call(Operation::kScan, {}, HashKey({}), StartBytes(start, range));
}

Request NextOf(std::uint64_t cursor, std::size_t offset, std::size_t size) {
  Request request;
  request.operation = Operation::kScanNext;
  request.value_size = static_cast<std::uint32_t>(size);
  request.condition = cursor;
  request.payload_offset = offset;
  return request;
}

/// Adds up the numbers in the server's replies, request after request. `anew`: counting starts again if the
/// cursor is lost.
absl::StatusOr<std::uint64_t> AddUp(Session& session, ScanKind kind, const ScanRange& range, bool anew) {
  constexpr int kTries = 8;
  std::uint64_t sum = 0;
  for (int i = 0; i < kTries; ++i) {
    if (anew) sum = 0;
    absl::StatusOr<ServerReply> answer = Start(session, {.kind = kind}, range);
    for (;;) {
      REMORA_RETURN_IF_ERROR(answer.status());
      const Reply reply = answer->reply;
      if (reply.status == ReplyStatus::kNotFound) break;
      REMORA_RETURN_IF_ERROR(ToStatus(*answer));
      sum += static_cast<std::uint64_t>(reply.result);
      if (reply.version == 0) return sum;
      if (session.clock().IsInterrupted()) return absl::CancelledError(kInterrupted);
      session.calls().deadline().Restart();
      answer = session.calls().CallBare(NextOf(reply.version, 0, 0));
    }
  }
  return absl::AbortedError(
      "scan: the server closed it again and again, for other scans of this client; run fewer at a time");
}

}  // namespace

absl::StatusOr<std::uint64_t> CountRange(Session& session, const ScanRange& range) {
  return AddUp(session, ScanKind::kCount, range, true);
}

absl::StatusOr<std::uint64_t> DeleteRange(Session& session, const ScanRange& range) {
  return AddUp(session, ScanKind::kDelete, range, false);
}

// --- The public face ------------------------------------------------------------------------------------

ClientScan::ClientScan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) { impl_->set_scan(this); }
ClientScan::~ClientScan() {
  if (!impl_->client_is_gone()) const InUse::Call call(impl_->in_use());
}
bool ClientScan::Next() {
  if (impl_->client_is_gone()) return impl_->EndWithClient();
  const InUse::Call call(impl_->in_use());
  return impl_->Next();
}
const absl::Status& ClientScan::status() const { return impl_->status(); }
std::string ClientScan::resume_token() const { return impl_->resume_token(); }

// --- Opening --------------------------------------------------------------------------------------------

ClientScan::Impl::Impl(Session& session, const ScanOptions& options, ScanRange range)
    : session_(session),
      range_(std::move(range)),
      keys_only_(options.keys_only),
      one_moment_(options.one_moment),
      has_limit_(options.limit != 0),
      left_(has_limit_ ? options.limit : ~std::uint64_t{0}) {}

absl::StatusOr<std::unique_ptr<ClientScan::Impl>> ClientScan::Impl::Begin(Session& session,
                                                                          const ScanOptions& options) {
  ScanRange range;
  if (const char* why = ResolveScan(options, &range)) return absl::InvalidArgumentError(why);
  std::unique_ptr<Impl> impl(new Impl(session, options, std::move(range)));
  if (!options.one_sided) {
    REMORA_RETURN_IF_ERROR(impl->Open());
    return impl;
  }
  if (impl->range_.by_hash || options.one_moment) {
    return absl::InvalidArgumentError(
        "scan: a one-sided scan reads keys in their order, and each at a moment of its own: do not ask for "
        "any_order or one_moment, nor with the resume token of a scan in any order");
  }
  REMORA_RETURN_IF_ERROR(LeafScan::CheckServer(session));
  impl->leaves_ = std::make_unique<LeafScan>(session, impl->keys_only_, impl->range_);
  return impl;
}

ClientScan::Impl::~Impl() {
  if (client_is_gone()) return;
  if (leaves_ != nullptr) leaves_->GiveMemory();
  ScanWindow& window = session_.scan_window();
  if (window.owner() == this) window.set_owner(nullptr);
  if (cursor_ != 0 && connection_ == session_.counters().reconnects) window.AbandonCursor(cursor_);
}

ScanRange ClientScan::Impl::Rest() const {
  ScanRange rest = range_;
  if (scan_ != nullptr && !scan_->key_.empty()) rest.GoBehind(scan_->key_);
  return rest;
}

std::uint64_t ClientScan::Impl::Limit() const {
  if (in_part_) return part_left_;  // left_ at most
  return has_limit_ ? left_ : 0;
}

std::string ClientScan::Impl::resume_token() const { return MakeScanToken(Rest()); }

absl::Status ClientScan::Impl::Open() {
  REMORA_RETURN_IF_ERROR(TakeWindow());
  page_ = {};
  pieces_.clear();
  lost_ = true;  // until the cursor exists
  half_ = 0;
  ScanStart start{.window = window_.remote,
                  .page_size = static_cast<std::uint32_t>(page_size_),
                  .kind = keys_only_ ? ScanKind::kKeys : ScanKind::kEntries,
                  .limit = Limit()};
  const TimePoint sent = session_.clock().Now();
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer, Start(session_, start, Rest()));
  session_.server().server_time().Learn(answer.reply.server_ms, sent, session_.clock().Now());
  REMORA_RETURN_IF_ERROR(TakePage(answer, 0));
  if (leaves_ != nullptr) REMORA_RETURN_IF_ERROR(leaves_->CheckSlots());
  REMORA_RETURN_IF_ERROR(TakeOrder(answer.reply.slot == kScanByHash));
  connection_ = session_.counters().reconnects;
  lost_ = dropped_ = false;
  return AskForNext();
}

absl::Status ClientScan::Impl::TakeOrder(bool by_hash) {
  if (by_hash == range_.by_hash) return absl::OkStatus();
  if (by_hash || !Rest().after.empty()) return NoScanPage("its keys come in another order");
  range_.by_hash = false;
  return absl::OkStatus();
}

// --- Pages ----------------------------------------------------------------------------------------------

absl::Status ClientScan::Impl::TakeWindow() {
  ScanWindow& window = session_.scan_window();
  ScanWindow::Owner* const owner = window.owner();
  if (owner == this) return absl::OkStatus();
  // A page may be in flight, even one of a scan that was destroyed.
  REMORA_RETURN_IF_ERROR(session_.calls().AwaitScanPage());
  if (owner != nullptr) owner->GiveUpWindow();
  window.set_owner(nullptr);
  REMORA_ASSIGN_OR_RETURN(window_, session_.scan_window().Register(session_.endpoint().connection()));
  page_size_ = std::min(window_.bytes.size() / 2, kMaxPageSize);
  window.set_owner(this);
  return absl::OkStatus();
}

void ClientScan::Impl::GiveUpWindow() {
  if (scan_ != nullptr && !pieces_shown_) {
    value_ = scan_->value_;
    scan_->value_ = value_;
  }
  own_ = std::string(page_);
  page_ = own_;
  if (!std::exchange(asked_, false)) return;
  // An error of the page shows when the scan needs it.
  const std::size_t half = 1 - half_;
  const ServerReply answer = session_.scan_window().reply().view();
  if (const absl::Status taken = TakePage(answer, half); taken.ok() && !lost_) {
    ahead_ = std::string(page_);
    has_ahead_ = true;
  } else {
    ahead_failed_ = taken;
  }
  page_ = own_;
}

absl::Status ClientScan::Impl::AskForNext() {
  if (cursor_ == 0) return absl::OkStatus();
  const absl::Status asked =
      session_.calls().PostScanPage(NextOf(cursor_, (1 - half_) * page_size_, page_size_));
  asked_ = asked.ok();
  return asked;
}

absl::Status ClientScan::Impl::TakePage(const ServerReply& answer, std::size_t half) {
  cursor_ = 0;
  if (answer.reply.status == ReplyStatus::kNotFound) {
    lost_ = true;
    return absl::OkStatus();
  }
  REMORA_RETURN_IF_ERROR(ToStatus(answer));
  if (answer.reply.result < 0 || static_cast<std::uint64_t>(answer.reply.result) > page_size_) {
    return NoScanPage("it is larger than the client asked for");
  }
  if (!session_.lease().IsCovered()) REMORA_RETURN_IF_ERROR(Confirm(session_));
  cursor_ = answer.reply.version;
  half_ = half;
  page_ = std::string_view(reinterpret_cast<const char*>(window_.bytes.data()) + half * page_size_,
                           static_cast<std::size_t>(answer.reply.result));
  return absl::OkStatus();
}

absl::StatusOr<bool> ClientScan::Impl::NextLeafPage() {
  if (std::exchange(lost_, false) || leaves_->is_outdated()) leaves_->GoTo(Rest());
  session_.calls().deadline().Restart();  // each page is progress
  absl::StatusOr<LeafScan::Outcome> read = leaves_->ReadPage(left_);
  if (read.ok() && !session_.lease().IsCovered()) {  // N3
    if (absl::Status confirmed = Confirm(session_); !confirmed.ok()) read = std::move(confirmed);
  }
  if (!read.ok()) {
    lost_ = true;
    return read.status();
  }
  if (*read == LeafScan::Outcome::kEnd) return false;
  page_ = leaves_->page();
  if (*read == LeafScan::Outcome::kPage) return true;
  in_part_ = true;
  part_left_ = std::min(left_, kPartEntries);
  page_ = {};
  REMORA_RETURN_IF_ERROR(Open());
  return true;
}

bool ClientScan::Impl::EndPart() {
  in_part_ = false;
  if (ScanWindow& window = session_.scan_window(); window.owner() == this) window.set_owner(nullptr);
  leaves_->GoTo(Rest());
  return part_left_ == 0;
}

absl::StatusOr<bool> ClientScan::Impl::NextPage() {
  if (leaves_ != nullptr && !in_part_) return NextLeafPage();
  REMORA_RETURN_IF_ERROR(ahead_failed_);
  if (std::exchange(has_ahead_, false)) {
    own_ = std::move(ahead_);
    page_ = own_;
    return true;
  }
  if (cursor_ != 0 && connection_ != session_.counters().reconnects) {
    cursor_ = 0;  // it ended with its connection
    lost_ = true;
  }
  if (!asked_ && cursor_ != 0) {
    REMORA_RETURN_IF_ERROR(TakeWindow());
    REMORA_RETURN_IF_ERROR(AskForNext());
  }
  if (asked_) {
    session_.calls().deadline().Restart();  // each page is progress
    REMORA_RETURN_IF_ERROR(session_.calls().AwaitScanPage());
    asked_ = false;
    REMORA_RETURN_IF_ERROR(TakePage(session_.scan_window().reply().view(), 1 - half_));
    if (!lost_) {
      REMORA_RETURN_IF_ERROR(AskForNext());
      return true;
    }
  }
  if (lost_ && one_moment_) {
    return absl::AbortedError(
        "scan: the server closed its snapshot, because it was idle for too long, the client has too many "
        "other scans, or the connection was replaced; start a new scan");
  }
  // With a limit, the scan continues to make up for entries that expired before they arrived.
  const bool is_short = dropped_ && has_limit_ && !one_moment_ && !in_part_;
  if (!lost_ && !is_short) {
    if (!pieces_.empty()) return NoScanPage("it ends inside an entry");
    return in_part_ && EndPart();
  }
  if (in_part_ && part_left_ == 0) return EndPart();
  REMORA_RETURN_IF_ERROR(Open());
  return true;
}

// --- Entries --------------------------------------------------------------------------------------------

bool ClientScan::Impl::EndWithClient() {
  if (!failure_.ok() || over_) return false;
  failure_ = absl::FailedPreconditionError(
      "scan: the client of this scan is gone; go on from resume_token() with a scan of another client");
  over_ = true;
  scan_->value_ = {};
  return false;
}

bool ClientScan::Impl::Next() {
  if (!failure_.ok() || over_) return false;
  const absl::Status begun = session_.BeginCall();
  absl::StatusOr<bool> shown = begun.ok() ? Step() : begun;
  // The scan shows the rest of the pages. Then it continues behind them, as of a later moment.
  while (!shown.ok() && session_.reconnects() && session_.endpoint().is_broken()) {
    const absl::Status connected = session_.Reconnect(shown.status(), session_.calls().deadline().Get());
    shown = connected.ok() ? Step() : connected;
    if (!connected.ok()) break;
  }
  failure_ = shown.status();
  over_ = !shown.ok() || !*shown;
  if (over_) scan_->value_ = {};
  return !over_;
}

absl::StatusOr<bool> ClientScan::Impl::Step() {
  if (pieces_shown_) {
    pieces_ = {};
    pieces_shown_ = false;
  }
  while (left_ > 0) {
    Entry entry;
    REMORA_ASSIGN_OR_RETURN(const bool whole, TakeEntry(&entry));
    if (!whole) {
      REMORA_ASSIGN_OR_RETURN(const bool more, NextPage());
      if (!more) return false;
      continue;
    }
    REMORA_RETURN_IF_ERROR(CheckKey(entry.key));
    const absl::StatusOr<bool> over = IsOver(entry.header.expiry_ms);
    if (!over.ok()) {
      // The entry is not shown yet, so it comes once more over the next connection.
      page_ = {};
      pieces_ = {};
      has_ahead_ = asked_ = false;
      cursor_ = 0;
      lost_ = true;
      return over.status();
    }
    scan_->key_ = entry.key;
    if (in_part_ && part_left_ > 0) --part_left_;
    if (*over) {
      dropped_ = true;
      pieces_ = {};
      continue;
    }
    --left_;
    pieces_shown_ = !pieces_.empty();
    scan_->value_ = entry.value;
    scan_->version_ = entry.header.version;
    scan_->expiry_ms_ = entry.header.expiry_ms;
    return true;
  }
  return false;
}

absl::StatusOr<bool> ClientScan::Impl::TakeEntry(Entry* entry) {
  // Most entries are in one page, and are shown in place.
  const bool in_pieces = !pieces_.empty() || page_.size() < sizeof(ScanEntry);
  const auto more = [&](std::size_t size) {  // until pieces_ has this many bytes
    const std::string_view piece = page_.substr(0, size - std::min(size, pieces_.size()));
    pieces_ += piece;
    page_.remove_prefix(piece.size());
    return pieces_.size() >= size;
  };
  if (in_pieces && !more(sizeof(ScanEntry))) return false;
  std::memcpy(&entry->header, in_pieces ? pieces_.data() : page_.data(), sizeof(ScanEntry));
  REMORA_RETURN_IF_ERROR(CheckHeader(entry->header));
  const std::size_t size = sizeof(ScanEntry) + entry->header.key_size + entry->header.value_size;
  std::string_view bytes = page_.substr(0, size);
  if (in_pieces || bytes.size() < size) {
    if (pieces_.capacity() < size) pieces_.reserve(size);
    if (!more(size)) return false;
    bytes = pieces_;
  } else {
    page_.remove_prefix(size);
  }
  bytes.remove_prefix(sizeof(ScanEntry));
  entry->key = bytes.substr(0, entry->header.key_size);
  entry->value = bytes.substr(entry->header.key_size);
  return true;
}

absl::Status ClientScan::Impl::CheckHeader(const ScanEntry& header) const {
  const bool is_good = header.key_size >= kMinKeySize && header.key_size <= kMaxKeySize &&
                       header.value_size <= (keys_only_ ? 0 : kMaxValueSize) && header.reserved == 0 &&
                       header.version > 0 && header.version < kMaxVersion;
  return is_good ? absl::OkStatus() : NoScanPage("an entry out of bounds");
}

// Checks that each key lies beyond the last one, so that a scan ends even with a faulty server.
absl::Status ClientScan::Impl::CheckKey(std::string_view key) const {
  const std::string& last = scan_->key_;
  bool in_order = false;
  if (range_.by_hash) {
    const std::string& after = last.empty() ? range_.after : last;
    in_order = range_.Contains(key) && (after.empty() || ComesBeforeByHash(after, key));
  } else if (range_.reverse) {
    in_order = key >= range_.begin && (last.empty() ? range_.Contains(key) : key < last);
  } else {
    in_order = (last.empty() ? key >= range_.begin : key > last) && (!range_.has_end() || key < range_.end);
  }
  return in_order ? absl::OkStatus() : NoScanPage("a key out of order, or of its range");
}

absl::StatusOr<bool> ClientScan::Impl::IsOver(std::uint64_t expiry_ms) {
  if (expiry_ms == 0) return false;
  const TimePoint now = session_.clock().Now();
  switch (session_.server().server_time().Of(expiry_ms, now, now)) {
    case ServerTime::Life::kAlive:
      return false;
    case ServerTime::Life::kOver:
      return true;
    case ServerTime::Life::kAskServer:
      break;
  }
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer,
                          session_.calls().Call(Operation::kPing, {}, HashKey({}), {}));
  session_.server().server_time().Learn(answer.reply.server_ms, now, session_.clock().Now());
  return HasExpired(expiry_ms, answer.reply.server_ms);
}

}  // namespace remora
