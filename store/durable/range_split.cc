#include "store/durable/range_split.h"

#include <rocksdb/db.h>
#include <rocksdb/metadata.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "store/format/memory/layout.h"

namespace remora {
namespace {

/// Returns a string about in the middle between two, read as fractions in base 256. Returns `low` if there is
/// none, or none that differs in few enough digits. REQUIRES: low <= high.
std::string Middle(std::string_view low, std::string_view high) {
  const auto differ = std::mismatch(low.begin(), low.end(), high.begin(), high.end());
  const auto same = static_cast<std::size_t>(differ.first - low.begin());
  const auto digit = [same](std::string_view text, std::size_t i) {
    return same + i < text.size() ? static_cast<unsigned char>(text[same + i]) : 0u;
  };
  // Keys may be long. The caller bisects further, so a few digits at a time suffice.
  constexpr std::size_t kMaxSuffixDigits = 16;
  std::string digits(std::min(std::max(low.size(), high.size()) - same + 1, kMaxSuffixDigits), '\0');
  unsigned carry = 0;
  for (std::size_t i = digits.size(); i-- > 0;) {
    const unsigned sum = digit(low, i) + digit(high, i) + carry;
    digits[i] = static_cast<char>(sum & 0xff);
    carry = sum >> 8;
  }
  for (char& byte : digits) {
    const unsigned twice = carry << 8 | static_cast<unsigned char>(byte);
    byte = static_cast<char>(twice >> 1);
    carry = twice & 1;
  }
  while (digits.ends_with('\0')) digits.pop_back();
  std::string middle(low.substr(0, same));
  middle += digits;
  return middle > low ? middle : std::string(low);
}

class Splitter {
 public:
  Splitter(rocksdb::DB& db, rocksdb::ColumnFamilyHandle& family) : db_(db), family_(family) {}

  std::vector<std::string> Borders(std::size_t parts) const {
    constexpr std::uint64_t kSmallestRange = 16 << 10;
    parts = std::min<std::uint64_t>(parts, std::max<std::uint64_t>(SizesAt(beyond_).all / kSmallestRange, 1));
    const double part = 1 / static_cast<double>(parts);
    const std::vector<std::string> anchors = Anchors();
    std::vector<std::string> borders;
    for (std::size_t i = 1; i < parts; ++i) {
      borders.push_back(Border(anchors, part * static_cast<double>(i), part / 64));
    }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    if (!borders.empty() && borders.front().empty()) borders.erase(borders.begin());
    return borders;
  }

 private:
  /// Estimates of the bytes of entries, in tables and in memory.
  struct Sizes {
    std::uint64_t before = 0;  // of the entries before a key
    std::uint64_t all = 0;
  };

  /// Both sizes are of one state of RocksDB: a compaction may halve them from one call to the next.
  Sizes SizesAt(std::string_view key) const {
    rocksdb::SizeApproximationOptions options;
    options.include_memtables = true;
    options.include_files = true;
    const std::array<rocksdb::Range, 2> ranges = {rocksdb::Range({}, rocksdb::Slice(key.data(), key.size())),
                                                  rocksdb::Range({}, beyond_)};
    std::array<std::uint64_t, 2> bytes = {};
    // If a table cannot be read, the estimates are 0. A reader that scans the table gets the error.
    if (!db_.GetApproximateSizes(options, &family_, ranges.data(), 2, bytes.data()).ok()) return {};
    return {.before = bytes[0], .all = bytes[1]};
  }

  /// Returns an estimate of the share of all bytes that the entries before `key` have, from 0 to 1.
  double ShareBefore(std::string_view key) const {
    const Sizes sizes = SizesAt(key);
    return sizes.all == 0 ? 0 : static_cast<double>(sizes.before) / static_cast<double>(sizes.all);
  }

  /// Returns the first and last keys of the tables, sorted, and one string before and one after all keys.
  std::vector<std::string> Anchors() const {
    rocksdb::ColumnFamilyMetaData family;
    db_.GetColumnFamilyMetaData(&family_, &family);
    std::vector<std::string> anchors = {"", beyond_};
    for (const rocksdb::LevelMetaData& level : family.levels) {
      for (const rocksdb::SstFileMetaData& file : level.files) {
        anchors.push_back(file.smallestkey);
        anchors.push_back(file.largestkey);
      }
    }
    std::sort(anchors.begin(), anchors.end());
    return anchors;
  }

  /// Returns a string before which there is about the share `target` of all bytes. It bisects between the
  /// tables' first and last keys, and then between arbitrary strings.
  std::string Border(const std::vector<std::string>& anchors, double target, double tolerance) const {
    const auto from =
        std::partition_point(anchors.begin() + 1, anchors.end() - 1,
                             [&](const std::string& anchor) { return ShareBefore(anchor) < target; });
    std::string low = *(from - 1);
    std::string high = *from;
    double share_low = ShareBefore(low);
    double share_high = ShareBefore(high);
    // Enough steps to distinguish keys that share 64 bytes more than all keys of their table do. The bound
    // is necessary, since an entry larger than the tolerance keeps the shares apart for ever.
    constexpr int kMaxSteps = 512;
    for (int step = 0; step < kMaxSteps && share_high > share_low + tolerance; ++step) {
      std::string middle = Middle(low, high);
      if (middle == low) break;
      const double share = ShareBefore(middle);
      const bool before = share < target;
      (before ? low : high) = std::move(middle);
      (before ? share_low : share_high) = share;
    }
    return target - std::min(share_low, target) < share_high - std::min(share_high, target) ? low : high;
  }

  const std::string beyond_ = std::string(kMaxKeySize + 1, '\xff');  // behind all keys
  rocksdb::DB& db_;
  rocksdb::ColumnFamilyHandle& family_;
};

}  // namespace

std::vector<std::string> KeyBorders(rocksdb::DB& db, rocksdb::ColumnFamilyHandle& family, std::size_t parts) {
  return Splitter(db, family).Borders(parts);
}

}  // namespace remora
