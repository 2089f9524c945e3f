#include "tools/kvctl/export_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora::kvctl {
namespace {

using Json = nlohmann::json;

/// Bytes of the character that begins there; 0: none does. No surrogates, nothing longer than it need be.
std::size_t CharacterSize(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  // What the second byte may be tells the rest apart.
  const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  return size;
}

bool NeedsEscape(char byte) { return byte == '"' || byte == '\\' || (byte >= 0 && byte < 0x20); }

/// Whether the bytes are UTF-8, and no longer as a JSON string than in base64.
bool IsText(std::string_view bytes) {
  std::size_t size = 0;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t character = CharacterSize(rest);
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

/// Of the fields NAME and NAME_base64, the one that there is.
absl::Status TakeBytes(Json& json, const std::string& name, std::string* bytes) {
  const auto text = json.find(name);
  const auto base64 = json.find(name + "_base64");
  if ((text == json.end()) == (base64 == json.end())) {
    return Bad("a record has one of " + name + " and " + name + "_base64");
  }
  const auto field = text != json.end() ? text : base64;
  if (!field->is_string()) return Bad(field.key() + " is no string");
  if (text != json.end()) {
    *bytes = std::move(field->get_ref<std::string&>());
  } else if (!absl::Base64Unescape(field->get_ref<std::string&>(), bytes)) {
    return Bad(field.key() + " is not base64");
  }
  json.erase(field);
  return absl::OkStatus();
}

/// A count, which is taken out. Nothing happens where there is none.
absl::Status TakeNumber(Json& json, const char* name, std::uint64_t* number) {
  const auto field = json.find(name);
  if (field == json.end()) return absl::OkStatus();
  if (!field->is_number_unsigned()) return Bad(absl::StrCat(name, " is no whole number"));
  *number = field->get<std::uint64_t>();
  json.erase(field);
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
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Bad("it is no JSON object");
  ExportLine parsed;
  std::uint64_t number = 0;
  if (json.contains("remora_export")) {
    parsed.kind = ExportLine::Kind::kFirst;
    REMORA_RETURN_IF_ERROR(TakeNumber(json, "remora_export", &number));
    parsed.format = static_cast<int>(std::min<std::uint64_t>(number, 1'000'000));
    return parsed;  // a later format may have more to say here
  }
  if (json.contains("records")) {
    parsed.kind = ExportLine::Kind::kLast;
    REMORA_RETURN_IF_ERROR(TakeNumber(json, "records", &number));
  } else {
    REMORA_RETURN_IF_ERROR(TakeBytes(json, "key", &parsed.key));
    REMORA_RETURN_IF_ERROR(TakeBytes(json, "value", &parsed.value));
    REMORA_RETURN_IF_ERROR(TakeNumber(json, "expires_ms", &parsed.expires_ms));
    REMORA_RETURN_IF_ERROR(TakeNumber(json, "version", &number));
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
  if (!json.empty()) return Bad("it has a field that none has: " + json.begin().key());
  return parsed;
}

}  // namespace remora::kvctl
