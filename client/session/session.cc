#include "client/session/session.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "client/session/credentials.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Replies that may come before one is taken out: one per request under way, and one aside.
constexpr std::size_t kReceives = Session::kMaxInFlight + 2;

// The one registered buffer, in parts.
constexpr std::size_t RoundUp(std::size_t size) { return (size + 127) / 128 * 128; }
constexpr std::size_t kRecordOffset = 0;  // record_buffer
constexpr std::size_t kBucketOffset = kRecordOffset + RoundUp(kMaxSmallExtent);
constexpr std::size_t kSuperblockOffset = kBucketOffset + RoundUp(Session::kMaxBatch * sizeof(Bucket));
constexpr std::size_t kDirectoryOffset = kSuperblockOffset + RoundUp(sizeof(Superblock));
constexpr std::size_t kDirectoryEntries = 64;  // of one READ
constexpr std::size_t kRequestOffset = kDirectoryOffset + kDirectoryEntries * sizeof(std::uint64_t);
constexpr std::size_t kRequestStride = RoundUp(sizeof(Request));
constexpr std::size_t kAsideOffset = kRequestOffset + Session::kMaxInFlight * kRequestStride;
constexpr std::size_t kRepliesOffset = kAsideOffset + kRequestStride;
constexpr std::size_t kReplyStride = RoundUp(kMaxReplySize);
constexpr std::size_t kPayloadOffset = kRepliesOffset + kReceives * kReplyStride;
constexpr std::size_t kBufferSize = kPayloadOffset + RoundUp(kMaxPayloadSize);
constexpr std::size_t kAlignment = alignof(Bucket);
static_assert(sizeof(Request) + kMaxInlinePayload <= kMaxPayloadSize);
static_assert(sizeof(Request) + kMaxInlinePayload <= rdma::kMaxMessageSize);

// Contexts of READs and SENDs; a receive's is its index.
constexpr std::uint64_t kReadContext = 1;
constexpr std::uint64_t kSendContext = 2;
constexpr std::uint64_t kAsideContext = 3;

// Between two requests that do nothing but report reads.
constexpr std::chrono::milliseconds kReportPause{100};

}  // namespace

ClientOptions ResolvedFor(const rdma::Address& address, ClientOptions options) {
  // Through mapped memory a READ is a copy: the look-up costs about what it saves (ARCHITECTURE.md).
  if (address.kind == rdma::TransportKind::kLocal && !options.location_cache_bytes) {
    options.location_cache_bytes = 0;
  }
  return options;
}

Session::Session(Dialer dialer, const ClientOptions& options, const Clock& clock)
    : clock_(clock),
      dialer_(std::move(dialer)),
      options_(options),
      locations_(options.location_cache_bytes.value_or(kDefaultLocationCacheBytes)),
      buffer_(kBufferSize + kAlignment) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Start(std::unique_ptr<rdma::Connection> connection,
                                                        Dialer dialer, const ClientOptions& options,
                                                        const Clock& clock) {
  std::unique_ptr<Session> session(new Session(std::move(dialer), options, clock));
  REMORA_ASSIGN_OR_RETURN(session->secret_, SecretOfToken(options.token));
  if (session->reconnects()) session->name_ = RandomClientId();
  REMORA_RETURN_IF_ERROR(session->OpenFirst(std::move(connection)));
  session->counters_ = {};
  return session;
}

Session::~Session() {
  if (connection_ != nullptr) connection_->Disconnect();
  for (RegisteredBuffer* const buffer : user_buffers_) {
    buffer->registration_.reset();
    buffer->session_ = nullptr;
  }
}

std::uint64_t Session::RandomClientId() {
  std::random_device device;
  std::uint64_t name = 0;
  while (name == 0) name = std::uint64_t{device()} << 32 | device();
  return name;
}

absl::Status Session::Register() {
  auto* const start = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(buffer_.data()) + kAlignment - 1) / kAlignment * kAlignment);
  REMORA_ASSIGN_OR_RETURN(registration_, connection_->RegisterMessages(std::span(start, kBufferSize)));
  for (std::uint64_t i = 0; i < kReceives; ++i) REMORA_RETURN_IF_ERROR(PostReceive(i));
  return OfferScanWindow();
}

