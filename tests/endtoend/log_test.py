"""kvserver's log: each line has time, level and event, as text and as JSON; levels; the documented table of events."""

import datetime
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import unittest

import harness
from harness import kvctl

ROOT = pathlib.Path(__file__).parents[2]
HEADER = ROOT / "server/monitoring/log_events.h"
PAGE = ROOT / "docs/operating/log.md"
TEXT_LINE = re.compile(r"kvserver: (?P<time>\S+) (?P<level>\w+) (?P<event>\w+): (?P<message>.+)")


def events():
    """Of each event, its level and its explanation."""
    entry = re.compile(r'{LogEvent::k(\w+), "(\w+)", LogLevel::k(\w+), "([^"]+)"[,}]')
    return {name: (level.lower(), text) for _, name, level, text in entry.findall(HEADER.read_text())}


EVENTS = events()


class LogTestCase(harness.TestCase):
    def check(self, line):
        """One line that was parsed already. Returns its event."""
        self.assertEqual(set(line), {"time", "level", "event", "message"})
        self.assertRegex(line["time"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
        time = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
        self.assertLess(abs(datetime.datetime.now(datetime.timezone.utc) - time), datetime.timedelta(hours=1))
        self.assertEqual(line["level"], EVENTS[line["event"]][0])
        self.assertTrue(line["message"])
        return line["event"]

    def events_of_json(self, said):
        return [self.check(json.loads(line)) for line in said.splitlines()]

    def events_of_text(self, said):
        return [self.check(TEXT_LINE.fullmatch(line).groupdict()) for line in said.decode().splitlines()]

    def live(self, *flags):
        """A life with clients, a backup, reloads, good and bad, a start over, and an end. Returns what was logged."""
        token = self.make_token("one")
        tokens = self.write("tokens", token)
        os.utime(tokens, ns=(0, 0))
        pathlib.Path(tokens).read_text()
        if pathlib.Path(tokens).stat().st_atime_ns == 0:
            self.skipTest("the file system notes no times of reads (noatime), by which this waits for the server")
        flags = (f"--tokens={tokens}", f"--backup_dir={self.folder}/backups", f"--http=127.0.0.1:{harness.free_port()}", *flags)
        mine = {"env": {**os.environ, "REMORA_TOKEN_FILE": self.write("mine", token)}}
        server = self.logged_server(*flags)
        self.assertEqual(kvctl(self.address, "put", "key", "value", **mine).returncode, 0)
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 77)
        self.assertEqual(kvctl(self.address, "backup", **mine).returncode, 0)
        self.reload(server, tokens, token)
        self.reload(server, tokens, "none")
        said = self.end(server)
        self.write("tokens", token)
        return said + self.end(self.logged_server(*flags))

    def reload(self, server, tokens, text):
        """Until the server has read the file: the next SIGHUP comes after that."""
        self.write("tokens", text)
        os.utime(tokens, ns=(0, 0))
        server.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: pathlib.Path(tokens).stat().st_atime_ns != 0, "it reads the file again")
        kvctl(self.address, "ping")  # the thread is done with it

    def end(self, server):
        self.assertEqual(server.stop()[0], 0)
        return server.said()


