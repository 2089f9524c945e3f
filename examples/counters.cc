// Counters that many programs share: page views, counted in one round trip each, and a high score that is
// only ever replaced by a higher one. It needs a server, as the first program does.
//   example_counters ADDRESS PAGE SCORE
#include <remora/client.h>

#include <charconv>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>

namespace {

// Replaces the value only if nobody has replaced it since it was read; else reads it again.
absl::Status RaiseTo(remora::Client& client, std::string_view key, std::int64_t score) {
  for (;;) {
    std::string value;
    std::uint64_t version = 0;
    const absl::Status got = client.Get(key, &value, &version);
    if (!got.ok() && !absl::IsNotFound(got)) return got;
    remora::Condition unchanged = remora::Condition::Absent();
    if (got.ok()) {
      if (std::stoll(value) >= score) return absl::OkStatus();
      unchanged = remora::Condition::Version(version);
    }
    const absl::Status put = client.Put(key, std::to_string(score), {.condition = unchanged});
    const bool beaten =
        absl::IsAlreadyExists(put) || absl::IsFailedPrecondition(put) || absl::IsNotFound(put);
    if (!beaten) return put;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t score = 0;
  const std::string_view digits = argc == 4 ? argv[3] : "";
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), score);
  if (digits.empty() || parsed.ptr != digits.data() + digits.size()) {
    std::cerr << "usage: example_counters ADDRESS PAGE SCORE\n";
    return 64;
  }
  auto client = remora::Client::Connect(argv[1]);
  if (!client.ok()) {
    std::cerr << client.status() << '\n';
    return 1;
  }
  const absl::StatusOr<std::int64_t> views = (*client)->Increment(std::string("views/") + argv[2], 1);
  if (!views.ok()) {
    std::cerr << views.status() << '\n';
    return 1;
  }
  if (absl::Status status = RaiseTo(**client, "high score", score); !status.ok()) {
    std::cerr << status << '\n';
    return 1;
  }
  std::cout << argv[2] << ": " << *views << " views; high score "
            << (*client)->Get("high score").value_or("?") << '\n';
}