absl::StatusOr<std::uint64_t> Session::OffsetOf(const BucketRef& bucket) {
  if (const std::uint64_t known = KnownOffsetOf(bucket)) return known;
  const DirectoryRange range = DirectoryAround(bucket);
  if (range.size == 0) return 0;
  REMORA_RETURN_IF_ERROR(Read(range.offset, kDirectoryOffset, range.size));
  TakeDirectory(range, registration_->bytes().subspan(kDirectoryOffset, range.size));
  return KnownOffsetOf(bucket);
}

Session::DirectoryRange Session::DirectoryAround(const BucketRef& bucket) const {
  const std::uint64_t index = bucket.number / kBucketsPerSegment;
  const std::uint64_t count = SegmentCount(shape_.memory_size);
  if (index >= count) return {};
  // The entries around it, too: those behind it come next.
  const std::uint64_t first = index / kDirectoryEntries * kDirectoryEntries;
  const std::uint64_t entries = std::min<std::uint64_t>(kDirectoryEntries, count - first);
  return {first, DirectoryOffset() + first * sizeof(std::uint64_t), entries * sizeof(std::uint64_t)};
}

void Session::TakeDirectory(const DirectoryRange& range, std::span<const std::byte> bytes) {
  const std::uint64_t entries = range.size / sizeof(std::uint64_t);
  if (bucket_offsets_.size() < range.first + entries) bucket_offsets_.resize(range.first + entries, 0);
  for (std::uint64_t i = 0; i < entries; ++i) {
    std::uint64_t entry = 0;
    std::memcpy(&entry, bytes.data() + i * sizeof(entry), sizeof(entry));
    const bool whole =
        DirectoryEntryIsWhole(entry) && DirectoryEntrySegment(entry) < SegmentCount(shape_.memory_size);
    if (whole) bucket_offsets_[range.first + i] = MainBucketPlace(entry, 0) * sizeof(Bucket);
  }
}

absl::StatusOr<const Superblock*> Session::ReadSuperblock() {
  REMORA_RETURN_IF_ERROR(Read(0, kSuperblockOffset, sizeof(Superblock)));
  return reinterpret_cast<const Superblock*>(registration_->bytes().data() + kSuperblockOffset);
}

void Session::Learn(std::uint64_t key_hash, const Slot& slot) {
  // Of a large value: the READ of a bucket is nothing beside it, and takes no look before it.
  if (!locations_.is_on() || slot.extent_bytes() > kMaxSmallExtent) return;
  const std::uint64_t segment = SegmentGenerations::SegmentOf(slot);
  if (SlotNamesPlace(slot, shape_.memory_size) && generations_->HasNumber(segment)) {
    locations_.Remember(key_hash, {EncodeSlot(slot), generations_->NumberOf(segment)});
  } else {
    locations_.Forget(key_hash);
  }
}

absl::Status Session::Read(std::uint64_t offset, std::size_t buffer_offset, std::size_t size) {
  if (ReadNow(registration_->bytes().subspan(buffer_offset, size), offset)) return absl::OkStatus();
  const rdma::Sge into = rdma::MakeSge(*registration_, buffer_offset, size);
  REMORA_RETURN_IF_ERROR(PostRead(std::span(&into, 1), offset));
  return AwaitRead();
}

absl::Status Session::PostRead(std::span<const rdma::Sge> to, std::uint64_t offset) {
  REMORA_RETURN_IF_ERROR(connection_->PostReadv(kReadContext, to, hello_.memory, offset));
  ++reads_under_way_;
  reads_done_ = false;
  ++counters_.reads;
  return absl::OkStatus();
}

absl::Status Session::PostFence() {
  const rdma::Sge into = SgeOf(record_buffer().first(sizeof(std::uint64_t)));
  return PostRead(std::span(&into, 1), 0);
}

std::span<std::byte> Session::bucket_buffer(std::size_t number) const {
  return registration_->bytes().subspan(kBucketOffset + number * sizeof(Bucket), sizeof(Bucket));
}

std::span<std::byte> Session::request_buffer(std::size_t number) const {
  return registration_->bytes().subspan(kRequestOffset + number * kRequestStride, sizeof(Request));
}

std::span<std::byte> Session::payload_buffer() const {
  return registration_->bytes().subspan(kPayloadOffset, kMaxPayloadSize);
}

