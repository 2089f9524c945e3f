#!/usr/bin/env bash
# Boots a guest with a soft-RoCE device and runs there all that needs real verbs (in_guest.sh, beside this file).
#   verbs_test.sh BIN CPU MUTATED     folders of the built programs, and of those with mutants (tests/mutation)
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
bin=$1 cpu=$2 mutated=$3
pages=$(mktemp -d "${TMPDIR:-/tmp}/remora-pages.XXXXXX")
trap 'rm -rf "$pages"' EXIT
"$here/../../tools/manual-pages" "$pages"
# The default check runs this CPU model alone, with a part of the tests: code above the transport is run over the other
# transports, too.
whole=yes
[ "$cpu" != max ] || whole=no
"$here/../../tools/rdma-guest" --cpu="$cpu" --timeout=1200 -- env "REMORA_WHOLE=$whole" "$here/in_guest.sh" "$bin" "$pages" "$mutated"
