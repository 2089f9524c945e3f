#!/usr/bin/env bash
# Runs in the guest of tools/rdma-guest all that needs verbs: the suites, mutants, attacks, real programs, and
# what they cost. REMORA_WHOLE=no runs a part, for the default check: of the conformance tests those in of_the_transport,
# no mutants, no gate, no report, and no soak.
#   in_guest.sh BIN PAGES MUTATED
set -euo pipefail

bin=$1 pages=$2 mutated=$3
scratch=$(mktemp -d)
address=verbs://$REMORA_VERBS_HOST:7470
export REMORA_REQUIRE_VERBS=1

is_whole() { [ "${REMORA_WHOLE:-yes}" = yes ]; }
say() { echo "== $* (${SECONDS} s)"; }

# Prints the output of a suite for each test that failed, and for the one that was running when it ended early.
what_failed() {
  awk '/^\[ RUN/ { said = "" } { said = said $0 "\n" } /^\[  FAILED/ { printf "%s", said; said = "" }
       END { printf "%s", said }' "$scratch/suite"
}

# A suite in which a test was skipped, or that had none, shows nothing: that is a failure, too.
run_suite() {
  say "$1, the tests of $2"
  timeout 1000 "$bin/$1" --gtest_filter="$2" --gtest_color=no --gtest_print_time=1 >"$scratch/suite" 2>&1 || {
    local status=$?
    what_failed
    echo "$1: exit status $status"
    return 1
  }
  grep '^\[==========\] [1-9][0-9]* tests\? .* ran' "$scratch/suite" || { echo "$1: no test ran"; return 1; }
  ! grep '^\[  SKIPPED \]' "$scratch/suite" || { echo "$1: tests were skipped"; return 1; }
  echo "the slowest, in ms:"
  sed -nE 's/^\[       OK \] (.*) \(([0-9]+) ms\)$/\2 \1/p' "$scratch/suite" | sort -rn | sed 's/^/  /' | sed -n 1,12p
}

# The mutants of tests/mutation that only a device shows, and the same program without one.
run_mutants() {
  local run=(python3 -B "$(dirname "$0")/../mutation/run.py") mutant
  say "mutated_guest without a mutant: tests must pass"
  "${run[@]}" --control --filter='*/verbs' "$mutated/mutated_guest"
  while read -r mutant; do
    say "mutant $mutant: tests must fail"
    "${run[@]}" --mutant="$mutant" --filter='*/verbs' "$mutated/mutated_guest"
  done <"$mutated/in_guest"
}

