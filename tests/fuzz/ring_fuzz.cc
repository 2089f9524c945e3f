// The rings of the local transport, whose other end is another process, which writes there what and when it
// likes. No message is longer than any may be, none is taken but the next one, and what lies ends the ring.
#include <array>
#include <vector>

#include "rdma/local/ring.h"
#include "rdma/transport.h"
#include "tests/fuzz/input.h"

namespace {

using namespace remora::rdma;  // NOLINT(google-build-using-namespace)

constexpr std::uint32_t kSlots = 64;

/// A side, and its slots behind it: as much memory as they take, so that a sanitizer sees who reads beyond.
class Side {
 public:
  LocalSide& operator*() { return *side_; }
  LocalSide* get() { return side_; }
  LocalSlot& slot(std::uint64_t number) { return side_->slots()[number % kSlots]; }

 private:
  struct alignas(kCacheLine) Line {
    std::array<std::byte, kCacheLine> bytes{};
  };
  static_assert(LocalSideBytes(kSlots) % sizeof(Line) == 0);
  std::vector<Line> memory_ = std::vector<Line>(LocalSideBytes(kSlots) / sizeof(Line));
  LocalSide* const side_ = reinterpret_cast<LocalSide*>(memory_.data());  // as in a mapping of zeros
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  remora::Input input(data, size);
  Side own;
  Side peer;
  RingReader reader(own.get(), peer.get(), kSlots);
  RingWriter writer(own.get(), peer.get(), kSlots);
  std::uint64_t pushed = 0;
  std::array<std::byte, kMaxMessageSize> message;
  message.fill(std::byte{1});
  while (!input.empty()) {
    const auto what = input.Take<std::uint8_t>();
    switch (what % 6) {
      case 0:
        peer.slot((*own).consumed).head = LocalHead((*own).consumed + 1, input.Take<std::uint16_t>());
        break;
      case 1:
        peer.slot((*own).consumed + (what >> 6)).head = input.Take<std::uint64_t>();
        break;
      case 2:
        (*peer).consumed = (what & 64) != 0 ? input.Take<std::uint64_t>() : pushed;
        break;
      case 3:
        peer.slot(what >> 3).head = LocalHead(what >> 3, input.Take<std::uint16_t>());
        break;
      case 4: {
        const std::size_t length = input.Take<std::uint16_t>() % (kMaxMessageSize + 1);
        LocalSlot& next = own.slot(pushed);
        const std::uint64_t before = next.head;
        const RingResult result = writer.Push(std::span(message).first(length));
        if (result == RingResult::kDone) {
          FUZZ_CHECK(next.head == LocalHead(pushed + 1, length));
          pushed += LocalSlotsOf(length);
        } else {
          FUZZ_CHECK(next.head == before);
        }
        break;
      }
      default: {
        std::uint32_t length = 0;
        const std::uint64_t before = (*own).consumed;
        const bool has_message = reader.HasMessage();
        const RingResult result = reader.Peek(&length);
        FUZZ_CHECK(has_message == (result != RingResult::kNotNow));
        if (result != RingResult::kDone) break;
        FUZZ_CHECK(length <= kMaxMessageSize && LocalSlotsOf(length) <= kSlots);
        // The other end thinks better of it meanwhile.
        if ((what & 64) != 0) peer.slot(before).head = input.Take<std::uint64_t>();
        reader.Take(message.data(), length);
        FUZZ_CHECK((*own).consumed - before == LocalSlotsOf(length));
      }
    }
  }
  return 0;
}
