// Bytes of a request that go to the server: from the caller's memory or from a copy of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "client/options.h"
#include "rdma/transport.h"
#include "store/format/memory/record.h"

namespace remora {

/// A value in flight to the server. With a `local_key` it is in memory registered under that key. The device
/// gathers it from there if that pays (kMinZeroCopyBytes); otherwise the client copies it.
struct SentValue {
  std::string_view bytes{};
  std::optional<std::uint32_t> local_key{};

  bool is_gathered() const { return local_key.has_value() && bytes.size() >= kMinZeroCopyBytes; }
  rdma::Sge sge() const {  // REQUIRES: local_key
    // The device only reads the source of a WRITE.
    return {reinterpret_cast<std::byte*>(const_cast<char*>(bytes.data())),
            static_cast<std::uint32_t>(bytes.size()), *local_key};
  }
};

/// Scatter-gather list: the memory that one WRITE gathers, or that one READ scatters into.
class SgeList {
 public:
  void Add(const rdma::Sge& sge) {
    if (sge.size > 0) entries_[count_++] = sge;
    size_ += sge.size;
  }
  std::span<const rdma::Sge> entries() const { return std::span(entries_).first(count_); }
  std::size_t size() const { return size_; }  // bytes
  bool empty() const { return size_ == 0; }

 private:
  std::array<rdma::Sge, 3> entries_;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
};
static_assert(3 <= rdma::kMaxSges);

/// A stream of key and value, one after the other, that hashes the value while it passes. Both outlive the
/// stream. A value in registered memory is sent from there without a copy.
///
/// Thread safety: none.
class PayloadStream {
 public:
  PayloadStream(std::string_view key, const SentValue& value)
      : key_(key), value_(value.bytes), local_key_(value.local_key) {}

  bool empty() const { return left() == 0; }
  std::size_t left() const { return key_.size() + value_.size(); }
  /// Returns the next bytes, at most as many as `space` has. Bytes that need a copy are copied to `space`.
  SgeList Take(const rdma::Sge& space) {
    const std::size_t key_bytes = std::min<std::size_t>(key_.size(), space.size);
    std::memcpy(space.data, key_.data(), key_bytes);
    const SentValue next{value_.substr(0, space.size - key_bytes), local_key_};
    rdma::Sge value{space.data + key_bytes, static_cast<std::uint32_t>(next.bytes.size()), space.local_key};
    if (local_key_) {
      value = next.sge();
    } else {
      std::memcpy(value.data, next.bytes.data(), value.size);
    }
    // Hashes the bytes that are sent: the original of a copy has left the cache by now, and may have changed.
    hasher_.Add(value.data, value.size);
    SgeList taken;
    taken.Add({space.data, static_cast<std::uint32_t>(key_bytes), space.local_key});
    taken.Add(value);
    key_.remove_prefix(key_bytes);
    value_.remove_prefix(value.size);
    return taken;
  }
  /// Returns the value's hash. REQUIRES: the stream is empty.
  std::uint64_t value_hash() const { return hasher_.Hash(); }

 private:
  std::string_view key_;
  std::string_view value_;
  std::optional<std::uint32_t> local_key_;
  ValueHasher hasher_;
};

}  // namespace remora
