#!/usr/bin/env python3
"""tools/hardware-report --quick on this machine, and what it takes out of its file.

    hardware_report_test.py BIN     BIN: the folder of the built programs
"""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/hardware-report"
BIN = sys.argv.pop(1) if len(sys.argv) > 1 else str(TOOL.parents[1] / "build/bin")
PATIENCE = 240


def load():
    loader = importlib.machinery.SourceFileLoader("hardware_report", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("hardware_report", loader))
    loader.exec_module(module)
    return module


class HardwareReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hardware-report-")
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name) / "report.json"

    def run_tool(self, *flags):
        # A server of the caller's is no part of the report.
        environment = {**os.environ, "REMORA_SERVER": "tcp://192.0.2.1:1"}
        return subprocess.run(
            [TOOL, f"--bin={BIN}", f"--output={self.output}", *flags], capture_output=True, text=True, timeout=PATIENCE,
            check=False, env=environment,
        )  # fmt: skip

    def test_quick(self):
        done = self.run_tool("--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = self.output.read_text()
        report = json.loads(text)
        self.assertEqual((report["remora_hardware_report"], report["quick"], report["missing"]), (1, True, {}))
        self.assertGreater(report["processors"]["usable"], 0)
        names = {check["name"] for check in report["doctor"]["checks"]}
        self.assertLessEqual({"memlock", "memory", "rdma_devices", "kernel"}, names)
        self.assertNotIn("server", names)
        for kind in ("local", "tcp"):
            for workload in ("c", "a"):
                figures = report["measurements"]["kvbench"][kind][workload]
                self.assertGreater(figures["operations_per_second"], 0)
                self.assertGreater(figures["by_operation"]["read"]["p50_ns"], 0)
        for private in ("127.0.0.1", "192.0.2.1", str(self.output.parent), "remora-bench-"):
            self.assertNotIn(private, text)
        host = socket.gethostname()
        if len(host) > 2 and host not in ("root", "localhost"):
            self.assertNotRegex(text, rf"(?<![A-Za-z0-9]){host}(?![A-Za-z0-9])")
        again = self.run_tool("--quick")
        self.assertEqual(again.returncode, 73, again.stderr)
        self.assertEqual(self.output.read_text(), text)

    def test_names_and_addresses_are_taken_out(self):
        tool = load()
        for text, left in (
            ("host node7.example.org is up", "host [removed] is up"),
            ("node7 and node77", "[removed] and node77"),
            ("10.98.0.1:7470", "[removed]:7470"),
            ("0000:0000:0000:0000:0000:ffff:0a62:0001", "[removed]"),
            ("fe80:0000:0000:0001", "[removed]"),
            ("02:00:0a:62:00:01", "[removed]"),
            ("MT_0000000012 firmware 20.31.1014", "MT_0000000012 firmware 20.31.1014"),
            ("at 12:30:59", "at 12:30:59"),
        ):
            self.assertEqual(tool.without_secrets(text, ["node7.example.org", "node7"]), left)
        nested = {"node7": ["node7", 5, None, {"x": "10.0.0.1"}]}
        self.assertEqual(tool.without_secrets(nested, ["node7"]), {"[removed]": ["[removed]", 5, None, {"x": "[removed]"}]})

    def test_a_missing_part_has_its_reason(self):
        done = subprocess.run(
            [TOOL, "--bin=/nowhere", f"--output={self.output}", "--quick"], capture_output=True, text=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        report = json.loads(self.output.read_text())
        self.assertEqual(set(report["missing"]), {"doctor", "measurements"})
        self.assertIn("BIN/kvctl", report["missing"]["doctor"])
        self.assertIn("cannot start", done.stderr)
        self.assertIn("processors", report)

    def test_perftest_that_is_missing_or_fails_is_named(self):
        """The guest's test shows its figures (tests/guest)."""
        tool = load()
        options = types.SimpleNamespace(quick=True)
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = str(self.output.parent)
        self.assertIn("apt install perftest", tool.beside_perftest(options, "127.0.0.1"))
        os.environ["PATH"] = path
        if not tool.perftest.is_installed():
            self.skipTest("perftest is not installed (tools/install-deps test)")
        with self.assertRaisesRegex(tool.runs.Failure, "^ib_read_lat: "):
            tool.beside_perftest(options, "127.0.0.1")  # which is no device's address

    def test_bad_input(self):
        for flag, says in (
            ("--slow", "there is no flag --slow"), ("report.json", "the argument 'report.json' is one too many"),
            ("--host", "argument --host: expected one argument"),
        ):  # fmt: skip
            done = self.run_tool(flag)
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertEqual(done.stderr, f"hardware-report: {says}; see hardware-report --help\n")
        self.assertFalse(self.output.exists())
        done = subprocess.run(
            [TOOL, "--output=/nowhere/report"], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        self.assertEqual(done.returncode, 73)
        self.assertIn("--output", done.stderr)


if __name__ == "__main__":
    unittest.main()
