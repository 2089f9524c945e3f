#!/usr/bin/env python3
"""Prints how many tests each suite of conformance_test has over which transport, and checks that none is left out.

    transports.py CONFORMANCE_TEST

A suite over one transport between processes has as many tests over all of them, or stands in EXCEPTIONS with the
reason. Exit status 1: a suite leaves a transport out without a reason, or has a reason and does not need it.
"""

import collections
import re
import subprocess
import sys

TRANSPORTS = ("embedded", "local", "tcp", "tls", "verbs", "sim")
EXPECTED = ("local", "tcp", "tls", "verbs")  # of a suite that has one of them

EXCEPTIONS = {
    ("On/BackupRequests", "tls"): "TLS changes nothing above the transport",
    ("Over/CAsync", "tls"): "its calls are those of AsyncClient, which is tested over TLS",
    ("Over/CInterface", "tls"): "its calls are those of Client, which is tested over TLS",
    ("Over/CInterface", "verbs"): "its calls are those of Client, which is tested over verbs",
    ("Over/CScans", "tls"): "as CInterface",
    ("Over/CScans", "verbs"): "as CInterface",
    ("On/Outliving", "tls"): "what must outlive a client is the same for all bytes on a socket",
    ("On/HugePagesTest", "tcp"): "no client maps the memory, and no device locks it",
    ("On/HugePagesTest", "tls"): "as over tcp",
    ("On/VisitsBesideWrites", "verbs"): "a value is shown in place where memory is mapped; the writes would take minutes",
    ("On/Handover", "local"): "no thread of the transport receives requests",
    ("On/Handover", "verbs"): "as over local",
    ("On/OnReplicas", "tls"): "TLS changes nothing above the transport; endtoend.replication has a token",
    ("OnCommitLog/Watches", "tls"): "the log below a watch is the same for each transport",
    ("OnCommitLog/Watches", "verbs"): "as over tls",
}  # fmt: skip


def count_tests(listing):
    """suite -> transport -> number of tests."""
    counts = collections.defaultdict(collections.Counter)
    suite = ""
    for line in listing.splitlines():
        if not line.startswith(" "):
            suite = line.split(".")[0]
        elif found := re.match(r"\s+\w+/([a-z]+)(?:_\w+)?(?:\s|$)", line):
            if found[1] in TRANSPORTS:
                counts[suite][found[1]] += 1
    return counts


def faults_of(counts):
    left_out = set()
    for suite, count in counts.items():
        if any(count[transport] for transport in EXPECTED):
            left_out |= {(suite, transport) for transport in EXPECTED if not count[transport]}
            # Over verbs some run twice: with and without memory windows.
            least = max(count[transport] for transport in EXPECTED if transport != "verbs")
            for transport in EXPECTED:
                if 0 < count[transport] < least:
                    yield f"{suite} has {count[transport]} tests over {transport}, and {least} over another"
    for suite, transport in sorted(left_out - set(EXCEPTIONS)):
        yield f"{suite} has no test over {transport}; add it, or give a reason in EXCEPTIONS"
    for suite, transport in sorted(set(EXCEPTIONS) - left_out):
        yield f"{suite} has tests over {transport}, or is gone; remove its reason"


def main():
    run = subprocess.run([sys.argv[1], "--gtest_list_tests"], capture_output=True, text=True, check=True)
    counts = count_tests(run.stdout)
    print(f"{'suite':28}", *(f"{transport:>9}" for transport in TRANSPORTS))
    for suite in sorted(counts):
        print(f"{suite:28}", *(f"{counts[suite][transport] or '-':>9}" for transport in TRANSPORTS))
    total = sum((count for count in counts.values()), collections.Counter())
    print(f"{'all':28}", *(f"{total[transport]:9}" for transport in TRANSPORTS))
    faults = list(faults_of(counts))
    print(*faults, sep="\n")
    return 1 if faults or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
