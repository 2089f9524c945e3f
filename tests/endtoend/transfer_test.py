"""kvctl export and import: all that goes out comes in again."""

import base64
import json
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
import unittest

import harness
from harness import kvctl

EVERY_BYTE = bytes(range(256))
FIRST = b'{"remora_export":1}\n'


def last(records):
    return b'{"records":%d}\n' % records


def records_of(export):
    """Checks the frame of an export; returns what jq would see of its records, in order."""
    lines = export.decode().splitlines()
    assert json.loads(lines[0]) == {"remora_export": 1}, lines[0]
    assert json.loads(lines[-1]) == {"records": len(lines) - 2}, lines[-1]
    return [json.loads(line) for line in lines[1:-1]]


def bytes_of(record, name):
    return record[name].encode() if name in record else base64.b64decode(record[f"{name}_base64"], validate=True)


def counts(imported, already_there=0, expired=0, skipped_bad=0):
    names = f"imported {imported}\nalready_there {already_there}\nexpired {expired}\nskipped_bad {skipped_bad}\n"
    return names.encode()


class TransferTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.running = self.logged_server(memory="192M")

    def run_ok(self, *arguments, stdin=b""):
        # The largest value takes a busy machine longer than kvctl waits by default.
        run = kvctl(self.address, f"--timeout={harness.PATIENCE * 1000}", *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        return run.stdout

    def rejected(self, status, *arguments, stdin=b""):
        run = kvctl(self.address, *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stdout), (status, b""), run.stderr)
        self.assertRegex(run.stderr, rb"\Akvctl: import: [^\n]+\n\Z")
        return run.stderr.decode()

    def test_everything_comes_back(self):
        written = {
            b"text": "grüße 🐟".encode(), b"empty": b"", b"binary": EVERY_BYTE, b"quote\\\"": b'"\\\n\t\x7f\x01',
            b"zeros": bytes(1000), b"\xff\xfe": b"a key that is no text", b"large": os.urandom(300_000),
            b"surrogate": b"\xed\xa0\x80", b"overlong": b"\xc0\x80", b"cut": b"\xf0\x9f\x90",
        }  # fmt: skip
        for key, value in written.items():
            self.run_ok("put", "--", key, stdin=value)
        self.run_ok("put", "session", "for a day", "--ttl=1d")
        before = time.time_ns() // 1_000_000
        first = self.run_ok("export")
        records = records_of(first)
        found = {bytes_of(record, "key"): bytes_of(record, "value") for record in records}
        self.assertEqual(found, written | {b"session": b"for a day"})
        self.assertEqual(list(found), sorted(found))
        self.assertEqual([record for record in records if "expires_ms" in record], [records_by_key(records)["session"]])
        expiry = records_by_key(records)["session"]["expires_ms"]
        self.assertLess(abs(expiry - before - 86_400_000), 3_600_000)

        self.assertEqual(self.run_ok("delete_all", "--yes"), b"11\n")
        self.assertEqual(self.run_ok("import", stdin=first), counts(11))
        second = records_of(self.run_ok("export"))
        for one, other in zip(records, second, strict=True):
            one.pop("version"), other.pop("version")
        # To the millisecond: however long an import takes, nothing is there for longer.
        self.assertEqual(records, second)

    def test_text_with_what_json_escapes(self):
        """Text stays text, for who reads it, where only some of it has to be escaped."""
        value = "He said: \"so be it\",\nand C:\\temp\tand\x1f\x01 were " + "much like the rest of it. " * 4
        self.run_ok("put", 'the key of a "quotation"', value)
        export = self.run_ok("export")
        self.assertNotIn(b"_base64", export)
        record = records_of(export)[0]
        self.assertEqual((record["key"], record["value"]), ('the key of a "quotation"', value))
        self.run_ok("delete_all", "--yes")
        self.assertEqual(self.run_ok("import", stdin=export), counts(1))
        self.assertEqual(self.run_ok("get", 'the key of a "quotation"'), value.encode())

    def test_a_value_that_is_too_large(self):
        size = (64 << 20) + 1
        record = b'{"key":"large","value_base64":"%s"}\n' % base64.b64encode(bytes(size))
        said = self.rejected(65, "import", stdin=FIRST + record + last(1))
        self.assertRegex(said, f"line 2: its value has {size} bytes; .*; 0 records were imported")
        self.assertEqual(self.run_ok("count"), b"0\n")

    def test_an_export_that_loses_its_moment_says_so(self):
        """Its server was started anew in between: the rest would be of another moment."""
        value = os.urandom(1 << 20)
        for i in range(8):
            self.run_ok("put", f"{i}", stdin=value)
        with subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "export"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as export:  # fmt: skip
            self.assertEqual(export.stdout.readline(), FIRST)
            self.running.kill()  # while the export waits for who takes its output
            self.running = self.logged_server(memory="192M")
            output, errors = export.communicate(timeout=harness.PATIENCE)
        self.assertEqual(export.returncode, 75, errors)
        self.assertRegex(errors, rb"\Akvctl: export: [^\n]*of one moment[^\n]*\n\Z")
        self.assertNotIn(b'{"records":', output)
        self.rejected(65, "import", stdin=FIRST + output)

    def test_the_largest_value(self):
        for value in (os.urandom(64 << 20), bytes(64 << 20)):
            self.run_ok("put", "key", stdin=value)
            export = self.run_ok("export")
            self.run_ok("delete", "key")
            self.assertEqual(self.run_ok("import", stdin=export), counts(1))
            self.assertEqual(self.run_ok("get", "key"), value)

    def test_many_records_and_a_prefix(self):
        lines = b"".join(b'{"key":"%06d","value":"%d"}\n' % (i, i * i) for i in range(5000))
        self.assertEqual(self.run_ok("import", stdin=FIRST + lines + last(5000)), counts(5000))
        self.assertEqual(self.run_ok("count"), b"5000\n")
        self.assertEqual(self.run_ok("get", "004999"), b"%d" % (4999 * 4999))
        part = records_of(self.run_ok("export", "--prefix=0012"))
        self.assertEqual([record["key"] for record in part], [f"{i:06}" for i in range(1200, 1300)])

    def test_if_absent_and_expired(self):
        self.run_ok("put", "there", "mine")
        lines = (
            b'{"key":"there","value":"theirs"}\n{"key":"over","value":"x","expires_ms":1}\n'
            b'{"key":"new","value":"theirs","expires_ms":99999999999999}\n{"key":"last","value":""}\n'
        )
        self.assertEqual(self.run_ok("import", "--if_absent", stdin=FIRST + lines + last(4)), counts(2, 1, 1))
        self.assertEqual(self.run_ok("get", "there"), b"mine")
        self.assertEqual(self.run_ok("import", stdin=FIRST + lines + last(4)), counts(3, 0, 1))
        self.assertEqual(self.run_ok("get", "there"), b"theirs")
        self.assertEqual(kvctl(self.address, "get", "over").returncode, 1)
        self.assertRegex(self.run_ok("ttl", "new"), rb"\A[0-9]+ms\n\Z")

    def test_bad_lines(self):
        good = b'{"key":"good","value":"x"}\n'
        for bad in (
            b"", b"x", b"[]", b"{}", b'{"key":"a"}', b'{"value":"a"}', b'{"key":"a","value":1}',
            b'{"key":"","value":""}',
            b'{"key":"a","key_base64":"YQ==","value":""}', b'{"key":"a","value_base64":"?"}', b'{"key":"a","value":"b"',
            b'{"key":"a","value":"b","expires_ms":-1}', b'{"key":"a","value":"b","expires_ms":1.5}',
            b'{"key":"a","value":"b","expire_ms":1}', b'{"key":"a","value":"\xff"}', b'{"remora_export":1}',
            b'{"key":"%s","value":""}' % (b"k" * 4097),
        ):  # fmt: skip
            with self.subTest(bad=bad[:60]):
                self.run_ok("delete_all", "--yes")
                lines = FIRST + good + bad + b'\n{"key":"behind","value":"x"}\n' + last(3)
                self.assertRegex(self.rejected(65, "import", stdin=lines), "line 3: .*; 1 records were imported")
                self.assertEqual(self.run_ok("count"), b"1\n")
                self.assertEqual(self.run_ok("import", "--skip_bad", stdin=lines), counts(2, skipped_bad=1))
                self.assertEqual(self.run_ok("count"), b"2\n")

    def test_what_is_no_whole_export(self):
        good = b'{"key":"good","value":"x"}\n'
        for lines, why in (
            (b"", "import: standard input is empty; [^;]*$"),
            (good + last(1), "line 1: an export begins with"),
            (FIRST + good, "line 3: .*last line.*cut off.*; 1 records were imported, 0 were there already, 0 had expired"),
            (FIRST + good[:-5], "line 2: "),
            (FIRST + good + last(1) + good, "line 4: there is more"),
            (b'{"remora_export":2}\n' + good + last(1), "line 1: .*format 2, this kvctl knows format 1"),
        ):
            with self.subTest(lines=lines):
                self.assertRegex(self.rejected(65, "import", stdin=lines), why)

    def test_an_import_without_its_last_line_may_be_repeated(self):
        lines = FIRST + b'{"key":"one","value":"1"}\n{"key":"two","value":"2"}\n{"key":"over","value":"","expires_ms":1}\n'
        self.assertRegex(self.rejected(65, "import", stdin=lines), "; 2 records were imported, 0 were .*, 1 had expired")
        self.assertEqual(self.run_ok("count"), b"2\n")
        said = self.rejected(65, "import", "--if_absent", stdin=lines)
        self.assertRegex(said, "; 0 records were imported, 2 were there already, 1 had expired")
        self.assertEqual(self.run_ok("import", "--if_absent", stdin=lines + last(3)), counts(0, 2, 1))

    def begin_import(self, *lines, timeout=harness.PATIENCE):
        """An import whose input goes on."""
        running = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", f"--timeout={timeout * 1000}", "import"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        self.send(running, *lines)
        return running

    @staticmethod
    def end(process):
        process.kill()
        process.wait(harness.PATIENCE)

    def send(self, running, *lines):
        running.stdin.write(b"".join(lines))
        running.stdin.flush()

    def test_what_has_come_is_stored_while_the_input_goes_on(self):
        running = self.begin_import(FIRST, b'{"key":"early","value":"1"}\n')
        harness.wait_until(lambda: kvctl(self.address, "get", "early").stdout == b"1", "it is stored")
        self.send(running, b'{"key":"late","value":"2"}\n', last(2))
        output, errors = running.communicate(timeout=harness.PATIENCE)
        self.assertEqual((running.returncode, output), (0, counts(2)), errors)

    def test_a_server_that_takes_no_more_ends_an_import_whose_input_goes_on(self):
        for fail, why in ((harness.freeze, b"in time"), (self.end, b"closed the connection|listens")):
            with self.subTest(why):
                running = self.begin_import(FIRST, b'{"key":"key","value":"%s"}\n' % why, timeout=5)
                stored = why
                harness.wait_until(lambda: kvctl(self.address, "get", "key").stdout == stored, "it is stored")
                self.run_ok("put", "after", "")  # a commit is acknowledged after those before it
                fail(self.running.process)
                self.addCleanup(self.running.process.send_signal, signal.SIGCONT)
                self.send(running, b'{"key":"more","value":""}\n')
                self.assertEqual(running.wait(timeout=harness.PATIENCE), 69)
                self.running.process.send_signal(signal.SIGCONT)
                self.assertRegex(running.stderr.read(), rb"line 3: .*(" + why + rb").*; 1 records were imported.* of 1 it is")

    def test_no_space(self):
        self.running.stop()
        self.running = self.logged_server("--eviction=none", memory="64M")
        value = base64.b64encode(os.urandom(200_000))
        lines = b"".join(b'{"key":"%d","value":"%s"}\n' % (i, value) for i in range(300))
        self.assertRegex(self.rejected(73, "import", stdin=FIRST + lines + last(300)), "line [0-9]+: .*were imported")

    def test_output_that_is_full_and_input_that_fails(self):
        self.run_ok("put", "key", "value")
        with open("/dev/full", "wb") as full:
            run = harness.subprocess.run(
                [harness.program("kvctl"), f"--server={self.address}", "export"],
                stdin=harness.subprocess.DEVNULL, stdout=full, stderr=harness.subprocess.PIPE,
                timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
        self.assertEqual(run.returncode, 74, run.stderr)
        folder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        run = harness.subprocess.run(
            [harness.program("kvctl"), f"--server={self.address}", "import"],
            stdin=folder, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 74, run.stderr)


def records_by_key(records):
    return {record["key"]: record for record in records if "key" in record}


class Relay:
    """Passes on what goes between clients and a server at a port of this host. While `keeps` is set, the server's
    bytes go no further; cut() ends the connections there are."""

    def __init__(self, port):
        self.server_port = port
        self.keeps = threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listening, selectors.EVENT_READ)
        self.ending, self.wake = socket.socketpair()
        self.selector.register(self.ending, selectors.EVENT_READ)
        self.connections = []  # that of a client, and that of the server behind it
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.ending:
                    return
                if key.fileobj is self.listening:
                    client, server = self.listening.accept()[0], socket.create_connection(("127.0.0.1", self.server_port))
                    self.connections.append((client, server))
                    self.selector.register(client, selectors.EVENT_READ, server)
                    self.selector.register(server, selectors.EVENT_READ, client)
                    continue
                try:
                    some = key.fileobj.recv(65536)
                    is_of_server = key.data.getpeername()[1] != self.server_port
                    self.pass_on(some, key.data, is_of_server)
                except OSError:
                    some = b""
                if not some:
                    self.selector.unregister(key.fileobj)
                    shut(key.data)

    def pass_on(self, some, to, is_of_server):
        if not is_of_server or not self.keeps.is_set():
            to.sendall(some)

    def cut(self):
        for end in sum(self.connections, ()):
            shut(end)

    def close(self):
        self.wake.close()
        self.thread.join()
        for end in [self.ending, self.listening, *sum(self.connections, ())]:
            end.close()
        self.selector.close()


def shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already


class LostAnswersTest(harness.TestCase):
    """A connection ends while the server has records of an import that it has not answered."""

    LINES = [b'{"key":"key%03d","value":"of %d"}\n' % (i, i) for i in range(200)]

    def begin(self, address, *flags):
        """Begins an import, and returns when 100 records are stored."""
        run = subprocess.Popen(
            [harness.program("kvctl"), f"--server={address}", f"--timeout={harness.PATIENCE * 1000}", "import", *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        run.stdin.write(FIRST + b"".join(self.LINES[:100]))
        run.stdin.flush()
        self.await_records(100)
        return run

    def await_records(self, count):
        harness.wait_until(lambda: kvctl(self.address, "count").stdout == b"%d\n" % count, f"{count} records are stored")

    def end(self, run, **expected):
        output, errors = run.communicate(last(200), timeout=harness.PATIENCE)
        self.assertEqual((run.returncode, output, errors), (0, counts(**expected), b""))
        self.assertEqual(kvctl(self.address, "get", "key199").stdout, b"of 199")
        self.await_records(200)

    def test_a_server_that_is_killed_with_a_put_that_it_did_not_take(self):
        server = self.logged_server()
        run = self.begin(self.address)
        harness.freeze(server.process)
        run.stdin.write(b"".join(self.LINES[100:]))
        run.stdin.flush()
        time.sleep(0.2)  # until it has most likely sent them
        server.kill()
        self.logged_server()
        self.end(run, imported=200)

    def test_answers_that_are_lost(self):
        port = harness.free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        self.memory_server()
        relay = Relay(port)
        self.addCleanup(relay.close)
        run = self.begin(f"tcp://127.0.0.1:{relay.port}", "--if_absent")
        self.assertEqual(kvctl(self.address, "put", "key150", "of another").returncode, 0)
        relay.keeps.set()
        run.stdin.write(b"".join(self.LINES[100:]))
        run.stdin.flush()
        harness.wait_until(lambda: int(kvctl(self.address, "count").stdout) > 101, "some of them are stored")
        relay.keeps.clear()
        relay.cut()
        self.end(run, imported=199, already_there=1)
        self.assertEqual(kvctl(self.address, "get", "key150").stdout, b"of another")


if __name__ == "__main__":
    unittest.main()
