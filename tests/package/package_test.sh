#!/usr/bin/env bash
# package_test.sh BUILD EXAMPLES some|all
# Installs a build, moves what was installed elsewhere, and builds the examples from there as a stranger would:
# with CMake and with pkg-config, static and shared. Each is run; the clients against the installed server. `some`: each
# library, in one of the ways.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
build=$1 examples=$(readlink -f "$2") ways=$3
scratch=$(mktemp -d /tmp/remora-package.XXXXXX)
server=
trap '[ -z "$server" ] || kill -KILL "$server"; rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
address=local://$scratch/socket

fail() { echo "package_test: $*"; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 60 "$scratch/log"; fail "failed: $*"; }; }

say() { echo "== $* (${SECONDS} s)"; }

say "install"
DESTDIR=$scratch/root quietly cmake --install "$build" --prefix /opt/remora
said=$(cat "$scratch/log")
for file in bin/kvserver lib/systemd/system/kvserver.service lib/systemd/system/kvserver@.service; do
  grep -qx "/opt/remora/$file" "$build/install_manifest.txt" || fail "the list for uninstalling lacks $file"
done
mv "$scratch/root/opt/remora" "$prefix"
pc=$(dirname "$(find "$prefix" -name remora-client.pc)")
lib=$(dirname "$pc")

say "serve"
mkfifo "$scratch/ready"
"$prefix/bin/kvserver" --listen="$address" --durability=memory --memory=32M --quiet --ready_fd=3 3>"$scratch/ready" &
server=$!
[ "$(cat "$scratch/ready")" = ready ] || fail "the installed kvserver does not serve"

# run_it PROGRAM EXAMPLE: it does what it is an example of.
run_it() {
  rm -rf "$scratch/data"
  case $2 in
    first|first_c) [ "$(LD_LIBRARY_PATH=$lib "$1" "$address")" = "hello, world" ] || fail "$1" ;;
    embedded) [ "$(LD_LIBRARY_PATH=$lib "$1" "$scratch/data")" = "runs: 1" ] || fail "$1" ;;
  esac
}

source_of() { if [[ $1 = *_c ]]; then echo "$examples/${1%_c}.c"; else echo "$examples/$1.cc"; fi; }

# loads PROGRAM LIBRARY
loads() {
  local libraries
  libraries=$(LD_LIBRARY_PATH=$lib ldd "$1") || fail "ldd $1"
  grep -q "$2" <<<"$libraries"
}

# with_cmake COMPONENT TARGET EXAMPLE     (of C: EXAMPLE_c)
with_cmake() {
  say "find_package(remora COMPONENTS $1): $2"
  rm -rf "$scratch/outside"
  quietly cmake -S "$here/outside" -B "$scratch/outside" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DCOMPONENT="$1" -DTARGET="$2" -DSOURCE="$(source_of "$3")"
  quietly cmake --build "$scratch/outside"
  run_it "$scratch/outside/program" "$3"
}

# with_pkg_config MODULE EXAMPLE [--static]
with_pkg_config() {
  say "pkg-config $*"
  local flags
  flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs ${3:-} "$1")
  # The archives, where both are there.
  [ -z "${3:-}" ] || flags=$(sed -E 's/-l(remora[a-z_]*)/-l:lib\1.a/g' <<<"$flags")
  # shellcheck disable=SC2086  # flags are words
  if [[ $2 = *_c ]]; then
    quietly cc -std=c99 -o "$scratch/program" "$examples/${2%_c}.c" $flags
  else
    quietly c++ -std=c++20 -o "$scratch/program" "$examples/$2.cc" $flags
  fi
  run_it "$scratch/program" "$2"
}

with_cmake client remora::client first
! loads "$scratch/outside/program" 'libremora\|librocksdb' || fail "remora::client is not static, or has RocksDB"
with_cmake store remora::store_shared embedded
loads "$scratch/outside/program" libremora_store || fail "remora::store_shared is not shared"
with_cmake client remora::c_shared first_c
loads "$scratch/outside/program" libremora.so || fail "remora::c_shared is not shared"
! loads "$scratch/outside/program" 'libremora_' || fail "remora::c_shared needs the libraries for C++"
with_pkg_config remora-client first
loads "$scratch/program" libremora_client || fail "pkg-config's remora-client is not shared"
with_pkg_config remora first_c --static
! loads "$scratch/program" libremora || fail "pkg-config --static is not static"

