#include "server/cluster/config_store.h"

#include <curl/curl.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/json/json.h"

namespace remora {
namespace {

// An answer has a value in base64, and little else.
constexpr std::size_t kMaxAnswer = 4 * kMaxConfigValue;

// Codes of gRPC, which the gateway passes on.
constexpr int kInvalidArgument = 3;
constexpr int kPermissionDenied = 7;
constexpr int kFailedPrecondition = 9;  // the user of an etcd without authentication
constexpr int kUnauthenticated = 16;

/// Initialises libcurl, once in a process.
bool InitialiseCurl() {
  static const bool is_initialised = ::curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return is_initialised;
}

std::string Base64(std::string_view bytes) { return absl::Base64Escape(AbslView(bytes)); }

/// A member of an object.
struct Field {
  const char* name;
  json_t* value;  // which the object takes over
};

json_t* NewObject(std::initializer_list<Field> fields) {
  json_t* const object = json_object();
  for (const Field& one : fields) json_object_set_new(object, one.name, one.value);
  return object;
}

std::string Text(std::initializer_list<Field> fields) {
  return json::Text(json::Value(NewObject(fields)).get(), JSON_SORT_KEYS);
}

/// Returns a number of 64 bits, which the gateway writes as a string.
std::optional<std::int64_t> Number(const json_t* value) {
  std::int64_t number = 0;
  const bool is_number = json_is_string(value) && absl::SimpleAtoi(AbslView(json::StringOf(value)), &number);
  return is_number && number > 0 ? std::optional(number) : std::nullopt;
}

/// Returns the comparison of a key's revision.
json_t* IsOfRevision(const std::string& name, std::int64_t revision) {
  return NewObject({{"key", json::NewString(name)},
                    {"target", json::NewString("MOD")},
                    {"result", json::NewString("EQUAL")},
                    {"mod_revision", json::NewString(std::to_string(revision))}});
}

absl::Status NoEtcd(std::string_view endpoint) {
  return absl::FailedPreconditionError(absl::StrCat("etcd: the process at ", AbslView(endpoint),
                                                    " answers as no etcd does; correct its address"));
}

/// Returns the revision behind the request, which each answer has.
std::optional<std::int64_t> RevisionOf(const json_t* answer) {
  return Number(json_object_get(json_object_get(answer, "header"), "revision"));
}

/// Returns the value in an answer to a range of one key. Nothing: the answer is malformed.
std::optional<ConfigStore::Value> ValueOf(const json_t* range) {
  const json_t* const kvs = json_object_get(range, "kvs");
  if (kvs == nullptr) return ConfigStore::Value{};
  if (!json_is_array(kvs) || json_array_size(kvs) != 1) return std::nullopt;
  const json_t* const key = json_array_get(kvs, 0);
  const std::optional<std::int64_t> revision = Number(json_object_get(key, "mod_revision"));
  const json_t* const value = json_object_get(key, "value");
  ConfigStore::Value result;
  // The gateway leaves out an empty value.
  if (!revision || (value != nullptr && !json_is_string(value))) return std::nullopt;
  if (value != nullptr && !absl::Base64Unescape(AbslView(json::StringOf(value)), &result.text))
    return std::nullopt;
  result.revision = *revision;
  return result;
}

std::size_t TakeBytes(char* bytes, std::size_t size, std::size_t count, void* to) {
  auto* const answer = static_cast<std::string*>(to);
  if (answer->size() + size * count > kMaxAnswer) return 0;  // libcurl ends the transfer
  answer->append(bytes, size * count);
  return size * count;
}

/// Returns what an answer that is none of success means. Unknown: the request may have been done all the
/// same.
absl::Status ErrorOf(const std::string& endpoint, long http_status, const std::string& body) {
  const json::Value answer = json::Parse(body);
  const json_t* const code = json_object_get(answer.get(), "code");
  const json_t* text = json_object_get(answer.get(), "error");
  if (!json_is_string(text)) text = json_object_get(answer.get(), "message");
  if (!json_is_integer(code) || !json_is_string(text)) {
    // A member that starts or ends answers so, as does a proxy before it.
    if (http_status >= 500) {
      return absl::UnknownError(
          absl::StrCat("etcd: ", endpoint, " answers with HTTP status ", http_status, "; see its log"));
    }
    return NoEtcd(endpoint);
  }
  const std::string why = absl::StrCat(
      "etcd: ", endpoint, " answers: ", absl::CHexEscape(AbslView(json::StringOf(text).substr(0, 200))));
  switch (json_integer_value(code)) {
    case kUnauthenticated:
      return absl::UnauthenticatedError(absl::StrCat(why, "; check user and password"));
    case kInvalidArgument:
    case kPermissionDenied:
    case kFailedPrecondition:
      return absl::PermissionDeniedError(absl::StrCat(why, "; check user, password and permissions"));
    default:
      return absl::UnknownError(absl::StrCat(why, "; see whether most members of etcd run"));
  }
}

bool IsOfHost(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' || c == ':' ||
         c == '[' || c == ']';
}

}  // namespace

struct ConfigStore::Answer {
  std::string body;
  long http_status = 0;
};

absl::Status CheckEndpoint(std::string_view endpoint) {
  absl::string_view rest = AbslView(endpoint);
  const bool has_scheme = absl::ConsumePrefix(&rest, "http://") || absl::ConsumePrefix(&rest, "https://");
  const std::size_t colon = rest.rfind(':');
  std::uint32_t port = 0;
  const bool has_port = colon != absl::string_view::npos && colon > 0 &&
                        absl::SimpleAtoi(rest.substr(colon + 1), &port) && port > 0 && port < 65536;
  if (has_scheme && has_port && std::ranges::all_of(rest, IsOfHost)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("etcd: '", absl::CHexEscape(AbslView(endpoint)),
                   "' is no address of it; give http://HOST:PORT or https://HOST:PORT"));
}

ConfigStore::ConfigStore(ConfigStoreOptions options) : options_(std::move(options)) {}
ConfigStore::~ConfigStore() = default;

absl::StatusOr<std::unique_ptr<ConfigStore>> ConfigStore::Create(ConfigStoreOptions options) {
  if (options.endpoints.empty()) {
    return absl::InvalidArgumentError("etcd: no address is given; give http://HOST:PORT");
  }
  for (const std::string& endpoint : options.endpoints) REMORA_RETURN_IF_ERROR(CheckEndpoint(endpoint));
  if (!InitialiseCurl()) {
    return absl::ResourceExhaustedError("etcd: libcurl does not start; give the process more memory");
  }
  return std::unique_ptr<ConfigStore>(new ConfigStore(std::move(options)));
}

// --- Requests -------------------------------------------------------------------------------------------

absl::StatusOr<ConfigStore::Answer> ConfigStore::Post(const std::string& endpoint, std::string_view path,
                                                      const std::string& body) {
  const std::unique_ptr<CURL, decltype(&::curl_easy_cleanup)> curl(::curl_easy_init(), &::curl_easy_cleanup);
  std::unique_ptr<curl_slist, decltype(&::curl_slist_free_all)> headers(
      ::curl_slist_append(nullptr, "Content-Type: application/json"), &::curl_slist_free_all);
  if (curl == nullptr || headers == nullptr) {
    return absl::UnavailableError("etcd: libcurl has no memory; give the process more");
  }
  if (!token_.empty()) ::curl_slist_append(headers.get(), ("Authorization: " + token_).c_str());
  const std::string url = absl::StrCat(endpoint, AbslView(path));
  const bool is_tls = absl::StartsWith(endpoint, "https:");
  Answer answer;
  CURL* const to = curl.get();
  ::curl_easy_setopt(to, CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(to, CURLOPT_PROTOCOLS_STR, is_tls ? "https" : "http");
  ::curl_easy_setopt(to, CURLOPT_PROXY, "");  // not what the environment names
  ::curl_easy_setopt(to, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(to, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
  ::curl_easy_setopt(to, CURLOPT_HTTPHEADER, headers.get());
  ::curl_easy_setopt(to, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  ::curl_easy_setopt(to, CURLOPT_POSTFIELDS, body.data());
  ::curl_easy_setopt(to, CURLOPT_WRITEFUNCTION, &TakeBytes);
  ::curl_easy_setopt(to, CURLOPT_WRITEDATA, &answer.body);
  if (!options_.ca_file.empty()) ::curl_easy_setopt(to, CURLOPT_CAINFO, options_.ca_file.c_str());
  const CURLcode code = ::curl_easy_perform(to);
  if (code == CURLE_OK) {
    ::curl_easy_getinfo(to, CURLINFO_RESPONSE_CODE, &answer.http_status);
    return answer;
  }
  const std::string why = absl::StrCat("etcd: ", endpoint, ": ", ::curl_easy_strerror(code));
  // Each request has a connection of its own: without one, nothing was sent.
  curl_off_t connected_after = 0;
  ::curl_easy_getinfo(to, CURLINFO_CONNECT_TIME_T, &connected_after);
  const bool is_unsent = connected_after == 0 || code == CURLE_PEER_FAILED_VERIFICATION ||
                         code == CURLE_SSL_CONNECT_ERROR || code == CURLE_SSL_CACERT_BADFILE;
  if (is_unsent) return absl::UnavailableError(absl::StrCat(why, "; start it, or correct its address"));
  return absl::UnknownError(absl::StrCat(why, "; see whether most members of etcd run"));
}

absl::Status ConfigStore::Authenticate(const std::string& endpoint) {
  token_.clear();
  const std::string body =
      Text({{"name", json::NewString(options_.user)}, {"password", json::NewString(options_.password)}});
  const absl::StatusOr<Answer> answer = Post(endpoint, "/v3/auth/authenticate", body);
  absl::Status status = answer.status();
  if (status.ok() && answer->http_status != 200)
    status = ErrorOf(endpoint, answer->http_status, answer->body);
  // It changes nothing, so an unknown outcome is none.
  if (absl::IsUnknown(status)) return absl::UnavailableError(status.message());
  if (absl::IsUnauthenticated(status)) return absl::PermissionDeniedError(status.message());
  REMORA_RETURN_IF_ERROR(status);
  const json::Value value = json::Parse(answer->body);
  const json_t* const token = json_object_get(value.get(), "token");
  if (!json_is_string(token)) return NoEtcd(endpoint);
  const std::string_view text = json::StringOf(token);
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; })) {
    return NoEtcd(endpoint);
  }
  token_ = text;
  return absl::OkStatus();
}

absl::StatusOr<std::string> ConfigStore::CallAt(const std::string& endpoint, std::string_view path,
                                                const std::string& body) {
  for (int attempt = 0;; ++attempt) {
    if (!options_.user.empty() && token_.empty()) REMORA_RETURN_IF_ERROR(Authenticate(endpoint));
    REMORA_ASSIGN_OR_RETURN(Answer answer, Post(endpoint, path, body));
    if (answer.http_status == 200) {
      if (RevisionOf(json::Parse(answer.body).get())) return std::move(answer.body);
      return NoEtcd(endpoint);
    }
    const absl::Status error = ErrorOf(endpoint, answer.http_status, answer.body);
    token_.clear();  // it may be too old
    if (!absl::IsUnauthenticated(error)) return error;
    // Nothing was done.
    if (options_.user.empty() || attempt > 0) return absl::PermissionDeniedError(error.message());
  }
}

absl::StatusOr<std::string> ConfigStore::Call(std::string_view path, const std::string& body, bool changes) {
  absl::Status first_error;
  const std::size_t begin = first_;
  for (std::size_t i = 0; i < options_.endpoints.size(); ++i) {
    const std::size_t at = (begin + i) % options_.endpoints.size();
    absl::StatusOr<std::string> answer = CallAt(options_.endpoints[at], path, body);
    if (answer.ok()) {
      first_ = at;
      return answer;
    }
    absl::Status error = answer.status();
    const bool is_undone = absl::IsUnavailable(error) || absl::IsPermissionDenied(error);
    if (!is_undone) first_ = (at + 1) % options_.endpoints.size();          // it is asked last from now on
    if (!is_undone && changes) return absl::UnknownError(error.message());  // K1: sent once
    if (absl::IsUnknown(error)) error = absl::UnavailableError(error.message());
    if (first_error.ok()) first_error = error;
  }
  return first_error;
}

// --- Values ---------------------------------------------------------------------------------------------

absl::StatusOr<ConfigStore::Value> ConfigStore::Read(std::string_view key) {
  REMORA_ASSIGN_OR_RETURN(
      const std::string body,
      Call("/v3/kv/range", Text({{"key", json::NewString(Base64(key))}}), /*changes=*/false));
  std::optional<Value> value = ValueOf(json::Parse(body).get());
  if (!value) return NoEtcd(options_.endpoints[first_]);
  return *std::move(value);
}

absl::StatusOr<std::int64_t> ConfigStore::Swap(std::string_view key, std::int64_t revision,
                                               std::string_view text, std::span<const Revision> others) {
  if (text.empty() || text.size() > kMaxConfigValue) {
    return absl::InvalidArgumentError("etcd: a value has 1 to 65536 bytes; shorten it");
  }
  const std::string name = Base64(key);
  json_t* const compare = json_array();
  json_array_append_new(compare, IsOfRevision(name, revision));
  for (const Revision& one : others) {
    json_array_append_new(compare, IsOfRevision(Base64(one.key), one.revision));
  }
  json_t* const put = json_array();
  json_array_append_new(put,
                        NewObject({{"request_put", NewObject({{"key", json::NewString(name)},
                                                              {"value", json::NewString(Base64(text))}})}}));
  REMORA_ASSIGN_OR_RETURN(
      const std::string body,
      Call("/v3/kv/txn", Text({{"compare", compare}, {"success", put}}), /*changes=*/true));
  const json::Value answer = json::Parse(body);
  const std::optional<std::int64_t> now = RevisionOf(answer.get());
  const json_t* const succeeded = json_object_get(answer.get(), "succeeded");
  if (!now || (succeeded != nullptr && !json_is_boolean(succeeded))) {
    return absl::UnknownError(NoEtcd(options_.endpoints[first_]).message());
  }
  if (json_is_true(succeeded)) return *now;
  return absl::AbortedError("etcd: the value has changed; read it again");
}

absl::StatusOr<std::int64_t> ConfigStore::Settle(std::string_view key, std::int64_t revision,
                                                 std::string_view text) {
  // At most one of two swaps from one revision succeeds. So once this one has failed, the other cannot
  // succeed any more.
  absl::StatusOr<std::int64_t> swapped = Swap(key, revision, text);
  if (!absl::IsAborted(swapped.status())) {
    if (swapped.ok() || absl::IsUnknown(swapped.status())) return swapped;
    return absl::UnknownError(swapped.status().message());
  }
  const absl::StatusOr<Value> value = Read(key);
  if (!value.ok()) return absl::UnknownError(value.status().message());
  if (value->text == text) return value->revision;
  return swapped.status();
}

}  // namespace remora
