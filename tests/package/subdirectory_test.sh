#!/usr/bin/env bash
# subdirectory_test.sh BUILD SOURCE programs|client|store
#
# In a project that has Remora's sources in it (FetchContent, add_subdirectory), compiles programs that use Remora. With
# `client` or `store`, it also builds the library and runs the programs.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
build=$1 source=$2
case $3 in
  programs) programs=(first embedded first_c) ;;
  client) programs=(first first_c) ;;
  store) programs=(embedded) ;;
  *) echo "subdirectory_test: $3 is neither programs, nor client, nor store"; exit 64 ;;
esac
scratch=$(mktemp -d /tmp/remora-above.XXXXXX)
server=
trap '[ -z "$server" ] || kill -KILL "$server"; rm -rf "$scratch"' EXIT

fail() { echo "subdirectory_test: $*"; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 60 "$scratch/log"; fail "failed: $*"; }; }

# Few and large units: other tests compile their sources.
quietly cmake -S "$here/above" -B "$scratch/above" -G Ninja -DREMORA="$source" -DCMAKE_BUILD_TYPE= \
  -DCMAKE_CXX_FLAGS=-O0 -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
grep '"command".*/first.dir/' "$scratch/above/compile_commands.json" >"$scratch/first"
! grep -q -- '-W' "$scratch/first" || fail "its programs get Remora's warnings"
[[ $(ctest --test-dir "$scratch/above" -N) = *"Total Tests: 0"* ]] || fail "it has Remora's tests"
if [ "$3" = programs ]; then
  for program in "${programs[@]}"; do
    objects=$(ninja -C "$scratch/above" -t targets all | sed -nE "s|^(CMakeFiles/$program\.dir/[^:]*\.o):.*|\1|p")
    [ -n "$objects" ] || fail "$program has no object"
    # shellcheck disable=SC2086  # names of files
    quietly ninja -C "$scratch/above" $objects
  done
  exit
fi
quietly cmake --build "$scratch/above" --target "${programs[@]}"

if [ "$3" = store ]; then
  [ "$("$scratch/above/embedded" "$scratch/data")" = "runs: 1" ] || fail "embedded"
else
  address=local://$scratch/socket
  mkfifo "$scratch/ready"
  "$build/bin/kvserver" --listen="$address" --durability=memory --memory=32M --quiet --ready_fd=3 3>"$scratch/ready" &
  server=$!
  [ "$(cat "$scratch/ready")" = ready ] || fail "no server"
  for program in "${programs[@]}"; do
    [ "$("$scratch/above/$program" "$address")" = "hello, world" ] || fail "$program"
  done
fi

# It installs nothing into the place of the project above.
quietly cmake --install "$scratch/above" --prefix "$scratch/installed"
[ ! -e "$scratch/installed" ] || fail "installs $(find "$scratch/installed" -type f | head -n 3)"
