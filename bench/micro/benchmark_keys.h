// How many keys benchmarks have that read no command line of their own.
#pragma once

#include <sysexits.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tools/command_line/number_text.h"

namespace remora {

/// Returns the number in the environment variable REMORA_BENCHMARK_KEYS; a million if it is not set. Ends the
/// program if its value is not a number.
inline std::uint64_t BenchmarkKeys() {
  const char* const text = std::getenv("REMORA_BENCHMARK_KEYS");
  if (text == nullptr) return 1'000'000;
  const command_line::NumberRule rule{.least = 1, .most = 1e9};
  const std::optional<command_line::Number> number = rule.Read(text);
  if (number) return static_cast<std::uint64_t>(*number);
  std::fprintf(stderr, "REMORA_BENCHMARK_KEYS: '%s' is not %s\n", text, rule.Allowed().c_str());
  std::exit(EX_USAGE);
}

}  // namespace remora
