#include "client/read_pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "store/base/status_macros.h"

namespace remora {
namespace {

// Bytes of a READ into the caller's memory: enough to keep a link busy while the piece before is hashed, and
// few enough that it is hashed out of the cache.
constexpr std::size_t kDirectPiece = std::size_t{256} << 10;

class PieceReader {
 public:
  PieceReader(Session& session, const WantedRecord& wanted, const ValueTarget& target)
      : session_(session),
        wanted_(wanted),
        target_(target),
        large_(wanted.slot.extent_bytes() > kMaxSmallExtent),
        first_segment_(Generations::SegmentOf(wanted.slot)),
        segment_count_((wanted.slot.extent_bytes() + kSegmentSize - 1) / kSegmentSize),
        scratch_(session.record_buffer()) {}

  absl::StatusOr<PiecesRead> Run();

 private:
  // A part of the value, and where it goes.
  struct Piece {
    std::span<std::byte> into;
    bool is_scratch = false;
  };

  absl::Status NoteGenerations();
  /// Header and key, and of the value what there is room for beside them.
  absl::Status ReadHead(std::size_t key_size);
  absl::StatusOr<RecordState> ReadAndJudgeValue(std::string_view stored_key);
  Piece NextPiece(std::size_t turn) const;
  absl::Status Post(const Piece& piece);
  void Take(const Piece& piece);
  /// P3.
  absl::StatusOr<bool> IsProven();

  std::size_t capacity() const { return target_.buffer == nullptr ? 0 : target_.buffer->bytes().size(); }

  Session& session_;
  const WantedRecord& wanted_;
  const ValueTarget& target_;
  const bool large_;
  const std::uint64_t first_segment_;
  const std::size_t segment_count_;
  const std::span<std::byte> scratch_;

  std::vector<std::byte> generations_;
  TimePoint looked_;
  RecordHeader header_{};
  bool keep_ = true;            // the value is the wanted key's
  std::uint64_t posted_ = 0;    // bytes of the value that were asked for
  std::size_t head_bytes_ = 0;  // of those, the ones that came with the head
  ValueHasher hasher_;
};

absl::StatusOr<PiecesRead> PieceReader::Run() {
  PiecesRead read;
  // Only a torn slot names a large record that does not begin a segment, or is larger than any.
  if (large_ && (wanted_.slot.offset_bytes() % kSegmentSize != 0 || segment_count_ > kMaxRunLength)) {
    return read;
  }
  if (large_) REMORA_RETURN_IF_ERROR(NoteGenerations());
  REMORA_RETURN_IF_ERROR(ReadHead(wanted_.key.size()));
  read.header = header_;
  // P1. Without the live bit a large record might still be whole, but nothing would show it.
  if (!SizesMatch(header_, wanted_.slot.extent_bytes())) return read;
  if (large_ && !session_.InTime(wanted_.learned)) return read;

  std::string_view stored_key(reinterpret_cast<const char*>(scratch_.data()) + sizeof(header_),
                              wanted_.key.size());
  std::string other_key;
  if (header_.key_size != wanted_.key.size() || stored_key != wanted_.key) {
    // Another key's: only its value's hash is of interest, and what there is of it is at another place.
    keep_ = false;
    REMORA_RETURN_IF_ERROR(ReadHead(header_.key_size));
    if (std::memcmp(&header_, &read.header, sizeof(header_)) != 0) return read;
    other_key.assign(reinterpret_cast<const char*>(scratch_.data()) + sizeof(header_), header_.key_size);
    stored_key = other_key;
  }
  REMORA_ASSIGN_OR_RETURN(read.state, ReadAndJudgeValue(stored_key));
  if (!large_ || session_.InTime(wanted_.learned)) return read;
  REMORA_ASSIGN_OR_RETURN(read.proven, IsProven());
  if (!read.proven) read.state = RecordState::kTorn;
  return read;
}

absl::Status PieceReader::NoteGenerations() {
  looked_ = session_.Coarse();
  REMORA_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                          session_.ReadGenerations(first_segment_, segment_count_));
  generations_.assign(bytes.begin(), bytes.end());
  return absl::OkStatus();
}

absl::StatusOr<bool> PieceReader::IsProven() {
  if ((header_.version_live & kLiveBit) == 0) return false;
  REMORA_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                          session_.ReadGenerations(first_segment_, segment_count_));
  return session_.Coarse() - looked_ <= session_.grace() * 256 &&
         std::equal(bytes.begin(), bytes.end(), generations_.begin(), generations_.end());
}

