// Input of a fuzzer to a harness, taken apart from the front.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace remora {

/// Ends the program if a condition of a harness does not hold. Not an assertion, which a release build leaves
/// out.
#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  /// Zeros stand for what is not there any more.
  template <typename T>
  T Take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::string_view bytes = Bytes(sizeof(T));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  /// At most so many.
  std::string_view Bytes(std::size_t size) {
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  /// Returns a text of a size that the input says, up to 255.
  std::string_view Text() { return Bytes(Take<std::uint8_t>()); }

 private:
  std::string_view rest_;
};

}  // namespace remora

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