class FormatTest(LogTestCase):
    EXPECTED = {
        "client_limit", "memory_plan", "http_serving", "serving", "client_connected", "client_refused", "backup_begun",
        "backup_made", "tokens_reloaded", "reload_failed", "client_disconnected", "loaded", "stopped",
    }  # fmt: skip

    def test_each_line_of_a_life_is_json(self):
        found = self.events_of_json(self.live("--log_format=json"))
        self.assertLessEqual(self.EXPECTED, set(found))
        self.assertEqual((found[-1], found.count("stopped")), ("stopped", 2))

    def test_each_line_of_a_life_has_time_level_and_event(self):
        found = self.events_of_text(self.live())
        self.assertLessEqual(self.EXPECTED, set(found))
        self.assertEqual((found[-1], found.count("stopped")), ("stopped", 2))

    def start_in(self, folder, *flags):
        """Where there is a file in place of a folder: it does not start."""
        run = subprocess.run(
            [harness.program("kvserver"), f"--listen={self.address}", b"--data_dir=" + folder, "--memory=64M", *flags],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertNotEqual(run.returncode, 0)
        return run.stderr

    def test_bytes_that_are_no_text(self):
        folder = os.fsencode(self.folder) + b'/\xff "\\\x1b[2J\xe2\x82\xac\nevent'
        pathlib.Path(os.fsdecode(folder)).write_text("no folder")
        line = self.start_in(folder, "--log_format=json")
        self.assertEqual(self.events_of_json(line), ["start_failed"])
        self.assertIn('\ufffd "\\\x1b[2J\u20ac\nevent', json.loads(line)["message"])
        line = self.start_in(folder)
        self.assertRegex(line, rb"\Akvserver: \S+ error start_failed: [^\n]+\n\Z")
        self.assertIn(b"\\x1b[2J", line)
        self.assertNotIn(b"\x1b", line)


class BadStartTest(LogTestCase):
    """A fault of the start is JSON where that was asked for, wherever the flag stands."""

    def rejected(self, status, *flags, **options):
        run = subprocess.run(
            [harness.program("kvserver"), *flags], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=harness.PATIENCE, check=False, **options,
        )  # fmt: skip
        self.assertEqual((run.returncode, run.stdout), (status, b""), run.stderr)
        return run.stderr

    def says(self, expected, status, *flags):
        said = self.rejected(status, *flags)
        self.assertEqual(self.events_of_json(said), ["start_failed"])
        self.assertIn(expected, json.loads(said)["message"])

    def test_bad_flags(self):
        listen = f"--listen={self.address}"
        memory = "--durability=memory"
        for flags, says in (
            ([listen, memory, "--memory=much", "--log_format=json"], "--memory: 'much' is not"),
            (["--log_format=json", listen, memory, "--memory=much"], "--memory: 'much' is not"),
            ([listen, memory, "--memroy=64M", "--log-format", "json"], "there is no flag --memroy; the nearest is --memory"),
            ([listen, memory, "--log_format=json", "more"], "the argument 'more' is one too many"),
            ([memory, "--log_format=json"], "--listen is missing"),
            ([listen, "--log_format=json"], "need --data_dir=DIR"),
            ([listen, memory, "--tcp_threads=2", "--log_format=json"], "--listen names none"),
            ([listen, memory, "--log_format=json", "--log_level=\x1b[2J\n"], "--log_level"),
            ([listen, memory, "--ready_fd=1000", "--log_format=json"], "--ready_fd"),
        ):
            with self.subTest(flags=flags):
                self.says(says, 64, *flags)

    def test_bad_lines_of_a_file(self):
        base = f"listen = {self.address}\ndurability = memory\n"
        for text, says in (
            (base + "log_format = json\nmemory = much\n", "line 4: memory: 'much' is not"),
            (base + "memroy = 64M\nlog_format = json\n", "line 3: there is no key memroy"),
            (base + "\x01\nlog_format = json\n", "line 3: there is a control character"),
        ):
            with self.subTest(text=text):
                self.says(says, 78, f"--config={self.write('kvserver.conf', text)}")
        self.says("there is no such file", 66, f"--config={self.folder}/none", "--log_format=json")

    def test_text_where_nothing_asks_for_json(self):
        for flags in (["--log_format=xml"], ["--memory=much"], ["--log_format=text", "--no_flag"], ["--", "--log_format=json"]):
            with self.subTest(flags=flags):
                self.assertRegex(self.rejected(64, *flags), rb"\Akvserver: [^\n]+; see kvserver --help\n\Z")
        file = self.write("kvserver.conf", "log_format = json\nmemory = much\n")
        self.assertRegex(self.rejected(78, f"--config={file}", "--log_format=text"), rb"\Akvserver: [^\n{]+\n\Z")

    def test_faults_behind_the_flags(self):
        flags = [f"--listen={self.address}", "--durability=memory", "--log_format=json"]
        self.says("cannot be opened", 64, *flags, f"--tokens={self.folder}/none")
        self.says("", 71, *flags, "--memory=64T")
        self.says("", 73, f"--listen={self.address}/none/socket", *flags[1:])

    def test_no_memory_for_a_log_line(self):
        """A server in less address space than its start needs ends with a line, JSON as well."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (100 << 20, resource.RLIM_INFINITY))

        flags = [f"--listen={self.address}", f"--data_dir={self.folder}/data", "--memory=64M"]
        said = self.rejected(71, *flags, "--log_format=json", preexec_fn=limit)
        self.assertIn(self.events_of_json(said)[-1], ("memory_exhausted", "start_failed"))
        self.assertIn("ulimit -v", json.loads(said.splitlines()[-1])["message"])

    def test_ready(self):
        server = self.memory_server("--log_format=json")
        status, said = server.stop()
        self.assertEqual(status, 0)
        self.assertEqual(self.events_of_json(said.decode()), ["ready"])
        self.assertIn(f"ready at {self.address}", json.loads(said)["message"])


class LevelTest(LogTestCase):
    def levels(self, *flags):
        return {EVENTS[event][0] for event in self.events_of_json(self.live("--log_format=json", *flags))}

    def test_levels(self):
        self.assertEqual(self.levels(), {"info", "warning"})
        for flag in ("--log_level=warning", "--quiet"):
            self.assertEqual(self.levels(flag), {"warning"}, "warnings are there, and information is not")
        self.assertEqual(self.levels("--log_level=error"), set())

    def test_bad_flags(self):
        for flags, says in (
            (["--log_level=debug"], b"--log_level"), (["--log_format=xml"], b"--log_format"), (["--log_level="], b"--log_level"),
            (["--quiet", "--log_level=info"], b"exclude each other"),
        ):  # fmt: skip
            run = subprocess.run(
                [harness.program("kvserver"), f"--listen={self.address}", "--durability=memory", *flags],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
            self.assertEqual(run.returncode, 64, run.stderr)
            self.assertIn(says, run.stderr)


class EndsTest(LogTestCase):
    """The reason for the end of a connection: an orderly end is no loss."""

    def reason_of(self, server, address, *flags):
        """Of the connection of a watch, which ends by itself as `flags` say, or else is killed."""
        before = len(server.said())

        def said(pattern):
            harness.wait_until(lambda: re.search(pattern, server.said()[before:]), f"it says {pattern}")
            return re.search(pattern, server.said()[before:])[1]

        watch = subprocess.Popen([harness.program("kvctl"), f"--server={address}", "watch", *flags], stdin=subprocess.DEVNULL)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        peer = said(rb"client_connected: client (.*): connected\n")
        if not flags:
            watch.kill()
        return said(rb"client_disconnected: client " + re.escape(peer) + rb": disconnected: (.*)\n").decode()

    def test_an_orderly_end_is_no_loss(self):
        tcp = f"tcp://127.0.0.1:{harness.free_port()}"
        server = self.logged_server(f"--listen={tcp}")
        self.assertEqual(self.reason_of(server, self.address, "--idle=1ms"), "the client closed the connection")
        self.assertEqual(self.reason_of(server, self.address), "connection lost: the process of the client ended without closing it")
        for flags in (["--idle=1ms"], []):
            self.assertEqual(self.reason_of(server, tcp, *flags), "the client closed the connection, or its process ended")


class TableTest(unittest.TestCase):
    def test_the_page_has_each_event_as_the_server_has_it(self):
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
        self.assertEqual({name: (level, text) for name, level, text in rows}, EVENTS)
        self.assertEqual(len(rows), len(EVENTS))
        self.assertEqual(HEADER.read_text().count("{LogEvent::k"), len(EVENTS))


if __name__ == "__main__":
    unittest.main()
