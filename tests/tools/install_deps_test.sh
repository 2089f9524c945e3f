#!/usr/bin/env bash
# tools/install-deps on a system that it does not know, or that has no apt-get. A mount namespace, if the test can make
# one, has another /etc/os-release.
set -euo pipefail

root=$(readlink -f "$(dirname "$0")/../..")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/install_deps_test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "FAILED: $1"
  sed 's/^/  output: /' "$scratch/output"
  exit 1
}

# run COMMAND...: leaves $status, and what was said in $scratch/output.
run() {
  status=0
  "$@" >"$scratch/output" 2>&1 </dev/null || status=$?
}
says() { grep -qF -- "$1" "$scratch/output"; }

# on SYSTEM-FILE ARGUMENT...: where that is /etc/os-release.
on() {
  # shellcheck disable=SC2016
  run unshare --map-root-user --mount sh -euc '
    mount --bind "$1" "$(readlink -f /etc/os-release)"
    shift
    exec "$@"
  ' sh "$@"
}

wrong_usage_is_rejected() {
  run "$root/tools/install-deps" everything
  [ $status -eq 64 ] || fail "an unknown group: exit status $status"
  says "usage: tools/install-deps [build|" || fail "the usage is not said"
}

# A folder of what it may run, and no apt there.
without_apt_it_says_what_it_wants() {
  mkdir "$scratch/bin"
  local program
  for program in bash env id grep; do ln -s "$(command -v $program)" "$scratch/bin"; done
  run env PATH="$scratch/bin" "$(command -v bash)" "$root/tools/install-deps" build
  [ $status -eq 69 ] || fail "without apt: exit status $status"
  says "has no apt-get; Remora is built and tested on Debian 12 and 13." || fail "that apt is missing is not said"
  says librocksdb-dev || fail "what it wants is not said"
  run env PATH="$scratch/bin" "$(command -v bash)" "$root/tools/install-deps" package
  if ! says "dpkg-dev lintian" || says libgtest-dev; then fail "not the packages of the group"; fi
}

# `build` is there: else these tests were not.
another_system_is_told() {
  cat >"$scratch/ubuntu" <<'END'
ID=ubuntu
ID_LIKE=debian
VERSION_ID="24.04"
PRETTY_NAME="Ubuntu 24.04.1 LTS"
END
  printf 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n' >"$scratch/trixie"
  if ! unshare --map-root-user --mount true 2>/dev/null; then
    echo "not run: other systems: no mount namespace is to be had here"
    return
  fi
  on "$scratch/ubuntu" "$root/tools/install-deps" build
  [ $status -eq 0 ] || fail "on Ubuntu: exit status $status"
  says "note: Remora is built and tested on Debian 12 and 13, not on Ubuntu 24.04.1 LTS" || fail "Ubuntu is not told"
  on "$scratch/trixie" "$root/tools/install-deps" build
  [ "$status" = 0 ] && [ ! -s "$scratch/output" ] || fail "on Debian 13: exit status $status"
}

wrong_usage_is_rejected
without_apt_it_says_what_it_wants
another_system_is_told
echo passed
