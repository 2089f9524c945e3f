#!/usr/bin/env bash
# tools/rdma-guest: its promises to the command it runs and to its caller. Three boots, about half a minute.
set -euo pipefail

guest=$(readlink -f "$(dirname "$0")/../../tools/rdma-guest")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/rdma_guest_test.XXXXXX")
in_memory=$(mktemp -d /dev/shm/rdma_guest_test.XXXXXX)
trap 'rm -rf "$scratch" "$in_memory"' EXIT
export TMPDIR=$scratch/temporary
mkdir "$TMPDIR"

fail() {
  echo "FAILED: $1"
  [ ! -e "$scratch/output" ] || sed 's/^/  output: /' "$scratch/output"
  [ ! -e "$scratch/errors" ] || sed 's/^/  errors: /' "$scratch/errors"
  exit 1
}

expect_status() { [ "$1" -eq "$status" ] || fail "$2: expected exit status $1, got $status"; }
expect_line() { grep -qxF -- "$1" "$scratch/output" || fail "missing in the output: $1"; }

# Leaves $status, and what was printed in $scratch/output.
run_guest() {
  status=0
  "$guest" "$@" >"$scratch/output" 2>"$scratch/errors" || status=$?
}

wrong_usage_is_rejected() {
  run_guest
  expect_status 64 "no command"
  run_guest --timeout=soon -- true
  expect_status 64 "--timeout=soon"
  run_guest --kernel=6.12 -- true
  expect_status 64 "--kernel=6.12"
  run_guest --frobnicate -- true
  expect_status 64 "unknown option"
  run_guest --help
  expect_status 0 "--help"
  expect_line "  64  wrong usage"
}

# One boot, in a folder with a space under /tmp, for everything that a command sees.
command_runs_as_if_here() {
  mkdir "$scratch/a folder"
  cd "$scratch/a folder"
  echo before >file
  cat >program <<'END'
#!/bin/bash
echo "folder $PWD"
for argument; do echo "argument <$argument>"; done
echo "environment $REMORA_GUEST $REMORA_VERBS_HOST $REMORA_PASSED"
echo "port $(</sys/class/infiniband/rxe1/ports/1/state)"
echo "locked memory $(ulimit -l)"
echo "stdin has $(wc -c) bytes"
echo during >file && echo "file has $(<file)"
echo "to stderr" >&2
sleep 3
seq 200000  # more than is under way at once: none of it may be lost when the guest stops
exit 7
END
  chmod +x program
  local arguments=('two words' "it's" 'a "quote"' "\$HOME \\ *" '') argument
  status=0
  REMORA_PASSED="it's \"passed\"" "$guest" -- ./program "${arguments[@]}" $'two\nlines' \
    2>"$scratch/errors" | while IFS= read -r line; do
      printf '%s\n' "$line"
      [ "$line" != "to stderr" ] || echo $SECONDS >"$scratch/streamed_at"
    done >"$scratch/output" || status=${PIPESTATUS[0]}
  local ended_at=$SECONDS
  cd - >/dev/null

  grep -xE '[0-9]+' "$scratch/output" >"$scratch/numbers" || true
  sed -i -E '/^[0-9]+$/d' "$scratch/output"
  expect_status 7 "exit 7"
  expect_line "folder $scratch/a folder"
  for argument in "${arguments[@]}"; do expect_line "argument <$argument>"; done
  expect_line "argument <two"
  expect_line "lines>"
  expect_line "environment 1 10.98.0.1 it's \"passed\""
  expect_line "port 4: ACTIVE"
  expect_line "locked memory unlimited"
  expect_line "stdin has 0 bytes"
  expect_line "file has during"
  expect_line "to stderr"
  [ "$(<"$scratch/a folder/file")" = before ] || fail "the guest changed a file of its host"
  seq 200000 | cmp -s - "$scratch/numbers" || fail "a part of the output was lost"
  [ $((ended_at - $(<"$scratch/streamed_at"))) -ge 2 ] || fail "the output came only at the end"
}

# In /dev/shm, which the guest would otherwise have empty.
time_limit_ends_it() {
  echo "from memory" >"$in_memory/file"
  cd "$in_memory"
  run_guest --timeout=5 -- sh -c 'cat file; sleep 100; echo too late'
  cd - >/dev/null
  expect_status 124 "time limit"
  expect_line "from memory"
  ! grep -q late "$scratch/output" || fail "the command outlived its time limit"
}

hosts_have_a_device_each() {
  run_guest --hosts=3 -- sh -c 'cat /sys/class/infiniband/rxe[123]/ports/1/state; ip -brief address show dev h3'
  expect_status 0 "three hosts"
  [ "$(grep -cx '4: ACTIVE' "$scratch/output")" = 3 ] || fail "not three active ports"
  grep -qw 10.98.0.3/32 "$scratch/output" || fail "h3 has not its address"
}

wrong_usage_is_rejected
command_runs_as_if_here
time_limit_ends_it
hosts_have_a_device_each
[ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files are left: $(ls -A "$TMPDIR")"
echo "passed"
