"""The examples do what their comments say."""

import os
import pathlib
import subprocess
import sys
import unittest

import harness


def run(name, *arguments):
    return subprocess.run(
        [harness.program(f"example_{name}"), *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False, text=True,
    )  # fmt: skip


def run_python(name, *arguments):
    program = pathlib.Path(__file__).parents[2] / f"examples/{name}.py"
    return subprocess.run(
        [sys.executable, "-B", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(harness.BIN.parent / "python")},
        stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False, text=True,
    )  # fmt: skip


class ExamplesTest(harness.TestCase):
    def test_first(self):
        self.assertNotEqual(run("first", self.address).returncode, 0)
        self.memory_server()
        first = run("first", self.address)
        self.assertEqual((first.returncode, first.stdout), (0, "hello, world\n"), first.stderr)

    def test_first_in_c(self):
        self.assertNotEqual(run("first_c", self.address).returncode, 0)
        self.memory_server()
        first = run("first_c", self.address)
        self.assertEqual((first.returncode, first.stdout), (0, "hello, world\n"), first.stderr)

    def test_first_in_python(self):
        self.memory_server()
        first = run_python("first", self.address)
        self.assertEqual((first.returncode, first.stdout), (0, "hello, world\n"), first.stderr)

    def test_embedded(self):
        for count in (1, 2, 3):
            embedded = run("embedded", str(self.folder / "data"))
            self.assertEqual((embedded.returncode, embedded.stdout), (0, f"runs: {count}\n"), embedded.stderr)

    def test_pages(self):
        files = [self.folder / name for name in ("one.3", "two.dots.7")]
        for file in files:
            file.write_bytes(b".TH " + file.name.encode())
        server = f"--server={self.address}"
        self.memory_server()
        self.assertEqual(run("pages", server, "compare", *files).returncode, 1)
        load = run("pages", server, "load", *files)
        self.assertEqual((load.returncode, load.stdout), (0, "loaded 2 pages, 23 bytes\n"), load.stderr)
        self.assertEqual(harness.kvctl(self.address, "get", "7/two.dots").stdout, b".TH two.dots.7")
        self.assertEqual(run("pages", server, "compare", *files).stdout, "compared 2 pages, 23 bytes, 0 differ\n")
        files[0].write_bytes(b".TH onf.3")
        compare = run("pages", server, "compare", *files)
        self.assertEqual((compare.returncode, compare.stdout), (1, "compared 2 pages, 23 bytes, 1 differ\n"))
        self.assertIn("3/one: differs from", compare.stderr)

    def test_counters(self):
        self.assertEqual(run("counters", self.address, "home").returncode, 64)
        self.memory_server()
        runs = (("home", "5", "home: 1 views; high score 5\n"), ("home", "3", "home: 2 views; high score 5\n"),
                ("news", "70", "news: 1 views; high score 70\n"))  # fmt: skip
        for page, score, output in runs:
            counters = run("counters", self.address, page, score)
            self.assertEqual((counters.returncode, counters.stdout), (0, output), counters.stderr)

    def test_scan(self):
        self.assertEqual(run("scan", self.address, "list").returncode, 64)
        self.logged_server()
        for number, name in enumerate(("Bob", "Ann", "Alf", "Ada", "Amy", "Abe")):
            self.assertEqual(run("scan", self.address, "add", name, str(number)).returncode, 0)
        page = run("scan", self.address, "list", "A")
        self.assertRegex(page.stdout, r"\AAbe: 5\nAda: 3\nAlf: 2\nmore: [-\w]+\n\Z")
        token = page.stdout.split()[-1]
        page = run("scan", self.address, "list", "A", token)
        self.assertEqual((page.returncode, page.stdout), (0, "Amy: 4\nAnn: 1\n"), page.stderr)
        self.assertEqual(run("scan", self.address, "list", "A", token + "x").returncode, 1)

    def test_watch(self):
        self.assertEqual(run("watch", self.address).returncode, 64)
        self.logged_server()
        self.assertEqual(run("scan", self.address, "add", "Ann", "1").returncode, 0)
        command = [harness.program("example_watch"), self.address, "book/"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
            self.assertEqual(watcher.stdout.readline(), "book/Ann is 1\n")
            for name, number in (("Bob", "2"), ("Ann", "3"), ("stop", "x")):
                self.assertEqual(run("scan", self.address, "add", name, number).returncode, 0)
                self.assertEqual(watcher.stdout.readline(), f"book/{name} becomes {number}\n")
            self.assertEqual(watcher.wait(), 0)

    def test_beside(self):
        self.assertEqual(run("beside").returncode, 64)
        self.assertEqual(run("beside", self.address).returncode, 1)
        self.logged_server()
        command = [harness.program("example_beside"), self.address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as beside:
            self.assertEqual(beside.stdout.readline(), "watching\n")
            for number, (order, line) in enumerate((("tea", "tea: 1"), ("tea", "tea: 2"), ("last", "last: 1"))):
                self.assertEqual(harness.kvctl(self.address, "put", f"order/{number}", order).returncode, 0)
                self.assertEqual(beside.stdout.readline(), line + "\n")
            self.assertEqual(beside.wait(), 0)

    def test_pool(self):
        self.assertEqual(run("pool", self.address, "4", "none", "8").returncode, 64)
        self.assertRegex(run("pool", self.address, "4", "5000", "8").stderr, "choose a number from 1 to 4096")
        self.assertEqual(run("pool", self.address, "4", "2", "8").returncode, 1)
        self.memory_server()
        for total in (1000, 2000):
            pool = run("pool", self.address, "8", "3", "1000")
            self.assertEqual(pool.returncode, 0, pool.stderr)
            self.assertRegex(pool.stdout, r"\Aserved 1000 requests over [123] connections\n\Z")
            self.assertEqual(harness.kvctl(self.address, "get", "served").stdout, b"%d" % total)

    def test_pool_while_the_server_is_killed(self):
        server = self.logged_server("--quiet")
        command = [harness.program("example_pool"), self.address, "8", "1", "6000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pool:
            for share in (1000, 3000):
                harness.wait_until(
                    lambda share=share: int(harness.kvctl(self.address, "get", "served").stdout or 0) > share,
                    "some requests are served",
                )  # fmt: skip
                server.kill()
                server = self.logged_server("--quiet")
            self.assertEqual(pool.stdout.read(), "served 6000 requests over 1 connections\n")
            self.assertEqual(pool.wait(), 0)
        self.assertEqual(harness.kvctl(self.address, "get", "served").stdout, b"6000")

    def test_metrics(self):
        self.assertEqual(run("metrics").returncode, 64)
        self.assertEqual(run("metrics", self.address).returncode, 1)
        self.memory_server()
        metrics = run("metrics", self.address)
        self.assertEqual(metrics.returncode, 0, metrics.stderr)
        self.assertIn('remora_client_call_seconds_count{client="sessions",call="put"} 4\n', metrics.stdout)
        self.assertIn('remora_client_get_seconds_count{client="config",path="searched"} 1\n', metrics.stdout)
        self.assertIn('remora_client_pool_acquires_total{client="sessions"} 4\n', metrics.stdout)
        check = subprocess.run(
            ["promtool", "check", "metrics"], input=metrics.stdout, capture_output=True, text=True,
            timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual((check.returncode, check.stdout + check.stderr), (0, ""))

    def test_async(self):
        self.assertEqual(run("async").returncode, 64)
        self.assertEqual(run("async", self.address).returncode, 1)
        self.memory_server()
        for _ in range(2):
            total = run("async", self.address)
            self.assertEqual((total.returncode, total.stdout), (0, "780\n"), total.stderr)

    def test_async_in_python(self):
        self.memory_server()
        for _ in range(2):
            total = run_python("async", self.address)
            self.assertEqual((total.returncode, total.stdout), (0, "780\n"), total.stderr)


if __name__ == "__main__":
    unittest.main()
