// Where a READ is a copy, the fast path (client/get/fast_get.h) answers nearly every GET. The other GETs
// begin a lookup (client/get/lookup.h) from scratch.
#include "client/get/blocking_get.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "client/get/chunked_read.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

absl::Status AskServer(Session& session, Lookup& lookup) {
  lookup.Asked();
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer,
                          session.calls().Call(Operation::kLocate, lookup.key(), lookup.key_hash(), {}));
  lookup.Take(answer, session.buffers().record());
  return absl::OkStatus();
}

/// READs the bucket of the lookup's step, and with it the record that its slot names, in one round trip.
absl::Status FindNext(Session& session, Lookup& lookup) {
  const std::span<std::byte> bucket = session.buffers().bucket(0), record = session.buffers().record();
  lookup.Posted();
  REMORA_RETURN_IF_ERROR(session.region().PostFind(
      session.buffers().SgeOf(bucket), session.buffers().SgeOf(record), lookup.offset(), lookup.key_hash()));
  REMORA_RETURN_IF_ERROR(session.calls().AwaitReads());
  lookup.Take(bucket);
  const rdma::FoundRecord& found = session.region().found();
  lookup.TakeFound(found.offset, record.first(std::min<std::size_t>(found.size, record.size())));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadNext(Session& session, Lookup& lookup) {
  if (lookup.is_all_chunks()) {
    REMORA_RETURN_IF_ERROR(ReadInChunks(session, lookup.chunks()));
    lookup.TakeChunks();
    return absl::OkStatus();
  }
  if (lookup.is_bucket() && session.region().finds()) return FindNext(session, lookup);
  const std::span<std::byte> buffer =
      lookup.is_bucket() ? session.buffers().bucket(0) : session.buffers().record().first(lookup.size());
  lookup.Posted();
  if (!session.region().ReadNow(buffer, lookup.offset())) {
    const rdma::Sge into = session.buffers().SgeOf(buffer);
    REMORA_RETURN_IF_ERROR(session.region().Post(std::span(&into, 1), lookup.offset()));
    REMORA_RETURN_IF_ERROR(session.calls().AwaitReads());
  }
  lookup.Take(buffer);
  return absl::OkStatus();
}

absl::Status Finish(Session& session, Lookup& lookup) {
  std::optional<TimePoint> first_asked;
  for (;;) {
    switch (lookup.step()) {
      case Lookup::Step::kRead:
        REMORA_RETURN_IF_ERROR(ReadNext(session, lookup));
        break;
      case Lookup::Step::kAsk: {
        const TimePoint now = session.Coarse();
        if (!first_asked) first_asked = now;
        if (now - *first_asked > session.calls().deadline().timeout()) {
          return absl::DeadlineExceededError(
              "get: each answer took longer than the server keeps memory for readers (its grace period); try "
              "again");
        }
        REMORA_RETURN_IF_ERROR(AskServer(session, lookup));
        break;
      }
      case Lookup::Step::kMissing:
        return absl::NotFoundError("no such key");
      case Lookup::Step::kFailed:
        return lookup.status();
      case Lookup::Step::kFound:
        // If the lookup asked the server, the server knows of this GET already.
        if (!lookup.has_asked()) session.NoteRead(lookup.key_hash());
        return absl::OkStatus();
    }
  }
}

absl::Status BlockingGets::Run(const LookupSpec& spec) {
  generation_read_ = {};
  lookup_.Begin(session_, generation_read_, spec);
  return Finish(session_, lookup_);
}

absl::Status BlockingGets::Get(std::string_view key, std::string* value, RecordFacts* facts) {
  REMORA_RETURN_IF_ERROR(Run({.key = key, .target = {.text = value, .memory = {}}, .drives_chunks = true}));
  lookup_.CopyToTarget();
  *facts = lookup_.facts();
  return absl::OkStatus();
}

absl::Status BlockingGets::Find(std::string_view key) {
  return Run({.key = key, .wants_value = false, .drives_chunks = true});
}

absl::StatusOr<std::size_t> BlockingGets::GetInto(std::string_view key, const rdma::Sge& memory,
                                                  RecordFacts* facts) {
  REMORA_RETURN_IF_ERROR(
      Run({.key = key, .target = {.text = nullptr, .memory = memory}, .drives_chunks = true}));
  *facts = lookup_.facts();
  return lookup_.value().size();
}

}  // namespace remora
