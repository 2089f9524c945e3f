// A search through memory that says anything: a value that is found is the key's record, whole; nothing
// outside the memory is read; and it ends.
#include <cstring>
#include <string_view>
#include <vector>

#include "store/format/memory/key_search.h"
#include "store/format/memory/record.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

// Of the memory, only these bytes are not zero.
constexpr std::uint64_t kMemorySize = 4 * kSegmentSize;

class Region {
 public:
  explicit Region(std::string_view bytes) : bytes_(bytes) {}
  void Read(std::uint64_t offset, void* to, std::size_t size) const {
    FUZZ_CHECK(offset <= kMemorySize && size <= kMemorySize - offset);
    std::memset(to, 0, size);
    // The input is repeated, so that wherever the search is led, there is something.
    auto* const out = static_cast<char*>(to);
    for (std::size_t i = 0; i < size && !bytes_.empty(); ++i) out[i] = bytes_[(offset + i) % bytes_.size()];
  }

 private:
  const std::string_view bytes_;
};

void Search(std::string_view key, IndexView view, const Region& region, bool seal) {
  const std::uint64_t key_hash = HashKey(key);
  const StoreShape shape{.memory_size = kMemorySize, .incarnation = 1};
  int steps = 0;
  Bucket bucket;
  std::vector<std::byte> body;
  RecordHeader header;
  for (KeySearch search(key, key_hash, shape, &view);;) {
    FUZZ_CHECK(++steps < 100'000);
    switch (search.step()) {
      case KeySearch::Step::kReadBucket: {
        const std::uint64_t place =
            search.bucket().overflow ? search.bucket().number : search.bucket().number % kBucketsPerSegment;
        region.Read(place * sizeof(Bucket), &bucket, sizeof(bucket));
        if (!search.bucket().overflow) {
          // Of the right depth at least, or nothing else is ever tried.
          const std::uint32_t depth = view.HomeOf(key_hash).depth;
          bucket.control =
              EncodeControl(std::max(depth, ControlDepth(bucket.control)), ControlLink(bucket.control));
          bucket.slots[0] |= std::uint64_t{Fingerprint(key_hash)} << 52;
        }
        search.TakeBucket(bucket);
        break;
      }
      case KeySearch::Step::kReadRecord: {
        const Slot slot = search.slot();
        region.Read(slot.offset_bytes(), &header, sizeof(header));
        body.resize(slot.extent_bytes() - sizeof(header));
        region.Read(slot.offset_bytes() + sizeof(header), body.data(), body.size());
        if (seal && SizesMatch(header, slot.extent_bytes())) {
          // An adversary who knows the checksum.
          const std::string_view stored(reinterpret_cast<const char*>(body.data()), header.key_size);
          header.checksum = RecordChecksum(header, HashKey(stored),
                                           HashValue(body.data() + header.key_size, header.value_size),
                                           slot.offset_units, shape.incarnation);
        }
        search.TakeRecord(header, body.data());
        break;
      }
      case KeySearch::Step::kFound:
        FUZZ_CHECK(header.key_size == key.size() && std::memcmp(body.data(), key.data(), key.size()) == 0);
        FUZZ_CHECK(header.key_size + std::size_t{header.value_size} <= body.size());
        return;
      case KeySearch::Step::kCold:
      case KeySearch::Step::kMissing:
      case KeySearch::Step::kUnsure:
        return;
    }
  }
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const auto flags = input.Take<std::uint8_t>();
  std::string_view key = input.Text();
  if (key.empty()) key = "k";
  IndexView view;
  view.level = input.Take<std::uint8_t>() % 30;
  view.split = input.Take<std::uint32_t>() % (std::uint64_t{1} << view.level);
  Search(key, view, Region(input.rest()), (flags & 1) != 0);
  return 0;
}