absl::StatusOr<Session::Answer> Session::Call(Operation operation, std::string_view key,
                                              std::uint64_t key_hash, const SentValue& value,
                                              const PutOptions& options) {
  // The payload of the last request is ours again only at its SEND's completion, which may trail its reply.
  REMORA_RETURN_IF_ERROR(Await(send_done_));

  // What is refused all the same is not sent along.
  const bool has_payload = !is_read_only() || !NeedsWriter(operation);
  std::byte* const payload =
      registration_->bytes().data() + kPayloadOffset + (is_read_only() ? sizeof(Request) : 0);
  const std::size_t size = value.bytes.size();
  const std::size_t reads = has_payload ? reads_.Take(payload + key.size() + size) : 0;
  const std::size_t payload_size = has_payload ? key.size() + size + reads * sizeof(std::uint64_t) : 0;
  if (payload_size > 0) {
    const SgeList from = Fill({payload, payload_size}, key, value);
    if (!is_read_only()) REMORA_RETURN_IF_ERROR(PostWrite(from, hello_.slice, 0));
  }

  Request request = NextRequest(operation, key.size(), size);
  request.read_count = static_cast<std::uint8_t>(reads);
  request.ttl_ms = EncodeTtl(options.ttl);
  request.condition = options.condition.Encode();
  request.durability = EncodeDurability(options.durability);
  request.payload_checksum = PayloadChecksum(request, key_hash, HashValue(value.bytes.data(), size));
  return Exchange(request, is_read_only() ? payload_size : 0);
}

SgeList Session::Fill(std::span<std::byte> payload, std::string_view key, const SentValue& value) const {
  // What goes along with a request is in one piece.
  const bool gathers = value.is_gathered() && !is_read_only();
  if (!key.empty()) std::memcpy(payload.data(), key.data(), key.size());
  SgeList list;
  if (gathers) {
    list.Add(SgeOf(payload.first(key.size())));
    list.Add(value.sge());
    list.Add(SgeOf(payload.subspan(key.size() + value.bytes.size())));
    return list;
  }
  if (!value.bytes.empty()) {
    std::memcpy(payload.data() + key.size(), value.bytes.data(), value.bytes.size());
  }
  list.Add(SgeOf(payload));
  return list;
}

Request Session::NextRequest(Operation operation, std::size_t key_size, std::size_t value_size,
                             std::size_t ids) {
  last_request_id_ += ids;
  Request request;
  request.request_id = last_request_id_;
  request.value_size = static_cast<std::uint32_t>(value_size);
  request.key_size = static_cast<std::uint16_t>(key_size);
  request.operation = operation;
  return request;
}

absl::StatusOr<Session::Answer> Session::Exchange(const Request& request, std::size_t inline_size) {
  // As for the payload, of the request itself.
  REMORA_RETURN_IF_ERROR(Await(send_done_));
  const std::size_t at = inline_size > 0 ? kPayloadOffset : kRequestOffset;
  std::memcpy(registration_->bytes().data() + at, &request, sizeof(request));
  send_done_ = false;
  reply_done_ = false;
  const absl::Status sent =
      connection_->PostSend(kSendContext, rdma::MakeSge(*registration_, at, sizeof(request) + inline_size));
  if (!sent.ok()) return Break(sent);
  if (IsWrite(request.operation)) unacknowledged_write_ = request.request_id;
  ++counters_.requests;
  REMORA_RETURN_IF_ERROR(Await(reply_done_));
  if (IsWrite(request.operation)) unacknowledged_write_ = 0;

  Answer answer;
  REMORA_CHECK(FromBytes(std::span(reply_.data(), reply_size_), &answer.reply));  // Take saw to it
  answer.behind = std::string_view(reinterpret_cast<const char*>(reply_.data()) + sizeof(Reply),
                                   answer.reply.behind_size);
  return answer;
}

void Session::ReportReads() {
  const TimePoint now = clock_.Coarse();
  if (now - reads_reported_ < kReportPause) return;
  reads_reported_ = now;
  // If it fails, the next call says so.
  Call(Operation::kPing, {}, HashKey({}), {}).IgnoreError();
}

