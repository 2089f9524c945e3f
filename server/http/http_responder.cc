#include "server/http/http_responder.h"

#include <httplib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

/// Stands for a socket: the library reads the head from it, and writes the response to it.
class MemoryStream final : public httplib::Stream {
 public:
  explicit MemoryStream(std::string_view head) : left_(head) {}

  bool is_readable() const override { return !left_.empty(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, std::size_t size) override {
    size = std::min(size, left_.size());
    std::memcpy(to, left_.data(), size);
    left_.remove_prefix(size);
    return static_cast<ssize_t>(size);
  }
  ssize_t write(const char* from, std::size_t size) override {
    written_.append(from, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

  std::string& written() { return written_; }

 private:
  std::string_view left_;
  std::string written_;
};

HttpResponse Rejection(std::string_view status, std::string_view fields = {}) {
  return {absl::StrCat("HTTP/1.1 ", AbslView(status), "\r\n", AbslView(fields),
                       "Content-Length: 0\r\nConnection: close\r\n\r\n"),
          true};
}

/// Returns a rejection whose text says why. `head`: of the request.
HttpResponse RejectionWithText(std::string_view status, std::string_view text, std::string_view head) {
  return {absl::StrCat("HTTP/1.1 ", AbslView(status),
                       "\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
                       "Content-Length: ",
                       text.size(), "\r\nConnection: close\r\n\r\n",
                       AbslView(head.starts_with("HEAD ") ? std::string_view() : text)),
          true};
}

/// Returns whether each line ends as all programs take it. The library ends a line at a bare line feed, too.
bool HasWholeLines(std::string_view head) {
  char before = 0;
  for (const char c : head) {
    if (c == 0 || (c == '\n') != (before == '\r')) return false;
    before = c;
  }
  return true;
}

bool IsTokenChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

/// Returns whether each line behind the first is a field whose name ends at its colon (RFC 9112, 5.1 and
/// 5.2). If a blank precedes the colon, or a line is folded, a proxy may see another body than this server.
/// REQUIRES: HasWholeLines(head).
bool HasWholeFields(std::string_view head) {
  for (std::size_t end = head.find("\r\n"); end != std::string_view::npos;) {
    const std::size_t begin = end + 2;
    end = head.find("\r\n", begin);
    const std::string_view line = head.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (line.empty()) continue;
    const std::string_view name = line.substr(0, line.find(':'));
    if (name.empty() || name.size() == line.size() || !std::ranges::all_of(name, IsTokenChar)) return false;
  }
  return true;
}

/// Returns the place of the header field, its line break before it included, from `begin` on; npos: it is
/// not there.
std::size_t FindField(std::string_view head, std::string_view name, std::size_t begin = 0) {
  for (std::size_t at = head.find("\r\n", begin); at != std::string_view::npos;
       at = head.find("\r\n", at + 2)) {
    if (absl::StartsWithIgnoreCase(AbslView(head.substr(at + 2)), AbslView(name))) return at;
  }
  return std::string_view::npos;
}

// The library makes as many copies of a body as a Range names, and evaluates it by a regular expression that
// recurs for each of its characters. A server may ignore ranges (RFC 9110, 14.2).
std::string WithoutRanges(std::string_view head) {
  std::string rest(head);
  for (std::size_t at = 0; (at = FindField(rest, "range")) != std::string::npos;) {
    rest.erase(at, rest.find("\r\n", at + 2) - at);
  }
  return rest;
}

}  // namespace

// Only the reading of one request and the writing of its response are of use here. The library's own loop has
// a thread for each connection, reads heads without a bound, and looks at idle connections every 10 ms.
class HttpResponder::Library : public httplib::Server {
 public:
  bool Process(MemoryStream& stream, bool* closes) { return ProcessBy(*this, stream, closes); }

 private:
  // Debian 12 has 0.11; 0.18 of Debian 13 also takes the addresses of both ends.
  template <typename Self>
  static bool ProcessBy(Self& self, MemoryStream& stream, bool* closes) {
    if constexpr (requires { self.process_request(stream, false, *closes, nullptr); }) {
      return self.process_request(stream, false, *closes, nullptr);
    } else {
      return self.process_request(stream, std::string(), 0, std::string(), 0, false, *closes, nullptr);
    }
  }
};

HttpResponder::HttpResponder(HostCheck hosts)
    : hosts_(std::move(hosts)), library_(std::make_unique<Library>()) {}
HttpResponder::~HttpResponder() = default;

void HttpResponder::Add(const std::string& path, std::function<HttpAnswer()> answer) {
  // The library takes a path for a regular expression.
  library_->Get(absl::StrReplaceAll(path, {{".", "\\."}}),
                [answer = std::move(answer)](const httplib::Request&, httplib::Response& response) {
                  HttpAnswer made = answer();
                  response.status = made.status;
                  response.set_header("Cache-Control", "no-store");
                  response.set_header("X-Content-Type-Options", "nosniff");
                  if (made.content_type.starts_with("text/html")) {
                    // The page loads from here alone, and no other page shows it as a part of its own.
                    response.set_header(
                        "Content-Security-Policy",
                        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
                    response.set_header("Referrer-Policy", "no-referrer");
                  }
                  response.set_content(std::move(made.body), made.content_type.c_str());
                });
}

HttpResponse HttpResponder::Respond(std::string_view head) {
  if (!HasWholeLines(head) || !HasWholeFields(head)) return Rejection("400 Bad Request");
  if (!head.starts_with("GET ") && !head.starts_with("HEAD ")) {
    return absl::ascii_isupper(static_cast<unsigned char>(head.front()))
               ? Rejection("405 Method Not Allowed", "Allow: GET, HEAD\r\n")
               : Rejection("400 Bad Request");
  }
  // The bytes behind the head would be taken for another request.
  if (FindField(head, "content-length:") != std::string_view::npos ||
      FindField(head, "transfer-encoding:") != std::string_view::npos) {
    return Rejection("413 Payload Too Large");
  }
  if (std::optional<HttpResponse> rejection = RejectHost(head)) return *std::move(rejection);
  const std::string rest = WithoutRanges(head);
  MemoryStream stream(rest);
  HttpResponse response;
  try {
    if (!library_->Process(stream, &response.closes)) response.closes = true;
  } catch (const std::exception&) {  // the one translator of the library's
    return Rejection("400 Bad Request");
  }
  response.text = std::move(stream.written());
  return response.text.empty() ? Rejection("400 Bad Request") : response;
}

std::optional<HttpResponse> HttpResponder::RejectHost(std::string_view head) const {
  constexpr std::string_view kField = "host:";
  constexpr std::string_view kBadRequest = "400 Bad Request";
  const std::size_t at = FindField(head, kField);
  if (at == std::string_view::npos) {
    // No browser leaves it out, and version 1.0 may.
    if (head.substr(0, head.find("\r\n")).ends_with(" HTTP/1.0")) return std::nullopt;
    return RejectionWithText(kBadRequest, "the request has no Host header, which HTTP/1.1 demands; add it\n",
                             head);
  }
  if (FindField(head, kField, at + 2) != std::string_view::npos) {
    return RejectionWithText(kBadRequest, "the request has more than one Host header; send one\n", head);
  }
  const std::size_t begin = at + 2 + kField.size();
  const std::string_view value = head.substr(begin, head.find("\r\n", begin) - begin);
  if (hosts_.Admits(value)) return std::nullopt;
  const std::string host = HostOf(value);
  return RejectionWithText(
      "421 Misdirected Request",
      absl::StrCat("the Host header ", IsHostName(host) ? host : "", IsHostName(host) ? " is" : "has",
                   " no name of this server. Use its IP address or localhost, or start kvserver with "
                   "--http_host=NAME. Other names are rejected, as pages of other sites could send such "
                   "requests.\n"),
      head);
}

HttpResponse HttpResponder::TooLong() { return Rejection("431 Request Header Fields Too Large"); }

}  // namespace remora
