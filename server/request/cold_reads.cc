#include "server/request/cold_reads.h"

#include <cstdint>
#include <iterator>
#include <utility>

namespace remora {

namespace {

// Reads that the server thread does between two looks for those of the pool: less than 0.2 ms.
constexpr int kMostAtOnce = 16;

}  // namespace

ColdReads::ColdReads(ServerStore& store, std::unique_ptr<ColdReadPool> pool, TryReads tries)
    : store_(store), pool_(std::move(pool)), tries_(tries) {}

ColdReads::~ColdReads() { store_.Add(Metric::kColdReadsInFlight, -static_cast<std::int64_t>(in_flight_)); }

bool ColdReads::TryAtOnce(ColdRead* read) {
  if (tries_ == TryReads::kNever || left_in_step_ == 0 || !cached_.IsDue()) return false;
  --left_in_step_;
  if (!cached_.Note(store_.TryReadCold(read))) return false;
  store_.Add(Metric::kColdReadsAtOnce, 1);
  return true;
}

void ColdReads::Begin(std::unique_ptr<ColdRead> read) {
  ++in_flight_;
  store_.Add(Metric::kColdReadsInFlight, 1);
  pool_->Begin(std::move(read));
}

void ColdReads::Take(List* kind, List* done) {
  left_in_step_ = kMostAtOnce;
  if (in_flight_ > 0) pool_->TakeDone(&done_);
  for (std::unique_ptr<ColdRead>& read : done_) {
    --in_flight_;
    store_.Add(Metric::kColdReads, 1);
    store_.Add(Metric::kColdReadsInFlight, -1);
    store_.Record(Metric::kColdReadTime, read->took);
    (read->is_for_write ? for_writes_ : for_locates_).push_back(std::move(read));
  }
  done_.clear();
  done->insert(done->end(), std::make_move_iterator(kind->begin()), std::make_move_iterator(kind->end()));
  kind->clear();
}

}  // namespace remora
