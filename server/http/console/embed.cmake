# The source of ConsoleFiles (server/http/console_page.h). It is made when CMake runs, since compilers also read sources
# of which nothing is built (tests/releases/compile.py).
set(console_folder ${CMAKE_CURRENT_LIST_DIR})

# embed_console(OUTPUT): writes the source. The path of a file is its name, but / is index.html.
function(embed_console output)
  set(type_of_.html "text/html; charset=utf-8")
  set(type_of_.css "text/css; charset=utf-8")
  set(type_of_.js "text/javascript; charset=utf-8")
  set(type_of_.svg "image/svg+xml")
  set(entries "")
  foreach(name index.html console.css chart.js replication.js console.js icon.svg)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${console_folder}/${name})
    file(READ ${console_folder}/${name} content)
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
  set(source "// Made by server/http/console/embed.cmake.
#include \"server/http/console_page.h\"

namespace remora {
namespace {

constexpr ConsoleFile kConsoleFiles[] = {
${entries}};

}  // namespace

std::span<const ConsoleFile> ConsoleFiles() { return kConsoleFiles; }

}  // namespace remora
")
  set(before "")
  if(EXISTS ${output})
    file(READ ${output} before)
  endif()
  if(NOT before STREQUAL source)
    file(WRITE ${output} "${source}")
  endif()
endfunction()
