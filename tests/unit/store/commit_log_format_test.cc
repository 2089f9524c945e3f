// The byte format of groups of the commit log.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "store/durable/commit_log/group_codec.h"
#include "store/format/memory/hash.h"

namespace remora {
namespace {

const std::array<LogEntry, 3> kSomeLogEntries = {
    LogEntry{.version = 7, .expiry_ms = 99, .key = "key", .value = "a value"},
    LogEntry{.kind = LogEntryKind::kDelete, .version = 8, .key = "gone", .request = {5, 6}, .result = -1},
    LogEntry{.kind = LogEntryKind::kMeta, .version = 9, .value = "of the store"}};
constexpr LogGroupPlace kSomeLogPlace = {
    .lsn = Lsn{4096}, .incarnation = 11, .previous = 12, .synced_to = Lsn{64}};

/// Returns an encoded group, aligned as in a file.
std::vector<std::uint64_t> EncodedGroup(std::span<const LogEntry> entries, const LogGroupPlace& place) {
  const std::uint64_t size = LogGroupSize(entries);
  EXPECT_NE(size, 0u);
  std::vector<std::uint64_t> words(size / 8, ~std::uint64_t{0});
  EncodeLogGroup(entries, size, place, reinterpret_cast<char*>(words.data()));
  return words;
}
std::string_view BytesOf(const std::vector<std::uint64_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * 8};
}

TEST(CommitLogFormatTest, ShowsWhatWasEncoded) {
  const auto words = EncodedGroup(kSomeLogEntries, kSomeLogPlace);
  EXPECT_EQ(words.size() * 8, 64u + (24 + 16) + (24 + 24 + 8) + (24 + 16)) << "the drawing in format.h";
  const auto group = VerifyLogGroup(BytesOf(words), kSomeLogPlace.lsn);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->header.first_version, 7u);
  EXPECT_EQ(group->header.count, 3u);
  EXPECT_EQ(group->header.incarnation, 11u);
  EXPECT_EQ(group->header.previous, 12u);
  EXPECT_EQ(group->header.synced_to, 64u);
  EXPECT_EQ(group->end(), kSomeLogPlace.lsn + words.size() * 8);
  LogEntries entries = group->entries();
  for (const LogEntry& expected : kSomeLogEntries) {
    LogEntry entry;
    ASSERT_TRUE(entries.Next(&entry));
    EXPECT_EQ(entry.kind, expected.kind);
    EXPECT_EQ(entry.version, expected.version);
    EXPECT_EQ(entry.expiry_ms, expected.expiry_ms);
    EXPECT_EQ(entry.key, expected.key);
    EXPECT_EQ(entry.value, expected.value);
    EXPECT_EQ(entry.request.client, expected.request.client);
    EXPECT_EQ(entry.request.number, expected.request.number);
    EXPECT_EQ(entry.result, expected.result);
  }
  LogEntry entry;
  EXPECT_FALSE(entries.Next(&entry));
}

TEST(CommitLogFormatTest, SizesOutOfBoundsAreNoGroup) {
  EXPECT_EQ(LogGroupSize({}), 0u);
  const auto size_of = [](const LogEntry& entry) { return LogGroupSize({&entry, 1}); };
  const std::string long_key(kMaxKeySize + 1, 'k');
  EXPECT_EQ(size_of({.version = 1, .key = ""}), 0u);
  EXPECT_EQ(size_of({.version = 1, .key = long_key}), 0u);
  EXPECT_NE(size_of({.version = 1, .key = std::string_view(long_key).substr(1)}), 0u);
  EXPECT_EQ(size_of({.kind = LogEntryKind::kDelete, .version = 1, .key = "k", .value = "v"}), 0u);
  EXPECT_EQ(size_of({.kind = LogEntryKind{0}, .version = 1, .key = "k"}), 0u);
  EXPECT_EQ(size_of({.kind = LogEntryKind{4}, .version = 1, .key = "k"}), 0u);
  const std::string value(kMaxValueSize, 'v');
  const std::vector<LogEntry> many(17, {.version = 1, .key = "k", .value = value});
  EXPECT_NE(LogGroupSize(std::span(many).first(15)), 0u);
  EXPECT_EQ(LogGroupSize(many), 0u) << "more than the largest file has";
}

TEST(CommitLogFormatTest, NoBitMayDiffer) {
  const auto words = EncodedGroup(kSomeLogEntries, kSomeLogPlace);
  for (std::size_t bit = 0; bit < words.size() * 64; ++bit) {
    auto changed = words;
    changed[bit / 64] ^= std::uint64_t{1} << bit % 64;
    EXPECT_FALSE(VerifyLogGroup(BytesOf(changed), kSomeLogPlace.lsn)) << bit;
  }
}

TEST(CommitLogFormatTest, VerifiesOnlyWholeAndAtItsPlace) {
  const auto words = EncodedGroup(kSomeLogEntries, kSomeLogPlace);
  EXPECT_FALSE(VerifyLogGroup(BytesOf(words), Lsn{8192}));
  for (std::size_t size = 0; size < words.size() * 8; ++size) {
    EXPECT_FALSE(VerifyLogGroup(BytesOf(words).substr(0, size), kSomeLogPlace.lsn)) << size;
  }
}

// A checksum is not a signature: a reader must not trust the fields that it covers.
TEST(CommitLogFormatTest, EntriesThatDoNotFillTheGroupAreRejectedInSpiteOfTheChecksum) {
  for (const std::uint32_t count : {0u, 2u, 4u}) {
    auto words = EncodedGroup(kSomeLogEntries, kSomeLogPlace);
    LogGroupHeader header;
    std::memcpy(&header, words.data(), sizeof(header));
    header.count = count;
    std::memcpy(words.data(), &header, sizeof(header));
    words[0] = HashBytes(words.data() + 1, words.size() * 8 - 8);
    EXPECT_FALSE(VerifyLogGroup(BytesOf(words), kSomeLogPlace.lsn)) << count;
  }
  auto words = EncodedGroup(kSomeLogEntries, kSomeLogPlace);
  words[8 + 2] |= 0xffff;  // the size of the first value
  words[0] = HashBytes(words.data() + 1, words.size() * 8 - 8);
  EXPECT_FALSE(VerifyLogGroup(BytesOf(words), kSomeLogPlace.lsn));
}

TEST(CommitLogFormatTest, AFileHeaderNamesItsFile) {
  const LogFileHeader header = MakeLogFileHeader(Lsn{1 << 20}, 1 << 16, 3, 4);
  const std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  const auto found = VerifyLogFileHeader(bytes, Lsn{1 << 20}, 1 << 16);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->incarnation, 3u);
  EXPECT_EQ(found->previous, 4u);
  EXPECT_FALSE(VerifyLogFileHeader(bytes, Lsn{1 << 21}, 1 << 16));
  EXPECT_FALSE(VerifyLogFileHeader(bytes, Lsn{1 << 20}, 1 << 17));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(VerifyLogFileHeader(changed, Lsn{1 << 20}, 1 << 16)) << at;
    EXPECT_FALSE(VerifyLogFileHeader(bytes.substr(0, at), Lsn{1 << 20}, 1 << 16)) << at;
  }
}

}  // namespace
}  // namespace remora
