#!/usr/bin/env python3
"""run.py itself: results that count as a kill, and others."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import run

REACH = ': > "$REMORA_MUTANT_REACHED"\n'
FAILED = 'echo "[  FAILED  ] A.B (1 ms)"; echo "[==========] 1 test from 1 test suite ran. (1 ms total)"; exit 1\n'
PASSED = 'echo "[==========] 1 test from 1 test suite ran. (1 ms total)"; exit 0\n'
LIST = 'if [ "$1" = --gtest_list_tests ]; then printf "On/A.\\n  B/sim  # of it\\n  C\\n"; exit 0; fi\n'


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name, "program")

    def run_it(self, script, *options):
        self.program.write_text("#!/bin/sh\n" + script)
        self.program.chmod(0o755)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = run.main([*options, str(self.program)])
        return status, said.getvalue()

    def kills(self, script, *options):
        self.assertEqual(self.run_it(script, "--mutant=m", *options), (0, "mutant m was killed\n"))

    def does_not_kill(self, script, words, *options):
        status, said = self.run_it(script, "--mutant=m", *options)
        self.assertEqual(status, 1)
        self.assertIn(words, said)

    def test_a_test_that_fails_kills(self):
        self.kills(REACH + FAILED, "--filter=A.*")

    def test_a_check_of_the_code_kills(self):
        self.kills(REACH + "echo 'store.cc:1: check failed: x'; kill -ABRT $$\n", "--filter=A.*")

    def test_the_result_of_a_failed_operation_kills(self):
        self.kills(REACH + "echo 'RAW: Attempting to fetch value instead of handling error ABORTED: x'\n"
                   "kill -ABRT $$\n", "--filter=A.*")

    def test_a_judge_kills(self):
        self.kills(REACH + "echo 'H2: a key is lost'; exit 1\n", "--finds=H2:", "--finds=H3:")

    def test_the_program_is_told(self):
        self.kills('[ "$REMORA_MUTANT" = m ] || exit 0\n[ "$1" = "--gtest_filter=A.*" ] || exit 0\n'
                   '[ "$GTEST_FAIL_FAST$GTEST_BRIEF" = 11 ] || exit 0\n' + REACH + FAILED, "--filter=A.*")

    def test_what_passes_survives(self):
        self.does_not_kill(REACH + PASSED, "mutant m survived: A.* did not notice it", "--filter=A.*")
        self.does_not_kill(REACH + "echo 'check failed' in a test of it\n" + PASSED, "survived", "--filter=A.*")
        self.does_not_kill(REACH + "echo H2: nothing; exit 0\n", "survived", "--finds=H2:")

    def test_what_is_not_reached_is_not_killed(self):
        self.does_not_kill(FAILED, "mutant m was not reached by A.*", "--filter=A.*")
        self.does_not_kill("echo H2: lost; exit 1\n", "was not reached by program", "--finds=H2:")

    def test_a_filter_of_no_test_kills_nothing(self):
        self.does_not_kill('echo "[==========] 0 tests from 0 test suites ran. (0 ms total)"\n',
                           "no test matches A.*", "--filter=A.*")

    def test_another_end_is_no_kill(self):
        self.does_not_kill(REACH + "kill -SEGV $$\n", "neither in a kill nor well: signal 11", "--filter=A.*")
        self.does_not_kill(REACH + "exit 3\n", "exit status 3", "--filter=A.*")
        self.does_not_kill(REACH + "echo H5: lost; exit 1\n", "exit status 1", "--finds=H2:")

    def test_a_timeout_is_no_kill(self):
        self.does_not_kill(REACH + 'echo "[  FAILED  ] A.B"; sleep 60\n', "the time ran out", "--filter=A.*",
                           "--timeout=0.3")

    def test_a_mutant_that_the_program_does_not_know_is_no_kill(self):
        self.does_not_kill("echo 'REMORA_MUTANT: there is no mutant m; ...'; echo check failed; kill -ABRT $$\n",
                           "the program knows no mutant m", "--filter=A.*")

    def test_a_control_run_passes(self):
        no_mutant = 'if [ -n "$REMORA_MUTANT" ]; then exit 1; fi\n'
        self.assertEqual(self.run_it(LIST + no_mutant + PASSED, "--control", "--filter=*/sim:On/A.C"),
                         (0, "all passed\n"))
        self.assertEqual(self.run_it("exit 0\n", "--control")[0], 0)

    def test_a_control_run_fails(self):
        for script, words in ((FAILED, "did not: exit status 1"), (REACH + PASSED, "a mutant was active"),
                              ("kill -SEGV $$\n", "signal 11")):
            status, said = self.run_it(LIST + script, "--control", "--filter=On/A.*")
            self.assertEqual(status, 1)
            self.assertIn(words, said)

    def test_each_part_of_a_filter_selects_a_test(self):
        status, said = self.run_it(LIST + PASSED, "--control", "--filter=*/sim:*/verbs:On/B.*")
        self.assertEqual(status, 1)
        self.assertIn("no test matches */verbs, On/B.*", said)

    def test_wrong_usage(self):
        with contextlib.redirect_stderr(io.StringIO()):
            for arguments in (["program"], ["--mutant=m", "program"], ["--control"],
                              ["--mutant=m", "--filter=A", "--finds=B", "program"]):
                self.assertEqual(run.main(arguments), 64)


if __name__ == "__main__":
    unittest.main()
