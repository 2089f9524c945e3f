#!/usr/bin/env python3
"""The comparing scripts, with tiny loads: they write the figures that they measured. The numbers mean nothing.

    scripts_test.py BIN [CLASS...]     BIN: the folder of the built programs
"""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as tree

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build" / "bin"
XHTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"


def run(script, *flags):
    return subprocess.run([ROOT / script, *map(str, flags)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)


def load(script):
    loader = importlib.machinery.SourceFileLoader(script.replace("-", "_").replace("/", "_"), str(ROOT / script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def is_in_kvbench(target, directory):
    """Whether this build has a client for it."""
    done = subprocess.run([BIN / "kvbench", "load", f"--target={target}", "--records=1", *(
        [f"--data_dir={directory}/{target}"] if target == "lmdb" else [])], stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, text=True, check=False)
    return "was built without" not in done.stderr


class Scripts(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="scripts_test-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def missing(self):
        return [store for store, program, target in (("redis", "redis-server", "redis:///nobody"),
                                                     ("memcached", "memcached", "memcached:///nobody"),
                                                     ("lmdb", None, "lmdb"))
                if (program and not shutil.which(program)) or not is_in_kvbench(target, self.directory)]


class Compare(Scripts):
    def test_every_store_is_measured_and_shown(self):
        missing = self.missing()
        out = self.directory / "out"
        done = run("bench/scripts/compare", f"--bin={BIN}", f"--out={out}", "--levels=memory,logged",
                   "--over=local,tcp", "--cells=C,B,A,C x 16,A x 16", f"--without={','.join(missing)}", "--records=500", "--rounds=2",
                   "--seconds=0.02", "--warmup=0")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads((out / "compare.json").read_text())
        systems = {level: {cell["system"] for cell in result["cells"] if cell["level"] == level}
                   for level in ("memory", "logged")}
        everybody = {"memory": {"Remora", "Remora, TCP", "Redis, Unix socket", "Redis, TCP", "memcached, Unix socket",
                                "memcached, TCP"},
                     "logged": {"Remora", "Redis, Unix socket", "RocksDB, embedded", "LMDB, embedded"}}
        for level, expected in everybody.items():
            self.assertEqual(systems[level], {system for system in expected
                                              if not any(store in system.lower() for store in missing)})
        self.assertEqual(len(result["cells"]), 5 * sum(map(len, systems.values())))
        for cell in result["cells"]:
            self.assertEqual(len(cell["operations_per_second"]), 2)
            self.assertGreater(min(cell["operations_per_second"]), 0)
        # The ratios in the table are those of the rounds.
        markdown = (out / "compare.md").read_text()
        self.assertEqual(done.stdout, markdown + "\n")
        rates = {(cell["system"], cell["workload"], cell["depth"]): cell["operations_per_second"]
                 for cell in result["cells"] if cell["level"] == "logged"}
        ratios = sorted(ours / theirs for ours, theirs in
                        zip(rates["Remora", "c", 1], rates["RocksDB, embedded", "c", 1]))
        self.assertIn(f"| RocksDB, embedded | {sum(ratios) / 2:.2f} ({ratios[0]:.2f} to {ratios[1]:.2f}) |", markdown)
        # One well-formed page, with all tables, and charts of each cell.
        page = tree.parse(out / "compare.html").getroot()
        titles = ["".join(title.itertext()) for title in page.iter(f"{XHTML}h1")]
        self.assertEqual(len(titles), 11)
        self.assertIn("C x 16, logged", titles)
        self.assertGreater(len(list(page.iter(f"{SVG}svg"))), 20)
        cells = ["".join(cell.itertext()) for cell in page.iter(f"{XHTML}td")]
        self.assertGreaterEqual(cells.count("RocksDB, embedded"), 5)

    def test_over_tls(self):
        out = self.directory / "out"
        done = run("bench/scripts/compare", f"--bin={BIN}", f"--out={out}", "--levels=memory", "--over=tls",
                   "--beside=one_core", "--cells=MultiGet of 16", f"--without={','.join(self.missing())}",
                   "--records=500", "--rounds=1", "--seconds=0.02", "--warmup=0")
        self.assertEqual(done.returncode, 0, done.stderr)
        cells = json.loads((out / "compare.json").read_text())["cells"]
        self.assertEqual([(cell["system"], cell["chosen"]) for cell in cells],
                         [("Remora, TLS", "one core, batch")] +
                         ([] if "redis" in self.missing() else [("Redis, TLS", "one core, batch")]))

    def test_what_cannot_be_compared_is_said(self):
        self.assertEqual(run("bench/scripts/compare", "--levels=eternal").returncode, os.EX_USAGE)
        self.assertEqual(run("bench/scripts/compare", "--without=voldemort").returncode, os.EX_USAGE)
        self.assertEqual(run("bench/scripts/compare", "--cells=Q").returncode, os.EX_USAGE)
        self.assertEqual(run("bench/scripts/compare", "--over=pigeon").returncode, os.EX_USAGE)
        self.assertEqual(run("bench/scripts/compare", "--over=tcp").returncode, os.EX_USAGE)
        done = run("bench/scripts/compare", "--levels=memory,synced", "--cells=PUT")
        self.assertEqual(done.returncode, os.EX_USAGE)
        self.assertIn("level 'synced' has none of these cells; it has A, A x 16", done.stderr)
        done = run("bench/scripts/compare", "--bin=/nowhere", f"--out={self.directory}", "--without=redis,memcached")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/kvserver", done.stderr)


class CompareCells(Scripts):
    """Each cell of each transport: long."""

    def test_each(self):
        missing, out = self.missing(), self.directory / "out"
        done = run("bench/scripts/compare", f"--bin={BIN}", f"--out={out}", "--levels=memory,larger", "--beside=one_core",
                   "--cells=PUT,cold GET,cold GET x 16,MultiGet of 16", f"--without={','.join(missing)}",
                   "--records=500", "--rounds=1", "--seconds=0.02", "--warmup=0")
        self.assertEqual(done.returncode, 0, done.stderr)
        cells = json.loads((out / "compare.json").read_text())["cells"]
        names = {level: {cell["cell"] for cell in cells if cell["level"] == level} for level in ("memory", "larger")}
        self.assertEqual(names, {"memory": {"PUT", "cold GET", "MultiGet of 16"},
                                 "larger": {"cold GET", "cold GET x 16"}})
        self.assertEqual({cell["system"] for cell in cells if cell["level"] == "larger"},
                         {"Remora", "Remora, TCP", "RocksDB, embedded"} |
                         (set() if "redis" in missing else {"Redis, Unix socket", "Redis, TCP"}))
        for cell in cells:
            calls_together, is_cold = cell["cell"] == "MultiGet of 16", cell["cell"].startswith("cold")
            has_call = not cell["system"].startswith(("memcached", "RocksDB"))  # of its own; theirs is always taken
            if cell["depth"] == 1 or calls_together:
                self.assertEqual("batch" in cell["chosen"], calls_together and has_call, cell)
            self.assertEqual("location_cache=0" in cell["chosen"], is_cold and "Remora" in cell["system"], cell)
        # The server's CPU time has a number for each cell of a server.
        table = done.stdout.split("Processor time of the server for each operation, in us\n\n")[1].split("\n\n")[0]
        self.assertIn("| Remora, TLS | ", table)
        for line in table.splitlines()[2:]:
            self.assertEqual(len(re.findall(r" [0-9.]+ \([0-9.]+ to [0-9.]+\) ", line)), 3, line)


class ScaleTest(Scripts):
    def test_each_point_is_measured_and_drawn(self):
        out = self.directory / "out"
        done = run("bench/scripts/scale", f"--bin={BIN}", f"--out={out}", "--sweeps=keys,reads,memory", "--rounds=1",
                   "--seconds=0.02", "--most_keys=10000")
        self.assertEqual(done.returncode, 0, done.stderr)
        sweeps = json.loads((out / "scale.json").read_text())["sweeps"]
        points = {name: sorted({one["point"] for one in sweep}) for name, sweep in sweeps.items()}
        self.assertEqual(points, {"keys": [10000], "reads": [0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1]})
        for sweep in sweeps.values():
            for one in sweep:
                self.assertGreater(one["operations_per_second"][0], 0)
        page = tree.parse(out / "scale.html").getroot()
        lines = [len(line.get("points").split()) for line in page.iter(f"{SVG}polyline")]
        self.assertGreaterEqual(lines.count(8), 1)  # throughput by the share of reads
        # The cost of a connection is printed for each count of them.
        for count in (100, 500):
            self.assertRegex(done.stdout, rf"\| {count} \| [1-9][0-9,]* \| ")

    def test_wrong_usage(self):
        self.assertEqual(run("bench/scripts/scale", "--sweeps=sideways").returncode, os.EX_USAGE)
        for flag in ("bench/scripts/scale --rounds", "bench/scripts/scale --seconds", "bench/scripts/compare --records", "bench/scripts/compare --value_size",
                     "bench/scripts/backup_cost --rounds", "bench/scripts/verbs_floor --rounds"):
            with self.subTest(flag=flag):
                script, flag = flag.split()
                done = run(script, f"{flag}=1_000")
                self.assertEqual(done.returncode, os.EX_USAGE, done.stderr)
                self.assertIn(f"argument {flag}: ", done.stderr)

    def test_numbers_are_decimal(self):
        runs = load("bench/scripts/runs.py")
        for text in ("", "-1", "+3", " 3", "3 ", "0x10", "1_000", "nan", "inf", "1e999", "K", "\u0663"):
            for read in (runs.positive_whole, runs.number, runs.positive_number, runs.size_of):
                with self.subTest(text=text, read=read.__name__):
                    self.assertRaises(ValueError, read, text)
        for text in ("0", "1e3", "3.5"):
            self.assertRaises(ValueError, runs.positive_whole, text)
        self.assertRaises(ValueError, runs.positive_number, "0.0")
        self.assertEqual((runs.positive_whole("010"), runs.number("0"), runs.positive_number("1e3")), (10, 0, 1000))
        self.assertEqual((runs.size_of("010"), runs.size_of("64k"), runs.size_of("1G")), (10, 64 << 10, 1 << 30))


class BackupCost(Scripts):
    def test_backups_are_made_beside_and_only_beside(self):
        done = run("bench/scripts/backup_cost", f"--bin={BIN}", "--records=500", "--rounds=1", "--seconds=0.2")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = re.search(r"and with; (\d+) backups", done.stdout)
        self.assertGreater(int(made.group(1)), 0, done.stdout)
        self.assertEqual(len(re.findall(r"^\| (read|update), p", done.stdout, re.MULTILINE)), 6, done.stdout)

    def test_wrong_usage(self):
        self.assertEqual(run("bench/scripts/backup_cost", "--rounds=0").returncode, os.EX_USAGE)
        self.assertEqual(run("bench/scripts/backup_cost", "--help").returncode, 0)


class ScrapeCost(Scripts):
    def test_scrapes_are_made_beside_and_only_beside(self):
        done = run("bench/scripts/scrape_cost", f"--bin={BIN}", "--records=500", "--rounds=2", "--seconds=0.2",
                   "--interval=0.05")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = re.search(r"and with; (\d+) scrapes of ([\d,]+) bytes", done.stdout)
        self.assertGreater(int(made.group(1)), 2, done.stdout)
        self.assertGreater(int(made.group(2).replace(",", "")), 1000)
        self.assertEqual(len(re.findall(r"^\| (read|update), p", done.stdout, re.MULTILINE)), 6, done.stdout)
        self.assertRegex(done.stdout, r"round by round: [0-9.]+ \([0-9.]+ to [0-9.]+\)\n")

    def test_wrong_usage(self):
        for flag in ("--rounds=0", "--interval=0", "--interval=soon"):
            self.assertEqual(run("bench/scripts/scrape_cost", flag).returncode, os.EX_USAGE)
        self.assertEqual(run("bench/scripts/scrape_cost", "--help").returncode, 0)
        done = run("bench/scripts/scrape_cost", "--bin=/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/kvserver", done.stderr)


class ConnectionsCost(Scripts):
    def test_memory_and_percentiles_of_each_condition(self):
        for scheme in ("tcp", "tls"):
            done = run("bench/scripts/connections_cost", f"--bin={BIN}", f"--scheme={scheme}", "--connections=20",
                       "--records=500", "--rounds=1", "--seconds=0.2")
            self.assertEqual(done.returncode, 0, done.stderr)
            memory = re.search(r"^\| with 20 idle ones \| ([0-9.]+) \| [0-9.-]+ \| [0-9.-]+ \|$", done.stdout, re.MULTILINE)
            self.assertGreater(float(memory.group(1)), 64, done.stdout)  # its staging buffer
            spread = r"[0-9.]+ \([0-9.]+ to [0-9.]+\)"
            rows = re.findall(rf"^\| (\w+) \| {spread} \| ({spread})? \| {spread} \| ({spread})? \|", done.stdout, re.MULTILINE)
            self.assertEqual([row[0] for row in rows], ["alone", "idle", "light"], done.stdout)
            self.assertEqual([bool(row[1]) for row in rows], [False, True, True], done.stdout)

    def test_wrong_usage(self):
        for flag in ("--rounds=0", "--connections=0", "--scheme=verbs"):
            self.assertEqual(run("bench/scripts/connections_cost", flag).returncode, os.EX_USAGE)
        self.assertEqual(run("bench/scripts/connections_cost", "--help").returncode, 0)
        done = run("bench/scripts/connections_cost", "--bin=/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/kvctl", done.stderr)


class HttpAttackCost(Scripts):
    def test_each_attack_is_made_and_its_ratio_shown(self):
        done = run("bench/scripts/http_attack_cost", f"--bin={BIN}", "--records=500", "--rounds=1", "--seconds=0.2",
                   "--aside")
        self.assertEqual(done.returncode, 0, done.stderr)
        spread = r"[0-9.]+ \([0-9.]+ to [0-9.]+\)"
        rows = re.findall(rf"^\| (\w+) \| {spread} \| {spread} \| ({spread}) \| (\d+) \((\d+) to \d+\) [a-z ]+ \|$", done.stdout,
                          re.MULTILINE)
        self.assertEqual([row[0] for row in rows], ["nonsense", "headers", "half", "connections"], done.stdout)
        for name, ratio, _, least in rows:
            self.assertGreater(float(ratio.split()[0]), 0, name)
            self.assertGreater(int(least), 0, name)
        self.assertEqual(rows[2][2:], ("32", "32"), "all halves of requests are held to the end")

    def test_an_attack_on_a_bare_listener(self):
        done = run("bench/scripts/http_attack_cost", f"--bin={BIN}", "--records=500", "--rounds=1", "--seconds=0.1",
                   "--attack=headers", "--attack=half", "--bare")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = re.findall(r"^\| ([a-z, ]+) \| [0-9]", done.stdout, re.MULTILINE)
        self.assertEqual(names, ["headers", "headers, bare listener", "half", "half, bare listener"], done.stdout)
        self.assertEqual(done.stdout.count("| 32 (32 to 32) connections held |"), 2, done.stdout)

    def test_one_attack(self):
        done = run("bench/scripts/http_attack_cost", f"--bin={BIN}", "--records=500", "--rounds=1", "--seconds=0.1",
                   "--attack=nonsense")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r"^\| (\w+) \| [0-9]", done.stdout, re.MULTILINE), ["nonsense"], done.stdout)

    def test_wrong_usage(self):
        for flag in ("--rounds=0", "--attack=none", "--seconds=0"):
            self.assertEqual(run("bench/scripts/http_attack_cost", flag).returncode, os.EX_USAGE)
        self.assertEqual(run("bench/scripts/http_attack_cost", "--help").returncode, 0)
        done = run("bench/scripts/http_attack_cost", "--bin=/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/kvserver", done.stderr)


class BenchGate(Scripts):
    def gate(self, *flags, head=BIN):
        return run("tools/bench-gate", f"--base_bin={BIN}", f"--head_bin={head}", "--cells=C", "--records=500",
                   "--seconds=0.02", *flags)

    def test_one_that_is_slower_is_found(self):
        head = self.directory / "bin"
        head.mkdir()
        (head / "kvserver").symlink_to(BIN / "kvserver")
        # At 2000 operations a second.
        slow = head / "kvbench"
        slow.write_text(f'#!/bin/sh\nexec {BIN}/kvbench "$@" -p target=2000\n')
        slow.chmod(0o755)
        done = self.gate("--rounds=6", head=head)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("SLOWER", done.stdout)

    def test_of_few_rounds_it_is_not_sure(self):
        done = self.gate("--rounds=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("too few rounds to tell", done.stdout)

    def test_the_interval_is_where_the_median_is(self):
        gate = load("tools/bench-gate")
        # The tables of the sign test say so.
        self.assertEqual(gate.interval(range(1, 12))[:2], (2, 10))
        self.assertAlmostEqual(gate.interval(range(1, 12))[2], 0.98828125)
        self.assertEqual(gate.interval(range(1, 7))[:2], (1, 6))
        self.assertAlmostEqual(gate.interval(range(1, 7))[2], 0.96875)
        self.assertEqual(gate.interval([5]), (5, 5, 0.0))

    def test_wrong_usage(self):
        for flags in ([], ["--base_bin=/x"], ["a", "b", "c"], ["--cells=Q", "a"], ["--rounds=0", "a"],
                      ["--rounds=x", "a"], ["a", "--base_bin=/x", "--head_bin=/x"]):
            self.assertEqual(run("tools/bench-gate", *flags).returncode, os.EX_USAGE, flags)
        done = run("tools/bench-gate", "no-such-commit", f"--builds={self.directory}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such-commit", done.stderr)
        self.assertEqual(run("tools/bench-gate", "--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
