#include "server/request/cold_reads.h"

#include <cstdint>
#include <iterator>
#include <utility>

namespace remora {

ColdReads::ColdReads(ServerStore& store, std::unique_ptr<ColdReadPool> pool)
    : store_(store), pool_(std::move(pool)) {}

ColdReads::~ColdReads() { store_.Add(Metric::kColdReadsInFlight, -static_cast<std::int64_t>(in_flight_)); }

void ColdReads::Begin(std::unique_ptr<ColdRead> read) {
  ++in_flight_;
  store_.Add(Metric::kColdReadsInFlight, 1);
  pool_->Begin(std::move(read));
}

void ColdReads::Take(List* kind, List* done) {
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
