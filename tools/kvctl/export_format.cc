#include "tools/kvctl/export_format.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/json/json.h"

namespace remora::kvctl {
namespace {

bool NeedsEscape(char byte) { return byte == '"' || byte == '\\' || (byte >= 0 && byte < 0x20); }

/// Returns true if the bytes are UTF-8, and no longer as a JSON string than in base64.
bool IsText(std::string_view bytes) {
  std::size_t size = 0;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t character = json::CharacterSize(rest);
    if (character == 0) return false;
    size += NeedsEscape(rest[0]) ? 6 : character;
    rest.remove_prefix(character);
  }
  return size <= bytes.size() / 3 * 4 + 8;
}

void AddString(std::string_view text, std::string* line) {
  constexpr char kDigits[] = "0123456789abcdef";
  line->push_back('"');
  for (const char byte : text) {
    if (!NeedsEscape(byte)) {
      line->push_back(byte);
    } else if (byte == '"' || byte == '\\') {
      line->append({'\\', byte});
    } else if (byte == '\n') {
      line->append("\\n");
    } else {
      line->append("\\u00");
      line->append({kDigits[byte >> 4], kDigits[byte & 0xf]});
    }
  }
  line->push_back('"');
}

void AddBytes(std::string_view name, std::string_view bytes, std::string* line) {
  if (IsText(bytes)) {
    absl::StrAppend(line, "\"", AbslView(name), "\":");
    AddString(bytes, line);
  } else {
    absl::StrAppend(line, "\"", AbslView(name), "_base64\":\"", absl::Base64Escape(AbslView(bytes)), "\"");
  }
}

absl::Status Bad(std::string_view why) { return absl::InvalidArgumentError(AbslView(why)); }

/// Takes out the one of the fields NAME and NAME_base64 that there is.
absl::Status TakeBytes(json_t* object, const std::string& name, std::string* bytes) {
  const std::string base64_name = name + "_base64";
  const json_t* const text = json_object_get(object, name.c_str());
  const json_t* const base64 = json_object_get(object, base64_name.c_str());
  if ((text == nullptr) == (base64 == nullptr)) {
    return Bad("a record has one of " + name + " and " + base64_name);
  }
  const json_t* const field = text != nullptr ? text : base64;
  const std::string& field_name = text != nullptr ? name : base64_name;
  if (!json_is_string(field)) return Bad(field_name + " is no string");
  const std::string_view value(json_string_value(field), json_string_length(field));
  if (text != nullptr) {
    *bytes = value;
  } else if (!absl::Base64Unescape(AbslView(value), bytes)) {
    return Bad(field_name + " is not base64");
  }
  json_object_del(object, field_name.c_str());
  return absl::OkStatus();
}

/// A count, which is taken out. Nothing happens where there is none.
absl::Status TakeNumber(json_t* object, const char* name, std::uint64_t* number) {
  const json_t* const field = json_object_get(object, name);
  if (field == nullptr) return absl::OkStatus();
  if (!json_is_integer(field) || json_integer_value(field) < 0) {
    return Bad(absl::StrCat(name, " is no whole number"));
  }
  *number = static_cast<std::uint64_t>(json_integer_value(field));
  json_object_del(object, name);
  return absl::OkStatus();
}

}  // namespace

void AddFirstLine(std::string* lines) { absl::StrAppend(lines, "{\"remora_export\":", kExportFormat, "}\n"); }

void AddRecord(std::string_view key, std::string_view value, std::uint64_t expires_ms, std::uint64_t version,
               std::string* lines) {
  lines->push_back('{');
  AddBytes("key", key, lines);
  lines->push_back(',');
  AddBytes("value", value, lines);
  if (expires_ms != 0) absl::StrAppend(lines, ",\"expires_ms\":", expires_ms);
  absl::StrAppend(lines, ",\"version\":", version, "}\n");
}

void AddLastLine(std::uint64_t records, std::string* lines) {
  absl::StrAppend(lines, "{\"records\":", records, "}\n");
}

absl::StatusOr<ExportLine> ParseExportLine(std::string_view line) {
  // Of doubled names, the last counts.
  json_error_t error;
  const json::Value value(json_loadb(line.data(), line.size(), JSON_ALLOW_NUL, &error));
  if (value == nullptr) return Bad(absl::StrCat("it is no JSON object: ", error.text));
  json_t* const object = value.get();
  if (!json_is_object(object)) return Bad("it is no JSON object");
  ExportLine parsed;
  std::uint64_t number = 0;
  if (json_object_get(object, "remora_export") != nullptr) {
    parsed.kind = ExportLine::Kind::kFirst;
    REMORA_RETURN_IF_ERROR(TakeNumber(object, "remora_export", &number));
    parsed.format = static_cast<int>(std::min<std::uint64_t>(number, 1'000'000));
    return parsed;  // a later format may have more to say here
  }
  if (json_object_get(object, "records") != nullptr) {
    parsed.kind = ExportLine::Kind::kLast;
    REMORA_RETURN_IF_ERROR(TakeNumber(object, "records", &number));
  } else {
    REMORA_RETURN_IF_ERROR(TakeBytes(object, "key", &parsed.key));
    REMORA_RETURN_IF_ERROR(TakeBytes(object, "value", &parsed.value));
    REMORA_RETURN_IF_ERROR(TakeNumber(object, "expires_ms", &parsed.expires_ms));
    REMORA_RETURN_IF_ERROR(TakeNumber(object, "version", &number));
    if (parsed.key.size() < kMinKeySize || parsed.key.size() > kMaxKeySize) {
      return Bad(absl::StrCat("its key has ", parsed.key.size(), " bytes; a key has ", kMinKeySize, " to ",
                              kMaxKeySize));
    }
    if (parsed.value.size() > kMaxValueSize) {
      return Bad(absl::StrCat("its value has ", parsed.value.size(), " bytes; a value has ", kMaxValueSize,
                              " at the most"));
    }
  }
  // A name that is misspelt would be a record that never expires, say.
  if (void* const left = json_object_iter(object); left != nullptr) {
    return Bad(absl::StrCat("it has a field that none has: ", json_object_iter_key(left)));
  }
  return parsed;
}

}  // namespace remora::kvctl
