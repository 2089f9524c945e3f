// Visits by remora.h: values where they are, through a mapping, and copies over TCP.
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "client/c/remora.h"
#include "tests/conformance/c_fixture.h"
#include "tests/support/random_bytes.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

/// A context of remora_visit, with the values that the function was shown. The first call runs `during`
/// between two looks.
struct Shown {
  std::function<void()> during = [] {};
  std::vector<std::string> values;  // in each call
  bool is_still_shown = true;       // the last call saw the same bytes at its end
};

void Show(void* context, const void* value, size_t value_size) {
  Shown& shown = *static_cast<Shown*>(context);
  const std::string_view bytes(static_cast<const char*>(value), value_size);
  shown.values.emplace_back(bytes);
  if (shown.values.size() == 1) shown.during();
  shown.is_still_shown = bytes == shown.values.back();
}

remora_code Visit(remora_client* client, const std::string& key, Shown* shown, uint64_t* version = nullptr) {
  return remora_visit(client, key.data(), key.size(), Show, shown, version);
}

bool MapsMemory(rdma::TransportKind kind) { return kind == rdma::TransportKind::kLocal; }

TEST_P(CInterface, VisitsAValueOnceAndWhole) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, kMaxSmallValueSize,
                                 kMaxSmallValueSize + 1, 3 * kMiB + 7}) {
    const std::string value = RandomBytes(size, size);
    for (const std::string& key : {std::string("key"), std::string(kMaxKeySize, 'k')}) {
      ASSERT_EQ(Put(key, value), REMORA_OK) << remora_message();
      ASSERT_EQ(Get(key), value);  // from here on, the client knows the index
      Shown shown;
      uint64_t version = 0;
      ASSERT_EQ(Visit(client_, key, &shown, &version), REMORA_OK) << remora_message();
      ASSERT_EQ(shown.values.size(), 1u);
      EXPECT_TRUE(shown.values[0] == value) << size << " bytes";
      uint64_t wanted = 0;
      const void* bytes = nullptr;
      size_t bytes_size = 0;
      ASSERT_EQ(remora_get(client_, key.data(), key.size(), &bytes, &bytes_size, &wanted), REMORA_OK);
      EXPECT_EQ(version, wanted);
    }
  }
}

TEST_P(CInterface, VisitsNothingThatCannotBe) {
  ASSERT_EQ(Put("key", "value"), REMORA_OK);
  Shown shown;
  uint64_t version = 5;
  EXPECT_EQ(Visit(client_, "none", &shown, &version), REMORA_NOT_FOUND);
  EXPECT_STREQ(remora_message(), "no such key");
  EXPECT_EQ(Visit(client_, "", &shown, &version), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(Visit(client_, std::string(kMaxKeySize + 1, 'k'), &shown), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(Visit(nullptr, "key", &shown), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_visit(client_, nullptr, 3, Show, &shown, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_EQ(remora_visit(client_, "key", 3, nullptr, &shown, nullptr), REMORA_INVALID_ARGUMENT);
  EXPECT_TRUE(shown.values.empty());
  EXPECT_EQ(version, 5u);
  EXPECT_EQ(remora_visit(
                client_, "key", 3, [](void* context, const void*, size_t) { EXPECT_EQ(context, nullptr); },
                nullptr, nullptr),
            REMORA_OK);
}

TEST_P(CInterface, VisitsAgainIfTheValuesMemoryWasUsedAgain) {
  remora_client* other = nullptr;
  ASSERT_EQ(remora_connect(server_->address().c_str(), nullptr, &other), REMORA_OK) << remora_message();
  const auto put = [&](const std::string& key, const std::string& value) {
    return remora_put(other, key.data(), key.size(), value.data(), value.size(), nullptr);
  };
  for (const std::size_t size : {std::size_t{100}, kMiB}) {
    const std::string before = RandomBytes(size, 1), after = RandomBytes(size, 2);
    ASSERT_EQ(Put("key", before), REMORA_OK);
    ASSERT_EQ(Get("key"), before);
    Shown shown;
    shown.during = [&] {
      ASSERT_EQ(put("key", after), REMORA_OK) << remora_message();
      const std::string filling(250'000, 'f');
      for (std::size_t bytes = 0; bytes < 4 * 32 * kMiB; bytes += filling.size()) {
        ASSERT_EQ(put("filling", filling), REMORA_OK) << remora_message();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // longer than the grace period
    };
    uint64_t version = 0;
    ASSERT_EQ(Visit(client_, "key", &shown, &version), REMORA_OK) << remora_message();
    ASSERT_EQ(shown.values.size(), MapsMemory(GetParam()) ? 2u : 1u);
    EXPECT_TRUE(shown.values.back() == (MapsMemory(GetParam()) ? after : before));
    EXPECT_TRUE(shown.is_still_shown) << "the call that counts";
  }
  remora_close(other);
}

TEST_P(CInterface, VisitsOfAServerThatIsGoneDoNotCount) {
  ASSERT_EQ(Put("key", "value"), REMORA_OK);
  ASSERT_EQ(Get("key"), "value");
  Shown shown;
  shown.during = [&] { server_.reset(); };
  uint64_t version = 0;
  const remora_code code = Visit(client_, "key", &shown, &version);
  // A copy was read before; bytes in place may have been of a server that was gone.
  EXPECT_EQ(code == REMORA_OK, !MapsMemory(GetParam())) << remora_code_name(code);
  EXPECT_EQ(version == 0, MapsMemory(GetParam()));
  EXPECT_EQ(shown.values, std::vector<std::string>{"value"});
  EXPECT_EQ(Visit(client_, "key", &shown), REMORA_UNAVAILABLE);
}

}  // namespace
}  // namespace remora