absl::Status PieceReader::ReadHead(std::size_t key_size) {
  const std::size_t head = sizeof(RecordHeader) + key_size;
  if (head > wanted_.slot.extent_bytes()) {  // of a torn slot
    header_ = {};
    return absl::OkStatus();
  }
  std::array<rdma::Sge, 2> into = {session_.SgeOf(scratch_.first(head))};
  std::size_t entries = 1;
  head_bytes_ = 0;
  if (keep_ && target_.buffer != nullptr) {
    head_bytes_ = std::min({static_cast<std::size_t>(wanted_.slot.extent_bytes()) - head, capacity(),
                            large_ ? kDirectPiece : kMaxSmallExtent});
    if (head_bytes_ > 0) into[entries++] = rdma::MakeSge(*target_.buffer, 0, head_bytes_);
  }
  REMORA_RETURN_IF_ERROR(session_.PostRead(std::span(into).first(entries), wanted_.slot.offset_bytes()));
  REMORA_RETURN_IF_ERROR(session_.AwaitRead());
  std::memcpy(&header_, scratch_.data(), sizeof(header_));
  return absl::OkStatus();
}

absl::StatusOr<RecordState> PieceReader::ReadAndJudgeValue(std::string_view stored_key) {
  // The pieces go where the key is.
  const std::string key(stored_key);
  if (keep_ && target_.text != nullptr) {
    target_.text->clear();
    target_.text->reserve(header_.value_size);
  }
  posted_ = std::min<std::uint64_t>(head_bytes_, header_.value_size);
  if (posted_ > 0) hasher_.Add(target_.buffer->bytes().data(), posted_);
  Piece under_way;
  for (std::size_t turn = 0;; ++turn) {
    session_.RestartDeadline();
    const Piece next = NextPiece(turn);
    REMORA_RETURN_IF_ERROR(session_.AwaitRead());
    if (!next.into.empty()) REMORA_RETURN_IF_ERROR(Post(next));
    Take(under_way);
    if (next.into.empty()) break;
    under_way = next;
  }
  return JudgeRecord(header_, key, hasher_.Hash(), wanted_.key, wanted_.key_hash, wanted_.place);
}

PieceReader::Piece PieceReader::NextPiece(std::size_t turn) const {
  const std::uint64_t left = header_.value_size - posted_;
  if (keep_ && posted_ < capacity()) {
    const std::uint64_t size = std::min<std::uint64_t>({left, capacity() - posted_, kDirectPiece});
    return {target_.buffer->bytes().subspan(posted_, size), false};
  }
  // While one half of the scratch memory is under way, what is in the other is used.
  const std::size_t half = scratch_.size() / 2;
  return {scratch_.subspan(turn % 2 * half, std::min<std::uint64_t>(left, half)), true};
}

absl::Status PieceReader::Post(const Piece& piece) {
  const std::uint64_t offset =
      wanted_.slot.offset_bytes() + sizeof(RecordHeader) + header_.key_size + posted_;
  const rdma::Sge into =
      piece.is_scratch
          ? session_.SgeOf(piece.into)
          : rdma::MakeSge(*target_.buffer,
                          static_cast<std::size_t>(piece.into.data() - target_.buffer->bytes().data()),
                          piece.into.size());
  posted_ += piece.into.size();
  return session_.PostRead(std::span(&into, 1), offset);
}

void PieceReader::Take(const Piece& piece) {
  hasher_.Add(piece.into.data(), piece.into.size());
  if (keep_ && target_.text != nullptr) {
    target_.text->append(reinterpret_cast<const char*>(piece.into.data()), piece.into.size());
  }
}

}  // namespace

absl::StatusOr<PiecesRead> ReadInPieces(Session& session, const WantedRecord& wanted,
                                        const ValueTarget& target) {
  return PieceReader(session, wanted, target).Run();
}

}  // namespace remora
