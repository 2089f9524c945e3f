#include "rdma/tcp/server/server.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/tcp/server/listener.h"
#include "store/base/check.h"

namespace remora::rdma {
namespace {

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using ZeroedBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// Registration of memory for messages. Over TCP, no device needs to know of it.
class TcpMessages final : public Registration {
 public:
  explicit TcpMessages(std::span<std::byte> bytes) : Registration(bytes, kTcpLocalKey, {}) {}
  static constexpr std::uint32_t kTcpLocalKey = 1;
};

/// Registration of memory that the peer may WRITE until this is destroyed.
class TcpGrant final : public Registration {
 public:
  TcpGrant(std::shared_ptr<TcpLink> link, std::uint32_t key, std::span<std::byte> bytes, ZeroedBytes own)
      : Registration(bytes, TcpMessages::kTcpLocalKey,
                     {.address = kTcpWriteAddress, .size = bytes.size(), .key = key}),
        link_(std::move(link)),
        own_(std::move(own)) {
    link_->AddWrite(key, kTcpWriteAddress, bytes);
  }
  ~TcpGrant() override { link_->Deregister(remote().key); }

 private:
  const std::shared_ptr<TcpLink> link_;
  const ZeroedBytes own_;  // null: the caller owns the bytes
};

}  // namespace

TcpServer::TcpServer(TcpListener& listener, TcpRequest request)
    : listener_(listener),
      peer_(request.peer.ToString()),
      link_(std::make_shared<TcpLink>(std::move(request.socket), listener.limits(), listener.events(),
                                      std::move(request.tls))),
      peer_data_(request.hello.data, request.hello.data + request.hello.data_size) {
  listener_.Add();
}

TcpServer::~TcpServer() {
  link_->End();
  if (nic_ != nullptr) nic_->Forget(link_.get());
  listener_.Remove();
}

absl::Status TcpServer::Note(absl::Status posted) {
  if (!posted.ok()) NoteFailure();
  return posted;
}

void TcpServer::NoteFailure() {
  if (status_.ok()) status_ = link_->failure();
}

// --- Memory -----------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Registration>> TcpServer::RegisterMessages(std::span<std::byte> bytes) {
  return std::make_unique<TcpMessages>(bytes);
}

absl::StatusOr<std::unique_ptr<Registration>> TcpServer::ProvideWrite(std::string_view, std::size_t size) {
  if (answered_) return absl::FailedPreconditionError("provide memory: ProvideWrite comes before Accept");
  ZeroedBytes bytes(static_cast<std::byte*>(std::calloc(size, 1)));
  if (bytes == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("provide memory: no memory of ", size, " bytes for a connection"));
  }
  const std::span<std::byte> all(bytes.get(), size);
  return std::make_unique<TcpGrant>(link_, listener_.NextKey(), all, std::move(bytes));
}

absl::StatusOr<std::unique_ptr<Registration>> TcpServer::GrantWrite(SharedMemory& memory, std::size_t offset,
                                                                    std::size_t size) {
  if (nic_ == nullptr) return absl::FailedPreconditionError("grant: GrantWrite comes after Accept");
  if (offset > memory.bytes().size() || size > memory.bytes().size() - offset) {
    return absl::InvalidArgumentError(absl::StrCat("grant: ", size, " bytes at ", offset,
                                                   " are not inside the memory of ", memory.bytes().size()));
  }
  if (status_.ok()) status_ = link_->failure();
  if (!status_.ok()) return status_;
  return std::make_unique<TcpGrant>(link_, listener_.NextKey(), memory.bytes().subspan(offset, size),
                                    nullptr);
}

// --- The handshake ----------------------------------------------------------------------------------

absl::Status TcpServer::Accept(std::span<const std::byte> data) {
  if (answered_) return absl::FailedPreconditionError("accept: the request was answered before");
  if (data.size() > kMaxAcceptData) {
    return absl::InvalidArgumentError(
        absl::StrCat("accept: ", data.size(), " bytes of accept data; the most are ", kMaxAcceptData));
  }
  answered_ = true;
  std::uint32_t key = 1;
  for (const std::span<std::byte> region : listener_.reads()) link_->AddRead(key++, region);
  // The server thread sends the answer before a NIC thread serves the link, so the client receives it first.
  link_->Answer(TcpAnswer::kAccepted, data);
  NicThread& nic = listener_.NextThread();
  if (!nic.Serve(link_, this)) {
    status_ = absl::ResourceExhaustedError("accept: the system has no memory to watch another socket");
    link_->End();
    return status_;
  }
  nic_ = &nic;
  return absl::OkStatus();
}

void TcpServer::Reject(std::span<const std::byte> data) {
  REMORA_CHECK(data.size() <= kMaxRejectData);
  if (std::exchange(answered_, true)) return;
  link_->Answer(TcpAnswer::kRejected, data);
  link_->End();
  status_ = absl::FailedPreconditionError("accept: the connection was rejected");
}

void TcpServer::Disconnect() { link_->End(); }

// --- Data path --------------------------------------------------------------------------------------

absl::Status TcpServer::PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                                   std::uint64_t offset) {
  return Note(link_->PostWritev(from, region, offset));
}

absl::Status TcpServer::PostSend(std::uint64_t context, const Sge& from) {
  return Note(link_->PostSend(context, from));
}

absl::Status TcpServer::PostRecv(std::uint64_t context, const Sge& into) {
  return Note(link_->PostRecv(context, into));
}

}  // namespace remora::rdma
