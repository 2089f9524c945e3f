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

# exercise NAME TARGET PLACE FLAGS COMMAND...     PLACE: the path, or the TCP port, where the server listens. FLAGS: of
#                                                 kvbench, for this server
exercise() {
  local name=$1 target=$2 place=$3 own=$4
  shift 4
  if ! command -v "$1" >/dev/null; then echo "peers_test: no $1 here"; return; fi
  "$@" >"$directory/$name.out" 2>&1 &
  local pid=$!
  pids+=("$pid")
  # Ready when its socket can be connected to; it has died, or the test's own time ends it.
  until python3 -c 'import socket, sys
if sys.argv[1].isdigit(): socket.create_connection(("127.0.0.1", int(sys.argv[1])))
else: socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$place" 2>/dev/null; do
    kill -0 "$pid" 2>/dev/null || fail "$name did not start: $(cat "$directory/$name.out")"
  done
  local batch=
  case $name in redis*) batch="--workload=f --depth=16 --batch" ;; esac
  for flags in "--workload=a" "--workload=d --depth=16" "--workload=f --depth=64 --processes=2" "$batch"; do
    [ -n "$flags" ] || continue
    # shellcheck disable=SC2086  # several flags
    "$bin/kvbench" all --target="$target" $own $flags --records=500 --operations=2001 --threads=2 --verify \
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
  for depth in 1 16 ${batch:+"16 --batch"}; do
    # shellcheck disable=SC2086  # several flags
    "$bin/kvbench" run --target="$target" $own --workload=c --records=1000000 --operations=300 --depth=$depth \
      -p insertstart=999000 --verify 2>"$directory/err" >/dev/null && fail "$name has what was not loaded"
    grep -q 'read: 300 x not found' "$directory/err" || fail "$name: $(cat "$directory/err")"
  done
  # shellcheck disable=SC2086  # several flags
  "$bin/kvbench" run --target="$target" $own --workload=e --records=500 --operations=10 2>"$directory/err" >/dev/null &&
    fail "$name scans"
  grep -q 'no scans' "$directory/err" || fail "$name: $(cat "$directory/err")"
  # A server that goes is an error, and not a wait.
  kill "$pid"
  wait "$pid" || true
  # shellcheck disable=SC2086  # several flags
  "$bin/kvbench" run --target="$target" $own 2>/dev/null >/dev/null && fail "$name is gone, and serves"
  echo "peers_test: $name is good"
}

exercise redis "redis://$directory/redis" "$directory/redis" "" \
  redis-server --port 0 --unixsocket "$directory/redis" --save "" --appendonly no --dir "$directory"
as_user=()
if [ "$(id -u)" -eq 0 ]; then
  as_user=(-u root)
fi
exercise memcached "memcached://$directory/memcached" "$directory/memcached" "" memcached "${as_user[@]}" -s "$directory/memcached" -m 64

# Redis over TLS: with the authority of its certificate, and not with another one.
for name in ca other; do
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
    -addext "subjectAltName=IP:127.0.0.1" -keyout "$directory/$name.key" -out "$directory/$name.crt" 2>/dev/null
done
port=$(python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
serve_tls=(redis-server --port 0 --tls-port "$port" --bind 127.0.0.1 --tls-cert-file "$directory/ca.crt"
  --tls-key-file "$directory/ca.key" --tls-ca-cert-file "$directory/ca.crt" --tls-auth-clients no
  --save "" --appendonly no --dir "$directory")
exercise redis_tls "rediss://127.0.0.1:$port" "$port" "--tls_ca=$directory/ca.crt" "${serve_tls[@]}"
if command -v redis-server >/dev/null; then
  "${serve_tls[@]}" >"$directory/redis_tls.out" 2>&1 &
  pids+=("$!")
  until "$bin/kvbench" load --target="rediss://127.0.0.1:$port" --tls_ca="$directory/ca.crt" --records=1 \
    >/dev/null 2>"$directory/err"; do
    if grep -q 'was built without' "$directory/err"; then exit 0; fi
    kill -0 "${pids[-1]}" 2>/dev/null || fail "redis with TLS did not start: $(cat "$directory/redis_tls.out")"
  done
  "$bin/kvbench" load --target="rediss://127.0.0.1:$port" --tls_ca="$directory/other.crt" --records=1 \
    >/dev/null 2>"$directory/err" && fail "a certificate of another authority is taken"
  grep -q 'certificate' "$directory/err" || fail "another authority: $(cat "$directory/err")"
fi
