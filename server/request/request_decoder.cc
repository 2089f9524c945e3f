#include "server/request/request_decoder.h"

#include <optional>

#include "store/base/check.h"
#include "store/base/moved.h"
#include "store/base/shortage.h"
#include "store/format/wire/multi_put.h"
#include "store/format/wire/write_batch.h"

namespace remora {

bool Validate(const Request& request) {
  const auto ttl = DecodeTtl(request.ttl_ms);
  if ((ttl && !IsTtl(*ttl)) || !Condition::Decode(request.condition).IsValid()) return false;
  if (!IsDurability(DecodeDurability(request.durability))) return false;
  switch (request.operation) {
    case Operation::kPut:
    case Operation::kAppend:
      return true;
    case Operation::kIncrement:
      return request.value_size == sizeof(std::int64_t);
    case Operation::kFinishLargePut:
      return request.payload_offset == 0;
    case Operation::kDelete:
      return request.value_size == 0 && !ttl;
    case Operation::kTouch:
      return request.value_size == 0;
    case Operation::kBatch:
      return request.key_size == 0 && request.value_size > 0 && request.value_size <= kMaxBatchBytes &&
             !ttl && request.condition == 0;
    case Operation::kMultiPut:
      return request.key_size == 0 && request.value_size > 0 && request.value_size <= kMaxMultiPutBytes &&
             request.put_count <= kMaxPutsPerMessage && !ttl && request.condition == 0 &&
             (request.put_ids == 0 || request.put_ids == request.put_count);
    default:
      return false;
  }
}

Write::Kind ToWriteKind(Operation operation) {
  switch (operation) {
    case Operation::kPut:
    case Operation::kFinishLargePut:
      return Write::Kind::kPut;
    case Operation::kDelete:
      return Write::Kind::kDelete;
    case Operation::kTouch:
      return Write::Kind::kTouch;
    case Operation::kIncrement:
      return Write::Kind::kIncrement;
    default:
      REMORA_CHECK(operation == Operation::kAppend);
      return Write::Kind::kAppend;
  }
}

std::size_t AddBatch(std::string_view bytes, std::vector<Write>* writes) {
  const std::size_t before = writes->size();
  while (!bytes.empty()) {
    const std::optional<BatchWrite> write = TakeBatchWrite(&bytes);
    if (!write || writes->size() - before == kMaxBatchWrites) {
      writes->resize(before);
      return 0;
    }
    AddWrite(*write, writes).continues_batch = true;
  }
  const std::size_t count = writes->size() - before;
  if (count > 0) writes->back().continues_batch = false;
  return count;
}

std::size_t AddMultiPut(std::string_view bytes, std::size_t count, std::size_t done,
                        std::vector<Write>* writes) {
  const std::size_t before = writes->size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<BatchWrite> put = TakeBatchWrite(&bytes);
    if (!put || put->entry.kind != BatchKind::kPut) {
      writes->resize(before);
      return 0;
    }
    if (i < done) continue;
    AddWrite(*put, writes);
  }
  if (!bytes.empty()) writes->resize(before);
  return writes->size() - before;
}

bool VerifyPayload(const void* context, std::uint64_t key_hash, std::uint64_t value_hash) {
  const auto& request = *static_cast<const Request*>(context);
  return PayloadChecksum(request, key_hash, value_hash) == request.payload_checksum;
}

absl::Status NeedsWriterError() {
  return absl::UnauthenticatedError("write: the client's token is for reading alone; nothing was done");
}

ReplyStatus ToReplyStatus(const absl::Status& status) {
  if (status.ok()) return ReplyStatus::kOk;
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return ReplyStatus::kNotFound;
    case absl::StatusCode::kDataLoss:
      return ReplyStatus::kCorrupt;
    case absl::StatusCode::kResourceExhausted:
      return ReplyStatus::kFull;
    case absl::StatusCode::kInvalidArgument:
      return ReplyStatus::kInvalid;
    case absl::StatusCode::kAlreadyExists:
      return ReplyStatus::kAlreadyExists;
    case absl::StatusCode::kFailedPrecondition:
      return IsMoved(status) ? ReplyStatus::kMoved : ReplyStatus::kFailedPrecondition;
    case absl::StatusCode::kOutOfRange:
      return ReplyStatus::kOutOfRange;
    case absl::StatusCode::kUnauthenticated:
      return ReplyStatus::kPermissionDenied;
    default:
      return ReplyStatus::kDurableTier;
  }
}

std::uint16_t CauseFlags(const absl::Status& status) {
  return static_cast<std::uint16_t>((IsShortage(status) ? ReplyFlag::kShortage : 0) |
                                    (IsDiskFailure(status) ? ReplyFlag::kDisk : 0));
}

}  // namespace remora
