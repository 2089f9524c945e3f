#!/usr/bin/env bash
# quickstart_test.sh SOURCE
# From the README's first command to an installation. Runs tools/quickstart in a copy of the sources, installs its build
# into an empty folder, as docs/guide/install.md says, and uses what was installed: a program, and each of the libraries.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
source=$(readlink -f "$1")
scratch=$(mktemp -d /tmp/remora-quickstart.XXXXXX)
server=
trap '[ -z "$server" ] || kill -KILL "$server"; rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
address=local://$scratch/socket

fail() { echo "quickstart_test: $*"; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 60 "$scratch/log"; fail "failed: $*"; }; }
say() { echo "== $* (${SECONDS} s)"; }

mkdir "$scratch/remora"
tar -C "$source" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$scratch/remora" -xf -
cd "$scratch/remora"

say "tools/quickstart"
quietly tools/quickstart
grep -q 'compared [1-9][0-9]* pages, [0-9]* bytes, 0 differ' "$scratch/log" || fail "the quickstart compared no pages"
[ ! -e build/bin/kvbench ] || fail "the quickstart builds everything: this test shows nothing"

say "cmake --install build"
quietly cmake --install build --prefix "$prefix"
for program in kvserver kvctl kvbench kvgate; do
  "$prefix/bin/$program" --version >/dev/null || fail "the installed $program does not start"
done

say "serve"
mkfifo "$scratch/ready"
"$prefix/bin/kvserver" --listen="$address" --durability=memory --memory=32M --quiet --ready_fd=3 3>"$scratch/ready" &
server=$!
[ "$(cat "$scratch/ready")" = ready ] || fail "the installed kvserver does not serve"
"$prefix/bin/kvctl" --server="$address" put greeting "hello, world"
[ "$("$prefix/bin/kvctl" --server="$address" get greeting)" = "hello, world" ] || fail "kvctl reads another value"

# with_cmake COMPONENT TARGET EXAMPLE
with_cmake() {
  say "find_package(remora COMPONENTS $1): $2"
  rm -rf "$scratch/outside"
  quietly cmake -S "$here/outside" -B "$scratch/outside" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DCOMPONENT="$1" -DTARGET="$2" -DSOURCE="$scratch/remora/examples/$3"
  quietly cmake --build "$scratch/outside"
}
with_cmake client remora::client_shared first.cc
[ "$("$scratch/outside/program" "$address")" = "hello, world" ] || fail "first.cc"
with_cmake client remora::c_shared first.c
[ "$("$scratch/outside/program" "$address")" = "hello, world" ] || fail "first.c"
with_cmake store remora::store_shared embedded.cc
[ "$("$scratch/outside/program" "$scratch/data")" = "runs: 1" ] || fail "embedded.cc"

say "uninstall"
xargs -d '\n' rm -f <build/install_manifest.txt
# The administrator's file stays.
left=$(find "$prefix" ! -type d)
[ "$left" = "$prefix/etc/remora/kvserver.conf" ] || fail "uninstalling left $left"
echo "all done"
