#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rdma/local/ring.h"
#include "rdma/shared_copy.h"

namespace remora::rdma {
namespace {

constexpr std::uint32_t kSlots = 8;

/// The memory of both sides.
struct Sides {
  struct Side {
    LocalSide side;
    LocalSlot slots[kSlots];
  };
  std::unique_ptr<Side> writing = std::make_unique<Side>();
  std::unique_ptr<Side> reading = std::make_unique<Side>();
  RingWriter Writer() { return RingWriter(&writing->side, &reading->side, kSlots); }
  RingReader Reader() { return RingReader(&reading->side, &writing->side, kSlots); }
};

RingResult Push(RingWriter& writer, const std::string& message) {
  return writer.Push(std::as_bytes(std::span(message)));
}

/// The next message, or "(none)", or "(lie)".
std::string Pop(RingReader& reader) {
  std::uint32_t length = 0;
  const RingResult result = reader.Peek(&length);
  if (result != RingResult::kDone) return result == RingResult::kNotNow ? "(none)" : "(lie)";
  std::string message(length, '\0');
  reader.Take(reinterpret_cast<std::byte*>(message.data()), length);
  return message;
}

TEST(LocalRing, FirstInFirstOut) {
  Sides sides;
  RingWriter writer = sides.Writer();
  RingReader reader = sides.Reader();
  EXPECT_FALSE(reader.HasMessage());
  EXPECT_EQ(Pop(reader), "(none)");
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(Push(writer, ""), RingResult::kDone);
    EXPECT_EQ(Push(writer, std::string(kMaxShortMessage, 'x')), RingResult::kDone);
    EXPECT_EQ(Push(writer, "end"), RingResult::kDone);
    EXPECT_TRUE(reader.HasMessage());
    EXPECT_EQ(Pop(reader), "");
    EXPECT_EQ(Pop(reader), std::string(kMaxShortMessage, 'x'));
    EXPECT_EQ(Pop(reader), "end");
    EXPECT_EQ(Pop(reader), "(none)");
  }
}

TEST(LocalRing, ALongMessageTakesSeveralSlots) {
  Sides sides;
  RingWriter writer = sides.Writer();
  RingReader reader = sides.Reader();
  for (std::size_t size = 1; size <= kSlots * kMaxShortMessage; size += 51) {
    std::string message(size, '\0');
    std::iota(message.begin(), message.end(), static_cast<char>(size));
    ASSERT_EQ(Push(writer, message), RingResult::kDone) << size;
    ASSERT_EQ(Pop(reader), message) << size;
  }
  EXPECT_EQ(Push(writer, std::string(kSlots * kMaxShortMessage + 1, 'x')), RingResult::kNotNow);
  EXPECT_EQ(Push(writer, std::string((kSlots - 1) * kMaxShortMessage, 'x')), RingResult::kDone);
  EXPECT_EQ(Push(writer, std::string(kMaxShortMessage + 1, 'y')), RingResult::kNotNow);
  EXPECT_EQ(Push(writer, "y"), RingResult::kDone);
  EXPECT_EQ(Pop(reader), std::string((kSlots - 1) * kMaxShortMessage, 'x'));
  EXPECT_EQ(Pop(reader), "y");
  EXPECT_EQ(Pop(reader), "(none)");
}

TEST(LocalRing, HoldsAsManyAsItHasSlots) {
  Sides sides;
  RingWriter writer = sides.Writer();
  RingReader reader = sides.Reader();
  for (std::uint32_t i = 0; i < kSlots; ++i) EXPECT_EQ(Push(writer, std::to_string(i)), RingResult::kDone);
  EXPECT_EQ(Push(writer, "more"), RingResult::kNotNow);
  EXPECT_EQ(Pop(reader), "0");
  EXPECT_EQ(Push(writer, "more"), RingResult::kDone);
  EXPECT_EQ(Push(writer, "and more"), RingResult::kNotNow);
  for (std::uint32_t i = 1; i < kSlots; ++i) EXPECT_EQ(Pop(reader), std::to_string(i));
  EXPECT_EQ(Pop(reader), "more");
}

TEST(LocalRing, AWriterThatLiesIsFoundOut) {
  for (const std::size_t length : {kMaxMessageSize + 1, std::size_t{0xffff}, kSlots * kMaxShortMessage + 1}) {
    Sides sides;
    RingReader reader = sides.Reader();
    sides.writing->slots[0].head = LocalHead(1, length);
    EXPECT_EQ(Pop(reader), "(lie)") << length;
  }
}

TEST(LocalRing, OnlyTheNextMessageIsTaken) {
  Sides sides;
  RingWriter writer = sides.Writer();
  RingReader reader = sides.Reader();
  // A round, and one slot: others hold heads of a round ago, and those within a long message none at all.
  ASSERT_EQ(Push(writer, std::string(3 * kMaxShortMessage, 'x')), RingResult::kDone);
  ASSERT_EQ(Pop(reader).size(), 3 * kMaxShortMessage);
  for (std::uint32_t i = 3; i <= kSlots; ++i) {
    ASSERT_EQ(Push(writer, std::to_string(i)), RingResult::kDone);
    ASSERT_EQ(Pop(reader), std::to_string(i));
    EXPECT_EQ(Pop(reader), "(none)") << i;
  }
  constexpr std::uint64_t kNext = kSlots + 2;
  for (const std::uint64_t number :
       {std::uint64_t{0}, kNext - kSlots, kNext - 1, kNext + 1, kNext + kSlots, ~std::uint64_t{0}}) {
    sides.writing->slots[1].head = LocalHead(number, 1);
    EXPECT_FALSE(reader.HasMessage()) << number;
    EXPECT_EQ(Pop(reader), "(none)") << number;
  }
  sides.writing->slots[1].head = LocalHead(kNext, 1);
  EXPECT_TRUE(reader.HasMessage());
  EXPECT_EQ(Pop(reader).size(), 1);
}

TEST(LocalRing, AReaderThatLiesIsFoundOut) {
  for (const std::uint64_t consumed :
       {std::uint64_t{kSlots + 1}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    Sides sides;
    RingWriter writer = sides.Writer();
    for (std::uint32_t i = 0; i < kSlots; ++i) ASSERT_EQ(Push(writer, "x"), RingResult::kDone);
    sides.reading->side.consumed = consumed;
    EXPECT_EQ(Push(writer, "x"), RingResult::kPeerLies) << consumed;
  }
}

TEST(LocalRing, TwoThreads) {
  Sides sides;
  constexpr int kMessages = 50000;
  const auto message = [](int i) {
    return std::string(static_cast<std::size_t>(i) % (4 * kMaxShortMessage + 1),
                       static_cast<char>('a' + i % 26));
  };
  std::thread thread([&] {
    RingWriter writer = sides.Writer();
    for (int i = 0; i < kMessages; ++i) {
      while (Push(writer, message(i)) == RingResult::kNotNow) std::this_thread::yield();
    }
  });
  RingReader reader = sides.Reader();
  for (int i = 0; i < kMessages; ++i) {
    while (!reader.HasMessage()) std::this_thread::yield();
    ASSERT_EQ(Pop(reader), message(i)) << i;
  }
  thread.join();
}

/// Waits until another thread, which may have no CPU just now, changes `round`. Returns the new one.
int NextRound(const std::atomic<int>& round, int last) {
  int now = last;
  for (int i = 0; (now = round.load(std::memory_order_acquire)) == last; ++i) {
    if (i > 1000) std::this_thread::yield();
  }
  return now;
}

// A4. Both begin at once, with an offset that varies. Without the order of A4, each loads while its own store
// is still in flight, and now and then both see nothing. A busy machine has time for fewer rounds.
TEST(LocalRing, ASleeperFindsTheMessageOrIsFound) {
  constexpr int kRounds = 300'000;
  constexpr int kEnd = -1;
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  Sides sides;
  SleepMark& mark = sides.reading->side.sleeping;
  std::atomic<int> begun = 0;
  std::atomic<int> written = 0;
  std::uint32_t sleep = 0;  // the sleep that the writer saw; `written` hands it over
  std::thread thread([&] {
    RingWriter writer = sides.Writer();
    for (int round = 0; (round = NextRound(begun, round)) != kEnd;) {
      const RingResult pushed = writer.Push({});
      sleep = mark.Sleep();
      EXPECT_EQ(pushed, RingResult::kDone);
      written.store(round, std::memory_order_release);
    }
  });
  RingReader reader = sides.Reader();
  int lost = 0;
  for (int round = 1; round <= kRounds && std::chrono::steady_clock::now() < enough; ++round) {
    begun.store(round, std::memory_order_release);
    for (int i = 0; i < round % 1024; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    mark.FallAsleep();
    const bool found = reader.HasMessage();
    NextRound(written, round - 1);
    if (!found && sleep == 0) ++lost;
    EXPECT_EQ(Pop(reader), "");
    mark.WakeUp();
  }
  begun.store(kEnd, std::memory_order_release);
  thread.join();
  EXPECT_EQ(lost, 0);
}

TEST(CopyShared, AllAlignmentsAndSizes) {
  constexpr std::size_t kLongest = 532;
  std::vector<std::byte> from(kLongest + 16);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (std::size_t offset = 0; offset < 9; ++offset) {
    for (std::size_t size = 0; size <= kLongest; ++size) {
      std::vector<std::byte> to(size + 2, std::byte{0xee});
      CopyShared(to.data() + 1, from.data() + offset, size);
      ASSERT_EQ(std::memcmp(to.data() + 1, from.data() + offset, size), 0) << offset << ' ' << size;
      ASSERT_EQ(to.front(), std::byte{0xee});
      ASSERT_EQ(to.back(), std::byte{0xee});
    }
  }
}

// With ThreadSanitizer, this fails if the copy is one that it sees.
TEST(CopyShared, CopiesWhatIsBeingWritten) {
  std::vector<std::byte> shared(4096);
  std::atomic<int> rounds = 0;
  std::thread writer([&] {
    for (int round = 1; round <= 1000; ++round) {
      std::memset(shared.data(), round & 0xff, shared.size());
      rounds.store(round, std::memory_order_relaxed);
    }
  });
  std::vector<std::byte> copy(shared.size());
  while (rounds.load(std::memory_order_relaxed) < 1000) {
    for (const std::size_t size : {24u, 512u, 4093u}) CopyShared(copy.data(), shared.data() + 3, size);
  }
  writer.join();
}

}  // namespace
}  // namespace remora::rdma
