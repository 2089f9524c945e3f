# Makes the source of ConsoleFiles (server/http/console_page.h).
#   cmake -D OUTPUT=FILE -P embed.cmake
# A path is that of the file, but / is index.html.
set(type_of_.html "text/html; charset=utf-8")
set(type_of_.css "text/css; charset=utf-8")
set(type_of_.js "text/javascript; charset=utf-8")
set(type_of_.svg "image/svg+xml")
set(entries "")
foreach(name index.html console.css chart.js console.js icon.svg)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/${name} content)
  if(content MATCHES "\\)console\"")
    message(FATAL_ERROR "${name} has the end of a raw string")
  endif()
  cmake_path(GET name EXTENSION LAST_ONLY extension)
  set(type "${type_of_${extension}}")
  set(path "/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND entries "    {\"${path}\", \"${type}\", R\"console(${content})console\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by server/http/console/embed.cmake.
#include \"server/http/console_page.h\"

namespace remora {
namespace {

constexpr ConsoleFile kConsoleFiles[] = {
${entries}};

}  // namespace

std::span<const ConsoleFile> ConsoleFiles() { return kConsoleFiles; }

}  // namespace remora
")
