// Readers that remember places, against a writer that spells records. The bytes of its values, at the place
// where another key's record once stood, are a record of that key that verifies, live bit and all. Under the
// simulated transport time passes when the test says so, between READs and inside them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "client/client.h"
#include "store/format/memory/record.h"
#include "tests/simulation/sim_served.h"

namespace remora {

inline constexpr char kVictim[] = "victim";
inline constexpr std::size_t kBigSize = 100'000;
// So few that a segment is emptied well within a grace period.
inline constexpr int kBigKeys = 30;
inline constexpr std::size_t kBigKeySize = 6;  // "b10000"
inline constexpr std::uint64_t kBigExtent = ExtentUnits(RecordExtentCode(kBigKeySize, kBigSize)) * kUnitSize;
inline constexpr std::size_t kBigHead = sizeof(RecordHeader) + kBigKeySize;

class LocationAttack : public SimServed, public testing::Test {
 protected:
  LocationAttack() : SimServed(/*seed=*/3) {}

  void SetUp() override {
    ServerOptions options;
    options.store.memory_size = kMinMemorySize;
    options.store.eviction = Eviction::kNone;
    options.store.clock = &network_.clock();
    Choose(&options.store);
    ASSERT_NO_FATAL_FAILURE(Serve(options));
    network_.set_piece_size(4096);
    writer_ = Connect(0);
  }

  /// Changes the store's options.
  virtual void Choose(StoreOptions* /*options*/) {}

  std::unique_ptr<Client> Connect(std::size_t location_cache_bytes) {
    return SimServed::Connect({.location_cache_bytes = location_cache_bytes});
  }

  std::string Get(std::string_view key) {
    std::string value;
    const absl::Status status = reader_->Get(key, &value);
    return status.ok() ? value : status.ToString();
  }

  void Put(std::string_view key, std::string_view value) {
    const absl::Status status = writer_->Put(key, value);
    ASSERT_TRUE(status.ok()) << status;
  }

  /// Makes a new reader know where the victim's record is, and remembers it here, too.
  virtual void Plant() {
    reader_ = Connect(std::size_t{1} << 16);
    PutVictim("good 1");
    for (int i = 0; i < 3; ++i) ASSERT_EQ(Get(kVictim), "good 1");
    ASSERT_EQ(reader_->counters().location_hits, 2u);
  }

  /// Where its bytes come to lie inside the value of a big record.
  void PutVictim(std::string_view value) {
    do {
      Put("filler", std::string(5000, 'f'));
      Put(kVictim, value);
      victim_ = DecodeSlot(server_->store().Locate(kVictim)->slot);
    } while (!HasFailure() && (IntoBig() < kBigHead || IntoBig() > kBigSize - 100 || IsBehindTheLastBig()));
  }

  /// Where the victim's place is in a big record, if its segment were full of these from the start.
  std::uint64_t IntoBig() const { return victim_.offset_bytes() % kSegmentSize % kBigExtent; }
  bool IsBehindTheLastBig() const {
    return victim_.offset_bytes() % kSegmentSize >= kSegmentSize / kBigExtent * kBigExtent;
  }

  /// A record of the victim's key with this value, as it would have to be to verify at the victim's old
  /// place.
  std::string Spell(std::string_view value) const {
    RecordHeader header{};
    header.version_live = std::uint64_t{1000} << 1 | kLiveBit;
    header.key_size = sizeof(kVictim) - 1;
    header.value_size = static_cast<std::uint32_t>(value.size());
    header.checksum = RecordChecksum(header, HashKey(kVictim), HashValue(value.data(), value.size()),
                                     victim_.offset_units, server_->store().superblock().incarnation);
    std::string bytes(sizeof(header), '\0');
    std::memcpy(bytes.data(), &header, sizeof(header));
    return bytes.append(kVictim).append(value);
  }

  /// Returns true if the bytes at the victim's old place verify as the victim's, live, and not as `allowed`.
  bool EvilStandsThere() const {
    const std::byte* const place = Region() + victim_.offset_bytes();
    RecordHeader header;
    std::memcpy(&header, place, sizeof(header));
    const std::byte* const body = place + sizeof(header);
    return CheckRecord(header, body, kVictim, HashKey(kVictim),
                       {victim_.offset_units,
                        victim_.extent_bytes(),
                        {},
                        server_->store().superblock().incarnation}) == RecordState::kLive &&
           std::memcmp(body + header.key_size, "evil", 4) == 0;
  }

  /// Overwrites big values until one of them has taken the victim's old place. Each carries the spelled
  /// record where that place is in whichever segment it comes to stand, as the i-th from its start. Calls
  /// `each` after each write.
  template <typename Each>
  void Attack(const Each& each) {
    Overwrite([&] {
      each();
      return EvilStandsThere();
    });
  }
  template <typename Done>
  void Overwrite(const Done& done) {
    std::string value(kBigSize, 'b');
    const std::string evil = Spell("evil 1");
    ASSERT_GE(IntoBig(), kBigHead);
    value.replace(IntoBig() - kBigHead, evil.size(), evil);
    ASSERT_EQ(value.size(), kBigSize);
    for (int i = 0; i < 5000; ++i) {
      if (HasFailure() || done()) return;
      Put("b" + std::to_string(10'000 + next_big_++ % big_keys_), value);
    }
    FAIL() << "the place was not used again";
  }

  /// How often the victim's segment was emptied, modulo 256.
  std::byte Generation() const {
    return Region()[GenerationsOffset(kMinMemorySize) + victim_.offset_bytes() / kSegmentSize];
  }
  const std::byte* Region() const {
    return reinterpret_cast<const std::byte*>(&server_->store().superblock());
  }

  // --- Attacks on a reader that knows the place, whatever told it

  void AttackWhileItSleeps() {
    Plant();
    Put(kVictim, "good 2");
    Attack([] {});
    EXPECT_EQ(Get(kVictim), "good 2");
  }
  void AttackADeletedKey() {
    Plant();
    ASSERT_TRUE(writer_->Delete(kVictim).ok());
    Attack([] {});
    EXPECT_EQ(Get(kVictim), "NOT_FOUND: no such key");
  }
  /// The reader's looks are recent all the time, because of other keys. It touches the victim's old place
  /// only in the end.
  void AttackWhileItReadsOtherKeys() {
    Put("other", "value");
    Plant();
    Put(kVictim, "good 2");
    Attack([&] { ASSERT_EQ(Get("other"), "value"); });
    EXPECT_GT(reader_->counters().generation_reads, 1u);
    EXPECT_EQ(Get(kVictim), "good 2");
  }

  std::unique_ptr<Client> reader_;
  std::unique_ptr<Client> writer_;
  Slot victim_;
  int next_big_ = 0;
  int big_keys_ = kBigKeys;
};

}  // namespace remora
