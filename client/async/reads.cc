#include "client/async/reads.h"

#include <span>
#include <utility>

#include "store/base/status_macros.h"

namespace remora {

void AsyncReads::Start(AsyncOperation& operation) {
  operation.lookup.Begin(connection_.session(), generation_read_,
                         {.key = operation.key,
                          .wants_value = operation.kind != AsyncOperation::Kind::kPresence,
                          .target = {.text = nullptr, .memory = MemoryOf(operation)},
                          .begins_fast = true});
  Advance(operation);
}

absl::StatusOr<bool> AsyncReads::Post() {
  if (!connection_.is_up()) return false;
  bool any = false;
  RegionReader& region = connection_.session().region();
  while (!readers_.empty() && (in_flight_ < kMaxReadsInFlight || readers_.front().lookup.is_look())) {
    AsyncOperation& operation = readers_.Pop();
    if (operation.lookup.is_look()) {
      operation.lookup.Look(buffers_.record(operation.index));
      Advance(operation);
      any = true;
      continue;
    }
    if (!Prepare(operation)) {
      large_readers_.Push(operation);
      continue;
    }
    operation.lookup.Posted();
    if (!operation.lookup.is_chunk() && region.ReadNow(operation.bytes, operation.lookup.offset())) {
      any = true;
      operation.lookup.Take(operation.bytes);
      Advance(operation);
      continue;
    }
    SgeList into;
    if (!operation.bytes.empty()) into.Add(buffers_.SgeOf(operation.bytes));
    into.Add(operation.lookup.direct());
    const absl::Status posted = operation.lookup.is_bucket() && region.finds()
                                    ? PostFind(operation)
                                    : region.Post(operation.index, into.entries(), operation.lookup.offset());
    operation.read_in_flight = posted.ok();
    if (!posted.ok()) return posted;
    ++in_flight_;
  }
  if (!failed_.ok()) return std::exchange(failed_, absl::OkStatus());
  return any;
}

/// READs the bucket, and the record to which it leads, if the operation's buffer holds that.
absl::Status AsyncReads::PostFind(AsyncOperation& operation) {
  operation.found = {};
  return connection_.session().region().PostFind(
      operation.index, buffers_.SgeOf(operation.bytes), buffers_.SgeOf(buffers_.record(operation.index)),
      operation.lookup.offset(), operation.lookup.key_hash(), &operation.found);
}

/// Finds a buffer for the operation's READ. Returns false if none is free now.
bool AsyncReads::Prepare(AsyncOperation& operation) {
  const std::size_t size = operation.lookup.size();
  if (operation.lookup.is_bucket()) {
    operation.bytes = buffers_.bucket(operation.index);
  } else if (size <= buffers_.record(operation.index).size()) {
    operation.bytes = buffers_.record(operation.index).first(size);
  } else {
    if (!TakeLargeBuffer(operation)) return false;
    operation.bytes = buffers_.large(operation.large_buffer).first(size);
  }
  return true;
}

void AsyncReads::Take(AsyncOperation& operation) {
  operation.read_in_flight = false;
  --in_flight_;
  const bool is_chunk = operation.lookup.is_chunk(), is_bucket = operation.lookup.is_bucket();
  // Also for an operation that has ended: all operations use the generations that it read.
  if (!is_chunk || !operation.ended) operation.lookup.Take(operation.bytes);
  if (is_bucket && !operation.ended && operation.found.size > 0) {
    operation.lookup.TakeFound(operation.found.offset,
                               buffers_.record(operation.index).first(operation.found.size));
  }
  // Large values arrive in parallel, and other operations go between their pieces.
  if (is_chunk) ReleaseLargeBuffer(operation);
  if (is_chunk && !operation.ended && operation.lookup.is_large() && !operation.lookup.is_told_again()) {
    operations_.Progress(operation);
  }
  if (!operation.ended) return Advance(operation);
  operation.lookup.Abandon();
  if (operation.id == 0) return Free(operation);
  operations_.EndIfMemoryIsFree(operation);
}

void AsyncReads::Abandon(AsyncOperation& operation) {
  // One in flight belongs to all lookups still: Take abandons the lookup.
  if (!operation.read_in_flight) operation.lookup.Abandon();
}

void AsyncReads::EndRead(AsyncOperation& operation) {
  if (operation.lookup.step() == Lookup::Step::kAsk) return askers_.Push(operation);
  if (!operations_.lease().Delays(operation)) EndLookup(operation);
}

void AsyncReads::EndLookup(AsyncOperation& operation) {
  const Lookup& lookup = operation.lookup;
  switch (lookup.step()) {
    case Lookup::Step::kMissing:
      return operations_.End(operation, absl::NotFoundError("no such key"));
    case Lookup::Step::kFailed:
      return operations_.End(operation, lookup.status());
    default:
      break;
  }
  // If the operation asked the server, the server knows of the read.
  if (!lookup.has_asked()) NoteRead(lookup.key_hash());
  operation.result.version = lookup.facts().version;
  operation.result.expiry_ms = lookup.facts().expiry_ms;
  if (operation.kind == AsyncOperation::Kind::kValue) {
    operation.result.value = lookup.value();
  } else if (operation.kind == AsyncOperation::Kind::kTtl && lookup.facts().expiry_ms != 0) {
    operation.result.ttl = connection_.session().server().TimeLeft(lookup.facts().expiry_ms);
  }
  operations_.End(operation, absl::OkStatus());
}

void AsyncReads::NoteRead(std::uint64_t key_hash) {
  Session& session = connection_.session();
  if (!session.access_hints().Note(key_hash)) return;
  if (!session.access_hints().TakeReport(session.Coarse())) return;
  // Without a credit, the next request of another operation takes the hashes along.
  failed_.Update(connection_.channel()
                     .Send({.operation = Operation::kPing, .key_hash = HashKey({})}, RequestChannel::kNoOwner)
                     .status());
}

void AsyncReads::Reset() {
  in_flight_ = 0;
  generation_read_ = {};
  failed_ = absl::OkStatus();
}

bool AsyncReads::TakeLargeBuffer(AsyncOperation& operation) {
  if (operation.large_buffer != OperationBuffers::kNone) return true;
  operation.large_buffer = buffers_.TakeLarge();
  return operation.large_buffer != OperationBuffers::kNone;
}

void AsyncReads::ReleaseLargeBuffer(AsyncOperation& operation) {
  if (operation.large_buffer == OperationBuffers::kNone) return;
  buffers_.ReturnLarge(std::exchange(operation.large_buffer, OperationBuffers::kNone));
  if (!large_readers_.empty()) readers_.Push(large_readers_.Pop());
}

absl::Status AsyncReads::PostFence(AsyncOperation& operation) {
  const rdma::Sge nowhere = buffers_.SgeOf(buffers_.record(operation.index).first(sizeof(std::uint64_t)));
  REMORA_RETURN_IF_ERROR(connection_.session().region().Post(operation.index, std::span(&nowhere, 1), 0));
  operation.read_in_flight = true;
  in_flight_ += kFencedWrite;
  return absl::OkStatus();
}

}  // namespace remora
