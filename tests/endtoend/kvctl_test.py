"""kvctl against a real server: the behaviour on which a script relies."""

import json
import os
import pathlib
import socket
import subprocess
import unittest

import harness
from harness import kvctl

MAX_KEY = 4096
MAX_VALUE = 64 << 20
EVERY_BYTE = bytes(range(256)) * 3


class KvctlTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.server = self.memory_server(memory="160M")

    def expect(self, run, status, stdout=b""):
        self.assertEqual((run.returncode, run.stdout), (status, stdout), run.stderr)
        if status == 0:
            self.assertEqual(run.stderr, b"")
        else:
            self.assertRegex(run.stderr, rb"\Akvctl: [^\n]+\n\Z")

    def test_put_get_delete(self):
        self.expect(kvctl(self.address, "put", "key", "value"), 0)
        self.expect(kvctl(self.address, "get", "key"), 0, b"value")
        self.expect(kvctl(self.address, "put", "key", "another"), 0)
        self.expect(kvctl(self.address, "get", "key"), 0, b"another")
        self.expect(kvctl(self.address, "delete", "key"), 0)
        self.expect(kvctl(self.address, "get", "key"), 1)

    def test_a_missing_key_has_its_own_exit_code(self):
        self.expect(kvctl(self.address, "get", "missing"), 1)
        self.expect(kvctl(self.address, "delete", "missing"), 1)

    def test_exists(self):
        self.expect(kvctl(self.address, "exists", "key"), 1)
        self.expect(kvctl(self.address, "put", "key", "value"), 0)
        self.expect(kvctl(self.address, "exists", "key"), 0)

    def test_versions_and_conditions(self):
        self.expect(kvctl(self.address, "put", "key", "1", "--if_present"), 1)
        self.expect(kvctl(self.address, "put", "key", "2", "--if_absent"), 0)
        self.expect(kvctl(self.address, "put", "key", "3", "--if_absent"), 2)
        first = kvctl(self.address, "get", "--version", "key")
        self.assertRegex(first.stdout, rb"\A[0-9]+\n2\Z")
        version = first.stdout.split(b"\n")[0].decode()
        self.expect(kvctl(self.address, "put", "key", "4", f"--if_version={version}"), 0)
        stale = [["put", "key", "5"], ["append", "key", "5"], ["incr", "key"], ["delete", "key"],
                 ["touch", "key", "1h"], ["persist", "key"]]  # fmt: skip
        for arguments in stale:
            with self.subTest(arguments=arguments):
                self.expect(kvctl(self.address, *arguments, f"--if_version={version}"), 2)
        self.expect(kvctl(self.address, "put", "missing", "5", f"--if_version={version}"), 1)
        self.expect(kvctl(self.address, "put", "key", "5", "--if_present"), 0)
        for flags in (["--if_version=0"], ["--if_version=x"], ["--if_version=-1"], ["--if_absent", "--if_present"],
                      ["--if_absent", "--if_version=1"]):  # fmt: skip
            with self.subTest(flags=flags):
                self.expect(kvctl(self.address, "put", "key", "6", *flags), 64)
        self.expect(kvctl(self.address, "get", "key"), 0, b"5")
        self.expect(kvctl(self.address, "get", "key", "--if_absent"), 64)

    def test_incr_and_append(self):
        self.expect(kvctl(self.address, "incr", "number"), 0, b"1\n")
        self.expect(kvctl(self.address, "incr", "number", "41"), 0, b"42\n")
        self.expect(kvctl(self.address, "get", "number"), 0, b"42")
        self.expect(kvctl(self.address, "incr", "--", "number", "-50"), 0, b"-8\n")
        self.expect(kvctl(self.address, "incr", "number", "9223372036854775807", "--ttl=10h"), 0,
                    b"9223372036854775799\n")  # fmt: skip
        self.expect_ttl("number", 10)
        self.expect(kvctl(self.address, "incr", "number", "9"), 65)
        self.expect(kvctl(self.address, "incr", "number", "9223372036854775808"), 64)
        self.expect(kvctl(self.address, "incr", "number", "1.5"), 64)
        self.expect(kvctl(self.address, "append", "number", " left"), 0, b"24\n")
        self.expect(kvctl(self.address, "incr", "number"), 2)
        self.expect(kvctl(self.address, "append", "log", stdin=EVERY_BYTE), 0, b"768\n")
        self.expect(kvctl(self.address, "append", "log", "end"), 0, b"771\n")
        self.expect(kvctl(self.address, "get", "log"), 0, EVERY_BYTE + b"end")
        self.expect(kvctl(self.address, "append", "log", stdin=bytes(262144 - 770)), 65)
        self.expect(kvctl(self.address, "append", "log", stdin=bytes(262145)), 65)
        self.expect(kvctl(self.address, "append", "log", stdin=bytes(MAX_VALUE + 1)), 65)
        self.expect(kvctl(self.address, "append", "log", stdin=bytes(262144 - 771)), 0, b"262144\n")

    def test_any_bytes_from_standard_input(self):
        for value in (b"", b"\0", b"\n", EVERY_BYTE, os.urandom(MAX_VALUE)):
            with self.subTest(size=len(value)):
                # The largest one may take a busy machine longer than kvctl waits by default.
                patient = f"--timeout={harness.PATIENCE * 1000}"
                self.expect(kvctl(self.address, patient, "put", "key", stdin=value), 0)
                self.expect(kvctl(self.address, patient, "get", "key"), 0, value)

    def test_odd_arguments_are_taken_as_they_are(self):
        for value in ("", " ", "{}", "[a,b]", "get", '"', "a\nb", "ü"):
            with self.subTest(value=value):
                self.expect(kvctl(self.address, "put", "put", value, stdin=b"not this"), 0)
                self.expect(kvctl(self.address, "get", "put"), 0, value.encode())
        self.expect(kvctl(self.address, "put", "--", "-key", "--value"), 0)
        self.expect(kvctl(self.address, "get", "--", "-key"), 0, b"--value")

    def test_bounds(self):
        longest = "k" * MAX_KEY
        self.expect(kvctl(self.address, "put", longest, "value"), 0)
        self.expect(kvctl(self.address, "get", longest), 0, b"value")
        for command in ("get", "put", "delete"):
            self.expect(kvctl(self.address, command, longest + "k"), 64)
            self.expect(kvctl(self.address, command, ""), 64)
        self.expect(kvctl(self.address, "put", "key", stdin=bytes(MAX_VALUE + 1)), 65)
        self.expect(kvctl(self.address, "get", "key"), 1)

    def test_ttl_touch_persist(self):
        self.expect(kvctl(self.address, "put", "key", "value"), 0)
        self.expect(kvctl(self.address, "ttl", "key"), 0, b"never\n")
        self.expect(kvctl(self.address, "put", "key", "value", "--ttl=10h"), 0)
        self.expect_ttl("key", 10)
        self.expect(kvctl(self.address, "touch", "key", "2d"), 0)
        self.expect_ttl("key", 48)
        self.expect(kvctl(self.address, "get", "key"), 0, b"value")
        self.expect(kvctl(self.address, "persist", "key"), 0)
        self.expect(kvctl(self.address, "ttl", "key"), 0, b"never\n")
        self.expect(kvctl(self.address, "touch", "key", "1ms"), 0)
        harness.wait_until(lambda: kvctl(self.address, "get", "key").returncode == 1, "the key has expired")
        for arguments in (["ttl", "key"], ["touch", "key", "1h"], ["persist", "key"], ["delete", "key"]):
            with self.subTest(arguments=arguments):
                self.expect(kvctl(self.address, *arguments), 1)
        harness.wait_until(lambda: harness.stats(self.address)["keys"] == 0, "an idle server removes it")
        counters = harness.stats(self.address)
        self.assertEqual((counters["expired"], counters["touches"]), (1, 3))

    def expect_ttl(self, key, hours):
        """The test itself takes less than an hour."""
        run = kvctl(self.address, "ttl", key)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.assertRegex(run.stdout, rb"\A[0-9]+ms\n\Z")
        left = int(run.stdout[:-3])
        self.assertLessEqual(left, hours * 3_600_000)
        self.assertGreater(left, (hours - 1) * 3_600_000)

    def test_durations_that_are_none(self):
        self.expect(kvctl(self.address, "put", "key", "value"), 0)
        for duration in (
            "-1s", "0s", "0", "1", "s", "1.5s", "1 s", " 1s", "1S", "1sm", "+1s", "0x1s", "soon", "36526d",
            "9223372036854775807ms", "99999999999999999999999d",
        ):  # fmt: skip
            with self.subTest(duration=duration):
                self.expect(kvctl(self.address, "put", "key", "other", f"--ttl={duration}"), 64)
                self.expect(kvctl(self.address, "touch", "--", "key", duration), 64)
        self.expect(kvctl(self.address, "touch", "key", ""), 64)
        self.expect(kvctl(self.address, "put", "key", "other", "--ttl="), 64)
        self.expect(kvctl(self.address, "touch", "key"), 64)
        self.expect(kvctl(self.address, "get", "key"), 0, b"value")
        self.expect(kvctl(self.address, "ttl", "key"), 0, b"never\n")

    def test_endless_input_is_rejected_not_awaited(self):
        with open("/dev/zero", "rb") as zeros:
            run = subprocess.run(
                [harness.program("kvctl"), f"--server={self.address}", "put", "key"],
                stdin=zeros, capture_output=True, timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
        self.expect(run, 65)

    def test_usage_errors(self):
        for arguments in (
            ["bogus"], [], ["get"], ["get", "key", "more"], ["put"], ["put", "key", "value", "more"],
            ["--bogus", "get", "key"], ["--timeout=0", "ping"], ["--timeout=x", "ping"], ["ping", "--wait=-1"],
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                self.expect(kvctl(self.address, *arguments), 64)
        for address in ("", "udp://host:1", "local://relative", "verbs://host", "verbs://host:0"):
            with self.subTest(address=address):
                self.expect(kvctl(None, f"--server={address}", "get", "key"), 64)

    def test_an_empty_flag_takes_nothing_else(self):
        self.expect(kvctl(None, "count", "--prefix=", f"--server={self.address}"), 0, b"0\n")
        run = kvctl(self.address, "count", "--prefix=", f"--server={self.address}-other")
        self.expect(run, 64)  # the server is given twice: the second one was not taken for the prefix
        run = kvctl(None, "count", "--prefix=", f"--server={self.address}-other", env={"REMORA_SERVER": self.address})
        self.expect(run, 69)
        for flag in ("--server=", "--timeout=", "--token_file=", "--server", "--timeout", "--token_file"):
            with self.subTest(flag=flag):
                run = kvctl(None, "ping", flag, "--help", env={"REMORA_SERVER": self.address})
                self.expect(run, 64)
                self.assertIn(flag.rstrip("=").encode() + b": ", run.stderr)

    def test_values_that_look_like_marks(self):
        for value in ("++", "-", "+", "-5"):
            with self.subTest(value=value):
                self.expect(kvctl(self.address, "put", "key", value, stdin=b"standard input"), 0)
                self.expect(kvctl(self.address, "get", "key"), 0, value.encode())
        for value in ("++", "--", "-x", "--ttl=1h", "get", ""):
            with self.subTest(value=value):
                self.expect(kvctl(self.address, "put", "--", "--key", value, stdin=b"standard input"), 0)
                self.expect(kvctl(self.address, "get", "--", "--key"), 0, value.encode())
        self.expect(kvctl(self.address, "append", "--", "--key", "++"), 0, b"2\n")

    def test_numbers_are_decimal(self):
        self.expect(kvctl(self.address, "incr", "number", "010"), 0, b"10\n")
        self.assertEqual(kvctl(self.address, "ping", "--timeout=01000", "--wait=00").returncode, 0)
        for flag in ("0x10", "1e3", "1.5", "+1", " 1", "1 ", "1K", "99999999999999999999", "-1", "true"):
            with self.subTest(flag=flag):
                run = kvctl(self.address, "ping", f"--timeout={flag}")
                self.expect(run, 64)
                self.assertIn(b"is not a whole number from 1 to 3600000", run.stderr)

    def test_the_nearest_command_and_flag_are_named(self):
        for arguments, nearest in (
            (["gt", "key"], b"the nearest is get"), (["delte", "key"], b"the nearest is delete"),
            (["get", "key", "--tiemout=1"], b"the nearest is --timeout"),
            (["put", "key", "value", "--if_abent"], b"the nearest is --if_absent"),
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                run = kvctl(self.address, *arguments)
                self.expect(run, 64)
                self.assertIn(nearest, run.stderr)

    def test_what_is_there_is_no_server(self):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, None):
            with self.subTest(kind=kind):
                path = str(self.folder / f"other{kind}")
                if kind is None:
                    pathlib.Path(path).touch()
                else:
                    other = socket.socket(socket.AF_UNIX, kind)
                    self.addCleanup(other.close)
                    other.bind(path)
                    if kind == socket.SOCK_STREAM:
                        other.listen()
                run = kvctl(f"local://{path}", "get", "key")
                self.expect(run, 69)
                self.assertIn(b" is no ", run.stderr)

    def test_server_from_the_environment(self):
        environment = {**os.environ, "REMORA_SERVER": self.address}
        self.expect(kvctl(None, "put", "key", "value", env=environment), 0)
        self.expect(kvctl(None, "get", "key", env=environment), 0, b"value")
        del environment["REMORA_SERVER"]
        self.expect(kvctl(None, "get", "key", env=environment), 64)

    def test_output_that_cannot_be_written(self):
        self.expect(kvctl(self.address, "put", "key", "value"), 0)
        with open("/dev/full", "wb") as full:
            run = subprocess.run(
                [harness.program("kvctl"), f"--server={self.address}", "get", "key"],
                stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
        self.assertEqual(run.returncode, 74)
        self.assertIn(b"No space left on device", run.stderr)

    def test_input_that_cannot_be_read(self):
        folder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        self.expect(kvctl(self.address, "put", "key", "value"), 0)
        for command in ("put", "append"):
            with self.subTest(command=command):
                run = subprocess.run(
                    [harness.program("kvctl"), f"--server={self.address}", command, "key"],
                    stdin=folder, capture_output=True, timeout=harness.PATIENCE, check=False,
                )  # fmt: skip
                self.expect(run, 74)
                self.assertIn(b"standard input: Is a directory", run.stderr)
        self.expect(kvctl(self.address, "get", "key"), 0, b"value")

    def test_a_store_in_memory_is_not_scanned(self):
        for command in ("scan", "watch", "export"):
            with self.subTest(command=command):
                run = kvctl(self.address, command)
                self.assertEqual((run.returncode, run.stdout), (78, b""))
                self.assertIn(b"--durability=logged", run.stderr)
        self.expect(kvctl(self.address, "put", "key", "value"), 0)
        self.expect(kvctl(self.address, "count"), 0, b"1\n")
        self.expect(kvctl(self.address, "delete_all", "--yes"), 0, b"1\n")

    def test_ping_and_stats(self):
        run = kvctl(self.address, "ping")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, rb"\Alocal://.* answered in [0-9.]+ us\nconnected to local://.*, local \(.*\)\n\Z")
        kvctl(self.address, "put", "key", "value")
        counters = harness.stats(self.address)
        self.assertEqual((counters["keys"], counters["puts"], counters["pings"]), (1, 1, 1))
        run = kvctl(self.address, "stats", "--json")
        self.assertEqual((run.returncode, run.stderr, run.stdout.count(b"\n")), (0, b"", 1))
        as_json = json.loads(run.stdout)
        self.assertEqual(list(as_json), list(counters))
        self.assertEqual((as_json["keys"], as_json["puts"], as_json["pings"]), (1, 1, 1))

    def test_help_and_version(self):
        self.assertIn(b"Exit codes:", kvctl(None, "--help").stdout)
        self.assertRegex(kvctl(None, "--version").stdout, rb"\Akvctl [0-9.]+, format \d+\n\Z")


class LoggedTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.logged_server()

    def expect(self, run, code, stdout=b""):
        self.assertEqual((run.returncode, run.stdout), (code, stdout), run.stderr)

    def test_scan_count_drop(self):
        for key, value in (("b/2", "two"), ("a", "1"), ("b/1", "line\nend\\\t"), ("c", "")):
            self.expect(kvctl(self.address, "put", key, value), 0)
        self.expect(
            kvctl(self.address, "scan"), 0, b"a\t1\nb/1\tline\\x0aend\\\\\\x09\nb/2\ttwo\nc\t\n")
        self.expect(kvctl(self.address, "scan", "--prefix=b/", "--keys_only"), 0, b"b/1\nb/2\n")
        self.expect(kvctl(self.address, "scan", "--reverse", "--limit=2", "--keys_only"), 0, b"c\nb/2\n")
        self.expect(kvctl(self.address, "scan", "--limit=-1"), 64)
        self.expect(kvctl(self.address, "count"), 0, b"4\n")
        self.expect(kvctl(self.address, "count", "--prefix=b"), 0, b"2\n")
        self.expect(kvctl(self.address, "delete_all"), 64)
        run = kvctl(self.address, "drop", "--yes")
        self.assertEqual((run.returncode, run.stdout), (64, b""), run.stderr)
        self.assertIn(b"the command 'drop' is delete_all now", run.stderr)
        # As of a variable that is not set.
        run = kvctl(self.address, "delete_all", "--prefix=", "--yes")
        self.assertEqual((run.returncode, run.stdout), (64, b""), run.stderr)
        self.assertIn(b"--prefix: the value is empty", run.stderr)
        self.expect(kvctl(self.address, "delete_all", "--prefix=b/", "--yes"), 0, b"2\n")
        self.expect(kvctl(self.address, "scan", "--keys_only"), 0, b"a\nc\n")
        self.expect(kvctl(self.address, "delete_all", "--yes"), 0, b"2\n")
        self.expect(kvctl(self.address, "scan"), 0)
        self.expect(kvctl(self.address, "count"), 0, b"0\n")

    def test_what_is_longer_than_a_piece_of_output(self):
        value = "v" * 1000
        expected = b""
        for i in range(200):
            self.expect(kvctl(self.address, "put", f"{i:03}", value), 0)
            expected += f"{i:03}\t{value}\n".encode()
        self.expect(kvctl(self.address, "scan"), 0, expected)
        start = kvctl(self.address, "watch", "--show_positions", "--idle=1ms").stdout.decode().strip()
        self.expect(kvctl(self.address, "put", "last", "value"), 0)
        for arguments in (["scan"], ["scan", "--limit=1"], ["watch", "--resume", start, "--idle=1ms"], ["stats"]):
            with self.subTest(arguments=arguments), open("/dev/full", "wb") as full:
                run = subprocess.run(
                    [harness.program("kvctl"), f"--server={self.address}", *arguments],
                    stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=harness.PATIENCE, check=False,
                )  # fmt: skip
                self.assertEqual(run.returncode, 74, run.stderr)
                self.assertIn(b"No space left on device", run.stderr)

    def test_watch(self):
        start = kvctl(self.address, "watch", "--show_positions", "--idle=1ms")
        self.assertEqual((start.returncode, start.stderr), (0, b""))
        for command in (("put", "b/1", "line\nend"), ("put", "a", "1"), ("delete", "b/1"), ("put", "b/2", "")):
            self.expect(kvctl(self.address, *command), 0)
        since = ["--resume", start.stdout.decode().strip(), "--idle=1ms"]
        self.expect(
            kvctl(self.address, "watch", *since),
            0, b"put\tb/1\tline\\x0aend\nput\ta\t1\ndelete\tb/1\nput\tb/2\t\n")  # fmt: skip
        self.expect(
            kvctl(self.address, "watch", *since, "--prefix=b/", "--keys_only", "--limit=2"),
            0, b"put\tb/1\ndelete\tb/1\n")  # fmt: skip
        lines = kvctl(self.address, "watch", *since, "--show_positions", "--limit=3").stdout.decode().splitlines()
        self.assertEqual([line.split("\t")[1:] for line in lines[:3]],
                         [["put", "b/1", "line\\x0aend"], ["put", "a", "1"], ["delete", "b/1"]])  # fmt: skip
        self.assertEqual(lines[3], lines[2].split("\t")[0])
        self.expect(kvctl(self.address, "watch", "--resume", lines[3], "--idle=1ms"), 0, b"put\tb/2\t\n")
        self.expect(kvctl(self.address, "watch", "--resume=nonsense"), 64)
        self.expect(kvctl(self.address, "watch", "--idle=soon"), 64)


class NoServerTest(harness.TestCase):
    def test_nobody_there(self):
        for arguments in (["get", "key"], ["put", "key", "value"], ["ping"], ["stats"]):
            with self.subTest(arguments=arguments):
                run = kvctl(self.address, *arguments)
                self.assertEqual((run.returncode, run.stdout), (69, b""))
                self.assertRegex(run.stderr, rb"\Akvctl: [^\n]+\n\Z")

    def test_ping_waits_for_a_server_that_comes(self):
        waiting = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "ping", f"--wait={harness.PATIENCE}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.memory_server()
        output, _ = waiting.communicate(timeout=harness.PATIENCE)
        self.assertEqual(waiting.returncode, 0)
        self.assertIn(b"answered in", output)


if __name__ == "__main__":
    unittest.main()
