#!/usr/bin/env python3
"""Says how many tests each suite of conformance_test has over which transport, and checks that none is left out.

    transports.py CONFORMANCE_TEST [--check | --write]

Prints the page docs/internals/conformance.md. A suite over one transport between processes has as many tests over all of
them and in the simulation, or stands in EXCEPTIONS with the reason. A test that skips itself gives its reason in its source.

  --check   instead of the page, prints how it differs from the file
  --write   writes the file

Exit status 1: a suite leaves a transport out without a reason, or has a reason and does not need it. Also 1: a line of
tests/guest/of_the_transport matches no test; the page differs.
"""

import argparse
import collections
import difflib
import fnmatch
import pathlib
import re
import subprocess
import sys
import textwrap

TRANSPORTS = ("embedded", "local", "tcp", "tls", "verbs", "sim")
EXPECTED = ("local", "tcp", "tls", "verbs")  # of a suite that has one of them
FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = FOLDER.parents[1] / "docs/internals/conformance.md"
OVER_VERBS = FOLDER.parent / "guest/of_the_transport"  # filters of the tests that the default check runs over verbs

ONE_THREAD = "one thread steps the simulation, and the suite needs several"
ONE_PROCESS = "the simulation is one process, and the suite needs what a system gives to several"

EXCEPTIONS = {
    ("On/BackupRequests", "tls"): "TLS changes nothing above the transport",
    ("Over/CAsync", "tls"): "its calls are those of AsyncClient, which is tested over TLS",
    ("Over/CInterface", "tls"): "its calls are those of Client, which is tested over TLS",
    ("Over/CInterface", "verbs"): "its calls are those of Client, which is tested over verbs",
    ("Over/CScans", "tls"): "as CInterface",
    ("Over/CScans", "verbs"): "as CInterface",
    ("On/LocatedValues", "tls"): "TLS changes nothing above the transport",
    ("On/Outliving", "tls"): "an object that outlives its client is the same over all sockets",
    ("On/HugePagesTest", "tcp"): "no client maps the memory, and no device locks it",
    ("On/HugePagesTest", "tls"): "as over tcp",
    ("On/VisitsBesideWrites", "verbs"): "a value is shown in place where memory is mapped; the writes would take minutes",
    ("On/AsyncVisitsBesideWrites", "verbs"): "the writes would take minutes, and a copy is shown",
    ("On/Handover", "local"): "no thread of the transport receives requests",
    ("On/Handover", "verbs"): "as over local",
    ("On/MirrorThreads", "tls"): "TLS changes nothing above the transport",
    ("On/MirrorThreads", "sim"): ONE_THREAD,
    ("On/OnReplicas", "tls"): "TLS changes nothing above the transport; endtoend.replication has a token",
    ("OnCommitLog/Watches", "tls"): "the log below a watch is the same for each transport",
    ("OnCommitLog/Watches", "verbs"): "as over tls",
    ("OnChangeLog/Watches", "tls"): "the log below a watch is the same for each transport",
    ("OnChangeLog/Watches", "verbs"): "as over tls",
    ("OnChangeLog/WatchesInMemory", "tls"): "the log below a watch is the same for each transport",
    ("OnChangeLog/WatchesInMemory", "verbs"): "as over tls",
    ("Deployments/LoadingBehaviour", "sim"): ONE_THREAD,
    ("On/BackupRequests", "sim"): ONE_THREAD,
    ("On/Copies", "sim"): ONE_THREAD,
    ("On/Fork", "sim"): ONE_PROCESS,
    ("On/ForkBesideAThread", "sim"): ONE_PROCESS,
    ("On/ForkBesideAThread", "tls"): "a thread of the parent may hold a lock of OpenSSL",
    ("On/ForkBesideAThread", "verbs"): "its device may not be one that can be forked beside other threads",
    ("On/Handover", "sim"): ONE_THREAD,
    ("On/HugePagesTest", "sim"): ONE_PROCESS,
    ("On/Living", "sim"): ONE_THREAD,
    ("On/OnReplicas", "sim"): ONE_THREAD,
    ("On/Outliving", "sim"): ONE_PROCESS,
    ("On/Readers", "sim"): ONE_THREAD,
    ("On/SameCalls", "sim"): "the calls of client and store are the same on all deployments",
    ("On/Threads", "sim"): ONE_THREAD,
    ("On/TwoThreads", "sim"): ONE_THREAD,
    ("Over/CAsync", "sim"): "C programs connect by an address, and the simulation has none",
    ("Over/CInterface", "sim"): "as CAsync",
    ("Over/CScans", "sim"): "as CAsync",
    ("On/GrantTurns", "local"): "each step of time is the test's own, which the simulation alone allows",
    ("On/GrantTurns", "tcp"): "as over local",
    ("On/GrantTurns", "tls"): "as over local",
    ("On/GrantTurns", "verbs"): "as over local",
}  # fmt: skip

