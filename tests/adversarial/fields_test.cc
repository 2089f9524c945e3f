// Messages and handshakes of which every field is tried with every bound: each ends in a clear answer, or
// with the connection of who sent it.
#include "tests/adversarial/fields.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/adversarial/adversarial_fixture.h"
#include "tests/adversarial/raw_local.h"

namespace remora {
namespace {

constexpr char kKey[] = "raw key";
constexpr std::size_t kKeySize = sizeof(kKey) - 1;

class Fields : public Hostile {
 protected:
  /// Each asks for something that is done, as far as the server does it at all; key and value in the staging
  /// buffer.
  struct Base {
    Operation operation;
    std::string key;
    std::string value;
    std::uint8_t put_count = 0;
  };
  std::vector<Base> Bases() const {
    WriteBatch batch;
    batch.Put("raw one", "of two");
    batch.Put("raw two", "of two");
    WriteBatch list;
    for (int i = 0; i < 3; ++i) list.Put("raw " + std::to_string(i), "of a list");
    ScanStart scan{.kind = ScanKind::kCount};
    if (!is_verbs()) {
      // Over verbs, each of these costs a connection, as there is no such window; one test has them all.
      scan = {.window = {.address = 4096, .size = kMaxPageSize, .key = 1},
              .page_size = kMinPageSize,
              .kind = ScanKind::kEntries,
              .flags = kAnyOrder};
    }
    const std::string start(reinterpret_cast<const char*>(&scan), sizeof(scan));
    return {{Operation::kPut, kKey, "a value"},
            {Operation::kDelete, kKey, ""},
            {Operation::kLocate, kKey, ""},
            {Operation::kPing, "", ""},
            {Operation::kTouch, kKey, ""},
            {Operation::kReserve, "", ""},
            {Operation::kPart, "", "a part"},
            {Operation::kFinishLargePut, "", ""},
            {Operation::kIncrement, "raw sum", std::string("\1\0\0\0\0\0\0\0", 8)},
            {Operation::kAppend, "raw text", "more"},
            {Operation::kBatch, "", std::string(batch.bytes())},
            {Operation::kMultiPut, "", std::string(list.bytes()), 3},
            {Operation::kScan, "", start},
            {Operation::kScanNext, "", ""},
            {Operation::kBackup, "", ""},
            {Operation::kSettings, "", ""},
            {Operation::kLeaf, "", "\1key"},
            {Operation::kTopology, "", ""},
            {Operation::kFollow, "", std::string(64, 'f')},
            {Operation::kReplicate, "", "a part of a group"},
            {Operation::kPromote, "", ""},
            {Operation::kSupport, "", ""},
            {Operation::kCopy, "", ""},
            {Operation::kMove, "", "state 00000000000000a1"},
            {Operation::kQueryCompletion, "", ""}};
  }

  void Rejoin() {
    peer_ = Enter();
    image_.assign(peer_->hello().staging.size, 'x');
    peer_->Write(0, image_);
  }
  void Fill(std::string_view payload) {
    if (image_.starts_with(payload)) return;
    image_.replace(0, payload.size(), payload);
    peer_->Write(0, payload);
  }
  /// Seals the bytes of the staging buffer at which the request says that key and value are, as far as that
  /// is in the staging buffer.
  void SealAsItIs(Request* request) {
    const std::uint64_t size = std::uint64_t{request->key_size} + request->value_size;
    if (size > image_.size() || request->payload_offset > image_.size() - size) return;
    const std::string_view payload = std::string_view(image_).substr(request->payload_offset);
    RawPeer::Seal(request, payload.substr(0, request->key_size),
                  payload.substr(request->key_size, request->value_size));
  }
  /// Sends it, and judges what comes back.
  void Try(const Request& request, const std::string& what) {
    ++tries_;
    const auto answer = peer_->Ask(request);
    if (!answer) {
      EXPECT_TRUE(peer_->AwaitEnd()) << what << ": neither answer nor end";
      ++ends_;
      return Rejoin();
    }
    const ReplyStatus status = answer->reply.status;
    EXPECT_TRUE(status >= ReplyStatus::kOk && status <= ReplyStatus::kAskAgain) << what;
    if (status != ReplyStatus::kOk) {
      EXPECT_FALSE(answer->behind.empty()) << what << ": no words";
      ++rejected_;
    }
  }
  void TryFieldsOf(const Base& base) {
    Request good;
    good.request_id = 7;
    good.operation = base.operation;
    good.key_size = static_cast<std::uint16_t>(base.key.size());
    good.value_size = static_cast<std::uint32_t>(base.value.size());
    good.put_count = base.put_count;
    if (base.operation == Operation::kReserve || base.operation == Operation::kFinishLargePut) {
      good.key_size = kKeySize;
      good.value_size = 300'000;
    }
    const std::string payload = base.key + base.value;
    for (const Field& field : kRequestFields) {
      // An operation that there is not costs a connection, whatever it is beside that.
      const bool is_operation = field.offset == offsetof(Request, operation);
      if (is_operation && base.operation != Operation::kPing) continue;
      for (const std::uint64_t value : ValuesFor(field, is_dear(), ++seed_)) {
        Request request = good;
        Set(field, value, &request);
        Fill(payload);
        if (field.offset != offsetof(Request, payload_checksum)) SealAsItIs(&request);
        Try(request, std::string(field.name) + " = " + std::to_string(value) + " of operation " +
                         std::to_string(static_cast<int>(base.operation)));
      }
    }
  }
  /// The fields of what is in the staging buffer.
  template <std::size_t N>
  void TryPayload(const Base& base, const Field (&fields)[N]) {
    const auto& [operation, key, good, put_count] = base;
    for (const Field& field : fields) {
      for (const std::uint64_t value : ValuesFor(field, is_dear(), ++seed_)) {
        const bool drops = field.offset == offsetof(ScanStart, kind) && operation == Operation::kScan &&
                           value == static_cast<std::uint64_t>(ScanKind::kDelete);
        if (drops) continue;  // it would be done
        std::string payload = good;
        Set(field, value, payload.data());
        Request request;
        request.request_id = 8;
        request.operation = operation;
        request.value_size = static_cast<std::uint32_t>(payload.size());
        request.put_count = put_count;
        RawPeer::Seal(&request, {}, payload);
        Fill(payload);
        Try(request, std::string(field.name) + " = " + std::to_string(value));
      }
    }
  }