run_pages() {
  say "kvserver at $address: the manual pages, loaded, then compared by another process"
  mkfifo "$scratch/ready"
  "$bin/kvserver" --listen="$address" --insecure_open --durability=logged --data_dir="$scratch/data" --memory=64M \
    --commit_log=8M --quiet --ready_fd=3 3>"$scratch/ready" &
  local server=$!
  [ "$(cat "$scratch/ready")" = ready ]
  "$bin/example_pages" --server="$address" load "$pages"/*
  "$bin/example_pages" --server="$address" compare "$pages"/*
  cmp "$pages/rdma_post_readv.3" <("$bin/kvctl" --server="$address" get 3/rdma_post_readv)
  say "what GET and PUT cost, beside the raw requests they are made of"
  "$bin/path_ratio" --server="$address" --rounds=500 --records=500
  kill -TERM $server
  wait $server
}

run_gate() {
  say "kvgate over verbs"
  REMORA_BIN=$bin python3 -B "$(dirname "$0")/gate_test.py"
}

run_floor() {
  say "GETs beside ib_read_lat, a few of each"
  "$(dirname "$0")/../../bench/scripts/verbs_floor" --bin="$bin" --rounds=1 --reads=50 --value_sizes=64,1024 | tee "$scratch/floor"
  [ "$(grep -c '/ ib_read_lat' "$scratch/floor")" = 10 ]
}

# Of the device that job made: its port, the GID of its address and its MTU.
run_doctor() {
  say "kvctl doctor sees the device"
  "$bin/kvctl" doctor --device --memory=64M >"$scratch/doctor" || { cat "$scratch/doctor"; return 1; }
  cat "$scratch/doctor"
  local line
  for line in 'memlock: this process may lock all' 'rdma_devices: 1, with 1 active ports' 'rdma\.rxe1\.max_mr_size:' \
    'rdma\.rxe1\.1\.port: ACTIVE, Ethernet, interface h1$' 'rdma\.rxe1\.1\.gid: index [0-9]*, RoCE v2$' \
    'rdma\.rxe1\.1\.mtu: 4096 bytes in a packet, of 4096$' \
    'rdma\.rxe1\.loopback_read: median' 'rdma\.rxe1\.loopback_write: median' 'rdma\.rxe1\.loopback_send: median' \
    'rdma\.rxe1\.perftest_read: ib_read_lat: typical [0-9.]* us, p99 [0-9.]* us, of 1000 of 64 bytes$' \
    'rdma\.rxe1\.perftest_write: ib_write_lat: typical .* one way$' \
    'rdma\.rxe1\.perftest_send: ib_send_lat: typical .* one way$'; do
    grep -q "^ok  *$line" "$scratch/doctor" || { echo "no line '$line'"; return 1; }
  done
  say "the same without perftest on the PATH"
  PATH=/nowhere "$bin/kvctl" doctor --device --memory=64M >"$scratch/doctor"
  grep -q '^ok  *rdma\.rxe1\.perftest: perftest is not installed' "$scratch/doctor"
}

run_report() {
  say "tools/hardware-report has the device's figures, and perftest's"
  "$(dirname "$0")/../../tools/hardware-report" --quick --bin="$bin" --output="$scratch/report"
  python3 -B - "$scratch/report" "$REMORA_VERBS_HOST" <<'PYTHON'
import json, sys

text = open(sys.argv[1], encoding="utf-8").read()
assert sys.argv[2] not in text, "the device's address is in it"
report = json.loads(text)
assert report["missing"] == {}, report["missing"]
assert [card["name"] for card in report["cards"]] == ["rxe1"], report["cards"]
values = {check["name"]: check["verdict"] for check in report["doctor"]["checks"]}
for kind in ("read", "write", "send"):
    assert values[f"rdma.rxe1.loopback_{kind}"] == "ok", values
    assert report["perftest"][f"{kind}_us"] > 0, report["perftest"]
for workload in ("c", "a"):
    assert report["measurements"]["kvbench"]["verbs"][workload]["operations_per_second"] > 0, report["measurements"]
assert report["measurements"]["path_ratio"][0]["get_warm"] > 0, report["measurements"]
print("perftest:", report["perftest"])
PYTHON
}

# Checks kvserver's message about write access, and its counters.
run_memory_windows() {
  local windows=$1 counter=$2 words=$3
  say "kvserver --memory_windows=$windows says so"
  rm -f "$scratch/ready"
  mkfifo "$scratch/ready"
  "$bin/kvserver" --listen="$address" --insecure_open --durability=memory --memory=64M --memory_windows="$windows" \
    --ready_fd=3 3>"$scratch/ready" 2>"$scratch/log" &
  local server=$!
  [ "$(cat "$scratch/ready")" = ready ]
  grep "$words" "$scratch/log"
  # A client is counted when it has been accepted: it may be quicker.
  for _ in {1..100}; do
    "$bin/kvctl" --server="$address" stats >"$scratch/stats"
    ! grep "^$counter *1\$" "$scratch/stats" || break
    sleep 0.1
  done
  grep -q "^$counter *1\$" "$scratch/stats"
  kill -TERM $server
  wait $server
}

run_suite rdma_test '*/verbs'
conformance='*/verbs*'
is_whole || conformance=$(paste -sd: "$(dirname "$0")/of_the_transport")
run_suite conformance_test "$conformance"
run_suite lease_test '*/verbs*'
run_suite linear_histories_test '*/verbs*'
run_suite adversarial_test '*/verbs'
! is_whole || run_mutants
run_pages
! is_whole || run_gate
run_floor
run_doctor
! is_whole || run_report
run_memory_windows auto staging_buffers_bound 'bound to its connection, by memory windows'
run_memory_windows off staging_buffers_unbound 'as --memory_windows is off'
if is_whole; then
  say "a short soak, over both transports at once"
  "$bin/soak" --on=verbs_and_local --minutes=0.3 --lives=2
fi
say "all done"
