// The files of the console page (server/http/console/), which the build compiles in
// (server/http/console/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace remora {

struct ConsoleFile {
  std::string_view path;  // under which it is served
  std::string_view content_type;
  std::string_view content;
};

std::span<const ConsoleFile> ConsoleFiles();

}  // namespace remora
