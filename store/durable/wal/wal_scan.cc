#include "store/durable/wal/wal_scan.h"

#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace remora {
namespace {

constexpr std::size_t kBlock = 32768;
constexpr std::size_t kHeader = 7;
enum RecordType : std::uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

constexpr std::array<std::uint32_t, 256> MakeCrcTable() {
  constexpr std::uint32_t kCastagnoli = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    table[i] = crc;
  }
  return table;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t AddWithInstruction(std::uint32_t crc,
                                                                   std::string_view bytes) {
  std::uint64_t wide = crc;
  for (; bytes.size() >= sizeof(wide); bytes.remove_prefix(sizeof(wide))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (const char byte : bytes) crc = __builtin_ia32_crc32qi(crc, static_cast<std::uint8_t>(byte));
  return crc;
}
bool HasInstruction() { return __builtin_cpu_supports("sse4.2") != 0; }
#else
std::uint32_t AddWithInstruction(std::uint32_t crc, std::string_view) { return crc; }
bool HasInstruction() { return false; }
#endif

/// Adds bytes to a running CRC-32C, without the inversions at its start and end. A starting store waits for
/// the checksums of all its logs. With the CPU's CRC instruction they take a small part of the replay's time.
std::uint32_t Add(std::uint32_t crc, std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = MakeCrcTable();
  static const bool has_instruction = HasInstruction();
  if (has_instruction) return AddWithInstruction(crc, bytes);
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return crc;
}

constexpr std::uint32_t kBegun = ~std::uint32_t{0};

/// Returns the CRC in the form that a record's header has: inverted, rotated, and with a constant added. So
/// it differs from the CRC of bytes that contain CRCs.
std::uint32_t Masked(std::uint32_t crc) {
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

struct Header {
  std::uint32_t crc = 0;
  std::uint16_t size = 0;
};

Header HeaderOf(std::string_view record) {
  Header header;
  std::memcpy(&header.crc, record.data(), sizeof(header.crc));
  std::memcpy(&header.size, record.data() + 4, sizeof(header.size));
  return header;
}

/// Returns whether only the size of a record is damaged. REQUIRES: the record's size exceeds its block.
/// Tries all sizes that fit, and compares the checksum.
bool OnlySizeIsWrong(std::string_view record) {
  const std::uint32_t wanted = HeaderOf(record).crc;
  std::uint32_t crc = Add(kBegun, record.substr(kHeader - 1, 1));
  for (std::size_t end = kHeader; Masked(crc) != wanted; ++end) {
    if (end == record.size()) return false;
    crc = Add(crc, record.substr(end, 1));
  }
  return true;
}

/// Reads a log block by block, and assembles its records.
class Walk {
 public:
  explicit Walk(const LogRecordVisitor* visit) : visit_(visit) {}

  void Block(std::string_view block) {
    const std::uint64_t begin = next_;
    next_ += block.size();
    const std::string_view whole = block;
    while (block.size() >= kHeader) {
      const std::uint64_t at = begin + (whole.size() - block.size());
      const Header header = HeaderOf(block);
      const auto type = static_cast<std::uint8_t>(block[kHeader - 1]);
      if (header.size > block.size() - kHeader) {
        const bool fits_block = at - begin + kHeader + header.size <= kBlock;
        // This may be the end of the log: only its last block is shorter than kBlock.
        if (fits_block && IsFollowing(type) && !OnlySizeIsWrong(block)) {
          state_.ends_short = true;
          return;
        }
        return Damaged(at);
      }
      // If a part is damaged, so may be its size. Continue at the next block, which begins with a part.
      if (Masked(Add(kBegun, block.substr(kHeader - 1, 1 + std::size_t{header.size}))) != header.crc) {
        return Damaged(at);
      }
      if (IsPart(type)) {
        if (!IsFollowing(type)) Damaged(at);
        Take(type, block.substr(kHeader, header.size));
      }
      block.remove_prefix(kHeader + header.size);
    }
    state_.ends_short |= !block.empty() && whole.size() < kBlock;
  }

  LogState End() {
    state_.ends_short |= in_record_;
    return state_;
  }

 private:
  /// Returns whether this is a part of a record. Other types stem from later versions of RocksDB, and are no
  /// part of a batch.
  static bool IsPart(std::uint8_t type) { return type >= kFull && type <= kLast; }
  /// Returns whether a part of this type is valid at this place.
  bool IsFollowing(std::uint8_t type) const {
    const bool begins = type == kFull || type == kFirst;
    return IsPart(type) ? begins != in_record_ : type != 0;
  }

  /// Notes the damage, and drops the record that is being assembled. So the walk skips its other parts.
  void Damaged(std::uint64_t at) {
    in_record_ = false;
    if (!state_.damaged_at) state_.damaged_at = at;
  }

  void Take(std::uint8_t type, std::string_view part) {
    if (type == kFull || type == kFirst) {
      record_.clear();
      in_record_ = true;
    }
    if (!in_record_) return;
    if (visit_ != nullptr) record_.append(part);
    if (type != kFull && type != kLast) return;
    in_record_ = false;
    if (visit_ != nullptr) (*visit_)(record_);
  }

  const LogRecordVisitor* const visit_;
  LogState state_;
  std::uint64_t next_ = 0;  // offset of the next block
  std::string record_;
  bool in_record_ = false;
};

std::optional<LogState> WalkLog(const std::string& path, const LogRecordVisitor* visit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  Walk walk(visit);
  std::string block(kBlock, '\0');
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    walk.Block(std::string_view(block).substr(0, static_cast<std::size_t>(file.gcount())));
  }
  if (!file.eof()) return std::nullopt;
  return walk.End();
}

/// Finds the highest mark in batches.
class MarkReader : public rocksdb::WriteBatch::Handler {
 public:
  MarkReader(std::uint32_t family, std::string_view key, std::uint64_t& highest)
      : family_(family), key_(key), highest_(highest) {}

  rocksdb::Status PutCF(std::uint32_t family, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    std::uint64_t mark = 0;
    if (family == family_ && key == rocksdb::Slice(key_.data(), key_.size()) &&
        value.size() == sizeof(mark)) {
      std::memcpy(&mark, value.data(), sizeof(mark));
      highest_ = std::max(highest_, mark);
    }
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(std::uint32_t, const rocksdb::Slice&) override { return rocksdb::Status::OK(); }
  rocksdb::Status DeleteRangeCF(std::uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
    return rocksdb::Status::OK();
  }

 private:
  const std::uint32_t family_;
  const std::string_view key_;
  std::uint64_t& highest_;
};

}  // namespace

std::optional<LogState> CheckLog(const std::string& path) { return WalkLog(path, nullptr); }

bool ScanLog(const std::string& path, LogRecordVisitor visit) { return WalkLog(path, &visit).has_value(); }

std::optional<std::vector<std::string>> LogsIn(const std::string& path) {
  std::vector<std::string> logs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().extension() == ".log") logs.push_back(entry.path());
  }
  if (error) return std::nullopt;
  // Sort by number. Numbers have at least six digits, so a longer name has a higher number.
  std::sort(logs.begin(), logs.end(), [](const std::string& one, const std::string& other) {
    return std::pair(one.size(), one) < std::pair(other.size(), other);
  });
  return logs;
}

std::optional<std::uint64_t> HighestMark(const std::string& path, std::uint32_t family,
                                         std::string_view key) {
  std::uint64_t highest = 0;
  MarkReader reader(family, key, highest);
  const auto logs = LogsIn(path);
  if (!logs) return std::nullopt;
  for (const std::string& log : *logs) {
    const bool read = ScanLog(log, [&](const std::string& record) {
      // A record that is no batch was not written by a store, and is ignored.
      rocksdb::WriteBatch(record).Iterate(&reader).PermitUncheckedError();
    });
    if (!read) return std::nullopt;
  }
  return highest;
}

}  // namespace remora
