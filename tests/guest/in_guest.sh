#!/usr/bin/env bash
# Runs in the guest of tools/rdma-guest: the suites over verbs, then real programs and real data.
#   in_guest.sh BIN PAGES
set -euo pipefail

bin=$1 pages=$2
scratch=$(mktemp -d)
address=verbs://$REMORA_VERBS_HOST:7470
export REMORA_REQUIRE_VERBS=1

say() { echo "== $* (${SECONDS} s)"; }

# A suite in which a test was skipped, or that had none, shows nothing: that is a failure, too.
run_suite() {
  say "$1, the tests of $2"
  "$bin/$1" --gtest_filter="$2" --gtest_color=no --gtest_print_time=1 | tee "$scratch/suite"
  grep -q '^\[==========\] [1-9][0-9]* tests\? .* ran' "$scratch/suite" || { echo "$1: no test ran"; return 1; }
  ! grep '^\[  SKIPPED \]' "$scratch/suite" || { echo "$1: tests were skipped"; return 1; }
}

run_pages() {
  say "kvserver at $address: the manual pages, loaded, then compared by another process"
  mkfifo "$scratch/ready"
  "$bin/kvserver" --listen="$address" --insecure_open --durability=logged --data_dir="$scratch/data" --memory=64M --quiet \
    --ready_fd=3 3>"$scratch/ready" &
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

run_suite rdma_test '*/verbs'
run_suite behaviour_test '*/verbs*'
run_suite linear_histories_test '*/verbs*'
run_suite hostile_test '*/verbs'
say "a short soak, over both transports at once"
"$bin/soak" --on=verbs_and_local --minutes=0.3 --lives=2
run_pages
say "all done"
