#!/usr/bin/env bash
# kvbench against real servers of other stores, where they are installed (tools/install-deps peers).
#   peers_test.sh BIN     BIN: the folder of the built programs
set -euo pipefail
bin=$1
directory=$(mktemp -d)
chmod 755 "$directory"
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  rm -rf "$directory"
}
trap cleanup EXIT
fail() { echo "peers_test: $*" >&2; exit 1; }
number() { python3 -c 'import json, sys
print(eval(sys.argv[2], json.load(open(sys.argv[1]))["phases"][-1]))' "$directory/out.json" "$1"; }

# exercise NAME TARGET COMMAND...
exercise() {
  local name=$1 target=$2
  shift 2
  if ! command -v "$1" >/dev/null; then echo "peers_test: no $1 here"; return; fi
  "$@" >"$directory/$name.out" 2>&1 &
  local pid=$!
  pids+=("$pid")
  # Ready when its socket can be connected to; it has died, or the test's own time ends it.
  until python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' \
    "$directory/$name" 2>/dev/null; do
    kill -0 "$pid" 2>/dev/null || fail "$name did not start: $(cat "$directory/$name.out")"
  done
  for flags in "--workload=a" "--workload=d --depth=16" "--workload=f --depth=64 --processes=2"; do
    # shellcheck disable=SC2086  # several flags
    "$bin/kvbench" all --target="$target" $flags --records=500 --operations=2001 --threads=2 --verify \
      --server_pid="$pid" --json="$directory/out.json" >"$directory/kvbench" 2>&1 && status=0 || status=$?
    if [ $status -eq 69 ] && grep -q 'was built without' "$directory/kvbench"; then
      echo "peers_test: $(cat "$directory/kvbench")"
      return
    fi
    [ $status -eq 0 ] || fail "$name, $flags: exit status $status: $(cat "$directory/kvbench")"
    [ "$(number operations)" = 2001 ] || fail "$name, $flags: $(number operations) operations"
    [ "$(number 'server["processor_ns"] > 0')" = True ] || fail "$name took no time"
  done
  # A record that was not loaded is missing, each time, and nothing else is.
  for depth in 1 16; do
    "$bin/kvbench" run --target="$target" --workload=c --records=1000000 --operations=300 --depth=$depth \
      -p insertstart=999000 --verify 2>"$directory/err" >/dev/null && fail "$name has what was not loaded"
    grep -q 'read: 300 x not found' "$directory/err" || fail "$name: $(cat "$directory/err")"
  done
  "$bin/kvbench" run --target="$target" --workload=e --records=500 --operations=10 2>"$directory/err" >/dev/null &&
    fail "$name scans"
  grep -q 'no scans' "$directory/err" || fail "$name: $(cat "$directory/err")"
  # A server that goes is an error, and not a wait.
  kill "$pid"
  wait "$pid" || true
  "$bin/kvbench" run --target="$target" 2>/dev/null >/dev/null && fail "$name is gone, and serves"
  echo "peers_test: $name is good"
}

exercise redis "redis://$directory/redis" \
  redis-server --port 0 --unixsocket "$directory/redis" --save "" --appendonly no --dir "$directory"
as_user=()
if [ "$(id -u)" -eq 0 ]; then
  as_user=(-u root)
fi
exercise memcached "memcached://$directory/memcached" memcached "${as_user[@]}" -s "$directory/memcached" -m 64
