// Memory of a one-sided scan (client/scan/leaf_scan.h), which the next scan of the client uses again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "client/region/session_buffers.h"
#include "store/base/results.h"
#include "store/format/memory/leaf_block.h"
#include "store/format/wire/scan_messages.h"

namespace remora {

/// A page of whole entries, as those of a server (store/format/wire/scan_messages.h).
///
/// Thread safety: none.
class EntryPage {
 public:
  void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  /// Returns the entries, valid until the page changes.
  std::string_view view() const { return {bytes_.data(), size_}; }
  void Append(std::string_view key, std::string_view value, std::uint64_t version, std::uint64_t expiry_ms) {
    const ScanEntry entry{.version = version,
                          .expiry_ms = expiry_ms,
                          .value_size = static_cast<std::uint32_t>(value.size()),
                          .key_size = static_cast<std::uint16_t>(key.size())};
    const std::size_t end = size_ + sizeof(entry) + key.size() + value.size();
    if (bytes_.size() < end) bytes_.resize(std::max(end, 2 * bytes_.size()));
    char* const to = bytes_.data() + std::exchange(size_, end);
    std::memcpy(to, &entry, sizeof(entry));
    std::memcpy(to + sizeof(entry), key.data(), key.size());
    if (!value.empty()) std::memcpy(to + sizeof(entry) + key.size(), value.data(), value.size());
  }
  /// Drops what was appended since the page had this size.
  void CutTo(std::size_t size) { size_ = size; }
  /// Gives the memory back if it is more than `most` bytes. Then the page is empty.
  void Trim(std::size_t most) {
    if (bytes_.size() <= most) return;
    clear();
    bytes_ = {};
  }

 private:
  std::string bytes_;  // behind size_: of no meaning
  std::size_t size_ = 0;
};

/// Buffers of a scan. Ownership: a scan has them, or the session keeps them for the next one.
struct LeafScanMemory {
  /// Records that are read side by side. One READ is left for the next leaf.
  static constexpr std::size_t kBatch = SessionBuffers::kMaxBatch - 1;
  /// Most bytes of one buffer that are kept for the next scan.
  static constexpr std::size_t kMostKept = std::size_t{128} << 10;

  LeafImage image{};
  EntryPage page{};
  std::array<std::string_view, kBatch> keys{};
  std::array<GetResult, kBatch> results{};
  std::array<std::uint64_t, kBatch> expiries{};

  /// Gives back what a usual scan does not need.
  void Trim() {
    page.Trim(kMostKept);
    for (GetResult& result : results) {
      if (result.value.capacity() > kMostKept / kBatch) result.value = {};
    }
  }
};

}  // namespace remora
