#!/usr/bin/env bash
# tools/on-debian and tools/on-arm64 without a download: their rejections, and the times of the files that they copy.
set -euo pipefail

root=$(readlink -f "$(dirname "$0")/../..")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/on_debian_test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
export REMORA_DEBIAN_CACHE=$scratch/cache

fail() {
  echo "FAILED: $1"
  sed 's/^/  output: /' "$scratch/output"
  exit 1
}

# `rejects STATUS WORDS COMMAND...`
rejects() {
  local expected=$1 words=$2 status=0
  shift 2
  "$@" >"$scratch/output" 2>&1 </dev/null || status=$?
  [ $status -eq "$expected" ] || fail "$*: exit status $status"
  grep -qF -- "$words" "$scratch/output" || fail "$*: it does not say: $words"
}

rejects 64 "usage: tools/on-debian" "$root/tools/on-debian" trixie
rejects 64 "usage: tools/on-debian" "$root/tools/on-debian" trixie true
rejects 64 "is no name of a release" "$root/tools/on-debian" 13 -- true
rejects 64 "is no name of a release" "$root/tools/on-debian" bookworm+riscv64 -- true
rejects 64 "usage: tools/on-arm64" "$root/tools/on-arm64" --frobnicate
rejects 64 "usage: tools/on-arm64" "$root/tools/on-arm64" "store_test --all"
[ ! -e "$scratch/cache" ] || fail "it made a folder for what it rejected"
if [ "$(id -u)" -eq 0 ]; then
  # A mirror that nothing listens at.
  export REMORA_DEBIAN_MIRROR=http://127.0.0.1:9/debian
  rejects 69 "Debian trixie could not be downloaded" "$root/tools/on-debian" trixie -- true
  [ ! -e "$scratch/cache/trixie" ] || fail "what was not downloaded is there"

  # A folder without programs: the files are copied, and no command runs.
  mkdir -p "$scratch/cache/trixie/etc"
  echo 13 >"$scratch/cache/trixie/etc/debian_version"
  copy=$scratch/cache/trixie/remora
  copies() {
    if "$root/tools/on-debian" trixie -- true >"$scratch/output" 2>&1; then fail "a command ran"; fi
    cmp -s "$root/$1" "$copy/$1" || fail "$1 is not copied"
  }
  copies LICENSE
  touch -d 2001-02-03 "$copy/LICENSE" "$copy/README.md"
  mkdir "$copy/build"
  copies LICENSE
  [ "$(date -r "$copy/LICENSE" +%Y)" = 2001 ] || fail "a file that is as it was looks new"
  [ -d "$copy/build" ] || fail "what was built is gone"
  echo "of another working tree" >"$copy/README.md"
  touch -d 2001-02-03 "$copy/README.md"
  touch "$scratch/before"
  copies README.md
  [ ! "$copy/README.md" -ot "$scratch/before" ] || fail "a file of another content looks old"
else
  rejects 77 "needs root" "$root/tools/on-debian" trixie -- true
fi
rejects 64 "--compiler" "$root/tests/releases/compile.py" --compiler=icc
rejects 64 "takes g++, clang++ or a version of them as clang++-16, not 'clang++-'" \
  "$root/tests/releases/compile.py" --compiler=clang++-
rejects 64 "round_trip.py here COMMAND" "$root/tests/releases/round_trip.py" here
echo passed
