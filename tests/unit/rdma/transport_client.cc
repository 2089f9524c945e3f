#include "tests/unit/rdma/transport_client.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "store/base/status_macros.h"
#include "tests/unit/rdma/patience.h"

namespace remora::rdma {
namespace {

std::string TextOf(std::span<const std::byte> bytes) {
  std::string text(bytes.size(), '\0');
  if (!bytes.empty()) std::memcpy(text.data(), bytes.data(), bytes.size());
  return text;
}

}  // namespace

std::string RegionText(std::uint64_t offset, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(PatternByte(offset + i));
  return text;
}

std::string CommandText(ServiceOp op, std::uint64_t a, std::uint64_t b) {
  const ServiceCommand command{.op = op, .a = a, .b = b};
  return TextOf(std::as_bytes(std::span(&command, 1)));
}

std::uint64_t NumberIn(std::string_view reply) {
  std::uint64_t number = 0;
  EXPECT_EQ(reply.size(), sizeof(number));
  std::memcpy(&number, reply.data(), std::min(reply.size(), sizeof(number)));
  return number;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Open(const Address& address, const Clock& clock,
                                                     const ClientOptions& options) {
  std::unique_ptr<Client> client(new Client(clock, options));
  REMORA_RETURN_IF_ERROR(client->Connect(address));
  return client;
}

absl::Status Client::Connect(const Address& address) {
  sends_at_ = options_.limits.receives * kMaxMessageSize;
  writes_at_ = sends_at_ + options_.limits.sends * kMaxMessageSize;
  reads_at_ = writes_at_ + kTestStagingSize;
  memory_.resize(reads_at_ + options_.read_buffer_size);
  const TimePoint deadline = clock_.Now() + kPatience;
  REMORA_ASSIGN_OR_RETURN(connection_, Dial(address, options_.limits, clock_, deadline, TestTls()));
  REMORA_ASSIGN_OR_RETURN(registration_, connection_->RegisterMessages(memory_));
  for (std::uint64_t i = 0; i < options_.limits.receives; ++i) REMORA_RETURN_IF_ERROR(PostReceive(i));
  if (options_.offered != nullptr) REMORA_RETURN_IF_ERROR(connection_->OfferWrite(*options_.offered));
  const std::string request = static_cast<char>(options_.mode) + options_.request_tail;
  REMORA_RETURN_IF_ERROR(connection_->Connect(BytesOf(request), deadline));
  if (connection_->peer_data().size() < kMaxAcceptData)
    return absl::InternalError("the accept data was cut short");
  std::memcpy(&welcome_, connection_->peer_data().data(), sizeof(welcome_));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Client::Read(std::uint64_t offset, std::initializer_list<std::size_t> sizes) {
  return ReadFrom(welcome_.region, offset, sizes);
}

absl::StatusOr<std::string> Client::ReadFrom(const RemoteRegion& region, std::uint64_t offset,
                                             std::initializer_list<std::size_t> sizes) {
  constexpr std::size_t kGap = 3;  // so that places are unaligned, too
  constexpr std::byte kUntouched{0xee};
  const std::span<std::byte> buffer = Buffer(reads_at_, options_.read_buffer_size);
  std::fill(buffer.begin(), buffer.end(), kUntouched);
  std::vector<Sge> to;
  std::size_t at = reads_at_ + kGap;
  for (const std::size_t size : sizes) {
    to.push_back(MakeSge(*registration_, at, size));
    at += size + kGap;
  }
  const std::size_t before = reads_ended_;
  REMORA_RETURN_IF_ERROR(connection_->PostReadv(0, to, region, offset));
  while (reads_ended_ == before) REMORA_RETURN_IF_ERROR(Advance());
  REMORA_RETURN_IF_ERROR(connection_->status());
  std::string joined;
  for (const Sge& sge : to) {
    joined += TextOf({sge.data, sge.size});
    EXPECT_EQ(sge.data[-1], kUntouched);
    EXPECT_EQ(sge.data[sge.size], kUntouched);
  }
  return joined;
}

absl::Status Client::PostRead(std::uint64_t offset, std::uint32_t size) {
  const Sge to = MakeSge(*registration_, reads_at_, size);
  return connection_->PostReadv(0, {&to, 1}, welcome_.region, offset);
}

absl::Status Client::Write(std::uint64_t offset, std::string_view bytes) {
  std::ranges::copy(BytesOf(bytes), Buffer(writes_at_ + offset, bytes.size()).begin());
  const Sge from = MakeSge(*registration_, writes_at_ + offset, bytes.size());
  return connection_->PostWritev({&from, 1}, welcome_.staging, offset);
}

absl::Status Client::WriteTo(const RemoteRegion& region, std::uint64_t offset, std::string_view bytes) {
  std::ranges::copy(BytesOf(bytes), Buffer(writes_at_, bytes.size()).begin());
  const Sge from = MakeSge(*registration_, writes_at_, bytes.size());
  return connection_->PostWritev({&from, 1}, region, offset);
}

absl::Status Client::Send(std::string_view message) {
  const std::size_t at = sends_at_ + sent_ % options_.limits.sends * kMaxMessageSize;
  std::ranges::copy(BytesOf(message), Buffer(at, message.size()).begin());
  REMORA_RETURN_IF_ERROR(connection_->PostSend(0, MakeSge(*registration_, at, message.size())));
  ++sent_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Client::Receive() {
  while (received_.empty()) REMORA_RETURN_IF_ERROR(Advance());
  std::string message = std::move(received_.front());
  received_.pop_front();
  return message;
}

absl::StatusOr<std::string> Client::Call(std::string_view message) {
  REMORA_RETURN_IF_ERROR(Send(message));
  return Receive();
}

std::size_t Client::Poll() {
  std::array<Completion, 8> completions;
  const std::size_t count = connection_->Poll(completions);
  for (std::size_t i = 0; i < count; ++i) Note(completions[i]);
  return count;
}

absl::Status Client::AwaitReads(std::size_t count) {
  for (const std::size_t until = reads_ended_ + count; reads_ended_ < until;) {
    REMORA_RETURN_IF_ERROR(Advance());
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Status> Client::AwaitDisconnect() {
  while (disconnects_ == 0) REMORA_RETURN_IF_ERROR(Advance());
  for (int i = 0; i < 100; ++i) Poll();
  EXPECT_EQ(disconnects_, 1);
  EXPECT_EQ(after_disconnect_, 0) << "completions after kDisconnected";
  return connection_->status();
}

absl::Status Client::PostReceive(std::uint64_t index) {
  return connection_->PostRecv(index,
                               MakeSge(*registration_, index * kMaxMessageSize, options_.receive_size));
}

absl::Status Client::Advance() {
  if (disconnects_ > 0) return connection_->status();
  std::array<Completion, 8> completions;
  REMORA_ASSIGN_OR_RETURN(const std::size_t count,
                          PollUntil(*connection_, completions, clock_.Now() + kPatience, spinner_));
  EXPECT_GT(count, 0u);
  for (std::size_t i = 0; i < count; ++i) Note(completions[i]);
  return absl::OkStatus();
}

void Client::Note(const Completion& completion) {
  EXPECT_EQ(completion.connection, connection_.get());
  if (disconnects_ > 0) ++after_disconnect_;
  if (completion.kind == CompletionKind::kDisconnected) ++disconnects_;
  if (completion.kind == CompletionKind::kRead) ++reads_ended_;
  if (!completion.ok && completion.kind != CompletionKind::kDisconnected) {
    EXPECT_FALSE(connection_->status().ok()) << "a request failed, and the connection says it is fine";
  }
  if (completion.kind != CompletionKind::kReceive || !completion.ok) return;
  received_.push_back(TextOf(Buffer(completion.context * kMaxMessageSize, completion.byte_count)));
  PostReceive(completion.context).IgnoreError();  // broken: kDisconnected will follow
}

}  // namespace remora::rdma
