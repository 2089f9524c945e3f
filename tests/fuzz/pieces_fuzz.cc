// A record that is read in pieces, out of memory that says anything, while time goes by and its segments'
// generations change. A value that is returned is there, whole, with its checksum; a large one that took long
// is proven. Nothing but the record and the generations is read, and nothing is put outside of the caller's
// memory.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/get/chunked_read.h"
#include "client/session/session.h"
#include "tests/fuzz/hostile_server.h"
#include "tests/fuzz/input.h"

namespace remora {
namespace {

constexpr std::uint64_t kMemorySize = 256 * kSegmentSize;
constexpr std::size_t kMostMemory = 8192;
constexpr std::byte kUntouched{0xa5};

/// Large ones begin a segment, for the most part. They have some megabytes at most: each is hashed thrice.
Slot TakeSlot(Input& input) {
  const auto code = input.Take<std::uint16_t>();
  const std::uint64_t place = input.Take<std::uint32_t>();
  Slot slot{1, std::min(code & 0xfffu, 0xaffu), place};
  if (slot.extent_bytes() > kMaxSmallExtent && (code & 0x8000) == 0) {
    slot.offset_units = place % 256 * (kSegmentSize / kUnitSize);
  }
  return slot;
}

class Record {
 public:
  Record(const Slot& slot, Input& input) : slot_(slot), how_(input.Take<std::uint8_t>()) {
    millis_per_read_ = input.Take<std::uint8_t>();
    header_ = input.Take<RecordHeader>();
    if ((how_ & 1) != 0) {
      // Sizes that match the extent, as near as they can.
      header_.key_size = static_cast<std::uint16_t>(1 + header_.key_size % 8);
      header_.flags = 0;
      const std::uint64_t space = slot.extent_bytes() - sizeof(RecordHeader);
      header_.value_size = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(space - std::min<std::uint64_t>(space, header_.key_size), kMaxValueSize));
    }
    if ((how_ & 2) != 0) header_.version_live |= kLiveBit;
    bytes_ = input.rest();
    if ((how_ & 4) != 0) Seal();
  }

  void Read(std::uint64_t offset, std::span<std::byte> to) const {
    ReadRepeated(bytes_, offset, to);
    ReadOver(AsBytes(header_), slot_.offset_bytes(), offset, to);
  }
  std::string Bytes(std::uint64_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    Read(slot_.offset_bytes() + sizeof(RecordHeader) + offset,
         std::as_writable_bytes(std::span(bytes.data(), size)));
    return bytes;
  }
  const RecordHeader& header() const { return header_; }
  bool generations_change() const { return (how_ & 8) != 0; }
  std::chrono::milliseconds time_per_read() const { return std::chrono::milliseconds(millis_per_read_); }
  bool into_memory() const { return (how_ & 16) != 0; }
  bool of_another_key() const { return (how_ & 32) != 0; }
  bool in_text() const { return (how_ & 64) != 0; }
  std::uint64_t Checksum() const {
    const std::string key = Bytes(0, header_.key_size);
    const std::string value = Bytes(header_.key_size, header_.value_size);
    return RecordChecksum(header_, HashKey(key), HashValue(value.data(), value.size()), slot_.offset_units,
                          1);
  }

 private:
  /// Seals the header as an adversary does that knows the checksum.
  void Seal() {
    if (SizesMatch(header_, slot_.extent_bytes())) header_.checksum = Checksum();
  }

  const Slot slot_;
  const std::uint8_t how_;
  std::uint8_t millis_per_read_ = 0;
  RecordHeader header_{};
  std::string_view bytes_;
};

/// That of the record, which the memory says, or another one.
std::string KeyOf(const Record& record) {
  if (record.of_another_key() || record.header().key_size == 0 || record.header().key_size > kMaxKeySize) {
    return "another";
  }
  return record.Bytes(0, record.header().key_size);
}

void ReadIt(const Slot& slot, const Record& record) {
  const FuzzClock clock;
  const Superblock superblock = HonestSuperblock(kMemorySize);
  bool begun = false;
  std::uint8_t generation = 0;
  const HostileServer::Script script{
      .hello = HonestHello(kMemorySize),
      .read =
          [&](std::uint64_t offset, std::span<std::byte> to) {
            if (!begun) {
              std::ranges::fill(to, std::byte{0});
              ReadOver(AsBytes(superblock), 0, offset, to);
              return;
            }
            clock.Sleep(record.time_per_read());
            if (offset >= BeginningsOffset(kMemorySize) && offset + to.size() <= ChangesOffset(kMemorySize)) {
              std::ranges::fill(to, std::byte{generation});
              return;
            }
            FUZZ_CHECK(offset >= slot.offset_bytes());
            FUZZ_CHECK(offset + to.size() <= slot.offset_bytes() + slot.extent_bytes());
            record.Read(offset, to);
            if (record.generations_change()) ++generation;
          },
      .answer = [](std::string_view, std::span<std::byte>) { return std::string(); }};
  auto session =
      Session::Start(std::make_unique<HostileServer>(script, clock), {},
                     {.location_cache_bytes = 0, .scan_window_bytes = 0, .reconnect = false}, clock);
  FUZZ_CHECK(session.ok());
  begun = true;

  const std::string key = KeyOf(record);
  std::vector<std::byte> memory(kMostMemory + 64, kUntouched);
  const std::size_t capacity = record.header().expiry_ms % kMostMemory;
  auto registered =
      (*session)->endpoint().connection().RegisterMessages(std::span(memory).first(kMostMemory));
  FUZZ_CHECK(registered.ok());
  std::string text;
  ValueTarget target;
  if (record.into_memory()) target.memory = rdma::MakeSge(**registered, 0, capacity);
  if (!record.into_memory() && record.in_text()) target.text = &text;
  if (!NeedsChunks(slot, target)) return;

  const WantedRecord wanted{.key = key,
                            .key_hash = HashKey(key),
                            .slot = slot,
                            .place = {slot.offset_units, slot.extent_bytes(), {}, 1},
                            .learned = (*session)->Coarse()};
  const auto read = ReadInChunks(**session, wanted, target);
  FUZZ_CHECK(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(capacity), memory.end(),
                         [](std::byte byte) { return byte == kUntouched; }));
  FUZZ_CHECK(read.ok());
  if (read->state == RecordState::kTorn) return;
  const RecordHeader& header = read->header;
  FUZZ_CHECK(SizesMatch(header, slot.extent_bytes()));
  FUZZ_CHECK(header.checksum == record.Checksum());
  if (slot.extent_bytes() > kMaxSmallExtent) {
    FUZZ_CHECK(read->proven || (*session)->server().InTime(wanted.learned));
    FUZZ_CHECK(!read->proven || generation == 0);
  }
  if (read->state == RecordState::kForeign) return;
  FUZZ_CHECK(record.Bytes(0, header.key_size) == key);
  const std::string value = record.Bytes(header.key_size, header.value_size);
  if (target.text != nullptr) FUZZ_CHECK(text == value);
  if (target.memory)
    FUZZ_CHECK(std::memcmp(memory.data(), value.data(), std::min(capacity, value.size())) == 0);
}

}  // namespace
}  // namespace remora

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace remora;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const Slot slot = TakeSlot(input);
  if (!SlotNamesPlace(slot, kMemorySize)) return 0;
  ReadIt(slot, Record(slot, input));
  return 0;
}