if [ "$ways" = all ]; then
  with_cmake client remora::client_shared first
  loads "$scratch/outside/program" libremora_client || fail "remora::client_shared is not shared"
  ! loads "$scratch/outside/program" librocksdb || fail "remora::client_shared has RocksDB"
  with_cmake store remora::store embedded
  ! loads "$scratch/outside/program" libremora || fail "remora::store is not static"
  with_cmake client remora::c first_c
  ! loads "$scratch/outside/program" libremora || fail "remora::c is not static"
  with_pkg_config remora-client first --static
  ! loads "$scratch/program" libremora || fail "pkg-config --static is not static"
  with_pkg_config remora-store embedded
  with_pkg_config remora first_c
  loads "$scratch/program" libremora.so || fail "pkg-config's remora is not shared"
fi

declared_functions() {
  grep -ohE 'remora_[a-z_]+ ?\(' "$prefix"/include/remora*.h | tr -d ' (' | sort -u
}
say "each function has its manual page"
for page in kvctl.1 kvserver.8 kvbench.1 remora.7; do
  [ -f "$prefix/share/man/man${page##*.}/$page" ] || fail "no $page"
done
declared_functions | while read -r function; do
  page=$prefix/share/man/man3/$function.3
  [ -f "$page" ] || fail "no $function.3"
  while read -r request other; do
    [ "$request" != .so ] || page=$prefix/share/man/$other
    break
  done <"$page"
  grep -q "^\.B \".*$function(" "$page" || fail "$function.3 does not show it"
done

say "the library for C shows what its header has, and nothing else"
declared_functions >"$scratch/declared"
nm -D --defined-only "$lib/libremora.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/shown"
diff "$scratch/declared" "$scratch/shown" || fail "remora.h and libremora.so differ"

say "each document and example that is referred to"
doc=$prefix/share/doc/remora
find "$doc" -name '*.md' | while read -r file; do
  {
    grep -oE '\]\([A-Za-z][A-Za-z0-9_./-]*\)' "$file" | sed -E 's/^..(.*).$/\1/' || true
    # Named, not linked; from the top.
    if [ "$(dirname "$file")" = "$doc" ]; then grep -oE '`examples/[a-z_.]+`' "$file" | tr -d '`' || true; fi
  } | while read -r to; do [ -e "$(dirname "$file")/$to" ] || fail "$file refers to $to, which is not installed"; done
done
[ -f "$doc/examples/first.cc" ] && [ -f "$doc/docs/reference/operations.md" ] || fail "no examples, or documents"

if [ -d "$prefix/lib/python3/dist-packages/remora" ]; then
  say "the package for Python"
  [[ $said = *"export PYTHONPATH=/opt/remora/lib/python3/dist-packages"* ]] || fail "it does not say where the module is"
  for below in /usr/local /usr; do
    DESTDIR=$scratch/system quietly cmake --install "$build" --prefix "$below"
    ! grep -q PYTHONPATH "$scratch/log" || fail "Python does not look below $below"
    found=
    for packages in $(/usr/bin/python3 -c 'import site; print(*site.getsitepackages())'); do
      [ ! -f "$scratch/system$packages/remora/__init__.py" ] || found=yes
    done
    [ $found ] || fail "$below: Debian's Python does not find it"
    rm -r "$scratch/system"
  done
  said=$(PYTHONPATH=$prefix/lib/python3/dist-packages python3 -B "$examples/first.py" "$address")
  [ "$said" = "hello, world" ] || fail "first.py"
  said=$(PYTHONPATH=$prefix/lib/python3/dist-packages python3 -B "$examples/async.py" "$address")
  [ "$said" = 780 ] || fail "async.py"
fi

say "what cannot be had is said"
if cmake -S "$here/outside" -B "$scratch/none" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCOMPONENT=cleint \
  -DTARGET=remora::client -DSOURCE="$(source_of first)" >"$scratch/log" 2>&1; then
  fail "found a component that does not exist"
fi
grep -q 'there is no component cleint' "$scratch/log" || { cat "$scratch/log"; fail "it does not say what is wrong"; }

# Whether each is whole by itself is seen in the tree (tests/lint/reached.py, and tools/check --long).
say "each header that an installed header includes is installed"
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags remora-client remora-store)
headers=$(cd "$prefix/include" && find remora -name '*.h' -printf '#include <remora/%P>\n' | sort)
[ "$(wc -l <<<"$headers")" -ge 40 ] || fail "headers are missing"
# shellcheck disable=SC2086
quietly c++ -std=c++20 -fsyntax-only -x c++ - $flags <<<"$headers"

say "a program's own files take the place of none"
sed -E 's/^#include <remora\/(.*)>$/\1/' <<<"$headers" | while read -r header; do
  mkdir -p "$scratch/own/$(dirname "$header")"
  echo '#error "the file of the program"' >"$scratch/own/$header"
done
# shellcheck disable=SC2086
quietly c++ -std=c++20 -fsyntax-only -I"$scratch/own" -x c++ - $flags <<<"$headers"

kill -TERM "$server"
wait "$server"
server=
say "all done"
