# The headers that programs include: copies in FOLDER/remora, which include each other as <remora/...>. So no file of a
# program takes the place of one, not even its own client/client.h. Behind the short names, as <remora/client.h>, stand
# those headers that programs name.
#
# Included, it makes the copies in ${PROJECT_BINARY_DIR}/include, and the target remora_public_headers, which makes them
# again when a header has changed. Run by cmake -DROOT=SOURCES -DFOLDER=FOLDER -P, it makes them in FOLDER.
set(public_headers
    client/async_client.h client/client.h client/client_metrics.h client/client_pool.h client/client_pool_counters.h
    client/cluster/cluster_client.h client/cluster/cluster_scan.h client/cluster/cluster_watch.h client/cluster/topology.h client/cluster/topology_source.h
    client/coroutine_client.h client/frame_memory.h
    client/counters.h client/misuse.h client/options.h client/registered_buffer.h client/scan.h client/watch.h
    rdma/address.h rdma/local_access.h rdma/shared_memory.h rdma/tls.h rdma/transport.h
    store/backup.h store/base/check.h store/base/clock.h store/base/mutex.h store/base/results.h store/delete_range.h
    store/format/cluster/shard_identity.h store/format/memory/histogram.h store/format/memory/layout.h
    store/format/memory/metric_registry.h store/format/types/bounds.h store/format/types/change.h
    store/format/types/expiry.h store/format/types/scan_options.h store/format/types/write_options.h
    store/format/wire/remote_region.h store/format/wire/write_batch.h store/options.h store/scan.h store/store.h
    store/watch.h)
set(short_names
    client/async_client.h client/client.h client/client_metrics.h client/client_pool.h client/cluster/cluster_client.h
    client/cluster/topology_source.h client/coroutine_client.h store/store.h)

# write_if_other(FILE TEXT): a file that stays as it is does not compile anything again.
function(write_if_other file text)
  set(before)
  if(EXISTS ${file})
    file(READ ${file} before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE ${file} "${text}")
  endif()
endfunction()

function(make_public_headers root folder)
  foreach(header ${public_headers})
    file(READ ${root}/${header} text)
    string(REGEX REPLACE "#include \"((client|rdma|store)/[^\"]+)\"" "#include <remora/\\1>" text "${text}")
    write_if_other(${folder}/remora/${header} "${text}")
  endforeach()
  foreach(header ${short_names})
    cmake_path(GET header FILENAME name)
    write_if_other(${folder}/remora/${name} "#pragma once\n#include <remora/${header}>  // IWYU pragma: export\n")
  endforeach()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  make_public_headers(${ROOT} ${FOLDER})
  return()
endif()

set(REMORA_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)
make_public_headers(${PROJECT_SOURCE_DIR} ${REMORA_INCLUDE_DIR})
list(TRANSFORM public_headers PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE sources_of_copies)
add_custom_command(
  OUTPUT ${REMORA_INCLUDE_DIR}/made
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DFOLDER=${REMORA_INCLUDE_DIR} -P ${CMAKE_CURRENT_LIST_FILE}
  COMMAND ${CMAKE_COMMAND} -E touch ${REMORA_INCLUDE_DIR}/made
  DEPENDS ${sources_of_copies} ${CMAKE_CURRENT_LIST_FILE}
  VERBATIM)
add_custom_target(remora_public_headers DEPENDS ${REMORA_INCLUDE_DIR}/made)

# has_public_headers(TARGET...): programs that link the library find them.
function(has_public_headers)
  foreach(library ${ARGN})
    target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${REMORA_INCLUDE_DIR}>)
    add_dependencies(${library} remora_public_headers)
  endforeach()
endfunction()
