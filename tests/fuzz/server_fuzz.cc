// A server one of whose clients sends anything: messages with every field as it likes, any bytes in its
// staging buffer, in any order. Another client's key stays what it is, the other client is served, and the
// store still can be gone through.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "rdma/transport.h"
#include "server/server.h"
#include "store/format/wire/messages.h"
#include "store/format/wire/write_batch.h"
#include "tests/fuzz/input.h"
#include "tests/simulation/sim_transport.h"

namespace remora {
namespace {

constexpr std::string_view kOthersKey = "of another client";
constexpr std::string_view kOthersValue = "which nobody has changed";

/// Speaks without reading what is answered.
class HostileClient {
 public:
  HostileClient(std::unique_ptr<rdma::ClientConnection> connection, SimNetwork& network, Input& input)
      : network_(network), input_(input), connection_(std::move(connection)) {
    registration_ = connection_->RegisterMessages(buffer_).value();
    for (std::uint64_t i = 0; i < kReceives; ++i) Receive(i);
  }

  /// False: it was rejected.
  bool Connect() {
    HelloRequest hello;
    std::string bytes(reinterpret_cast<const char*>(&hello), sizeof(hello));
    if ((input_.Take<std::uint8_t>() & 15) == 15) bytes = input_.Text().substr(0, rdma::kMaxConnectData);
    const auto deadline = network_.clock().Now() + std::chrono::seconds(1);
    if (!connection_->Connect(std::as_bytes(std::span(bytes)), deadline).ok()) return false;
    return FromBytes(connection_->peer_data(), &hello_);
  }

  void Act() {
    const auto what = input_.Take<std::uint8_t>();
    switch (what % 8) {
      case 0:
      case 1:
        Write(input_.Take<std::uint16_t>() % hello_.staging.size, input_.Text());
        break;
      case 2:
        Send(input_.Text().substr(0, rdma::kMaxMessageSize));
        break;
      case 3:
        network_.Advance(std::chrono::milliseconds(1) * (std::int64_t{1} << (what >> 4)));
        break;
      case 4:
        SendBatch();
        break;
      default:
        SendRequest();
    }
    Poll();
  }

 private:
  static constexpr std::uint64_t kReceives = 8;
  static constexpr std::size_t kSendAt = kReceives * kMaxReplySize;

