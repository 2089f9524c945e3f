#include "server/cluster/slot_sender.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rdma/address_list.h"
#include "store/base/absl_view.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/format/memory/hash.h"
#include "store/format/wire/messages.h"

namespace remora {
namespace {

constexpr std::chrono::seconds kConnectPatience{2};
constexpr std::chrono::seconds kAnswerPatience{10};
constexpr std::chrono::milliseconds kStatePause{2};
// The destination gives up a move of which it hears nothing for longer (SlotDestination::kPatience).
constexpr std::chrono::seconds kSignOfLife{1};
constexpr int kAnswerLookMs = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<SlotSender>> SlotSender::Start(FollowerAddress to,
                                                              const std::string& addresses, Copy copy) {
  REMORA_ASSIGN_OR_RETURN(std::vector<rdma::Address> all, rdma::ParseAddresses(addresses));
  rdma::UniqueFd file(::open(copy.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    return absl::UnavailableError(absl::StrCat("move: cannot open ", copy.path, ": ", std::strerror(errno)));
  }
  std::unique_ptr<SlotSender> sender(new SlotSender(std::move(to), std::move(copy), std::move(file)));
  REMORA_ASSIGN_OR_RETURN(sender->thread_, StartThread([&] {
                            return std::thread([one = sender.get(), all] { one->Run(all); });
                          }));
  return sender;
}

SlotSender::~SlotSender() {
  Stop(/*cancels=*/false);
  if (thread_.joinable()) thread_.join();
}

void SlotSender::Stop(bool cancels) {
  if (cancels) cancels_.store(true, std::memory_order_release);
  is_stopped_.store(true, std::memory_order_release);
}

absl::Status SlotSender::status() const {
  const MutexLock lock(mutex_);
  return fault_;
}

void SlotSender::Run(const std::vector<rdma::Address>& addresses) {
  absl::Status ended = Send(addresses);
  if (!ended.ok() && connection_ != nullptr) {
    ended = absl::Status(ended.code(), absl::StrCat("shard ", AbslView(to_.shard.name()), " (", address_,
                                                    "): ", ended.message()));
  }
  {
    const MutexLock lock(mutex_);
    fault_ = std::move(ended);
  }
  // So that the source can still say that the copy is not needed.
  while (!is_stopped()) clock_.Sleep(kStatePause);
  if (cancels_.load(std::memory_order_acquire) && connection_ != nullptr) {
    Call(absl::StrCat("cancel ", copy_.move)).status().IgnoreError();  // or the next move replaces it
  }
  connection_.reset();
  has_ended_.store(true, std::memory_order_release);
}

absl::Status SlotSender::Send(const std::vector<rdma::Address>& addresses) {
  REMORA_RETURN_IF_ERROR(Connect(addresses));
  REMORA_RETURN_IF_ERROR(Await("prepared").status());
  is_prepared_.store(true, std::memory_order_relaxed);
  REMORA_RETURN_IF_ERROR(SendFile());
  REMORA_RETURN_IF_ERROR(Call(absl::StrCat("confirm ", copy_.move)).status());
  REMORA_ASSIGN_OR_RETURN(const std::string text, Await("confirmed "));
  std::uint64_t epoch = 0;
  std::from_chars(text.data(), text.data() + text.size(), epoch);
  if (epoch == 0) return absl::InternalError("move: the destination confirms without an epoch");
  confirmed_.store(epoch, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status SlotSender::Connect(const std::vector<rdma::Address>& addresses) {
  std::string faults;
  for (const rdma::Address& address : addresses) {
    if (is_stopped()) return absl::CancelledError("move: it was given up");
    FollowerAddress to = to_;
    to.address = address;
    auto connection = FollowerConnection::Connect(to, clock_, clock_.Now() + kConnectPatience);
    absl::Status failed = connection.status();
    if (connection.ok()) {
      connection_ = *std::move(connection);
      address_ = address.ToString();
      failed =
          Call(absl::StrCat("take ", copy_.move, " ", copy_.epoch, " ", copy_.order), copy_.header).status();
      if (failed.ok()) return failed;
      connection_.reset();
    }
    absl::StrAppend(&faults, "; ", address.ToString(), ": ", failed.message());
  }
  return absl::UnavailableError(
      absl::StrCat("move: no member of shard ", AbslView(to_.shard.name()), " takes the slots", faults));
}

absl::Status SlotSender::SendFile() {
  const std::string command = absl::StrCat("part ", copy_.move, " ");
  // Behind a word of 20 digits, and a line's end.
  std::string part(connection_->slot_size() - command.size() - 24, '\0');
  TimePoint spoken = clock_.Now();
  for (;;) {
    if (is_stopped()) return absl::CancelledError("move: it was given up");
    const bool was_sealed = is_sealed_.load(std::memory_order_acquire);
    const auto at = static_cast<off_t>(sent());
    const ssize_t count = ::pread(file_.get(), part.data(), part.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(
          absl::StrCat("move: cannot read ", copy_.path, ": ", std::strerror(errno)));
    }
    if (count == 0 && was_sealed) return absl::OkStatus();
    if (count == 0) {
      if (clock_.Now() - spoken >= kSignOfLife) {
        REMORA_RETURN_IF_ERROR(Call(absl::StrCat("state ", copy_.move)).status());
        spoken = clock_.Now();
      }
      clock_.Sleep(kStatePause);
      continue;
    }
    const auto size = static_cast<std::size_t>(count);
    REMORA_RETURN_IF_ERROR(Call(absl::StrCat(command, at), std::string_view(part).substr(0, size)).status());
    sent_.store(sent() + size, std::memory_order_relaxed);
    spoken = clock_.Now();
  }
}

absl::StatusOr<std::string> SlotSender::Await(std::string_view state) {
  for (;;) {
    REMORA_ASSIGN_OR_RETURN(const std::string now, Call(absl::StrCat("state ", copy_.move)));
    if (absl::StartsWith(now, AbslView(state))) return now.substr(state.size());
    if (now == "none") {
      const absl::StatusOr<std::string> why = Call(absl::StrCat("why ", copy_.move));
      const bool is_known = why.ok() && *why != "unknown";
      return absl::AbortedError(absl::StrCat("it gave the move up: ", is_known ? *why : "its log says why"));
    }
    if (is_stopped()) return absl::CancelledError("move: it was given up");
    clock_.Sleep(kStatePause);
  }
}

absl::StatusOr<std::string> SlotSender::Call(std::string_view command, std::string_view bytes) {
  std::string payload(command);
  if (!bytes.empty()) payload.append("\n").append(bytes);
  Request request;
  request.request_id = ++last_request_;
  request.operation = Operation::kMove;
  request.value_size = static_cast<std::uint32_t>(payload.size());
  request.payload_checksum = PayloadChecksum(request, HashKey({}), HashValue(payload.data(), payload.size()));
  REMORA_RETURN_IF_ERROR(connection_->Send(0, request, payload));
  const TimePoint deadline = clock_.Now() + kAnswerPatience;
  while (clock_.Now() < deadline) {
    REMORA_ASSIGN_OR_RETURN(std::optional<FollowerConnection::Answer> answer, connection_->Poll());
    if (answer && answer->reply.request_id == last_request_) {
      if (answer->reply.status == ReplyStatus::kOk) return std::move(answer->text);
      return absl::FailedPreconditionError(answer->text);
    }
    if (!answer) connection_->Sleep(-1, kAnswerLookMs);
  }
  return absl::DeadlineExceededError("move: the destination does not answer");
}

}  // namespace remora
