#!/usr/bin/env bash
# Refusals of tools/on-debian and tools/on-arm64, without a download.
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

# refuses STATUS WORDS COMMAND...
refuses() {
  local expected=$1 words=$2 status=0
  shift 2
  "$@" >"$scratch/output" 2>&1 </dev/null || status=$?
  [ $status -eq "$expected" ] || fail "$*: exit status $status"
  grep -qF -- "$words" "$scratch/output" || fail "$*: it does not say: $words"
}

refuses 64 "usage: tools/on-debian" "$root/tools/on-debian" trixie
refuses 64 "usage: tools/on-debian" "$root/tools/on-debian" trixie true
refuses 64 "is no name of a release" "$root/tools/on-debian" 13 -- true
refuses 64 "is no name of a release" "$root/tools/on-debian" bookworm+riscv64 -- true
refuses 64 "usage: tools/on-arm64" "$root/tools/on-arm64" --frobnicate
refuses 64 "usage: tools/on-arm64" "$root/tools/on-arm64" "store_test --all"
[ ! -e "$scratch/cache" ] || fail "it made a folder for what it refused"
if [ "$(id -u)" -eq 0 ]; then
  # A mirror that nothing listens at.
  export REMORA_DEBIAN_MIRROR=http://127.0.0.1:9/debian
  refuses 69 "Debian trixie could not be downloaded" "$root/tools/on-debian" trixie -- true
  [ ! -e "$scratch/cache/trixie" ] || fail "what was not downloaded is there"
else
  refuses 77 "needs root" "$root/tools/on-debian" trixie -- true
fi
refuses 64 "--compiler" "$root/tests/releases/compile.py" --compiler=icc
refuses 64 "round_trip.py here COMMAND" "$root/tests/releases/round_trip.py" here
echo passed
