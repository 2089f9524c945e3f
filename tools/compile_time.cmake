# Less to compile: headers of others that are read once for all sources, and sources that are compiled together.
option(REMORA_PRECOMPILE_HEADERS "Read common headers once; OFF shows what a source forgot to include" ON)
# Not for tests: some link a source with a deliberate fault in the place of a library's own.
option(REMORA_UNITY_BUILD "Compile five sources as one: for who builds once, and changes nothing" OFF)

# A source without them takes 1.6 times as long. The larger they are, the longer each takes to load them: so only what
# many include.
set(common_headers
    <algorithm> <array> <atomic> <chrono> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view>
    <thread> <utility> <vector> <absl/container/flat_hash_map.h> <absl/status/status.h> <absl/status/statusor.h>
    <absl/strings/str_cat.h>)

# speed_up_compiling(FOLDER...): of the targets of these folders.
function(speed_up_compiling)
  if(REMORA_PRECOMPILE_HEADERS)
    file(CONFIGURE OUTPUT common_headers.cc CONTENT "")
    add_library(common_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/common_headers.cc)
    target_link_libraries(common_headers PRIVATE remora_options absl::flat_hash_map absl::status absl::statusor
                                                 absl::strings)
    target_precompile_headers(common_headers PRIVATE ${common_headers})
  endif()
  foreach(folder ${ARGN})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      get_target_property(sources ${target} SOURCES)
      if(NOT type MATCHES "STATIC|OBJECT|EXECUTABLE" OR NOT sources MATCHES "\\.cc")
        continue()
      endif()
      if(REMORA_PRECOMPILE_HEADERS)
        target_precompile_headers(${target} REUSE_FROM common_headers)
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)  # of programs, too: as in libraries
      endif()
      if(REMORA_UNITY_BUILD)
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
      endif()
    endforeach()
  endforeach()
endfunction()
