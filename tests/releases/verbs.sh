#!/usr/bin/env bash
# Verbs on this release of Debian: the transports' tests over soft-RoCE, and a server, in the guest, with this release's
# kernel, rdma-core and qemu. It adds to the build of tools/quickstart, as programs.sh does.
#   tools/on-debian trixie -- tests/releases/verbs.sh
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

tools/install-deps build compile guest
mkdir -p build
cmake --preset quickstart -DREMORA_BUILD_TESTS=ON -DREMORA_MUTANTS=OFF -DREMORA_CTEST=shards -DREMORA_UNITY_TESTS=ON \
  >build/configured || { cat build/configured; exit 1; }
cmake --build build --target rdma_test kvserver kvctl kvbench -- --quiet
# shellcheck disable=SC2016  # the guest expands it
exec tools/rdma-guest --timeout=1500 -- bash -euc '
  export REMORA_REQUIRE_VERBS=1 REMORA_SERVER=verbs://$REMORA_VERBS_HOST:7470
  uname -r
  build/bin/rdma_test --gtest_filter="*/verbs" --gtest_brief=1
  mkfifo /tmp/ready
  build/bin/kvserver --listen="$REMORA_SERVER" --insecure_open --durability=logged --data_dir=/tmp/data --memory=64M \
    --quiet --ready_fd=3 3>/tmp/ready &
  server=$!
  [ "$(cat /tmp/ready)" = ready ]
  build/bin/kvctl put greeting "hello, world"
  [ "$(build/bin/kvctl get greeting)" = "hello, world" ]
  build/bin/kvbench all --target="$REMORA_SERVER" --workload=b --records=500 --seconds=2 --threads=1
  kill -TERM $server
  wait $server
'