HEAD = """# Conformance over the transports

`tests/conformance/transports.py CONFORMANCE_TEST --write` writes this page from the tests that the
program `conformance_test` lists; a test fails if the page is not up to date.

The numbers are tests. `embedded` is a store in the program itself, `sim` the simulation
(`tests/simulation`). Over verbs, some tests run twice, with memory windows and without. A suite
that is not here tests single classes, and needs no transport. `client_pool_test` is a program of
its own: it has the pools of clients, over local and tcp.
"""
LEFT_OUT = """
## Left out

A suite without tests for the embedded store is about clients: that store has none. All other gaps:
"""
SKIPPED = """
## Skipped tests

These tests run in each column of their suite, and end early where the condition holds. Tests over
verbs are also skipped on a machine without an RDMA device; the guest runs them.
"""
# Conditions of the build, of the machine, or of a suite that needs no transport.
NOT_OF_DEPLOYMENTS = ("kAddressSanitizer", "LargePageBytes", "VerbsHost", "!GetParam()")


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


def left_out_by(counts):
    """The pairs of a suite and a transport that it leaves out."""
    return {
        (suite, transport)
        for suite, count in counts.items()
        if any(count[transport] for transport in (*EXPECTED, "sim"))
        for transport in (*EXPECTED, "sim")
        if not count[transport]
    }


def faults_of(counts):
    left_out = left_out_by(counts)
    for suite, count in counts.items():
        if any(count[transport] for transport in EXPECTED):
            # Over verbs some run twice: with and without memory windows.
            least = max(count[transport] for transport in EXPECTED if transport != "verbs")
            for transport in EXPECTED:
                if 0 < count[transport] < least:
                    yield f"{suite} has {count[transport]} tests over {transport}, and {least} over another"
    for suite, transport in sorted(left_out - set(EXCEPTIONS)):
        yield f"{suite} has no test over {transport}; add it, or give a reason in EXCEPTIONS"
    for suite, transport in sorted(set(EXCEPTIONS) - left_out):
        yield f"{suite} has tests over {transport}, or is gone; remove its reason"


def unmatched(filters, listing):
    """Yields a fault for each filter that matches no test over verbs."""
    names, suite = [], ""
    for line in listing.splitlines():
        if line.startswith(" "):
            names.append(suite + line.split()[0])
        else:
            suite = line.split()[0]
    over_verbs = [name for name in names if "/verbs" in name]
    for pattern in filters:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in over_verbs):
            yield f"{OVER_VERBS.name}: {pattern} matches no test over verbs; correct or remove the line"


def skipped_tests(text):
    """Yields the test, the condition and the reason of each GTEST_SKIP of a source that depends on the deployment."""
    test = ""
    for line in text.splitlines():
        if found := re.match(r"TEST_P\((\w+), (\w+)\)", line):
            test = f"{found[1]}.{found[2]}"
        elif line == "}":
            test = ""
        elif found := re.match(r'\s+if \((.*)\) GTEST_SKIP\(\) << "(.*)";', line):
            if test and not any(word in found[1] for word in NOT_OF_DEPLOYMENTS):
                yield test, found[1], found[2]


def item(text):
    return textwrap.fill(text, 100, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False,
                         break_long_words=False) + "\n"  # fmt: skip


def reason_of(suite, transport):
    """The reason in full, also where EXCEPTIONS refers to a neighbour."""
    reason = EXCEPTIONS[suite, transport]
    if found := re.fullmatch(r"as over (\w+)", reason):
        return reason_of(suite, found[1])
    if found := re.fullmatch(r"as (\w+)", reason):
        return reason_of(f"{suite.split('/')[0]}/{found[1]}", transport)
    return reason


def page_of(counts, sources):
    """The page, from the tests and the texts of their sources."""
    lines = [HEAD, "\n", f"| suite | {' | '.join(TRANSPORTS)} |\n", f"|---|{'---:|' * len(TRANSPORTS)}\n"]
    total = sum((count for count in counts.values()), collections.Counter())
    for suite, count in [*sorted(counts.items()), ("all", total)]:
        lines.append(f"| {suite} | {' | '.join(str(count[transport] or '-') for transport in TRANSPORTS)} |\n")
    lines += [LEFT_OUT, "\n"]
    gaps = collections.defaultdict(lambda: collections.defaultdict(list))  # reason -> transports -> suites
    for suite in sorted(counts):
        reasons = collections.defaultdict(list)
        for transport in TRANSPORTS:
            if (suite, transport) in EXCEPTIONS:
                reasons[reason_of(suite, transport)].append(transport)
        for reason, transports in reasons.items():
            gaps[reason][", ".join(transports)].append(f"`{suite}`")
    for reason, by_transports in gaps.items():
        where = "; ".join(f"{', '.join(suites)} over {transports}" for transports, suites in by_transports.items())
        lines.append(item(f"{where}: {reason}"))
    lines += [SKIPPED, "\n"]
    for text in sources:
        lines += [item(f"`{test}`, if `{condition}`: {reason}") for test, condition, reason in skipped_tests(text)]
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    run = subprocess.run([arguments.program, "--gtest_list_tests"], capture_output=True, text=True, check=True)
    counts = count_tests(run.stdout)
    faults = [*faults_of(counts), *unmatched(OVER_VERBS.read_text(encoding="utf-8").split(), run.stdout)]
    if faults or not counts:
        print(*faults, sep="\n")
        return 1
    page = page_of(counts, [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*_test.cc"))])
    if arguments.write:
        PAGE.write_text(page, encoding="utf-8")
    elif not arguments.check:
        print(page, end="")
    else:
        there = PAGE.read_text(encoding="utf-8")
        print(*difflib.unified_diff(there.splitlines(), page.splitlines(), str(PAGE), "now", lineterm=""), sep="\n")
        return 0 if there == page else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
