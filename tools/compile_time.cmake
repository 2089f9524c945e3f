# Options that shorten the compilation of the product: precompiled headers, and unity builds.
option(REMORA_PRECOMPILE_HEADERS "Precompile common headers; OFF: a source that lacks an include does not compile" ON)
option(REMORA_UNITY_BUILD "Compile several sources as one: shortens a build from nothing, lengthens a rebuild after an edit" OFF)
set(REMORA_UNITY_BATCH_SIZE 5 CACHE STRING "Sources that REMORA_UNITY_BUILD compiles as one")

set(REMORA_OPTIONS_OFF_THE_PATHS -O1 CACHE STRING "Compile options of code that no GET or PUT runs")

# Without precompiled headers, a source takes 1.6 times as long to compile. Each source pays for loading all of them, so the
# list has only headers that many sources include.
set(common_headers
    <algorithm> <array> <atomic> <chrono> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view>
    <thread> <utility> <vector> <absl/container/flat_hash_map.h> <absl/status/status.h> <absl/status/statusor.h>
    <absl/strings/str_cat.h>)

# compile_off_the_paths(TARGET...): targets of command lines, pages and reports, which no GET or PUT runs. Compiling
# them at -O1 takes three quarters of the time of -O2. A build that does not optimise stays as it is: its precompiled
# headers would not fit these targets.
function(compile_off_the_paths)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  if(NOT " ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}" MATCHES " -O[23s]")
    return()
  endif()
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE ${REMORA_OPTIONS_OFF_THE_PATHS})
  endforeach()
endfunction()

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
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${REMORA_UNITY_BATCH_SIZE})
      endif()
    endforeach()
  endforeach()
endfunction()