absl::Status Session::Await(const bool& done) {
  while (!done) {
    REMORA_ASSIGN_OR_RETURN(const std::size_t count, AwaitSome(completions_));
    for (std::size_t i = 0; i < count; ++i) REMORA_RETURN_IF_ERROR(Take(completions_[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> Session::AwaitSome(std::span<rdma::Completion> completions) {
  if (const std::size_t count = connection_->Poll(completions); count > 0) return count;
  if (!deadline_.has_value()) deadline_ = clock_.Now() + options_.timeout;
  absl::StatusOr<std::size_t> polled = rdma::PollUntil(*connection_, completions, *deadline_, spinner_);
  if (!polled.ok()) return Break(std::move(polled).status());
  return polled;
}

absl::Status Session::Take(const rdma::Completion& completion) {
  if (!completion.ok) return Break(connection_->status());
  switch (completion.kind) {
    case rdma::CompletionKind::kRead:
      reads_done_ = --reads_under_way_ == 0;
      return absl::OkStatus();
    case rdma::CompletionKind::kSend:
      (completion.context == kAsideContext ? aside_.sent : send_done_) = true;
      return absl::OkStatus();
    case rdma::CompletionKind::kReceive:
      break;
    case rdma::CompletionKind::kDisconnected:
      return Break(connection_->status());
  }
  // A reply. Copied out, so that its buffer can be offered again at once.
  const std::optional<Answer> answer = ReplyIn(completion);
  if (answer && TakeAside(answer->reply, answer->behind)) return PostReceive(completion.context);
  if (!answer || reply_done_ || answer->reply.request_id != last_request_id_) {
    return Break(absl::UnavailableError(AbslView(kStrayReply)));
  }
  reply_size_ = sizeof(Reply) + answer->behind.size();
  std::memcpy(reply_.data(), &answer->reply, sizeof(Reply));
  answer->behind.copy(reinterpret_cast<char*>(reply_.data()) + sizeof(Reply), answer->behind.size());
  reply_done_ = true;
  return PostReceive(completion.context);
}

std::optional<Session::Answer> Session::ReplyIn(const rdma::Completion& completion) {
  const std::byte* const message =
      registration_->bytes().data() + kRepliesOffset + completion.context * kReplyStride;
  Answer answer;
  if (!FromBytes(std::span(message, completion.byte_count), &answer.reply) ||
      answer.reply.behind_size > kMaxReplyBehind ||
      sizeof(Reply) + answer.reply.behind_size > completion.byte_count) {
    return std::nullopt;
  }
  answer.behind = {reinterpret_cast<const char*>(message) + sizeof(Reply), answer.reply.behind_size};
  // It goes from loading to loaded once: what is heard late is no less true.
  if ((answer.reply.flags & kLoading) == 0) store_is_loading_ = false;
  reads_.set_wanted((answer.reply.flags & ReplyFlag::kWantsReads) != 0);
  return answer;
}

absl::Status Session::Settle() {
  REMORA_RETURN_IF_ERROR(Await(send_done_));
  REMORA_RETURN_IF_ERROR(Await(aside_.sent));
  return Await(aside_.done);
}

absl::Status Session::PostAside(const Request& request) {
  // Its buffer is ours again at the last one's completion, which may trail the reply.
  REMORA_RETURN_IF_ERROR(Await(aside_.sent));
  std::memcpy(registration_->bytes().data() + kAsideOffset, &request, sizeof(request));
  aside_.id = request.request_id;
  aside_.sent = aside_.done = false;
  const absl::Status sent =
      connection_->PostSend(kAsideContext, rdma::MakeSge(*registration_, kAsideOffset, sizeof(request)));
  if (!sent.ok()) return Break(sent);
  ++counters_.requests;
  return absl::OkStatus();
}

absl::Status Session::PostReceive(std::uint64_t index) {
  return connection_->PostRecv(
      index, rdma::MakeSge(*registration_, kRepliesOffset + index * kReplyStride, kMaxReplySize));
}

absl::Status Session::Break(absl::Status cause) {
  if (cause.ok()) cause = absl::UnavailableError("the connection ended");
  if (broken_.ok()) {
    broken_ = absl::IsDeadlineExceeded(cause) || absl::IsCancelled(cause)
                  ? absl::UnavailableError(
                        "an earlier call on this connection got no answer in time; connect again")
                  : cause;
  }
  return cause;
}

}  // namespace remora
