// GET and PUT take no memory of their own accord, nor does registered memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "client/async_client.h"
#include "client/client.h"
#include "tests/support/server_thread.h"

namespace {
thread_local std::size_t allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace remora {
namespace {

class AllocationTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.ok()) << server_.status(); }
  const std::string& address() const { return (*server_)->address(); }

  const SteadyClock clock_ = {};

 private:
  const TempDir directory_;
  const absl::StatusOr<std::unique_ptr<ServerThread>> server_ =
      ServerThread::Start({.store = {.memory_size = std::size_t{16} << 20}, .log = {}},
                          FreshAddress(rdma::TransportKind::kLocal, directory_.path()));
};

TEST_F(AllocationTest, NoneForAnOperationLikeThoseBefore) {
  const auto client = AsyncClient::Connect(address(), {.location_cache_bytes = 1 << 20}, {}, clock_);
  ASSERT_TRUE(client.ok()) << client.status();
  // The first operations of all.
  std::size_t warm = 0;
  for (const char* key : {"a", "b"}) {
    ASSERT_TRUE((*client)->Put(key, "v", [&warm](const AsyncResult&) { ++warm; }).ok());
    ASSERT_TRUE((*client)->WaitAll(clock_.Now() + std::chrono::minutes(1)).ok());
    ASSERT_TRUE((*client)->Get(key, [&warm](const AsyncResult&) { ++warm; }).ok());
    ASSERT_TRUE((*client)->WaitAll(clock_.Now() + std::chrono::minutes(1)).ok());
  }
  ASSERT_EQ(warm, 4u);

  const std::string key = "a key that is longer than a string holds in itself";
  const std::string value(2000, 'v');
  std::size_t ended = 0;
  std::size_t wrong = 0;
  const auto count = [&ended, &wrong](const AsyncResult& result) {
    ++ended;
    wrong += result.status.ok() ? 0 : 1;
  };
  ASSERT_TRUE((*client)->Put(key, value, {}).ok());
  ASSERT_TRUE((*client)->WaitAll(clock_.Now() + std::chrono::minutes(1)).ok());
  const auto round = [&] {
    // More than there are credits for, so that some wait.
    while ((*client)->free_slots() > 0) {
      if (!(*client)->Put(key, value, count).ok() ||
          ((*client)->free_slots() > 0 && !(*client)->Get(key, count).ok())) {
        ++wrong;
      }
    }
    wrong += (*client)->WaitAll(clock_.Now() + std::chrono::minutes(1)).ok() ? 0 : 1;
  };
  // Each place takes memory for a key and for a value when it first has to keep one; which it has to depends
  // on how fast the server is.
  constexpr std::size_t kRounds = 200;
  const std::size_t before = allocations;
  for (std::size_t i = 0; i < kRounds; ++i) round();
  EXPECT_LE(allocations - before, 2u * 64) << "for " << ended << " operations";
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(ended, kRounds * 64);
  const std::size_t later = allocations;
  const std::string counted(100, 'c');
  EXPECT_EQ(allocations - later, 1u) << "of " << counted.size();
}

TEST_F(AllocationTest, NoneForRegisteredMemory) {
  const auto client = Client::Connect(address(), {.location_cache_bytes = 1 << 20}, clock_);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto async = AsyncClient::Connect(address(), {}, {}, clock_);
  ASSERT_TRUE(async.ok()) << async.status();
  std::vector<std::byte> memory(4096, std::byte{'v'});
  const auto buffer = (*client)->Register(memory);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::vector<std::byte> others(4096, std::byte{'w'});
  const auto async_buffer = (*async)->Register(others);
  ASSERT_TRUE(async_buffer.ok()) << async_buffer.status();

  const std::string key = "a key that is longer than a string holds in itself";
  std::string value(2000, 'v');
  std::size_t wrong = 0;
  const auto count = [&wrong](const AsyncResult& result) { wrong += result.status.ok() ? 0 : 1; };
  const auto round = [&](std::size_t size) {
    wrong += (*client)->Put(key, value).ok() ? 0 : 1;
    wrong += (*client)->Get(key, &value).ok() ? 0 : 1;
    wrong += (*client)->Put(key, (*buffer)->Part(0, size)).ok() ? 0 : 1;
    wrong += (*client)->Get(key, **buffer).value_or(0) == size ? 0 : 1;
    wrong += (*async)->Put(key, (*async_buffer)->Part(0, size), {}, count).ok() ? 0 : 1;
    wrong += (*async)->WaitAll(clock_.Now() + std::chrono::minutes(1)).ok() ? 0 : 1;
    wrong += (*async)->Get(key, **async_buffer, count).ok() ? 0 : 1;
    wrong += (*async)->WaitAll(clock_.Now() + std::chrono::minutes(1)).ok() ? 0 : 1;
  };
  // Less than is gathered, and more. An operation's place takes the memory that it keeps at the first.
  for (int i = 0; i < 200; ++i) round(i % 2 == 0 ? 100 : 3000);
  const std::size_t before = allocations;
  for (int i = 0; i < 200; ++i) round(i % 2 == 0 ? 100 : 3000);
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace remora
