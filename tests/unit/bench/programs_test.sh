#!/usr/bin/env bash
# kvbench, path_ratio and pipeline against a real kvserver over the local transport.
#   programs_test.sh BIN     BIN: the folder of the built programs
set -euo pipefail
bin=$1
directory=$(mktemp -d)
server=local://$directory/socket
server_pid=
cleanup() {
  [ -z "$server_pid" ] || { kill "$server_pid" 2>/dev/null || true; wait "$server_pid" 2>/dev/null || true; }
  rm -rf "$directory"
}
trap cleanup EXIT
fail() { echo "programs_test: $*" >&2; exit 1; }

# The read ends when the server writes its line, or when it has died and with it the last writer.
mkfifo "$directory/ready"
"$bin/kvserver" --listen="$server" --durability=memory --memory=64M --quiet --ready_fd=9 \
  9> "$directory/ready" > "$directory/server.out" &
server_pid=$!
read -r line < "$directory/ready" || true
[ "${line:-}" = ready ] || fail "kvserver did not start: $(cat "$directory/server.out")"

"$bin/kvbench" all --target="$server" --workload=b --records=1000 --operations=10000 --threads=2 --verify \
  --location_cache=0 --json="$directory/out.json" | tee "$directory/out"
# One READ for the bucket and one for the record; a bucket that overflowed takes one more.
grep -Eq 'client: 2\.[0-9]+ READs per read' "$directory/out" || fail "a GET is not two READs"
number() { python3 -c 'import json, sys
run = json.load(open(sys.argv[1]))["phases"][-1]
print(eval(sys.argv[2], run))' "$directory/out.json" "$1"; }
[ "$(number errors)" = "[]" ] || fail "errors were counted"
# Reads are nothing to the server: all requests that it saw were updates.
updates=$(number 'by_operation["update"]["operations"]')
requests=$(number 'server["receive_completions"]')
[ "$(number 'client["location_hits"]')" = 0 ] || fail "a place was remembered"
[ -n "$updates" ] && [ "$updates" = "$requests" ] || fail "$requests requests for $updates updates"

"$bin/kvbench" run --target="$server" --workload=c --records=1000 --operations=20000 --verify --location_cache=1M |
  tee "$directory/out"
grep -Eq 'client: 1\.[01][0-9]+ READs per read' "$directory/out" || fail "a warm GET is not one READ"
grep -Eq 'locations: 9[0-9]\.[0-9] % of reads' "$directory/out" || fail "few places were remembered"

# Several processes, and what a workload may do: each part adds up.
for workload in a d f; do
  "$bin/kvbench" all --target="$server" --workload=$workload --records=1000 --operations=10001 --threads=2 \
    --processes=3 --warmup=0.05 --interval=0.05 --verify --json="$directory/out.json" | tee "$directory/out"
  [ "$(number operations)" = 10001 ] || fail "$(number operations) operations of 3 processes"
  [ "$(number 'sum(interval["operations"] for interval in series)')" = 10001 ] || fail "the series lacks operations"
  [ "$(number 'sum(count for kind in by_operation.values() for _, count in kind["latency"]["cells"])')" = 10001 ] ||
    fail "latencies of some process are missing"
done
"$bin/kvbench" report "$directory/out.json" "$directory/out.json" --html="$directory/out.html"
python3 - "$directory/out.html" <<'PYTHON' || fail "the page is not what was measured"
import sys, xml.etree.ElementTree as tree
page = tree.parse(sys.argv[1]).getroot()  # fails unless it is well-formed
cells = ["".join(cell.itertext()) for cell in page.iter("{http://www.w3.org/1999/xhtml}td")]
pictures = list(page.iter("{http://www.w3.org/2000/svg}svg"))
lines = [line for line in page.iter("{http://www.w3.org/2000/svg}polyline") if len(line.get("points").split()) > 1]
sys.exit(not ({"10001", "read", "rmw", "local"} - {cell.split(":")[0] for cell in cells} == set()
              and len(pictures) >= 5 and len(lines) >= 4))
PYTHON

status=0
"$bin/kvbench" all --target="local://$directory/nobody" --processes=2 2> "$directory/err" || status=$?
[ $status -eq 69 ] && grep -q nobody "$directory/err" || fail "two processes without a server: exit status $status"

"$bin/path_ratio" --server="$server" --rounds=50 --records=100 --value_size=64,4096 | tee "$directory/out"
[ "$(grep -c 'ratio *[0-9]' "$directory/out")" -eq 10 ] || fail "path_ratio printed too little"

"$bin/mirror_ratio" --server="$server" --records=2000 --rounds=320 --places=100 --index_mirror=1M | tee "$directory/out"
[ "$(grep -c 'ratio *[0-9]' "$directory/out")" -eq 2 ] || fail "mirror_ratio printed too little"

"$bin/tcp_floor" --in_flight=1,4 --round_trips=100 --turns=2 | tee "$directory/out"
[ "$(grep -c 'a round trip; CPU *[0-9]' "$directory/out")" -eq 6 ] || fail "tcp_floor printed too little"

"$bin/pipeline" --server="$server" --records=100 --turns=3 --operations=32 | tee "$directory/out"
[ "$(grep -c 'ratio *[0-9]' "$directory/out")" -eq 24 ] || fail "pipeline printed too little"

"$bin/kvbench" floor --target="$server" --records=500 --operations=800 --data_dir="$directory/floor" |
  tee "$directory/out"
[ "$(grep -cE '^ +[0-9.]+ times  ' "$directory/out")" -eq 13 ] || fail "floor printed too little"
grep -Eq '^append to a file, and fdatasync +[0-9]' "$directory/out" || fail "floor has not synced"
[ ! -e "$directory/floor" ] || fail "floor left its files"
mkdir "$directory/floor" && touch "$directory/floor/mine"
status=0
"$bin/kvbench" floor --target="$server" --records=500 --operations=800 --data_dir="$directory/floor" \
  2> "$directory/err" >/dev/null || status=$?
[ $status -eq 1 ] && grep -q 'is not empty' "$directory/err" && [ -e "$directory/floor/mine" ] ||
  fail "floor took a directory that is in use: exit status $status"

status=0
"$bin/path_ratio" --server="local://$directory/nobody" 2> /dev/null || status=$?
[ $status -eq 69 ] || fail "path_ratio without a server: exit status $status"
