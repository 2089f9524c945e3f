#include "tools/command_line/place.h"

#include <filesystem>
#include <string>
#include <system_error>

namespace remora::command_line {
namespace {

std::string ResolvedPlace(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as of the system
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(path, error);
  // weakly_canonical leaves a link as it is that leads nowhere yet.
  for (int i = 0; i < kMaxLinks; ++i) {
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(place, error);
    place = error ? place.lexically_normal() : resolved;
    const std::filesystem::path target = std::filesystem::read_symlink(place, error);
    if (error) break;
    place = place.parent_path() / target;
  }
  std::string text = place;
  if (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

}  // namespace

bool IsSamePlace(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return false;
  std::error_code error;
  if (std::filesystem::equivalent(one, other, error) && !error) return true;  // also by another name
  return ResolvedPlace(one) == ResolvedPlace(other);
}

}  // namespace remora::command_line
