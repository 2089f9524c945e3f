// Hashes of keys and values: XXH3 of 64 bits, seed 0. Part of the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#ifdef __x86_64__
/// Function of xxh_x86dispatch.h; that header would replace the inlined ones.
extern "C" std::uint64_t XXH3_64bits_dispatch(const void* data, std::size_t size);
#endif

namespace remora {

/// `sum`, and the two halves of a product, one upon the other.
[[gnu::always_inline]] inline std::uint64_t AddProduct(std::uint64_t sum, std::uint64_t a, std::uint64_t b) {
#ifdef __x86_64__
  // gcc takes a product of 128 bits to the stack and back.
  __asm__("mulq %2\n\txorq %%rdx, %1\n\taddq %1, %0" : "+r"(sum), "+a"(a) : "rm"(b) : "rdx", "cc");
  return sum;
#else
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(a) * b;
  return sum + (static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64));
#endif
}

/// Returns the XXH3 of 17 to 128 bytes. It takes sixteen bytes at a time, from both ends inwards,
/// changes each half by one of XXH3's own numbers, and multiplies the two. Then it mixes the sum of
/// the products. It has half of the instructions of the library's function, as gcc compiles that.
[[gnu::always_inline]] inline std::uint64_t HashUsual(const char* data, std::size_t size) {
  const auto word = [](const void* at) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  std::uint64_t sum = size * 0x9e3779b185ebca87;
  // Adds the product of the 16 bytes at `at`. `number`: which 16 bytes of XXH3's secret change them.
  const auto add = [&](const char* at, std::size_t number) {
    const std::uint64_t low = word(XXH3_kSecret + number * 16);
    const std::uint64_t high = word(XXH3_kSecret + number * 16 + 8);
    sum = AddProduct(sum, word(at) ^ low, word(at + 8) ^ high);
  };
  const char* const end = data + size;
  if (size > 32) {
    if (size > 64) {
      if (size > 96) {
        add(data + 48, 6);
        add(end - 64, 7);
      }
      add(data + 32, 4);
      add(end - 48, 5);
    }
    add(data + 16, 2);
    add(end - 32, 3);
  }
  add(data, 0);
  add(end - 16, 1);
  sum ^= sum >> 37;
  sum *= 0x165667919e3779f9;
  return sum ^ sum >> 32;
}

/// Returns the hash of any size, by the widest instructions that the CPU has for it.
[[gnu::noinline]] inline std::uint64_t HashUnusual(const void* data, std::size_t size) {
#ifdef __x86_64__
  constexpr std::size_t kMaxWithoutVectors = 240;
  if (size <= kMaxWithoutVectors) return XXH3_64bits(data, size);
  const std::uint64_t hash = XXH3_64bits_dispatch(data, size);
  // It leaves the vectors' upper halves in use; our own instructions on vectors then take ten times as long
  // (seen on Zen 5).
  if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroupper");
  return hash;
#else
  return XXH3_64bits(data, size);
#endif
}

/// Returns the XXH3 of some bytes. Sizes that most keys and many values have take no call. All others have a
/// function of their own, which keeps the code around a hash short (client/get/fast_get.h).
[[gnu::always_inline]] inline std::uint64_t HashBytes(const void* data, std::size_t size) {
  constexpr std::size_t kMinUsual = 17;
  constexpr std::size_t kMaxUsual = 128;
  const bool is_usual = size - kMinUsual <= kMaxUsual - kMinUsual;
  return is_usual ? HashUsual(static_cast<const char*>(data), size) : HashUnusual(data, size);
}

/// Hash of a key: where it lives in the index, and its part of every checksum.
inline std::uint64_t HashKey(std::string_view key) { return HashBytes(key.data(), key.size()); }

/// Hash of a value's bytes, its part of every checksum.
inline std::uint64_t HashValue(const void* data, std::size_t size) { return HashBytes(data, size); }

/// Hash of a value whose bytes come in pieces.
class ValueHasher {
 public:
  ValueHasher() { XXH3_64bits_reset(&state_); }
  void Add(const void* data, std::size_t size) { XXH3_64bits_update(&state_, data, size); }
  std::uint64_t Hash() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace remora
