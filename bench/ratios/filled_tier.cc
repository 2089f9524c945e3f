#include "bench/ratios/filled_tier.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kvbench/load/random.h"
#include "store/base/status_macros.h"
#include "store/durable/tier.h"
#include "store/format/memory/layout.h"

namespace remora::bench {

void AddTierFlags(command_line::CommandLine& line, TierFlags& flags) {
  flags.directory = std::filesystem::temp_directory_path().string();
  line.Add("--directory", flags.directory, "Where to make it").ShowDefault();
  line.Add("--keys", flags.keys, "How many keys").Range(1u, 1'000'000'000u).ShowDefault();
  line.Add("--value_size", flags.value_size, "Bytes of each value")
      .Range(std::size_t{1}, kMaxValueSize)
      .ShowDefault();
  line.Add("--rounds", flags.rounds, "Times that each is measured").Range(1u, 1'000'000u).ShowDefault();
}

RunDirectory::RunDirectory(const std::string& parent, const std::string& program)
    : path_(absl::StrCat(parent, "/", program, "-XXXXXX")) {
  if (mkdtemp(path_.data()) != nullptr) return;
  status_ = absl::InvalidArgumentError(absl::StrCat("--directory: cannot make a directory in ", parent, ": ",
                                                    std::strerror(errno), "; choose another one"));
  path_.clear();
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

absl::Status FillTier(const std::string& data, const TierFlags& flags) {
  constexpr std::uint64_t kGroup = 1000;
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<DurableTier> tier, DurableTier::Open(data));
  tier->SetVersionLimit(flags.keys + 1);
  std::string value(flags.value_size, '\0');
  for (std::uint64_t i = 0; i < flags.keys; ++i) {
    Random random(i);
    std::generate(value.begin(), value.end(), [&] { return static_cast<char>(random.Next()); });
    tier->Put(absl::StrFormat("user%016x", Mix64(i)), {.version = i + 1}, value);
    if ((i + 1) % kGroup == 0) REMORA_RETURN_IF_ERROR(tier->Write());
  }
  REMORA_RETURN_IF_ERROR(tier->Write());
  tier.reset();
  return DurableTier::Open(data).status();
}

}  // namespace remora::bench
