#include "server/main/commit_log_size.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "store/durable/tier_log/tier_log_options.h"
#include "tools/command_line/number_text.h"

namespace remora {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t kUsualSize = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 40;
constexpr std::uint64_t kShareOfDisk = 8;
// A control group accounts for the pages of the mapped files, and may kill the server for them.
constexpr std::uint64_t kShareOfMemory = 4;
constexpr char kOff[] = "off";

constexpr command_line::NumberRule kSizes{.form = command_line::NumberRule::Form::kSize,
                                          .least = kMinTierLogBytes,
                                          .most = kMaxSize,
                                          .is_bounded = true};

/// Bytes of the file system that has `path`, or the nearest folder above it that exists. UINT64_MAX: unknown.
std::uint64_t BytesOfDisk(const std::string& path) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(path, error);
  struct statvfs volume = {};
  while (::statvfs(place.c_str(), &volume) != 0) {
    if (error || !place.has_relative_path()) return UINT64_MAX;
    place = place.parent_path();
  }
  const std::uint64_t bytes = std::uint64_t{volume.f_blocks} * volume.f_frsize;
  return bytes == 0 ? UINT64_MAX : bytes;
}

}  // namespace

std::uint64_t DefaultCommitLogSize(const std::string& data_dir, const SystemMemory& system) {
  const std::uint64_t share = std::min(BytesOfDisk(data_dir) / kShareOfDisk, system.most / kShareOfMemory);
  return std::clamp(share / kMebibyte * kMebibyte, kMinTierLogBytes, kUsualSize);
}

std::optional<std::uint64_t> ReadCommitLogSize(const std::string& text) {
  if (text == kOff) return 0;
  const std::optional<command_line::Number> size = kSizes.Read(text);
  if (!size) return std::nullopt;
  return static_cast<std::uint64_t>(*size);
}

std::string CommitLogSizeText(std::uint64_t size) {
  if (size == 0) return kOff;
  return command_line::NumberText(kSizes.form, static_cast<command_line::Number>(size));
}

std::string FaultOfCommitLogSize(const std::string& text) {
  if (ReadCommitLogSize(text)) return "";
  return "'" + text + "' is neither " + kOff + " nor " + kSizes.Allowed();
}

}  // namespace remora
