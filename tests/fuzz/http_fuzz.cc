// Heads of HTTP requests. Each gets one response, whose size does not depend on the request, and nothing but
// the head is read.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/http_responder.h"
#include "server/http/http_server.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  constexpr std::size_t kMostOfAResponse = 2000;
  static remora::HttpResponder responder{remora::HostCheck({"db1"})};
  static const bool begun = [] {
    responder.Add("/metrics", [] { return remora::HttpAnswer{200, "text/plain", std::string(1000, 'x')}; });
    return true;
  }();
  static_cast<void>(begun);

  std::string_view rest(reinterpret_cast<const char*>(data), size);
  rest = rest.substr(0, remora::HttpServer::kMaxHead - kEnd.size());
  // The server cuts its input in the same way.
  const std::string head = std::string(rest.substr(0, rest.find(kEnd))) + std::string(kEnd);
  const remora::HttpResponse response = responder.Respond(head);
  FUZZ_CHECK(response.text.starts_with("HTTP/1."));
  FUZZ_CHECK(response.text.size() < kMostOfAResponse);
  FUZZ_CHECK(response.text.find(kEnd) != std::string::npos);
  return 0;
}
