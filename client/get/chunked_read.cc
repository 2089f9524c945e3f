#include "client/get/chunked_read.h"

#include <algorithm>
#include <cstring>

#include "store/base/status_macros.h"

namespace remora {
namespace {

// The size in bytes of a READ into the caller's memory. It keeps a link busy while the reader hashes the
// piece before, and is small enough that the reader finds the piece in the cache.
constexpr std::size_t kDirectPiece = std::size_t{256} << 10;

/// Returns the bytes of the value that the READ would bring, where this process maps them. Empty: it does
/// not.
std::span<const std::byte> MappedValue(const Session& session, const ChunkRead& read) {
  const RegionReader& region = session.region();
  if (!read.is_of_value || !region.reads_now()) return {};
  const std::byte* const bytes = region.At(read.offset, read.scratch_size);
  return {bytes, bytes == nullptr ? 0 : read.scratch_size};
}

/// Has `pieces` hash and copy the bytes where they are. The server may be writing them. Then memory was
/// reused, and the reader's result says so.
absl::Status TakeMapped(Session& session, std::span<const std::byte> mapped, ChunkedReader& pieces) {
  pieces.Take(mapped);
  ++session.counters().reads;
  if (session.region().ServerIsAlive()) return absl::OkStatus();
  // The bytes count if the server lives after all, which a READ behind them shows.
  session.calls().deadline().Restart();
  REMORA_RETURN_IF_ERROR(session.region().PostFence());
  return session.calls().AwaitReads();
}

}  // namespace

ChunkedReader::ChunkedReader(Session& session, const WantedRecord& wanted, const ValueTarget& target)
    : session_(session),
      wanted_(wanted),
      target_(target),
      large_(wanted.slot.extent_bytes() > kMaxSmallExtent),
      head_key_size_(wanted.key.size()) {
  if (!large_) return;
  // Only a torn slot names a large record that does not begin a page, or exceeds the largest one.
  const bool may_be =
      wanted_.slot.offset_bytes() % kPageSize == 0 && wanted_.slot.extent_bytes() <= kMaxLargeBytes;
  phase_ = may_be ? Phase::kBeginning : Phase::kDone;
}

std::optional<ChunkRead> ChunkedReader::Next() {
  if (phase_ == Phase::kDone || posted_ - taken_ == in_flight_.size()) return std::nullopt;
  if (phase_ != Phase::kValue && posted_ != taken_) return std::nullopt;
  std::optional<ChunkRead> next;
  switch (phase_) {
    case Phase::kBeginning:
      beginning_read_at_ = session_.Coarse();
      [[fallthrough]];
    case Phase::kProof:
      next = BeginningRead();
      break;
    case Phase::kHead:
    case Phase::kOtherHead:
      next = HeadRead();
      break;
    default:
      next = NextOfValue();
  }
  if (next) in_flight_[posted_++ % in_flight_.size()] = *next;
  return next;
}

void ChunkedReader::Take(std::span<const std::byte> scratch) {
  const ChunkRead read = in_flight_[taken_++ % in_flight_.size()];
  switch (phase_) {
    case Phase::kBeginning:
      beginning_ = scratch.front();
      phase_ = Phase::kHead;
      return;
    case Phase::kProof:
      return TakeProof(scratch);
    case Phase::kHead:
    case Phase::kOtherHead:
      head_direct_ = read.direct;
      return TakeHead(scratch);
    default:
      break;
  }
  const std::span<const std::byte> bytes =
      read.direct.size == 0 ? scratch : std::span<const std::byte>(read.direct.data, read.direct.size);
  hasher_.Add(bytes.data(), bytes.size());
  if (keep_ && target_.text != nullptr) {
    target_.text->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (asked_for_ == header_.value_size && posted_ == taken_) EndValue(hasher_.Hash());
}

ChunkRead ChunkedReader::BeginningRead() const {
  return {BeginningOffset(session_.server().shape().memory_size, wanted_.slot.offset_bytes()), 0, 1};
}

rdma::Sge ChunkedReader::Direct(std::size_t offset, std::size_t size) const {
  if (capacity() == 0) return {};
  const std::size_t most = std::min(size, capacity() - offset);
  return {target_.memory->data + offset, static_cast<std::uint32_t>(most), target_.memory->local_key};
}

/// Returns the READ of header, key, and as much of the value as goes to the caller's memory with them.
ChunkRead ChunkedReader::HeadRead() {
  const std::size_t head =
      std::min<std::size_t>(sizeof(RecordHeader) + head_key_size_, wanted_.slot.extent_bytes());
  ChunkRead read{wanted_.slot.offset_bytes(), 0, head};
  if (phase_ == Phase::kHead) {
    read.direct = Direct(0, std::min(static_cast<std::size_t>(wanted_.slot.extent_bytes()) - head,
                                     large_ ? kDirectPiece : kMaxSmallExtent));
  }
  return read;
}

void ChunkedReader::TakeHead(std::span<const std::byte> scratch) {
  const bool is_first = phase_ == Phase::kHead;
  phase_ = Phase::kDone;
  if (scratch.size() < sizeof(RecordHeader) + head_key_size_) return;  // the slot was torn
  std::memcpy(&header_, scratch.data(), sizeof(header_));
  const std::string_view stored_key(reinterpret_cast<const char*>(scratch.data()) + sizeof(header_),
                                    head_key_size_);
  if (!is_first) {
    if (std::memcmp(&header_, &read_.header, sizeof(header_)) == 0) BeginValue(stored_key);
    return;
  }
  read_.header = header_;
  // P1. EndValue checks the live bit: a large record without it may be whole, but nothing proves that.
  if (!SizesMatch(header_, wanted_.slot.extent_bytes())) return;
  if (large_ && !session_.server().InTime(wanted_.learned)) return;
  keep_ = header_.key_size == wanted_.key.size() && stored_key == wanted_.key;
  if (keep_) return BeginValue(stored_key);
  // The record is another key's. The reader needs only the hash of its value, and must read the head again,
  // because this key has another size.
  head_key_size_ = header_.key_size;
  phase_ = Phase::kOtherHead;
}

void ChunkedReader::BeginValue(std::string_view stored_key) {
  phase_ = Phase::kValue;
  if (!keep_) key_.assign(stored_key);
  if (keep_ && target_.text != nullptr) {
    target_.text->clear();
    target_.text->reserve(header_.value_size);
  }
  asked_for_ = keep_ ? std::min<std::uint64_t>(head_direct_.size, header_.value_size) : 0;
  if (asked_for_ == header_.value_size) return EndValue(HashValue(head_direct_.data, asked_for_));
  if (asked_for_ > 0) hasher_.Add(head_direct_.data, asked_for_);
}

std::optional<ChunkRead> ChunkedReader::NextOfValue() {
  const std::uint64_t left = header_.value_size - asked_for_;
  if (left == 0) return std::nullopt;
  ChunkRead read{wanted_.slot.offset_bytes() + sizeof(RecordHeader) + header_.key_size + asked_for_,
                 posted_ % 2, 0};
  if (keep_ && asked_for_ < capacity()) {
    read.direct = Direct(asked_for_, std::min<std::uint64_t>(left, kDirectPiece));
    asked_for_ += read.direct.size;
  } else {
    read.scratch_size = std::min<std::uint64_t>(left, kPieceHalf);
    read.is_of_value = true;
    asked_for_ += read.scratch_size;
  }
  return read;
}

void ChunkedReader::EndValue(std::uint64_t value_hash) {
  const std::string_view key = keep_ ? wanted_.key : key_;
  read_.state = JudgeRecord(header_, key, value_hash, wanted_.key, wanted_.key_hash, wanted_.place);
  phase_ = Phase::kDone;
  if (!large_ || session_.server().InTime(wanted_.learned)) return;
  if ((header_.version_live & kLiveBit) != 0) {
    phase_ = Phase::kProof;
  } else {
    read_.state = RecordState::kTorn;
  }
}

/// Checks P3.
void ChunkedReader::TakeProof(std::span<const std::byte> scratch) {
  read_.proven = session_.Coarse() - beginning_read_at_ <= session_.server().grace() * 256 &&
                 scratch.front() == beginning_;
  if (!read_.proven) read_.state = RecordState::kTorn;
  phase_ = Phase::kDone;
}

absl::Status ReadInChunks(Session& session, ChunkedReader& pieces) {
  std::span<std::byte> arrived;  // bytes of a READ that is complete and not taken
  bool has_arrived = false;
  while (!pieces.done()) {
    const std::optional<ChunkRead> next = pieces.Next();
    const std::span<const std::byte> mapped =
        next ? MappedValue(session, *next) : std::span<const std::byte>();
    std::span<std::byte> into;
    if (next && mapped.empty()) {
      session.calls().deadline().Restart();
      into = session.buffers().record().subspan(next->half * kPieceHalf, next->scratch_size);
      SgeList list;
      list.Add(session.buffers().SgeOf(into));
      list.Add(next->direct);
      REMORA_RETURN_IF_ERROR(session.region().Post(list.entries(), next->offset));
    }
    if (has_arrived) pieces.Take(arrived);
    has_arrived = next.has_value() && mapped.empty();
    if (!mapped.empty()) REMORA_RETURN_IF_ERROR(TakeMapped(session, mapped, pieces));
    if (!has_arrived) continue;
    REMORA_RETURN_IF_ERROR(session.calls().AwaitReads());
    arrived = into;
  }
  return absl::OkStatus();
}

absl::StatusOr<ChunksRead> ReadInChunks(Session& session, const WantedRecord& wanted,
                                        const ValueTarget& target) {
  ChunkedReader pieces(session, wanted, target);
  REMORA_RETURN_IF_ERROR(ReadInChunks(session, pieces));
  return pieces.result();
}

}  // namespace remora
