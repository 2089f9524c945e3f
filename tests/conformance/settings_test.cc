// The settings of a server: read in pieces, also while they change; requests that are out of bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "store/format/wire/messages.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/hand_client.h"

namespace remora {
namespace {

class ServerSettings : public SimServed, public testing::Test {
 protected:
  ServerSettings() : SimServed(/*seed=*/1) {}

  void ServeText() {
    Serve({.store = {.memory_size = std::size_t{16} << 20, .clock = &network_.clock()},
           .log = {},
           .settings = [this]() -> std::string_view {
             if (asked_++ < changes_) text_[text_.size() / 2] ^= 1;
             return text_;
           }});
    client_ = Connect({});
  }
  static std::string TextOf(std::size_t size) {
    std::string text;
    for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i) + ",";
    return text.substr(0, size);
  }

  std::string text_;
  int asked_ = 0;    // pieces
  int changes_ = 0;  // so many first pieces are of another text each
  std::unique_ptr<Client> client_;
};

TEST_F(ServerSettings, OfAnySizeAreRead) {
  ServeText();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kMaxReplyBehind - 1, kMaxReplyBehind, kMaxReplyBehind + 1,
        2 * kMaxReplyBehind, std::size_t{10'000}, std::size_t{100'000}}) {
    text_ = TextOf(size);
    asked_ = 0;
    const auto settings = client_->Settings();
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(*settings, text_) << size;
    EXPECT_EQ(asked_, std::max<int>(1, static_cast<int>((size + kMaxReplyBehind - 1) / kMaxReplyBehind)));
  }
  text_ = TextOf(kMaxSettingsSize + 1);
  EXPECT_EQ(client_->Settings().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(client_->Ping().ok());
}

TEST_F(ServerSettings, AreOfOneTextWhateverChangesMeanwhile) {
  text_ = TextOf(1000);  // three pieces
  ServeText();
  for (changes_ = 0; changes_ < 12; ++changes_) {
    asked_ = 0;
    const auto settings = client_->Settings();
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(*settings, text_) << changes_;
  }
  changes_ = 1 << 30;
  EXPECT_EQ(client_->Settings().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ServerSettings, AServerMayHaveNone) {
  Serve({.store = {.memory_size = std::size_t{16} << 20, .clock = &network_.clock()}, .log = {}});
  const absl::Status status = Connect({})->Settings().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST_F(ServerSettings, RequestsOutOfBoundsAreRejected) {
  text_ = TextOf(1000);
  ServeText();
  HandClient hand(network_.Dial(), network_.clock());
  EXPECT_TRUE((hand.hello().flags & ReplyFlag::kHasSettings) != 0);
  const auto ask = [&hand](std::uint64_t place, std::uint16_t key_size, std::uint32_t value_size) {
    Request request;
    request.operation = Operation::kSettings;
    request.condition = place;
    request.key_size = key_size;
    request.value_size = value_size;
    hand.Post(request);
    return hand.Await();
  };
  const auto last = ask(999, 0, 0);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->reply.version, HashSettings(text_));
  EXPECT_EQ(last->reply.result, 1000);
  EXPECT_EQ(last->behind, text_.substr(999));
  EXPECT_EQ(ask(1000, 0, 0)->behind, "");
  EXPECT_EQ(ask(1000, 0, 0)->status(), ReplyStatus::kOk);
  for (const auto& answer : {ask(1001, 0, 0), ask(~std::uint64_t{0}, 0, 0), ask(0, 1, 0), ask(0, 0, 1)}) {
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status(), ReplyStatus::kInvalid);
    EXPECT_FALSE(answer->behind.empty());
  }
  EXPECT_EQ(*client_->Settings(), text_);
}

}  // namespace
}  // namespace remora
