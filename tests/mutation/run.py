#!/usr/bin/env python3
"""Runs tests with one mutant active, and passes if they fail as expected. ctest and the guest call it.

    run.py --mutant=NAME --filter=F PROGRAM          a test of GoogleTest fails, or a check aborts the program
    run.py --mutant=NAME --finds=WORDS -- COMMAND    a judge exits with an error, and prints one of the WORDS
    run.py --control --filter=F PROGRAM              without a mutant: all pass; each part of F selects a test
    run.py --control -- COMMAND                      without a mutant: exits with 0

The mutant must also be reached. Exit status: 0 as expected, 1 not so, 64 wrong usage.
"""

import argparse
import fnmatch
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

# The time limit of a program; less than that of its ctest test (tests/mutation/CMakeLists.txt).
TIMEOUT_S = 280
SHOWN_LINES = 60
FAILED_TEST = re.compile(r"^\[  FAILED  \] ", re.MULTILINE)
# A check of the code (REMORA_CHECK), or abseil's: a test took the result of an operation that had failed.
ABORTS = ("check failed", "Attempting to fetch value instead of handling error")


def run(command, environment, timeout_s):
    """Output and exit status (minus the number of the signal); None as the status if its time was over."""
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            status = None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # nothing stays behind if we are ended
            raise
    return output.decode(errors="replace"), status


def how_it_ended(status):
    if status is None:
        return "its time ran out"
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def tests_ran(output):
    """The number that GoogleTest says; None if it did not come to its end."""
    match = re.search(r"^\[=+\] (\d+) tests? from \d+ test suites? ran", output, re.MULTILINE)
    return int(match[1]) if match else None


def why_not_killed(mutant, what, output, status, finds, reached):
    """The reason why this run does not prove that the tests notice the mutant; None if it does."""
    if "REMORA_MUTANT: there is no mutant" in output:
        return f"the program knows no mutant {mutant}; build it again"
    if status is None:
        return f"mutant {mutant}: the time ran out, which proves nothing; choose quicker tests than {what}"
    if finds:
        killed = status != 0 and any(words in output for words in finds)
    else:
        if tests_ran(output) == 0:
            return f"no test matches {what}; correct killed_by of mutant {mutant}"
        failed = status == 1 and FAILED_TEST.search(output)
        killed = failed or (status != 0 and any(words in output for words in ABORTS))
    if not killed and status != 0:
        return f"mutant {mutant}: the run ended neither in a kill nor well: {how_it_ended(status)}; see above"
    if not killed:
        return (f"mutant {mutant} survived: {what} did not notice it; "
                "add a test that does, or correct killed_by of its entry in tests/mutation/mutants")
    if not reached:
        return (f"mutant {mutant} was not reached by {what}, which failed for another reason; "
                "correct the tests, or killed_by of its entry in tests/mutation/mutants")
    return None


def unmatched_parts(program, parts, environment):
    listed, _ = run([program, "--gtest_list_tests"], environment, TIMEOUT_S)
    suite, names = "", []
    for line in listed.splitlines():
        line = line.split("#")[0].rstrip()
        if line.startswith("  "):
            names.append(suite + line.strip())
        else:
            suite = line
    return [part for part in parts if not any(fnmatch.fnmatchcase(name, part) for name in names)]


def control(arguments, environment, folder):
    if arguments.filter:
        parts = arguments.filter.split(":")
        if unmatched := unmatched_parts(arguments.command[0], parts, environment):
            return "", f"no test matches {', '.join(unmatched)}; correct killed_by in tests/mutation/mutants"
    output, status = run(command_of(arguments), environment, arguments.timeout)
    if (folder / "reached").exists():
        return output, "a mutant was active, though none was asked for"
    if status != 0:
        return output, f"without a mutant, the tests must pass, and did not: {how_it_ended(status)}"
    return output, None


def convict(arguments, environment, folder):
    environment["REMORA_MUTANT"] = arguments.mutant
    environment["GTEST_FAIL_FAST"] = "1"
    output, status = run(command_of(arguments), environment, arguments.timeout)
    what = arguments.filter or pathlib.Path(arguments.command[0]).name
    reached = (folder / "reached").exists()
    return output, why_not_killed(arguments.mutant, what, output, status, arguments.finds, reached)


def command_of(arguments):
    return arguments.command + ([f"--gtest_filter={arguments.filter}"] if arguments.filter else [])


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--mutant")
    what.add_argument("--control", action="store_true")
    parser.add_argument("--filter", help="the tests of GoogleTest to run")
    parser.add_argument("--finds", action="append", help="what the judge says of the mutant")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds")
    parser.add_argument("command", nargs="+")
    parsed = parser.parse_args(arguments)
    if parsed.mutant is not None and bool(parsed.filter) == bool(parsed.finds):
        parser.error("a mutant needs either --filter or --finds")
    return parsed


def main(arguments):
    try:
        arguments = parse(arguments)
    except SystemExit as end:
        return 64 if end.code else 0
    with tempfile.TemporaryDirectory(prefix="remora-mutation.") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o777)  # a test may give up its rights before it reaches the mutant
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REMORA_MUTANT")}
        environment |= {"GTEST_BRIEF": "1", "GTEST_COLOR": "no", "REMORA_MUTANT_REACHED": str(folder / "reached")}
        output, problem = (control if arguments.control else convict)(arguments, environment, folder)
    if problem is not None:
        print("\n".join(output.splitlines()[-SHOWN_LINES:]))
        print(problem)
        return 1
    print("all passed" if arguments.control else f"mutant {arguments.mutant} was killed")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    sys.exit(main(sys.argv[1:]))