  void Receive(std::uint64_t index) {
    connection_->PostRecv(index, rdma::MakeSge(*registration_, index * kMaxReplySize, kMaxReplySize))
        .IgnoreError();
  }
  void Write(std::uint64_t offset, std::string_view bytes) {
    if (bytes.empty() || bytes.size() > hello_.staging.size - offset) return;
    std::memcpy(buffer_.data() + kSendAt, bytes.data(), bytes.size());
    const rdma::Sge from = rdma::MakeSge(*registration_, kSendAt, bytes.size());
    connection_->PostWritev(std::span(&from, 1), hello_.staging, offset).IgnoreError();
  }
  void Send(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(buffer_.data() + kSendAt, bytes.data(), bytes.size());
    connection_->PostSend(0, rdma::MakeSge(*registration_, kSendAt, bytes.size())).IgnoreError();
  }
  /// One that gets far: small sizes, a key and a value that are there, a checksum that fits, unless the input
  /// says otherwise.
  void SendRequest() {
    Request request;
    request.request_id = ++last_id_;
    const auto how = input_.Take<std::uint8_t>();
    request.operation = static_cast<Operation>(input_.Take<std::uint8_t>() % 18);
    const std::string key = "key " + std::to_string(how >> 5);
    const std::string value((how & 1) != 0 ? input_.Text() : std::string_view("12345678"));
    request.key_size = static_cast<std::uint16_t>(key.size());
    request.value_size = static_cast<std::uint32_t>(value.size());
    if ((how & 2) != 0) request.condition = input_.Take<std::uint64_t>();
    if ((how & 4) != 0) request.ttl_ms = input_.Take<std::int32_t>();
    if ((how & 8) != 0) {
      const auto fields = input_.Take<std::array<std::uint8_t, sizeof(Request)>>();
      const auto mask = input_.Take<std::uint64_t>();  // which bytes of the request become the input's
      auto* const bytes = reinterpret_cast<std::uint8_t*>(&request);
      for (std::size_t i = 8; i < sizeof(Request); ++i) {
        if ((mask >> i & 1) != 0) bytes[i] = fields[i];
      }
    }
    Write(0, key + value);
    if ((how & 16) == 0) {
      request.payload_checksum =
          PayloadChecksum(request, HashKey(key), HashValue(value.data(), value.size()));
    }
    Send({reinterpret_cast<const char*>(&request), sizeof(request)});
  }
  void SendBatch() {
    Request request;
    const bool is_list = input_.Take<std::uint8_t>() % 2 == 1;
    request.operation = is_list ? Operation::kMultiPut : Operation::kBatch;
    std::string bytes(input_.Text());
    if (bytes.empty()) {
      WriteBatch batch;
      batch.Put("key 1", "of a batch");
      if (is_list) {
        batch.Put("key 2", "of a list");
      } else {
        batch.Delete("key 2");
      }
      bytes = batch.bytes();
    }
    if (is_list) request.put_count = input_.Take<std::uint8_t>() % 20;
    if (is_list && input_.Take<std::uint8_t>() % 2 == 1) request.put_ids = request.put_count;
    request.request_id = last_id_ += std::max<std::uint8_t>(request.put_ids, 1);
    request.value_size = static_cast<std::uint32_t>(bytes.size());
    Write(0, bytes);
    request.payload_checksum = PayloadChecksum(request, HashKey({}), HashValue(bytes.data(), bytes.size()));
    Send({reinterpret_cast<const char*>(&request), sizeof(request)});
  }
  void Poll() {
    std::array<rdma::Completion, 8> completions;
    const std::size_t count = connection_->Poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].kind == rdma::CompletionKind::kReceive) Receive(completions[i].context);
    }
  }

  SimNetwork& network_;
  Input& input_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kSendAt + 4096);
  std::unique_ptr<rdma::ClientConnection> connection_;
  std::unique_ptr<rdma::Registration> registration_;
  HelloReply hello_;
  std::uint64_t last_id_ = 0;
};

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  SimNetwork network(1);
  network.set_piece_size(256);
  network.set_grants((input.Take<std::uint8_t>() & 1) != 0);
  ServerOptions options;
  options.store.memory_size = kMinMemorySize;
  options.store.clock = &network.clock();
  auto server = Server::Create(options);
  if (!server.ok()) std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
  FUZZ_CHECK(server.ok());
  FUZZ_CHECK((*server)->AddListener(network.Listen()).ok());
  network.set_step([&] { (*server)->Step(); });
  auto other = Client::Connect(network.Dial(), {}, network.clock());
  FUZZ_CHECK(other.ok());
  FUZZ_CHECK((*other)->Put(kOthersKey, kOthersValue).ok());
  {
    HostileClient hostile(network.Dial(), network, input);
    if (hostile.Connect()) {
      for (int acts = 0; acts < 64 && !input.empty(); ++acts) hostile.Act();
    }
  }
  std::string value;
  FUZZ_CHECK((*other)->Get(kOthersKey, &value).ok() && value == kOthersValue);
  FUZZ_CHECK((*other)->Put("key 0", "afterwards").ok());
  FUZZ_CHECK((*other)->Get("key 0", &value).ok() && value == "afterwards");
  // The store reads back all that it says that it has.
  ServerStore& store = (*server)->store();
  for (int i = 0; i < 8; ++i) {
    const absl::Status status = store.Get("key " + std::to_string(i), &value);
    FUZZ_CHECK(status.ok() || absl::IsNotFound(status));
  }
  return 0;
}
