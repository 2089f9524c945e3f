// A leaf of the ordered index, as a server could have spelled it: any bytes, with the checksum that makes
// them verify. An image that verifies has its keys in order, inside its fences.
#include <cstring>
#include <string>
#include <vector>

#include "store/format/memory/leaf_block.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

constexpr std::uint64_t kPlace = 3 * kLeafBlockSize;
constexpr std::uint64_t kStore = 7;

void CheckImage(const LeafImage& image) {
  FUZZ_CHECK(!image.keys.empty());
  for (std::size_t i = 0; i < image.keys.size(); ++i) {
    const std::string_view key = image.keys[i];
    FUZZ_CHECK(key.size() >= kMinKeySize && key.size() <= kMaxKeySize);
    FUZZ_CHECK(image.Covers(key));
    FUZZ_CHECK(i == 0 || image.keys[i - 1] < key);
  }
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  remora::Input input(data, size);
  std::vector<std::byte> block(remora::kLeafBlockSize);
  auto header = input.Take<remora::LeafHeader>();
  header.used %= remora::kLeafSpace + 1;
  const std::string_view entries = input.Bytes(header.used);
  header.used = static_cast<std::uint16_t>(entries.size());
  // The last bytes of the input are the fences.
  const std::size_t left = remora::kLeafSpace - entries.size();
  header.low_size = static_cast<std::uint16_t>(header.low_size % (left + 1));
  header.high_size = static_cast<std::uint16_t>(header.high_size % (left - header.low_size + 1));
  const std::size_t fences_size = std::size_t{header.low_size} + header.high_size;
  std::byte* const fences = block.data() + block.size() - fences_size;
  const std::string_view given = input.Bytes(fences_size);
  std::memcpy(fences, given.data(), given.size());
  std::memcpy(block.data() + sizeof(header), entries.data(), entries.size());
  header.checksum = remora::LeafChecksum(
      header, entries, {reinterpret_cast<const char*>(fences), fences_size}, remora::kPlace, remora::kStore);
  std::memcpy(block.data(), &header, sizeof(header));
  remora::LeafImage image;
  const remora::LeafRead read = remora::ReadLeaf(block, remora::kPlace, remora::kStore, &image);
  FUZZ_CHECK(read == remora::LeafRead::kVerified || read == remora::LeafRead::kMalformed);
  if (read == remora::LeafRead::kVerified) remora::CheckImage(image);
  // The input as a whole block, with the checksum it has.
  std::memcpy(block.data(), data, size < block.size() ? size : block.size());
  if (remora::ReadLeaf(block, remora::kPlace, remora::kStore, &image) == remora::LeafRead::kVerified) {
    remora::CheckImage(image);
  }
  return 0;
}
