// The text of HTTP: a request in, a response out, by cpp-httplib. It has neither sockets nor threads
// (http_server.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/host_check.h"

namespace remora {

struct HttpAnswer {
  int status = 200;
  std::string content_type;
  std::string body;
};

struct HttpResponse {
  std::string text;     // all of it, head and body
  bool closes = false;  // the connection ends behind it
};

/// Parses requests, calls the function for their path, and formats the responses.
///
/// Thread safety: none; one thread.
class HttpResponder {
 public:
  /// Answers requests for one of these hosts alone.
  explicit HttpResponder(HostCheck hosts);
  ~HttpResponder();
  HttpResponder(const HttpResponder&) = delete;
  HttpResponder& operator=(const HttpResponder&) = delete;

  /// `answer` makes the answer to each GET and HEAD of `path`.
  void Add(const std::string& path, std::function<HttpAnswer()> answer);

  /// Returns the response to a request. `head`: the request line and the header fields, with the empty line
  /// at their end; any bytes. A request with a body is rejected, whatever it asks for, and so is a method
  /// other than GET and HEAD, and a request for another host.
  HttpResponse Respond(std::string_view head);
  /// Returns the response to a request whose head is too long.
  static HttpResponse TooLong();

 private:
  class Library;
  /// Returns the rejection of a request whose Host is missing, there twice, or not of this server.
  std::optional<HttpResponse> RejectHost(std::string_view head) const;

  const HostCheck hosts_;
  const std::unique_ptr<Library> library_;
};

}  // namespace remora
