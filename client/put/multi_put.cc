// PUTs of many keys in parallel. Small ones share messages (store/format/wire/multi_put.h). As many messages
// are in flight at once as there are credits and space in the staging buffer. The client sends them in order,
// and the server does them in that order.
#include "client/put/multi_put.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "client/put/put.h"
#include "client/rpc/request_channel.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

class PutMany {
 public:
  PutMany(Session& session, std::span<const PutRequest> requests, std::span<PutResult> results)
      : session_(session), channel_(session.channel()), requests_(requests), results_(results) {}

  absl::Status Run() {
    while (next_ < requests_.size() || !channel_.empty()) {
      REMORA_RETURN_IF_ERROR(SendSome());
      if (!channel_.empty()) REMORA_RETURN_IF_ERROR(TakeSome());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status SendSome() {
    for (; next_ < requests_.size(); ++next_) {
      const PutRequest& request = requests_[next_];
      if (!IsPending(results_[next_])) continue;
      if (request.value.size() > kMaxSmallValueSize) {
        // The parts of a large value take the whole staging buffer.
        if (!channel_.empty()) return absl::OkStatus();
        REMORA_RETURN_IF_ERROR(PutAlone(request, results_[next_]));
        continue;
      }
      const RequestChannel::List list = ListAt(next_);
      REMORA_ASSIGN_OR_RETURN(const bool sent, list.size() > 1 ? SendList(list) : SendOne(request));
      if (!sent) return absl::OkStatus();
      if (list.size() > 1) next_ += list.size() - 1;
    }
    return absl::OkStatus();
  }

  /// Returns the requests from there on that share one message: adjacent ones that are small and alike.
  RequestChannel::List ListAt(std::size_t first) const {
    RequestChannel::List list;
    for (std::size_t i = first; i < requests_.size() && IsPending(results_[i]); ++i) {
      const PutRequest& request = requests_[i];
      if (!list.Add(request.key, request.value, request.options, static_cast<std::uint32_t>(i))) break;
    }
    return list;
  }

  absl::StatusOr<bool> SendList(const RequestChannel::List& list) {
    REMORA_ASSIGN_OR_RETURN(const bool sent, channel_.SendList(list, RequestChannel::Listing::kWithoutIds));
    if (sent && session_.cache().locations().is_on()) {
      for (const auto& put : list.puts()) session_.cache().locations().Forget(HashKey(put.key));
    }
    return sent;
  }

  absl::StatusOr<bool> SendOne(const PutRequest& request) {
    const std::uint64_t key_hash = HashKey(request.key);
    REMORA_ASSIGN_OR_RETURN(const bool sent, channel_.Send({Operation::kPut, request.key, key_hash,
                                                            request.value, request.options, 0},
                                                           static_cast<std::uint32_t>(next_)));
    // Even if the write fails, the cached location may be obsolete.
    if (sent) session_.cache().locations().Forget(key_hash);
    return sent;
  }

  absl::Status PutAlone(const PutRequest& request, PutResult& result) {
    session_.calls().deadline().Restart();
    PutOptions options = request.options;
    options.version = &result.version;
    result.status = Put(session_, request.key, {request.value, {}}, options);
    if (result.status.ok() && request.options.version != nullptr) *request.options.version = result.version;
    session_.calls().deadline().Restart();
    return session_.endpoint().status();
  }

  absl::Status TakeSome() {
    return session_.calls().AwaitReplies([&](std::uint32_t number, const ServerReply& reply) {
      TakeOutcome(number, reply);
      session_.calls().deadline().Restart();
    });
  }

  void TakeOutcome(std::size_t number, const ServerReply& answer) {
    const PutRequest& request = requests_[number];
    PutResult& result = results_[number];
    result.status = ToStatus(answer);
    if (!result.status.ok()) return;
    result.version = answer.reply.version;
    if (request.options.version != nullptr) *request.options.version = result.version;
    if (session_.remembers()) {
      session_.Learn(HashKey(request.key), DecodeSlot(answer.reply.slot), MirrorFrames::Same::kReplace,
                     answer.refreshes);
    }
  }

  static bool IsPending(const PutResult& result) { return absl::IsUnknown(result.status); }

  Session& session_;
  RequestChannel& channel_;
  const std::span<const PutRequest> requests_;
  const std::span<PutResult> results_;
  std::size_t next_ = 0;
};

}  // namespace

absl::Status MultiPut(Session& session, std::span<const PutRequest> requests, std::span<PutResult> results) {
  // A placeholder: no write ends with it. Without a text it takes no memory.
  for (PutResult& result : results) {
    if (result.status.ok()) result.status = absl::UnknownError("");
  }
  absl::Status status = PutMany(session, requests, results).Run();
  if (status.ok()) return status;
  if (session.endpoint().status().ok()) status = session.endpoint().Break(status);
  for (PutResult& result : results) {
    if (absl::IsUnknown(result.status)) result.status = status;
  }
  return status;
}

}  // namespace remora
