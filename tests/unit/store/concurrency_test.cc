// Readers and a writer at the same time, in one process.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "store/base/check.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"

namespace remora {
namespace {

/// Returns a value that describes itself: "<key>:<number>:", and then as many letters as the number asks for.
std::string ValueOf(const std::string& key, std::uint64_t number) {
  return key + ":" + std::to_string(number) + ":" +
         std::string(number * 131 % 700, static_cast<char>('a' + number % 26));
}

std::uint64_t NumberIn(const std::string& value) {
  return std::strtoull(value.c_str() + value.find(':') + 1, nullptr, 10);
}

class ConcurrencyTest : public testing::Test {
 protected:
  static constexpr int kReaders = 2;
  static constexpr int kKeys = 3;
  static constexpr std::uint64_t kWrites = 12'000;

  std::unique_ptr<ServerStore> store_ = [] {
    StoreOptions options;
    options.memory_size = std::size_t{64} << 20;
    return *ServerStore::Open(options);
  }();
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> acknowledged_[kKeys] = {};

  static std::string Key(int i) { return "key" + std::to_string(i); }

  void StopAndJoin(std::vector<std::thread>& threads) {
    stop_.store(true);
    for (std::thread& thread : threads) thread.join();
  }
};

// Each GET returns a whole value of its key. The value is at least as new as the last write that was
// acknowledged before the GET began, and as the last one that this reader saw.
TEST_F(ConcurrencyTest, ReadersSeeWholeValuesThatNeverGoBack) {
  for (int key = 0; key < kKeys; ++key) ASSERT_TRUE(store_->Put(Key(key), ValueOf(Key(key), 0)).ok());
  std::atomic<std::uint64_t> gets{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < kReaders; ++reader) {
    readers.emplace_back([&] {
      std::uint64_t seen[kKeys] = {};
      std::string value;
      for (int key = 0; !stop_.load(); key = (key + 1) % kKeys) {
        const std::uint64_t at_least = acknowledged_[key].load();
        const absl::Status status = store_->Get(Key(key), &value);
        ASSERT_TRUE(status.ok()) << status;
        const std::uint64_t number = NumberIn(value);
        ASSERT_EQ(value, ValueOf(Key(key), number));
        ASSERT_GE(number, at_least) << "an acknowledged write is not seen";
        ASSERT_GE(number, seen[key]) << "a reader went back";
        seen[key] = number;
        gets.fetch_add(1);
      }
    });
  }
  for (std::uint64_t number = 1; number <= kWrites; ++number) {
    const int key = static_cast<int>(number % kKeys);
    ASSERT_TRUE(store_->Put(Key(key), ValueOf(Key(key), number)).ok());
    acknowledged_[key].store(number);
  }
  while (gets.load() < 1000) std::this_thread::yield();
  StopAndJoin(readers);
}

// If one reader saw a value, a reader that begins later sees that value or a newer one.
TEST_F(ConcurrencyTest, ReadersAgree) {
  ASSERT_TRUE(store_->Put("key", ValueOf("key", 0)).ok());
  std::atomic<std::uint64_t> newest_seen{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < kReaders; ++reader) {
    readers.emplace_back([&] {
      std::string value;
      while (!stop_.load()) {
        const std::uint64_t at_least = newest_seen.load();
        ASSERT_TRUE(store_->Get("key", &value).ok());
        const std::uint64_t number = NumberIn(value);
        ASSERT_GE(number, at_least) << "another reader saw something newer before";
        std::uint64_t expected = newest_seen.load();
        while (expected < number && !newest_seen.compare_exchange_weak(expected, number)) {
        }
      }
    });
  }
  for (std::uint64_t number = 1; number <= kWrites; ++number) {
    ASSERT_TRUE(store_->Put("key", ValueOf("key", number)).ok());
  }
  StopAndJoin(readers);
}

// A key that comes and goes is there or not. A key that stays, in the same chains, is always there.
TEST_F(ConcurrencyTest, InsertsAndDeletesBesideReaders) {
  ASSERT_TRUE(store_->Put("stays", "value").ok());
  std::vector<std::thread> readers;
  for (int reader = 0; reader < kReaders; ++reader) {
    readers.emplace_back([&] {
      std::string value;
      while (!stop_.load()) {
        ASSERT_TRUE(store_->Get("stays", &value).ok());
        ASSERT_EQ(value, "value");
        const absl::Status status = store_->Get("comes and goes", &value);
        ASSERT_TRUE(status.ok() || status.code() == absl::StatusCode::kNotFound) << status;
        if (status.ok()) {
          ASSERT_EQ(value, ValueOf("comes and goes", NumberIn(value)));
        }
        const absl::StatusOr<Location> location = store_->Locate("stays");
        ASSERT_TRUE(location.ok());
        ASSERT_EQ(location->version, 1u);
      }
    });
  }
  for (std::uint64_t number = 1; number <= kWrites; ++number) {
    ASSERT_TRUE(store_->Put("comes and goes", ValueOf("comes and goes", number)).ok());
    ASSERT_TRUE(store_->Put("new" + std::to_string(number), "value").ok());
    ASSERT_TRUE(store_->Delete("comes and goes").ok());
  }
  StopAndJoin(readers);
}

TEST_F(ConcurrencyTest, WritersTakeTurns) {
  constexpr int kEach = 3000;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&, writer] {
      std::uint64_t last = 0;
      for (int i = 0; i < kEach; ++i) {
        Write write;
        const std::string own = "writer" + std::to_string(writer) + "." + std::to_string(i % 50);
        write.key = i % 2 == 0 ? std::string_view("shared") : std::string_view(own);
        write.value = own;
        store_->Commit(std::span(&write, 1));
        ASSERT_TRUE(write.status.ok());
        ASSERT_GT(write.version, last);
        last = write.version;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(store_->Read(Metric::kPuts), 3u * kEach);
  EXPECT_EQ(store_->Read(Metric::kLastVersion), 3u * kEach);
  EXPECT_EQ(store_->Read(Metric::kKeys), 1u + 3 * 25);
}

/// One page that is mapped twice: a staging buffer in the client and in the server.
class SharedPage {
 public:
  static constexpr std::size_t kSize = 4096;
  SharedPage() {
    const int file = memfd_create("shared page", MFD_CLOEXEC);
    REMORA_CHECK(file >= 0 && ftruncate(file, kSize) == 0);
    for (char*& view : views_) {
      view = static_cast<char*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
      REMORA_CHECK(view != MAP_FAILED);
    }
    close(file);
  }
  ~SharedPage() {
    for (char* view : views_) munmap(view, kSize);
  }
  char* clients() const { return views_[0]; }
  std::string_view servers() const { return {views_[1], kSize}; }

 private:
  char* views_[2];
};

// A client overwrites its payload while the server stores it. The
// store keeps exactly the bytes that it verified, or nothing.
TEST_F(ConcurrencyTest, BytesThatChangeMeanwhileAreStoredAsTheyVerifiedOrNotAtAll) {
  const SharedPage page;
  const std::string honest[2] = {std::string(SharedPage::kSize, 'a'), std::string(SharedPage::kSize, 'b')};
  std::memcpy(page.clients(), honest[0].data(), SharedPage::kSize);
  std::atomic<int> writes{0};
  std::thread client([&] {
    for (; !stop_.load(); writes.fetch_add(1)) {
      std::memcpy(page.clients(), honest[writes.load() % 2].data(), SharedPage::kSize);
    }
  });
  while (writes.load() < 10) std::this_thread::yield();
  struct Verified {
    std::uint64_t accepted[2];
    mutable std::uint64_t hash = 0;
  };
  const Verified verified{
      {HashValue(honest[0].data(), SharedPage::kSize), HashValue(honest[1].data(), SharedPage::kSize)}};
  // Returns whether the store took the put.
  const auto try_to_store = [&](int i) {
    const std::string key = "key" + std::to_string(i);
    Write write;
    write.key = key;
    write.value = page.servers();
    write.verify_context = &verified;
    write.verify = [](const void* context, std::uint64_t, std::uint64_t value_hash) {
      const auto* asked = static_cast<const Verified*>(context);
      asked->hash = value_hash;
      return value_hash == asked->accepted[0] || value_hash == asked->accepted[1];
    };
    store_->Commit(std::span(&write, 1));
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    EXPECT_EQ(status.ok(), write.status.ok());
    if (status.ok()) {
      EXPECT_EQ(HashValue(value.data(), value.size()), verified.hash) << "stored is not what was verified";
    }
    return status.ok();
  };
  int i = 0;
  for (; i < 8000 && !HasFailure(); ++i) try_to_store(i);
  stop_.store(true);
  client.join();
  // How many puts verified so far depends on the client's timing. Bytes that do not change always verify.
  std::memcpy(page.clients(), honest[1].data(), SharedPage::kSize);
  EXPECT_TRUE(try_to_store(i));
}

}  // namespace
}  // namespace remora
