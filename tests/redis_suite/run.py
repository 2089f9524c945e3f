#!/usr/bin/env python3
"""Runs the tests of Redis 7.0 for the commands of kvgate against a gate, which is up and may be emptied.

    run.py --sources=FOLDER [--port=6380] [--units=unit/scan,...] [--markdown]

FOLDER has Redis' sources, for example of `git clone --branch=7.0.15 https://github.com/redis/redis`. Needs tclsh. All
keys of the server are deleted. Prints a line for each test that does not pass, with its reason:

    absent      the test needs a command, subcommand or setting that the gate does not have
    left out    a difference that docs/reference/redis-tests.md explains (left_out.toml)
    FAILED      none of these

Exit status: 0; 1 if a test FAILED, or one of left_out.toml passes; 64 for wrong usage.
"""

import argparse
import collections
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
UNITS = [
    "unit/type/string", "unit/type/incr", "unit/expire", "unit/keyspace", "unit/scan", "unit/multi", "unit/pubsub",
    "unit/tracking", "unit/protocol", "unit/quit", "unit/other", "unit/info-command", "unit/introspection",
    "unit/introspection-2", "unit/auth", "unit/info",
]  # fmt: skip
PATIENCE_S = 30  # without an event; the suite's own tests wait a few seconds at most
NAME = re.compile(r'^[ \t]*test (?:\{(.*?)\}|"(.*?)")[ \t]*\{[ \t]*$', re.MULTILINE)


class Unit:
    """Runs of one unit."""

    def __init__(self, sources, port, name, left_out):
        self.sources, self.port, self.name, self.left_out = sources, port, name, left_out
        self.results = {}  # of each test: (state, reason)

    def run(self):
        """A test that waits for ever ends the run; the next run is without it."""
        waiting = []
        while waits := self.run_once(waiting):
            waiting.append(waits)

    def run_once(self, skipped):
        """Returns the test that has waited for too long; empty: there is none."""
        current, lacks = "", []
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("\n".join(skipped))
            file.flush()
            command = ["tclsh", HERE / "driver.tcl", "127.0.0.1", str(self.port), file.name, self.name]
            events = Events(
                subprocess.Popen(
                    command, cwd=self.sources, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            )
            for event, *texts in events:
                if event == "begin":
                    current, lacks = texts[0], []
                elif event == "lacks":
                    lacks.append(texts[0])
                elif event == "ok":
                    self.results[current] = ("passed", "")
                elif event == "failed":
                    why = texts[1].removeprefix(f"{current} in tests/{self.name}.tcl ")
                    self.results[current] = self.judge(current, lacks, why)
                elif event == "ignored" and ": " in texts[0]:
                    self.results[texts[0].rsplit(": ", 1)[0]] = ("absent", "the suite leaves it out for servers of others")
                elif event == "stopped":
                    self.results[f"(behind {current})"] = ("FAILED", texts[0])
        if events.is_over:
            return ""
        self.results[current] = self.judge(current, lacks, "no reply came")
        return current

    def judge(self, test, lacks, why):
        for pattern, reason, _ in self.left_out:
            if re.fullmatch(pattern, test):
                return "left out", reason
        if lacks:
            return "absent", ", ".join(sorted(set(lacks)))
        return "FAILED", why

    def names(self):
        text = (self.sources / "tests" / f"{self.name}.tcl").read_text(encoding="utf-8", errors="replace")
        return [one or other for one, other in NAME.findall(text)]


class Events:
    """The lines of a driver, until it ends or says nothing for too long. is_over: it came to its end."""

    def __init__(self, process):
        self.process, self.is_over = process, False

    def __iter__(self):
        rest = b""
        while select.select([self.process.stdout], [], [], PATIENCE_S)[0]:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                words = line.decode(errors="replace").split("\t")
                self.is_over |= words == ["done"]
                yield words
        self.process.kill()
        self.process.communicate()


def left_out_of(unit):
    table = tomllib.loads((HERE / "left_out.toml").read_text(encoding="utf-8"))
    entries = [entry for entry in table["left_out"] if entry["unit"] == unit]
    return [(pattern, entry["why"], entry.get("varies", False)) for entry in entries for pattern in entry["tests"]]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=pathlib.Path, required=True)
    parser.add_argument("--port", type=int, default=6380)
    parser.add_argument("--units", default=",".join(UNITS))
    parser.add_argument("--markdown", action="store_true", help="also print the table of docs/reference/redis-tests.md")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:
        return 64 if end.code else 0
    if not (options.sources / "tests/test_helper.tcl").is_file() or not shutil.which("tclsh"):
        print(f"run.py: {options.sources} has no tests/test_helper.tcl, or there is no tclsh; name Redis' sources, install tcl")
        return 64
    rows, bad = [], 0
    for name in options.units.split(","):
        unit = Unit(options.sources, options.port, name, left_out_of(name))
        unit.run()
        for test, (state, reason) in unit.results.items():
            if state != "passed":
                print(f"{name}: {state}: {test}: {reason}", flush=True)
        counts = collections.Counter(state for state, _ in unit.results.values())
        passed = [test for test, (state, _) in unit.results.items() if state == "passed"]
        for pattern, _, varies in unit.left_out:
            if not varies and any(re.fullmatch(pattern, test) for test in passed):
                print(f"{name}: passes, and is in left_out.toml: {pattern}")
                bad += 1
        bad += counts["FAILED"]
        not_run = max(0, len(set(unit.names()) - set(unit.results)))
        rows.append((name, counts["passed"], counts["left out"], counts["absent"] + not_run, counts["FAILED"]))
        print(f"{name}: " + ", ".join(f"{number} {word}" for number, word in zip(rows[-1][1:], ("passed", "left out", "absent", "failed"))))
    if options.markdown:
        print("| unit | passed | left out | absent |\n|---|---|---|---|")
        for name, passed, left_out, absent, _ in rows:
            print(f"| `{name}` | {passed} | {left_out} | {absent} |")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
