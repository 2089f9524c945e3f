#include "server/request/parked_writes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace remora {
namespace {

/// D10.
bool MayBeKept(std::size_t bytes) { return bytes <= kMaxKeptBytes; }

}  // namespace

void ParkedWrites::ParkBehind(PendingRequest& pending, std::span<const Write> writes) {
  ClientSession* const session = pending.session;
  BeginReads(pending, 0, writes);
  queues_[session].requests.push_back(std::move(pending));
}

void ParkedWrites::Park(PendingRequest& pending, std::size_t first, std::span<const Write> writes) {
  ClientSession* const session = pending.session;
  if (pending.reads == nullptr) pending.reads = std::make_shared<WriteReads>();
  if (std::ranges::any_of(writes, &Write::needs_read)) ++pending.reads->times_put_off;
  BeginReads(pending, first, writes);
  kept_bytes_ += BytesOf(*pending.reads);
  if (!MayBeKept(kept_bytes_)) {
    kept_bytes_ -= BytesOf(*pending.reads);
    pending.reads->results.clear();
    pending.reads->results.resize(first + writes.size());
  }
  Queue& queue = queues_[session];
  if (std::exchange(queue.group, group_) != group_) queue.in_front = 0;
  queue.requests.insert(queue.requests.begin() + static_cast<std::ptrdiff_t>(queue.in_front++),
                        std::move(pending));
  List(session, &queue);
}

void ParkedWrites::BeginReads(PendingRequest& pending, std::size_t first, std::span<const Write> writes) {
  if (pending.reads == nullptr) pending.reads = std::make_shared<WriteReads>();
  WriteReads& reads = *pending.reads;
  reads.session = pending.session;
  reads.results.resize(first + writes.size());
  if (reads.times_put_off >= kMaxColdReadBegins) return;  // D9
  begun_.clear();
  store_.BeginReads(writes, &begun_);
  const bool is_repeated = reads.times_put_off > 1;
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    if (begun_[i] == nullptr) continue;
    reads.results[first + i] = nullptr;
    if (is_repeated) store_.Add(Metric::kColdReadsRepeated, 1);
    if (MayBeKept(kept_bytes_) && reads_.TryAtOnce(begun_[i].get())) {
      kept_bytes_ += begun_[i]->value.size();
      reads.results[first + i] = std::move(begun_[i]);
      continue;
    }
    ++reads.in_flight;
    awaited_.emplace(begun_[i].get(), Awaited{pending.reads, first + i});
    reads_.Begin(std::move(begun_[i]));
  }
}

void ParkedWrites::Release(std::size_t most, std::vector<PendingRequest>* requests) {
  ++group_;
  TakeDone();
  std::size_t left = 0;
  for (ClientSession* const session : ready_) {
    Queue& queue = queues_.at(session);
    while (!queue.requests.empty() && IsReady(queue.requests.front()) && requests->size() < most) {
      kept_bytes_ -= BytesOf(*queue.requests.front().reads);
      requests->push_back(std::move(queue.requests.front()));
      queue.requests.pop_front();
    }
    if (queue.requests.empty()) {
      queues_.erase(session);
    } else if (IsReady(queue.requests.front())) {
      ready_[left++] = session;  // the group is full
    } else {
      queue.is_listed = false;
    }
  }
  ready_.resize(left);
}

void ParkedWrites::TakeDone() {
  done_.clear();
  reads_.TakeForWrites(&done_);
  for (std::unique_ptr<ColdRead>& read : done_) {
    auto node = awaited_.extract(read.get());
    WriteReads& reads = *node.mapped().of;
    --reads.in_flight;
    if (reads.session == nullptr) continue;  // it is gone
    const std::size_t bytes = read->value.size();
    if (MayBeKept(kept_bytes_ + bytes) || IsNext(reads)) {
      kept_bytes_ += bytes;
      reads.results[node.mapped().number] = std::move(read);
    }
    if (reads.in_flight == 0) List(reads.session, &queues_.at(reads.session));
  }
  done_.clear();
}

void ParkedWrites::List(ClientSession* session, Queue* queue) {
  if (!IsReady(queue->requests.front()) || std::exchange(queue->is_listed, true)) return;
  ready_.push_back(session);
}

bool ParkedWrites::IsNext(const WriteReads& reads) const {
  return reads.in_flight == 0 && queues_.at(reads.session).requests.front().reads.get() == &reads;
}

std::size_t ParkedWrites::BytesOf(const WriteReads& reads) {
  std::size_t bytes = 0;
  for (const std::unique_ptr<ColdRead>& read : reads.results) {
    if (read != nullptr) bytes += read->value.size();
  }
  return bytes;
}

void ParkedWrites::Forget(ClientSession& session) {
  const auto found = queues_.find(&session);
  if (found == queues_.end()) return;
  for (const PendingRequest& pending : found->second.requests) {
    kept_bytes_ -= BytesOf(*pending.reads);
    pending.reads->session = nullptr;
  }
  queues_.erase(found);
  std::erase(ready_, &session);
}

}  // namespace remora
