# Writes into OUTPUT, as a C string, the hash of the commit that SOURCE has checked out, with "-dirty" where files
# differ from it. "unknown": SOURCE is not the root of a working tree, or there is no git.
set(commit "unknown")
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-cdup --short=12 HEAD
  OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
# The way up to the root of the tree is the first line: empty at the root.
if(status EQUAL 0 AND found MATCHES "^\n([0-9a-f]+)$")
  set(commit ${CMAKE_MATCH_1})
  execute_process(COMMAND git -C ${SOURCE} diff-index --quiet HEAD -- RESULT_VARIABLE differs ERROR_QUIET)
  if(NOT differs EQUAL 0)
    string(APPEND commit "-dirty")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "\"${commit}\"\n" @ONLY)
