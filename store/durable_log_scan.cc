#include "store/durable_log_scan.h"

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

/// As a record's header has it: CRC-32C, turned and shifted so that it is not the CRC of bytes with CRCs in
/// them.
std::uint32_t MaskedCrc(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = MakeCrcTable();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/// Puts records together. What is left of one whose beginning or end is damaged is skipped.
class Assembly {
 public:
  explicit Assembly(LogRecordVisitor visit) : visit_(visit) {}

  void Broken() { in_record_ = false; }

  void Add(std::uint8_t type, std::string_view part) {
    if (type == kFull || type == kFirst) {
      record_.clear();
      in_record_ = true;
    }
    if (!in_record_) return;
    record_.append(part);
    if (type != kFull && type != kLast) return;
    in_record_ = false;
    visit_(record_);
  }

 private:
  LogRecordVisitor visit_;
  std::string record_;
  bool in_record_ = false;
};

void ScanBlock(std::string_view block, Assembly& assembly) {
  while (block.size() >= kHeader) {
    std::uint32_t crc = 0;
    std::uint16_t size = 0;
    std::memcpy(&crc, block.data(), sizeof(crc));
    std::memcpy(&size, block.data() + 4, sizeof(size));
    const auto type = static_cast<std::uint8_t>(block[6]);
    const bool fits = type >= kFull && type <= kLast && size <= block.size() - kHeader;
    // Where one is damaged, so may be its size: the next block begins with another.
    if (!fits || MaskedCrc(block.substr(6, 1 + std::size_t{size})) != crc) return assembly.Broken();
    assembly.Add(type, block.substr(kHeader, size));
    block.remove_prefix(kHeader + size);
  }
}

/// Keeps the highest mark.
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

bool ScanLog(const std::string& path, LogRecordVisitor visit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  Assembly assembly(visit);
  std::string block(kBlock, '\0');
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    ScanBlock(std::string_view(block).substr(0, static_cast<std::size_t>(file.gcount())), assembly);
  }
  return file.eof();
}

std::optional<std::uint64_t> HighestMark(const std::string& path, std::uint32_t family,
                                         std::string_view key) {
  std::uint64_t highest = 0;
  MarkReader reader(family, key, highest);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().extension() != ".log") continue;
    const bool read = ScanLog(entry.path(), [&](const std::string& record) {
      // One that is no batch is not of ours.
      rocksdb::WriteBatch(record).Iterate(&reader).PermitUncheckedError();
    });
    if (!read) return std::nullopt;
  }
  if (error) return std::nullopt;
  return highest;
}

}  // namespace remora
