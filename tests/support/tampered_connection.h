// A client's connection with somebody in between, who may hold back what came, or change the server's words.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rdma/transport.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Outlives the connection.
struct Tampering {
  /// Completions of READs come when this is false again, and all others behind them.
  bool hold_reads = false;
  bool hold_sends = false;  // likewise
  /// But not replies: they have a queue of their own.
  bool replies_overtake = false;
  /// May change what a READ brought before it is seen, unless empty.
  std::function<void(std::span<const rdma::Sge> came)> change_read;
  /// May change what a FIND brought before it is seen, unless empty.
  std::function<void(std::span<std::byte> bucket, std::span<std::byte> record, rdma::FoundRecord& found)>
      change_found;
  /// May change a reply before it is seen, unless empty.
  std::function<void(Reply&)> change_reply;
  /// May change the bytes behind the reply, unless empty.
  std::function<void(const Reply&, std::span<std::byte> behind)> change_behind;
  /// Called behind each WRITE, unless empty.
  std::function<void()> wrote;
  std::size_t held = 0;
  int connections = 0;               // that there are
  std::size_t reads = 0, finds = 0;  // that were posted
};

class TamperedConnection final : public rdma::ClientConnection {
 public:
  TamperedConnection(std::unique_ptr<rdma::ClientConnection> inner, Tampering& tampering)
      : inner_(std::move(inner)), tampering_(tampering) {
    ++tampering_.connections;
  }
  ~TamperedConnection() override { --tampering_.connections; }

  absl::StatusOr<std::unique_ptr<rdma::Registration>> RegisterMessages(std::span<std::byte> bytes) override {
    return inner_->RegisterMessages(bytes);
  }
  absl::StatusOr<std::unique_ptr<rdma::Registration>> RegisterWrite(rdma::SharedMemory& memory) override {
    return inner_->RegisterWrite(memory);
  }
  absl::Status OfferWrite(rdma::SharedMemory& memory) override { return inner_->OfferWrite(memory); }
  absl::Status Connect(std::span<const std::byte> request_data, TimePoint deadline) override {
    return inner_->Connect(request_data, deadline);
  }
  void Disconnect() override { inner_->Disconnect(); }
  std::span<const std::byte> peer_data() const override { return inner_->peer_data(); }

  absl::Status PostReadv(std::uint64_t context, std::span<const rdma::Sge> to, const RemoteRegion& region,
                         std::uint64_t offset) override {
    ++tampering_.reads;
    if (tampering_.change_read) reads_.emplace_back(to.begin(), to.end());
    const absl::Status posted = inner_->PostReadv(context, to, region, offset);
    if (posted.ok()) finds_.emplace_back();
    return posted;
  }
  bool finds() const override { return inner_->finds(); }
  absl::Status PostFind(std::uint64_t context, const rdma::Sge& bucket, const rdma::Sge& record,
                        const RemoteRegion& region, std::uint64_t offset, std::uint32_t fingerprint,
                        rdma::FoundRecord* found) override {
    ++tampering_.finds;
    const absl::Status posted = inner_->PostFind(context, bucket, record, region, offset, fingerprint, found);
    if (posted.ok()) finds_.push_back({bucket, record, found});
    return posted;
  }
  absl::Status PostWritev(std::span<const rdma::Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override {
    const absl::Status posted = inner_->PostWritev(from, region, offset);
    if (tampering_.wrote) tampering_.wrote();
    return posted;
  }
  absl::Status PostSend(std::uint64_t context, const rdma::Sge& from) override {
    return inner_->PostSend(context, from);
  }
  absl::Status PostRecv(std::uint64_t context, const rdma::Sge& into) override {
    receives_[context] = into;
    return inner_->PostRecv(context, into);
  }

  std::size_t Poll(std::span<rdma::Completion> out) override {
    const std::size_t came = inner_->Poll(out);
    for (std::size_t i = 0; i < came; ++i) {
      if (out[i].kind == rdma::CompletionKind::kReceive && out[i].ok && tampering_.change_reply) {
        Reply reply;
        std::memcpy(&reply, receives_[out[i].context].data, sizeof(reply));
        tampering_.change_reply(reply);
        std::memcpy(receives_[out[i].context].data, &reply, sizeof(reply));
      }
      if (out[i].kind == rdma::CompletionKind::kReceive && out[i].ok && tampering_.change_behind) {
        std::byte* const message = receives_[out[i].context].data;
        Reply reply;
        std::memcpy(&reply, message, sizeof(reply));
        tampering_.change_behind(reply, {message + sizeof(reply), out[i].byte_count - sizeof(reply)});
      }
      const bool is_find = out[i].kind == rdma::CompletionKind::kRead && TakeFind(out[i]);
      // READs complete in their order.
      if (out[i].kind == rdma::CompletionKind::kRead && !is_find && !reads_.empty()) {
        if (out[i].ok && tampering_.change_read) tampering_.change_read(reads_.front());
        reads_.pop_front();
      }
      waiting_.push_back(out[i]);
    }
    std::size_t count = 0;
    bool holds = false;
    for (auto next = waiting_.begin(); count < out.size() && next != waiting_.end();) {
      holds |= (tampering_.hold_reads && next->kind == rdma::CompletionKind::kRead) ||
               (tampering_.hold_sends && next->kind == rdma::CompletionKind::kSend);
      if (holds && !(tampering_.replies_overtake && next->kind == rdma::CompletionKind::kReceive)) {
        ++next;
        continue;
      }
      out[count++] = *next;
      next = waiting_.erase(next);
    }
    tampering_.held = waiting_.size();
    return count;
  }
  absl::Status Wait(TimePoint deadline) override { return inner_->Wait(deadline); }
  void Arm() override { inner_->Arm(); }
  void Disarm() override { inner_->Disarm(); }
  int wait_fd() const override { return inner_->wait_fd(); }
  const absl::Status& status() const override { return inner_->status(); }
  std::string peer() const override { return inner_->peer(); }

 private:
  struct PostedFind {
    rdma::Sge bucket, record;
    rdma::FoundRecord* found = nullptr;  // null: of a READ
  };

  /// Returns whether it is the completion of a FIND.
  bool TakeFind(const rdma::Completion& completion) {
    if (finds_.empty()) return false;
    const PostedFind came = finds_.front();
    finds_.pop_front();
    if (came.found == nullptr) return false;
    if (completion.ok && tampering_.change_found) {
      tampering_.change_found({came.bucket.data, came.bucket.size}, {came.record.data, came.found->size},
                              *came.found);
    }
    return true;
  }

  const std::unique_ptr<rdma::ClientConnection> inner_;
  Tampering& tampering_;
  std::map<std::uint64_t, rdma::Sge> receives_;
  std::deque<std::vector<rdma::Sge>> reads_;
  std::deque<PostedFind> finds_;  // READs and FINDs in the order in which they were posted, and complete
  std::deque<rdma::Completion> waiting_;
};

}  // namespace remora