  std::unique_ptr<RawPeer> peer_;
  std::string image_;  // of the staging buffer
  std::uint64_t seed_ = 0;
  std::uint64_t tries_ = 0;
  std::uint64_t rejected_ = 0;
  std::uint64_t ends_ = 0;
};
INSTANTIATE_HOSTILE(Fields);
class LocalFields : public Fields {};
INSTANTIATE_TEST_SUITE_P(On, LocalFields, testing::Values(rdma::TransportKind::kLocal),
                         [](const auto&) { return std::string("local"); });

TEST_P(Fields, OfRequestsAndTheirPayloads) {
  START_HOSTILE();
  Rejoin();
  for (int number = 1; number <= static_cast<int>(kLastOperation); ++number) {
    const auto tries = [number](const Base& base) { return static_cast<int>(base.operation) == number; };
    EXPECT_TRUE(std::ranges::any_of(Bases(), tries)) << "operation " << number;
  }
  for (const Base& base : Bases()) {
    const bool has_payload = !base.value.empty() || base.operation == Operation::kLocate;
    if (is_verbs() && !has_payload && base.operation != Operation::kPing) continue;  // for its time alone
    TryFieldsOf(base);
    const bool is_batch = base.operation == Operation::kBatch || base.operation == Operation::kMultiPut;
    if (is_batch) TryPayload(base, kBatchFields);
    if (base.operation == Operation::kScan) TryPayload(base, kScanFields);
  }
  EXPECT_GT(tries_, is_dear() ? 400u : 5'000u);
  EXPECT_GT(rejected_, tries_ / 10);
  EXPECT_GT(ends_, 0u);
  EXPECT_GT(Count("rejected_requests"), rejected_ / 4);
  ExpectBroken(ends_);
  RecordProperty("tries", static_cast<int>(tries_));
  RecordProperty("rejected", static_cast<int>(rejected_));
  RecordProperty("ends", static_cast<int>(ends_));
  ExpectNobodyElseHarmed();
}

TEST_P(Fields, OfGreetings) {
  START_HOSTILE();
  std::uint64_t rejected = 0;
  const auto greet = [&](std::span<const std::byte> hello, const std::string& what) {
    const auto peer = RawPeer::At(served_->where());
    const RawPeer::Answer answer = peer->Join(hello);
    ASSERT_NE(answer, RawPeer::Answer::kHungUpOn) << what;
    HelloRejection rejection;
    if (answer == RawPeer::Answer::kAccepted) return;
    ASSERT_TRUE(FromBytes(peer->said(), &rejection)) << what;
    EXPECT_EQ(rejection.magic, kHelloMagic) << what;
    EXPECT_TRUE(rejection.reason >= RejectionReason::kNotRemora &&
                rejection.reason <= RejectionReason::kChallenge)
        << what;
    EXPECT_NE(rejection.text[0], '\0') << what;
    ++rejected;
  };
  for (const Field& field : kHelloFields) {
    std::vector<std::uint64_t> values = ValuesFor(field, is_dear(), ++seed_);
    if (is_verbs() && values.size() > 2) values = {values[1], values.back()};
    for (const std::uint64_t value : values) {
      HelloRequest hello;
      Set(field, value, &hello);
      greet(AsBytes(hello), std::string(field.name) + " = " + std::to_string(value));
    }
  }
  const HelloRequest good;
  for (std::size_t size = 0; size < sizeof(good); size += is_verbs() ? 20 : 1) {
    greet(AsBytes(good).first(size), "cut to " + std::to_string(size));
  }
  EXPECT_GT(rejected, 7u);
  EXPECT_GE(Count("connections_refused"), rejected);
  ExpectBroken(0);
  ExpectNobodyElseHarmed();
}

TEST_P(LocalFields, OfGreetings) {
  START_HOSTILE();
  std::uint64_t dropped = 0;
  const auto say = [&](const void* bytes, std::size_t size, const std::string& what) {
    RawLocal peer(served_->where(), true);
    peer.Say(bytes, size);
    const bool is_good = peer.Hear() == RawPeer::Answer::kAccepted;
    if (!is_good) ++dropped;
    return is_good ? what + " was let in" : "";
  };
  rdma::LocalHello good;
  const HelloRequest hello;
  good.data_size = sizeof(hello);
  std::memcpy(good.data, &hello, sizeof(hello));
  for (const Field& field : kLocalHelloFields) {
    for (const std::uint64_t value : ValuesFor(field, false, ++seed_)) {
      rdma::LocalHello packet = good;
      Set(field, value, &packet);
      // So many bytes may be said; fewer are a greeting that is cut.
      if (std::memcmp(&packet, &good, sizeof(good)) == 0 ||
          field.offset == offsetof(rdma::LocalHello, data_size)) {
        if (value <= sizeof(hello)) continue;
      }
      EXPECT_EQ(say(&packet, sizeof(packet), field.name + std::to_string(value)), "");
    }
  }
  const std::string longer(2 * sizeof(good), '\0');
  for (std::size_t size = 0; size < sizeof(good); ++size)
    EXPECT_EQ(say(&good, size, std::to_string(size)), "");
  EXPECT_EQ(say(longer.data(), longer.size(), "longer"), "");
  EXPECT_TRUE(served_->AwaitCount("handshakes_dropped", dropped));
  EXPECT_EQ(Count("handshakes_dropped"), dropped);
  ExpectNobodyElseHarmed();
}

TEST_P(Fields, MessagesThatAreCutOrTooLong) {
  START_HOSTILE();
  std::vector<std::size_t> sizes = {0, 1, sizeof(Request) - 1, sizeof(Request) + 1, 9216};
  for (std::size_t size = 2; !is_verbs() && size < 300; size += 7) {
    if (size != sizeof(Request)) sizes.push_back(size);
  }
  for (const std::size_t size : sizes) {
    const auto peer = Enter();
    std::vector<std::byte> message(size);
    const Request request;
    std::ranges::copy(std::as_bytes(std::span(&request, 1)).first(std::min(size, sizeof(request))),
                      message.begin());
    peer->Send(message);
    EXPECT_FALSE(peer->Receive().has_value()) << size;
    EXPECT_TRUE(peer->AwaitEnd()) << size;
    ExpectBroken(1);  // while the peer is there: one that hangs up first has hung up, whatever it did before
  }
  ExpectNobodyElseHarmed();
}

TEST_P(Fields, AMessageThatIsSentAgainIsDoneOnce) {
  START_HOSTILE();
  const std::string one("\1\0\0\0\0\0\0\0", 8);
  Request add;
  add.request_id = 5;
  add.operation = Operation::kIncrement;
  add.key_size = kKeySize;
  add.value_size = 8;
  RawPeer::Seal(&add, kKey, one);
  const HelloRequest hello{.client = 4711};
  for (int connection = 0; connection < 2; ++connection) {
    const auto peer = Enter(hello);
    peer->Write(0, kKey + one);
    if (connection == 0) {
      const auto answer = peer->Ask(add);
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(answer->reply.result, 1);
    }
    EXPECT_FALSE(peer->Ask(add).has_value());
    EXPECT_TRUE(peer->AwaitEnd());
  }
  EXPECT_GE(Count("rejected_requests"), 2u);
  ExpectBroken(2);
  add.request_id = 6;
  RawPeer::Seal(&add, kKey, one);
  const auto peer = Enter(hello);
  peer->Write(0, kKey + one);
  const auto answer = peer->Ask(add);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->reply.result, 2);
  ExpectNobodyElseHarmed();
}

}  // namespace
}  // namespace remora
