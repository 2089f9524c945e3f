"""kvctl top: as lines, as JSON, and on a terminal (a pseudo-terminal, whose other end the test holds)."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import unittest

import harness

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"


class Terminal:
    """kvctl top on a pseudo-terminal of its own, as a shell starts it."""

    def __init__(self, *flags, rows=24, columns=80):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(
            [harness.program("kvctl"), "top", *flags], stdin=self.slave, stdout=self.slave, stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm"}, start_new_session=True,
        )  # fmt: skip

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        """Takes what came; returns all since the start."""
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536)
        return self.seen

    def page(self):
        """The lines of the last whole page."""
        pages = self.read().split(b"\x1b[H")[1:]
        whole = [page for page in pages if page.endswith(b"\x1b[J")]
        text = whole[-1].removesuffix(b"\x1b[J").replace(b"\x1b[K", b"") if whole else b""
        return [line.strip(b"\r") for line in text.split(b"\n")]

    def await_page(self, condition, what):
        harness.wait_until(lambda: condition(self.page()), f"{what}: {self.page()}")

    def await_text(self, text):
        self.await_page(lambda page: any(text in line for line in page), text)

    def end(self):
        """Waits for its end; returns its exit status and its standard error. It must not wait for its reader."""
        _, errors = self.process.communicate(timeout=harness.PATIENCE)
        self.read()
        return self.process.returncode, errors

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        os.close(self.master)
        os.close(self.slave)


class TopTest(harness.TestCase):
    def terminal(self, *flags, interval="50ms"):
        terminal = Terminal(f"--server={self.address}", f"--interval={interval}", *flags)
        self.addCleanup(terminal.close)
        return terminal

    def top(self, *flags):
        run = harness.kvctl(self.address, "top", "--interval=20ms", *flags)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        return run.stdout.decode().splitlines()

    def test_lines(self):
        self.memory_server()
        for key in ("a", "b"):
            harness.kvctl(self.address, "put", key, "value")
        lines = self.top("--count=3")
        self.assertEqual(len(lines), 4)
        titles = lines[0].split()
        for line in lines[1:]:
            columns = dict(zip(titles, line.split(), strict=True))
            self.assertEqual((columns["keys"], columns["puts"], columns["unsync"]), ("2", "0", "0"))
            self.assertLess(len(line), 80)

    def test_rates_are_those_of_the_writes(self):
        self.memory_server()
        with subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "top", "--json", "--interval=20ms"], stdout=subprocess.PIPE
        ) as top:
            self.addCleanup(top.kill)
            first = json.loads(top.stdout.readline())
            for number in range(5):
                harness.kvctl(self.address, "put", f"key{number}", "value")
            puts = 0.0
            while puts < 4.5:
                line = json.loads(top.stdout.readline())
                puts += line["rates"]["puts"] * line["seconds"]
            self.assertAlmostEqual(puts, 5, places=3)
            self.assertEqual(line["metrics"]["keys"], 5)
            self.assertGreater(line["unix_ms"], first["unix_ms"])
            top.kill()

    def test_it_costs_the_server_nothing(self):
        """Neither messages nor wake-ups: it only reads the memory."""
        self.memory_server()
        with subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "top", "--json", "--interval=20ms"], stdout=subprocess.PIPE
        ) as top:
            self.addCleanup(top.kill)
            while json.loads(top.stdout.readline())["metrics"]["connections_accepted"] == 0:
                pass  # the server counts a client a little later than it serves it
            lines = [json.loads(top.stdout.readline())["metrics"] for _ in range(40)]
            top.kill()
        for name in ("receive_completions", "wakeups", "pings", "locates", "connections_accepted"):
            self.assertEqual({line[name] for line in lines}, {lines[-1][name]}, name)

    def test_a_server_that_goes_away_ends_the_lines(self):
        server = self.memory_server()
        with subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "--timeout=3000", "top", "--interval=20ms"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as top:  # fmt: skip
            self.addCleanup(top.kill)
            for _ in range(2):
                top.stdout.readline()
            server.kill()
            _, errors = top.communicate(timeout=harness.PATIENCE)
            self.assertEqual(top.returncode, 69)
            self.assertRegex(errors, rb"\Akvctl: top: [^\n]+\n\Z")
        run = harness.kvctl(self.address, "top")
        self.assertEqual((run.returncode, run.stdout), (69, b""))

    def test_a_page(self):
        self.memory_server()
        harness.kvctl(self.address, "put", "a", "value")
        terminal = self.terminal()
        terminal.await_text(b"keys 1,")
        self.assertIn(self.address.encode(), terminal.page()[0])
        self.assertLessEqual(len(terminal.page()), 24)
        os.write(terminal.master, b"q")
        self.assertEqual(terminal.end(), (0, b""))
        self.assertEqual((terminal.seen.count(ENTER), terminal.seen.count(LEAVE)), (1, 1))
        self.assertTrue(terminal.seen.endswith(LEAVE))
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.modes)

    def test_transports(self):
        """A page has those that clients use, with the READs that the server answers itself: those of the page."""
        tcp = f"tcp://127.0.0.1:{harness.free_port()}"
        self.memory_server(f"--listen={tcp}", "--insecure_open")
        terminal = self.terminal()
        terminal.await_text(b"transports: local 1")
        self.assertNotIn(b"tcp", b"".join(line for line in terminal.page() if line.startswith(b"transports")))
        other = Terminal(f"--server={tcp}", "--interval=50ms")
        self.addCleanup(other.close)
        other.await_page(
            lambda page: any(
                re.fullmatch(rb"transports: local 1, tcp 1; READs over TCP [1-9][0-9.k]*/s, [0-9.]+[BKM]/s", line)
                for line in page
            ),
            "both transports, and READs of the second",
        )
        os.write(other.master, b"q")
        self.assertEqual(other.end(), (0, b""))
        terminal.await_text(b"transports: local 1")

    def test_a_count_ends_it(self):
        self.memory_server()
        terminal = self.terminal("--count=2")
        self.assertEqual(terminal.end(), (0, b""))
        self.assertTrue(terminal.seen.endswith(LEAVE))

    def test_signals_restore_the_terminal(self):
        self.memory_server()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                terminal = self.terminal()
                terminal.await_text(b"ready")
                self.assertNotEqual(termios.tcgetattr(terminal.slave), terminal.modes)
                terminal.process.send_signal(number)
                self.assertEqual(terminal.end(), (-number, b""))
                self.assertTrue(terminal.seen.endswith(LEAVE))
                self.assertEqual(termios.tcgetattr(terminal.slave), terminal.modes)

    def test_a_pause_restores_the_terminal_for_a_while(self):
        self.memory_server()
        terminal = self.terminal()
        terminal.await_text(b"ready")
        terminal.process.send_signal(signal.SIGTSTP)
        harness.wait_until(lambda: terminal.read().endswith(LEAVE), "it leaves the page")
        harness.wait_until(lambda: termios.tcgetattr(terminal.slave) == terminal.modes, "it leaves the modes")
        status = status_of(terminal.process.pid)
        harness.wait_until(lambda: "T (stopped)" in status_of(terminal.process.pid), f"it stops: {status}")
        before = len(terminal.read())
        terminal.process.send_signal(signal.SIGCONT)
        harness.wait_until(lambda: b"ready" in terminal.read()[before:], "it goes on")
        self.assertIn(ENTER, terminal.seen[before:])

    def test_another_size(self):
        self.memory_server()
        terminal = self.terminal(interval="1h")  # so nothing else makes it draw again
        terminal.await_page(lambda page: len(page) > 10, "a whole page")
        terminal.resize(5, 30)
        terminal.process.send_signal(signal.SIGWINCH)  # as the terminal would, if it were the controlling one
        terminal.await_page(lambda page: len(page) == 5 and max(map(len, page)) <= 30, "a small page")
        terminal.resize(24, 80)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.await_page(lambda page: len(page) > 10, "a whole page again")

    def test_a_server_that_goes_and_comes(self):
        server = self.memory_server()
        terminal = self.terminal()
        terminal.await_text(b"ready")
        server.kill()
        terminal.await_text(b"NO ANSWER: ")
        self.memory_server()
        terminal.await_text(b"ready")
        self.assertIsNone(terminal.process.poll())

    def test_bad_input(self):
        self.memory_server()
        for flags in (["--interval=0s"], ["--interval=1"], ["--interval=9ms"], ["--interval=61m"], ["--interval=never"],
                      ["--count=-1"], ["--count=x"], ["more"]):  # fmt: skip
            run = harness.kvctl(self.address, "top", *flags)
            self.assertEqual((run.returncode, run.stdout), (64, b""), flags)
        with open("/dev/full", "wb") as full:
            run = subprocess.run(
                [harness.program("kvctl"), f"--server={self.address}", "top"], stdout=full, stderr=subprocess.PIPE,
                check=False, timeout=harness.PATIENCE,
            )  # fmt: skip
        self.assertEqual(run.returncode, 74)


class ShardsTest(harness.ShardsTestCase):
    """All shards of a topology, of which one goes away."""

    SHARDS = 2

    def rows(self, lines):
        """Returns the columns of each shard in a table, by their titles."""
        titles = lines[0].split()
        return {line.split()[0]: dict(zip(titles, line.split(), strict=True)) for line in lines[1:]}

    def away(self):
        """Has kvctl take an address at which nobody listens for that of shard 1."""
        text = self.topology.read_text()
        self.topology = self.folder / "without"
        self.topology.write_text(text.replace(self.address_of(1), f"local://{self.folder}/away"))

    def test_tables(self):
        self.start()
        for i in range(40):
            self.assertEqual(self.kvctl("put", f"key{i}", "value").returncode, 0)
        run = self.kvctl("top", "--interval=20ms", "--count=2")
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        tables = run.stdout.decode().removesuffix("\n\n").split("\n\n")
        self.assertEqual(len(tables), 2)
        for table in tables:
            rows = self.rows(table.splitlines())
            self.assertEqual(list(rows), ["0", "1", "all"])
            keys = [int(row["keys"]) for row in rows.values()]
            self.assertEqual((keys[0] + keys[1], min(keys) > 0), (40, True))
            self.assertEqual(keys[2], 40)
            self.assertLessEqual(max(map(len, table.splitlines())), 80)

    def test_json(self):
        self.start()
        with subprocess.Popen(
            [harness.program("kvctl"), f"--topology={self.topology}", "top", "--json", "--interval=20ms"], stdout=subprocess.PIPE
        ) as top:
            self.addCleanup(top.kill)
            first = json.loads(top.stdout.readline())
            self.assertEqual(list(first["shards"]), ["0", "1"])
            for number in range(10):
                self.kvctl("put", f"key{number}", "value")
            puts = [0.0, 0.0]
            while sum(puts) < 9.5:
                line = json.loads(top.stdout.readline())
                for shard in range(2):
                    of_shard = line["shards"][str(shard)]
                    puts[shard] += of_shard["rates"]["puts"] * of_shard["seconds"]
            self.assertAlmostEqual(sum(puts), 10, places=3)
            self.assertGreater(min(puts), 0.5)
            self.assertGreater(line["unix_ms"], first["unix_ms"])
            top.kill()

    def test_a_shard_that_is_away(self):
        self.start()
        self.away()
        run = self.kvctl("top", "--interval=20ms", "--count=1")
        self.assertEqual(run.returncode, 69)
        self.assertRegex(run.stderr, rb"\Akvctl: top: shard 1 \(local:[^)]*/away\): [^\n]+\n\Z")
        rows = self.rows(run.stdout.decode().strip().splitlines())
        self.assertEqual((rows["0"]["clients"], rows["1"]["clients"], rows["all"]["clients"]), ("1", "-", "1"))
        run = self.kvctl("top", "--interval=20ms", "--count=1", "--json")
        self.assertEqual(run.returncode, 69)
        shards = json.loads(run.stdout)["shards"]
        self.assertEqual((list(shards["1"]), shards["0"]["metrics"]["connections"]), (["error"], 1))

    def test_a_page_while_a_server_goes_and_comes(self):
        server = self.start()
        terminal = Terminal(f"--topology={self.topology}", "--interval=50ms")
        self.addCleanup(terminal.close)
        terminal.await_text(b"2 shards, all ready")
        self.assertIn(str(self.topology).encode(), terminal.page()[0])
        children = self.children(server)
        server.kill()
        terminal.await_text(b"shard 1: NO ANSWER: ")
        terminal.await_text(b"2 shards, 0 ready")
        self.expect_ended(children)  # they hold the data directories
        self.start()
        terminal.await_text(b"2 shards, all ready")
        os.write(terminal.master, b"q")
        self.assertEqual(terminal.end(), (0, b""))

    def test_no_shard_answers(self):
        self.start().stop()
        run = self.kvctl("top")
        self.assertEqual((run.returncode, run.stdout), (69, b""))
        self.assertRegex(run.stderr, rb"\Akvctl: top: shard 0 \([^)]*\): [^\n]+; and 1 more\n\Z")
        for flags, status in ((["--count=1", "--interval=1ms"], 64), (["--server=local:///x"], 64)):
            run = self.kvctl("top", *flags)
            self.assertEqual((run.returncode, run.stdout), (status, b""), flags)
        self.topology.write_text("nothing\n")
        self.assertEqual(self.kvctl("top").returncode, 65)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return status.read()


if __name__ == "__main__":
    unittest.main()
