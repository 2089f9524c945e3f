"""kvbench against a real server: the traces of a long run that is ended, and rejections before it begins."""

import json
import signal
import subprocess
import unittest

import harness

RECORDS = 1000


class KvbenchTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server()
        self.json = self.folder / "out.json"

    def flags(self, command, *flags):
        return [
            harness.program("kvbench"), command, f"--target={self.address}", f"--records={RECORDS}", "--workload=a",
            f"--json={self.json}", *flags,
        ]  # fmt: skip

    def run_kvbench(self, command, *flags):
        return subprocess.run(
            self.flags(command, *flags), capture_output=True, text=True, timeout=harness.PATIENCE, check=False
        )

    def interrupted(self, number, *flags):
        """Ends it in the middle of the run, and returns its output."""
        process = subprocess.Popen(
            self.flags("all", "--seconds=600", *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.kill)
        harness.wait_until(lambda: harness.stats(self.address)["puts"] > RECORDS, "an update of the run")
        self.assertFalse(self.json.exists())
        process.send_signal(number)
        output, errors = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 128 + number, errors)
        self.assertIn(f"ended by signal {int(number)}", errors)
        return output

    def test_what_was_measured_is_kept(self):
        for number, flags in (
            (signal.SIGINT, ["--threads=2"]), (signal.SIGTERM, ["--depth=8"]),
            (signal.SIGINT, ["--processes=2", "--interval=0.1"]), (signal.SIGXCPU, []),
            (signal.SIGUSR1, []), (signal.SIGALRM, ["--processes=2"]), (signal.SIGPWR, ["--threads=2"]),
        ):  # fmt: skip
            with self.subTest(signal=number, flags=flags):
                self.addCleanup(self.json.unlink, missing_ok=True)
                output = self.interrupted(number, *flags)
                self.assertRegex(output, r"run +all .*, cut short; client CPU")
                load, run = json.loads(self.json.read_text())["phases"]
                self.assertEqual((load["phase"], load["operations"]), ("load", RECORDS))
                self.assertNotIn("cut_short", load)
                self.assertEqual((run["phase"], run["cut_short"], run["errors"]), ("run", True, []))
                self.assertGreater(run["operations"], 0)
                self.json.unlink()
                self.assertEqual(harness.kvctl(self.address, "delete_all", "--yes").returncode, 0)
                self.memory_server_again()

    def memory_server_again(self):
        """With counters that begin at 0."""
        self.address += "-"
        self.memory_server()

    def test_a_thread_that_waits_for_its_moment_is_woken(self):
        for flags in (["--rate=2"], ["--rate=2", "--depth=2"]):
            with self.subTest(flags=flags):
                # Of the first operations, a half is no update: it takes some seconds at most.
                self.interrupted(signal.SIGTERM, "-p", "updateproportion=1", "-p", "readproportion=0", *flags)
                run = json.loads(self.json.read_text())["phases"][-1]
                self.assertLess(run["seconds"], 60)
                for kind in run["by_operation"].values():
                    self.assertLess(kind["max_ns"], 60e9)
                self.json.unlink()
                self.memory_server_again()

    def test_output_that_cannot_be_written_is_rejected_before_the_run(self):
        for flag in ("--json", "--csv", "--html"):
            for path in (self.folder / "none/out", self.folder):
                with self.subTest(flag=flag, path=path):
                    run = subprocess.run(
                        [harness.program("kvbench"), "all", f"--target={self.address}", f"{flag}={path}"],
                        capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
                    )  # fmt: skip
                    self.assertEqual((run.returncode, run.stdout), (73, ""), run.stderr)
                    self.assertIn(f"cannot write {path}: ", run.stderr)
        self.assertEqual(harness.stats(self.address)["puts"], 0)

    def test_a_file_is_replaced_as_a_whole_or_not_at_all(self):
        self.json.write_text("before")
        rejected = self.run_kvbench("all", "--target=local:///none")
        self.assertEqual(rejected.returncode, 64, rejected.stderr)  # twice
        missing = subprocess.run(
            [harness.program("kvbench"), "all", f"--target={self.address}-none", f"--json={self.json}"],
            capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(missing.returncode, 69, missing.stderr)
        self.assertEqual(self.json.read_text(), "before")
        self.json.chmod(0o640)
        self.assertEqual(self.run_kvbench("load").returncode, 0)
        self.assertEqual(json.loads(self.json.read_text())["phases"][0]["operations"], RECORDS)
        self.assertEqual(self.json.stat().st_mode & 0o777, 0o640)
        self.assertEqual(sorted(path.name for path in self.folder.glob("out*")), ["out.json"])

    def test_a_device_is_written_in_place(self):
        for path, status in (("/dev/null", 0), ("/dev/full", 74)):
            with self.subTest(path=path):
                run = subprocess.run(
                    [harness.program("kvbench"), "load", f"--target={self.address}", "--records=10", f"--csv={path}"],
                    capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
                )  # fmt: skip
                self.assertEqual(run.returncode, status, run.stderr)

    def test_lines_for_other_bindings_are_ignored_with_one_note(self):
        workload = self.write("workload", "recordcount=10\nredis.host=localhost\nredis.port=6379\noperationcount=20\n"
                              "readproportion=1\nupdateproportion=0\ndb.batchsize=1\nexporter=site.ycsb.JSON\n"
                              "workload=site.ycsb.workloads.CoreWorkload\nworkload.name=mine\n"
                              "measurementtype=hdrhistogram\nmeasurement.interval=both\n")  # fmt: skip
        run = subprocess.run(
            [harness.program("kvbench"), "all", f"--target={self.address}", "-P", workload],
            capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1)
        self.assertIn("redis.host, redis.port, db.batchsize, exporter, workload.name, measurement.interval\n", run.stderr)
        for line, says in (("raedproportion=1", "the nearest is readproportion"), ("recordcount=010x", "whole number"),
                           ("exponential.fraction=0.9", "the nearest is exponential.frac")):  # fmt: skip
            with self.subTest(line=line):
                run = subprocess.run(
                    [harness.program("kvbench"), "all", f"--target={self.address}", "-P", self.write("wrong", line)],
                    capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
                )  # fmt: skip
                self.assertEqual((run.returncode, run.stdout), (64, ""))
                self.assertIn(says, run.stderr)


if __name__ == "__main__":
    unittest.main()
