// A phone book: adds an entry, and shows a page of those that begin with some letters, in their order; and
// how to turn the page. It needs a logged server (kvserver --durability=logged).
//   example_scan ADDRESS add NAME NUMBER
//   example_scan ADDRESS list LETTERS [TOKEN]
#include <remora/client.h>

#include <iostream>
#include <string>
#include <string_view>

namespace {

constexpr std::uint64_t kPage = 3;

absl::Status List(remora::Client& client, std::string_view letters, std::string_view token) {
  // The token of the page before knows the letters, and where that page ended.
  const std::string prefix = "book/" + std::string(letters);
  const remora::ScanOptions first{.prefix = prefix, .limit = kPage};
  const remora::ScanOptions next{.limit = kPage, .resume_token = token};
  auto scan = client.Scan(token.empty() ? first : next);
  if (!scan.ok()) return scan.status();
  std::uint64_t shown = 0;
  for (; (*scan)->Next(); ++shown) {
    std::cout << (*scan)->key().substr(5) << ": " << (*scan)->value() << '\n';
  }
  if (shown == kPage) std::cout << "more: " << (*scan)->resume_token() << '\n';
  return (*scan)->status();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[2] : "";
  const bool adds = what == "add" && argc == 5;
  if (!adds && !(what == "list" && (argc == 4 || argc == 5))) {
    std::cerr << "usage: example_scan ADDRESS add NAME NUMBER, or ADDRESS list LETTERS [TOKEN]\n";
    return 64;
  }
  auto client = remora::Client::Connect(argv[1]);
  if (!client.ok()) {
    std::cerr << client.status() << '\n';
    return 1;
  }
  const absl::Status status = adds ? (*client)->Put(std::string("book/") + argv[3], argv[4])
                                   : List(**client, argv[3], argc == 5 ? argv[4] : "");
  if (status.ok()) return 0;
  std::cerr << status << '\n';
  return 1;
}
