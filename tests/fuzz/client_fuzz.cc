// A client whose server says anything: its READs, the server's words as it connects, and replies, are changed
// in flight. It may fail; it must not crash, nor be led outside of its buffers, nor wait for ever.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "server/server.h"
#include "tests/fuzz/input.h"
#include "tests/simulation/sim_transport.h"

namespace remora {
namespace {

/// Changes bytes as the input says: of each buffer, some or none.
class Liar {
 public:
  explicit Liar(Input& input) : input_(input) {}
  void Change(std::span<std::byte> bytes) {
    if (bytes.empty() || input_.empty()) return;
    for (int changes = input_.Take<std::uint8_t>() % 4; changes > 0; --changes) {
      const std::size_t at = input_.Take<std::uint16_t>() % bytes.size();
      const std::string_view other = input_.Bytes(
          std::min<std::size_t>({std::size_t{1} << (input_.Take<std::uint8_t>() % 8), bytes.size() - at}));
      std::memcpy(bytes.data() + at, other.data(), other.size());
    }
  }

 private:
  Input& input_;
};

class LyingConnection final : public rdma::ClientConnection {
 public:
  LyingConnection(std::unique_ptr<rdma::ClientConnection> inner, Liar& liar)
      : inner_(std::move(inner)), liar_(liar) {}

  absl::StatusOr<std::unique_ptr<rdma::Registration>> RegisterMessages(std::span<std::byte> bytes) override {
    return inner_->RegisterMessages(bytes);
  }
  absl::StatusOr<std::unique_ptr<rdma::Registration>> RegisterWrite(rdma::SharedMemory& memory) override {
    return inner_->RegisterWrite(memory);
  }
  absl::Status OfferWrite(rdma::SharedMemory& memory) override { return inner_->OfferWrite(memory); }
  absl::Status Connect(std::span<const std::byte> request_data, TimePoint deadline) override {
    const absl::Status status = inner_->Connect(request_data, deadline);
    peer_data_.assign(inner_->peer_data().begin(), inner_->peer_data().end());
    liar_.Change(peer_data_);
    return status;
  }
  std::span<const std::byte> peer_data() const override { return peer_data_; }
  absl::Status PostReadv(std::uint64_t context, std::span<const rdma::Sge> to, const RemoteRegion& region,
                         std::uint64_t offset) override {
    const absl::Status posted = inner_->PostReadv(context, to, region, offset);
    if (posted.ok()) reads_.emplace_back(to.begin(), to.end());
    return posted;
  }
  absl::Status PostWritev(std::span<const rdma::Sge> from, const RemoteRegion& region,
                          std::uint64_t offset) override {
    return inner_->PostWritev(from, region, offset);
  }
  absl::Status PostSend(std::uint64_t context, const rdma::Sge& from) override {
    return inner_->PostSend(context, from);
  }
  absl::Status PostRecv(std::uint64_t context, const rdma::Sge& into) override {
    receives_[context] = into;
    return inner_->PostRecv(context, into);
  }
  std::size_t Poll(std::span<rdma::Completion> out) override {
    const std::size_t count = inner_->Poll(out);
    for (std::size_t i = 0; i < count; ++i) {
      rdma::Completion& completion = out[i];
      completion.connection = this;
      if (completion.kind == rdma::CompletionKind::kRead && !reads_.empty()) {
        for (const rdma::Sge& part : reads_.front()) liar_.Change({part.data, part.size});
        reads_.pop_front();
      }
      if (completion.kind == rdma::CompletionKind::kReceive && completion.ok) {
        liar_.Change({receives_[completion.context].data, completion.byte_count});
      }
    }
    return count;
  }
  absl::Status Wait(TimePoint deadline) override { return inner_->Wait(deadline); }
  void Arm() override { inner_->Arm(); }
  void Disarm() override { inner_->Disarm(); }
  int wait_fd() const override { return inner_->wait_fd(); }
  const absl::Status& status() const override { return inner_->status(); }
  std::string peer() const override { return inner_->peer(); }

 private:
  const std::unique_ptr<rdma::ClientConnection> inner_;
  Liar& liar_;
  std::vector<std::byte> peer_data_;
  std::deque<std::vector<rdma::Sge>> reads_;
  std::map<std::uint64_t, rdma::Sge> receives_;
};

void Use(Client& client, Input& input) {
  for (int calls = 0; calls < 16 && !input.empty(); ++calls) {
    const auto what = input.Take<std::uint8_t>();
    const std::string key = "key " + std::to_string(what >> 4);
    std::string value;
    switch (what % 8) {
      case 0:
      case 1:
        client.Get(key, &value).IgnoreError();
        break;
      case 2:
        client.Put(key, std::string(what, 'v')).IgnoreError();
        break;
      case 3:
        client.Delete(key).IgnoreError();
        break;
      case 4: {
        const std::string other = key + "x";
        const std::string_view keys[] = {key, other};
        GetResult results[2];
        client.MultiGet(keys, results).IgnoreError();
        break;
      }
      case 5:
        client.Stats().status().IgnoreError();
        break;
      case 6:
        client.Increment("number", 1).status().IgnoreError();
        break;
      default:
        client.Get("large", &value).IgnoreError();
    }
  }
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  SimNetwork network(1);
  network.set_piece_size(256);
  ServerOptions options;
  options.store.memory_size = kMinMemorySize;
  options.store.clock = &network.clock();
  auto server = Server::Create(options);
  FUZZ_CHECK(server.ok());
  FUZZ_CHECK((*server)->AddListener(network.Listen()).ok());
  network.set_step([&] { (*server)->Step(); });
  ServerStore& store = (*server)->store();
  for (int i = 0; i < 16; ++i)
    FUZZ_CHECK(store.Put("key " + std::to_string(i), "value " + std::to_string(i)).ok());
  FUZZ_CHECK(store.Put("large", std::string(kMaxSmallValueSize + 1, 'l')).ok());

  const std::size_t mirror = size > 0 && data[size - 1] % 2 != 0 ? std::size_t{1} << 14 : 0;
  Liar liar(input);
  const ClientOptions impatient{.timeout = std::chrono::milliseconds(200),
                                .location_cache_bytes = 4096,
                                .index_mirror_bytes = mirror,
                                .scan_window_bytes = 0,
                                .reconnect = false};
  auto client =
      Client::Connect(std::make_unique<LyingConnection>(network.Dial(), liar), impatient, network.clock());
  if (client.ok()) Use(**client, input);
  return 0;
}
