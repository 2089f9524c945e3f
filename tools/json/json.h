// JSON, as jansson has it, with owners; and text that may be no UTF-8.
#pragma once

#include <jansson.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace remora::json {

struct Release {
  void operator()(json_t* value) const { json_decref(value); }
};

/// Owns one reference to a value. Null: there is none, as for a text that is no JSON.
using Value = std::unique_ptr<json_t, Release>;

/// Returns the value that a whole text is. Null: it is no JSON, or has an integer beyond 64 bits with a sign.
Value Parse(std::string_view text);

/// Returns the shortest text of an array or object. `flags`: of json_dumps, beside JSON_COMPACT.
std::string Text(const json_t* value, std::size_t flags = 0);

/// Returns the bytes of a string. REQUIRES: `value` is one; the bytes are valid as long as it is.
std::string_view StringOf(const json_t* value);

/// Returns the size in bytes of the UTF-8 character at the start of `text`, or 0 if there is no valid one.
/// Surrogates, and encodings that are longer than necessary, are not valid. REQUIRES: `text` is not empty.
std::size_t CharacterSize(std::string_view text);

/// A new string, for a call that takes the reference over (`json_object_set_new`, `o` of `json_pack`). Each
/// byte that is no part of a UTF-8 character becomes U+FFFD.
json_t* NewString(std::string_view bytes);

/// A new integer, for the same calls. From 2^63 on, which is as far as jansson's integers go, it is negative:
/// the same number modulo 2^64.
json_t* NewCount(std::uint64_t number);

}  // namespace remora::json
