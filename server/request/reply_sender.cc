#include "server/request/reply_sender.h"

#include "server/request/request_decoder.h"
#include "store/base/absl_view.h"

namespace remora {

void ReplySender::Send(ClientSession* session, Reply& reply, std::string_view behind) {
  if (session == nullptr) return;
  Complete(reply);
  const absl::Status sent = session->SendReply(reply, behind);
  if (!sent.ok()) acceptor_.Drop(&session->connection(), sent);
}

void ReplySender::SendValue(ClientSession& session, Reply& reply, std::string_view value) {
  Complete(reply);
  reply.flags |= ReplyFlag::kHasValue;
  const absl::Status sent = session.SendLongReply(reply, value);
  if (!sent.ok()) acceptor_.Drop(&session.connection(), sent);
}

void ReplySender::Complete(Reply& reply) {
  // Any moment between request and reply will do (client/session/server_clock.h).
  if (!reply_ms_) reply_ms_ = store_.clock().UnixMillis();
  reply.server_ms = *reply_ms_;
  reply.flags |= LoadingFlag(store_);
  if (store_.wants_reads()) reply.flags |= ReplyFlag::kWantsReads;
  ++expected_;
}

void ReplySender::Answer(const PendingRequest& pending, const absl::Status& status, Reply reply) {
  reply.request_id = pending.request.request_id;
  reply.status = ToReplyStatus(status);
  if (!status.ok()) reply.flags |= CauseFlags(status);
  if (reply.status == ReplyStatus::kInvalid) store_.Add(Metric::kRejectedRequests, 1);
  Send(pending.session, reply, StdView(status.message()));
}

}  // namespace remora
