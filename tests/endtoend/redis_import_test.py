"""kvctl import --from: the strings of a real Redis come over, and what does not is named."""

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import unittest

import harness
import redis_copies
from redis_copies import counts, skipped

EX_UNAVAILABLE = 69
EVERY_BYTE = bytes(range(256))


class ImportTest(redis_copies.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server(memory="192M")

    def imported(self, redis, *flags, **options):
        return self.kvctl("import", f"--from={redis.address()}", *flags, **options)

    def test_strings_come_over_byte_by_byte(self):
        redis = self.redis()
        records = {f"key {i}".encode(): f"value {i}".encode() for i in range(3000)}
        records |= {EVERY_BYTE: b"a binary key", b"binary": EVERY_BYTE, b"empty": b"", b"large": os.urandom(3 << 20),
                    b"k" * 4096: b"the longest key", b"\r\n": b"\r\n$-1\r\n"}  # fmt: skip
        redis.fill(records.items())
        run = self.imported(redis, "--verify")
        report = counts(run.stdout)
        self.assertEqual(run.stderr, b"")
        self.assertEqual(report["imported"], f"{len(records)}")
        self.assertEqual((report["already_there"], report["expired"]), ("0", "0"))
        self.assertEqual((report["source_records"], report["target_records"]), (f"{len(records)}",) * 2)
        self.assertEqual(report["source_hash"], report["target_hash"])
        self.assertEqual(report["different"], "0")
        self.assertEqual(self.stored(), records)

    def test_replies_of_another_form_are_rejected(self):
        for replies in ({"GET": b":5\r\n"}, {"GET": b"*0\r\n"}, {"GET": b"+OK\r\n"}, {"TYPE": b":5\r\n"}, {"PTTL": b":-7\r\n"},
                        {"PTTL": b"+OK\r\n"}, {"SCAN": b"*2\r\n$1\r\n0\r\n*1\r\n:1\r\n"}, {"DBSIZE": b"+OK\r\n"},
                        {"STRLEN": b"+OK\r\n"}):  # fmt: skip
            with self.subTest(replies=replies):
                run = self.imported(self.impostor(**replies), status=EX_UNAVAILABLE)
                self.assertIn(f"the reply to {next(iter(replies))} has another form".encode(), run.stderr)
        self.assertEqual(self.stored(), {})
        self.imported(self.impostor(SCAN=b"*2\r\n$2\r\n00\r\n*1\r\n$1\r\nk\r\n"))
        self.assertEqual(self.stored(), {b"k": b"v"})

    def test_a_resume_token_that_was_rejected_is_not_shown_again(self):
        names_run = {"INFO": b"$21\r\n# Server\r\nrun_id:ab\r\n\r\n", "SCAN": b"*2\r\n$1\r\n7\r\n*1\r\n$1\r\nk\r\n"}
        run = self.imported(self.impostor(**names_run, GET=b"-LOADING the data\r\n"), status=EX_UNAVAILABLE)
        place, mark = self.resume_token(run.stderr).split(".", 1)
        self.assertEqual((place, mark[:5]), ("0", "0.ab."))
        rejects = names_run | {"SCAN": b"-ERR invalid cursor\r\n"}
        for flags in ((), (f"--resume=7.{mark}",)):
            run = self.imported(self.impostor(**rejects), *flags, status=EX_UNAVAILABLE)
            self.assertIn(b"invalid cursor", run.stderr)
            self.assertIn(b"; start over without --resume", run.stderr)
            self.assertNotIn(b"--resume=", run.stderr)
        # An error that may pass says nothing of the token.
        for error in (b"-LOADING the data\r\n", b"-ERR the server is unavailable\r\n"):
            run = self.imported(self.impostor(**names_run | {"SCAN": error}), f"--resume=7.{mark}", status=69)
            self.assertEqual(self.resume_token(run.stderr), f"7.{mark}")

    def test_expiries_are_kept(self):
        redis = self.redis()
        redis.call("SET", "day", "x", "EX", 86400)
        redis.call("SET", "never", "x")
        redis.call("SET", "short", "x", "PX", 1)
        redis.call("SET", "eternal", "x", "PX", 10**15)
        run = self.imported(redis)
        self.assertIn(counts(run.stdout)["imported"], ("3", "4"))
        expiries = self.expiries()
        self.assertNotIn(b"short", expiries)
        self.assertIsNone(expiries[b"never"])
        self.assertIsNone(expiries[b"eternal"])
        source = int(redis.call("PEXPIRETIME", "day")[1:])
        # Clocks of one machine, and the time of a round trip; never an hour of a wrong unit.
        self.assertLess(abs(expiries[b"day"] - source), harness.PATIENCE * 1000)

    def expiries(self):
        import transfer_test

        records = transfer_test.records_of(self.kvctl("export", "--any_order").stdout)
        return {transfer_test.bytes_of(record, "key"): record.get("expires_ms") for record in records}

    def test_what_cannot_come_over_is_counted_and_listed(self):
        redis = self.redis()
        redis.fill([("s", "string"), ("k" * 4097, "x"), ("", "x")])
        redis.call("LPUSH", "l\n1", "x")
        redis.call("HSET", "h", "f", "x")
        redis.call("SADD", "set", "x")
        redis.call("ZADD", "z", 1, "x")
        redis.call("XADD", "x", "*", "f", "x")
        redis.call("SETRANGE", "huge", (64 << 20), "x")  # 64 MiB and a byte
        run = self.imported(redis)
        self.assertEqual(counts(run.stdout), {
            "imported": "1", "already_there": "0", "expired": "0", "skipped_hash": "1", "skipped_key_empty": "1",
            "skipped_key_too_large": "1", "skipped_list": "1", "skipped_set": "1", "skipped_stream": "1",
            "skipped_value_too_large": "1", "skipped_zset": "1",
        })  # fmt: skip
        self.assertEqual(skipped(run.stdout), {
            ("list", "l\\x0a1"), ("hash", "h"), ("set", "set"), ("zset", "z"), ("stream", "x"), ("key_empty", ""),
            ("key_too_large", "k" * 4097), ("value_too_large", "huge"),
        })  # fmt: skip
        self.assertEqual(self.stored(), {b"s": b"string"})

    def test_the_largest_value(self):
        redis = self.redis()
        value = os.urandom(64 << 20)
        redis.fill([("key", value)])
        self.imported(redis, f"--timeout={harness.PATIENCE * 1000}")
        self.assertEqual(self.kvctl("get", "key").stdout, value)

    def test_keys_that_are_there(self):
        redis = self.redis()
        redis.fill([("a", "theirs"), ("b", "theirs")])
        self.kvctl("put", "a", "mine")
        run = self.imported(redis, "--if_absent")
        self.assertEqual(counts(run.stdout), {"imported": "1", "already_there": "1", "expired": "0"})
        self.assertEqual(self.stored(), {b"a": b"mine", b"b": b"theirs"})
        self.assertEqual(counts(self.imported(redis).stdout)["imported"], "2")
        self.assertEqual(self.stored(), {b"a": b"theirs", b"b": b"theirs"})

    def test_databases_and_passwords(self):
        redis = self.redis("--databases", "4", password="se:cr@et")
        redis.fill([("in3", "x")], database=3)
        redis.fill([("in0", "x")])
        base = f"127.0.0.1:{redis.port}"
        for user in (":se%3Acr%40et", "default:se:cr%40et"):
            self.kvctl("import", f"--from=redis://{user}@{base}/3")
            self.assertEqual(self.stored(), {b"in3": b"x"})
        self.kvctl("import", f"--from=redis://:se:cr%40et@{redis.path}?db=0")
        self.assertEqual(self.stored(), {b"in3": b"x", b"in0": b"x"})
        for address, status, why in (
            (f"redis://{base}", 77, b"NOAUTH"), (f"redis://:wrong@{base}", 77, b"WRONGPASS"),
            (f"redis://nobody:se:cr%40et@{base}", 77, b"WRONGPASS"), (f"redis://:se:cr%40et@{base}/4", 64, b"DB index"),
            (f"redis://127.0.0.1:{harness.free_port()}", 69, b"refused"), ("rediss://127.0.0.1", 64, b"stunnel"),
            ("redis://", 64, b"host is missing"), (f"redis://{self.folder}/none", 69, b"No such file"),
        ):  # fmt: skip
            with self.subTest(address=address):
                run = self.kvctl("import", f"--from={address}", status=status)
                self.assertEqual(run.stdout, b"")
                self.assertIn(why, run.stderr)
                self.assertNotIn(b"cr@et", run.stderr)
                self.assertNotIn(b"wrong", run.stderr)

    def test_useless_flags(self):
        for flags in (["--verify"], ["--resume=0.0."], ["--overwrite"], ["--from=redis://h", "--overwrite"],
                      ["--from=redis://h", "--skip_bad"], ["--from=redis://h", "--without_footer"]):  # fmt: skip
            self.kvctl("import", *flags, status=64)

    def test_another_program_at_the_port(self):
        run = self.kvctl("import", f"--from=redis://{self.folder}/socket", status=69)
        self.assertNotIn(b"imported", run.stdout)

    def test_a_cut_connection_and_how_it_goes_on(self):
        redis = self.redis()
        records = {b"key %d" % i: b"v" * 100 for i in range(5000)}
        redis.fill(records.items())
        relay = self.relay(redis, 200_000)
        run = self.kvctl("import", f"--from={relay.address}", status=69)
        token = self.resume_token(run.stderr)
        there = self.stored()
        self.assertTrue(0 < len(there) < len(records))
        # A client writes one of those that are there, and one that is not there yet.
        newer = next(iter(there))
        missing = next(key for key in records if key not in there)
        for key in (newer, missing):
            self.kvctl("put", key, "newer")
        run = self.imported(redis, f"--resume={token}")
        self.assertEqual(run.stderr, b"")
        report = counts(run.stdout)
        # It did not begin at the first key again.
        self.assertLess(int(report["already_there"]), len(there))
        self.assertEqual(self.stored(), records | {newer: b"newer", missing: b"newer"})
        run = self.imported(redis, f"--resume={token}", "--overwrite")
        self.assertEqual(self.stored()[missing], b"v" * 100)
        self.assertEqual(counts(run.stdout)["already_there"], "0")

    def test_a_redis_that_was_started_anew(self):
        redis = self.redis()
        redis.fill([(f"key {i}", "old") for i in range(1000)])
        token = self.interrupted_at_once(redis)
        self.assertRegex(token, r"\A[0-9]+\.0\.[0-9a-f]{40}\.[0-9a-f]{16}\Z")
        redis.close()
        redis.start()
        redis.fill([(f"key {i}", "new") for i in range(1000)])
        self.kvctl("put", "key 1", "newer")
        run = self.imported(redis, f"--resume={token}")
        self.assertIn(b"begins at the first key again", run.stderr)
        stored = self.stored()
        self.assertEqual(len(stored), 1000)
        self.assertEqual(stored[b"key 1"], b"newer")
        mark = token.rsplit(".", 1)[1]
        for bad in ("x", "1.0", f"1.0.zz!.{mark}", "1.0." + "0" * 40 + "..", f"-1.0..{mark}", token[:-1], token + "x"):
            self.assertIn(b"--resume", self.imported(redis, f"--resume={bad}", status=64).stderr)
        run = self.imported(redis, "--resume=" + token.replace(".0.", ".1."), status=64)
        self.assertIn(b"of the database 1", run.stderr)

    def interrupted_at_once(self, redis):
        """Begins an import, and interrupts it in its first page; returns its resume token."""
        relay = self.relay(redis, 10_000, holds=True)
        run = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", f"--timeout={harness.PATIENCE * 1000}", "import",
             f"--from={relay.address}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        self.assertTrue(relay.held.wait(harness.PATIENCE))
        run.send_signal(signal.SIGINT)
        relay.release.set()
        output, errors = run.communicate(timeout=harness.PATIENCE)
        self.assertEqual(run.returncode, 75, errors)
        self.assertIn(b"interrupted; ", errors)
        self.assertIn(b"imported ", output)
        return self.resume_token(errors)

    def test_a_signal_in_the_middle(self):
        redis = self.redis()
        records = {b"key %d" % i: b"v%d" % i for i in range(20000)}
        redis.fill(records.items())
        token = self.interrupted_at_once(redis)
        self.assertLess(len(self.stored()), len(records))
        self.imported(redis, f"--resume={token}")
        self.assertEqual(self.stored(), records)

    def test_verify_finds_differences(self):
        redis = self.redis()
        redis.fill([("same", "x"), ("other", "x")])
        # Both keys stay as they are here.
        self.kvctl("put", "other", "y")
        run = self.imported(redis, "--if_absent", "--verify", status=1)
        report = counts(run.stdout)
        self.assertEqual((report["source_records"], report["target_records"], report["different"]), ("2", "2", "1"))
        self.assertNotEqual(report["source_hash"], report["target_hash"])
        self.assertIn(b"different\tother\n", run.stdout)
        self.assertIn(b"1 records differ", run.stderr)

    def test_the_progress_stands_on_a_terminal_alone(self):
        redis = self.redis()
        redis.fill([(f"key {i}", "x") for i in range(2000)])
        ours, theirs = pty.openpty()
        run = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "import", f"--from={redis.address()}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        output, _ = run.communicate(timeout=harness.PATIENCE)
        shown = b""
        with contextlib.suppress(OSError):  # EIO behind the last byte: nobody has the other end open any more
            while some := os.read(ours, 65536):
                shown += some
        os.close(ours)
        self.assertEqual(run.returncode, 0)
        self.assertRegex(shown, rb"\r\x1b\[K\[#*-*\] +[0-9]+% of 2000 keys, [0-9]+/s")
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)
        self.assertNotIn(b"\x1b", output)

    def test_no_space(self):
        server = self.memory_server("--eviction=none", memory="32M", address=f"local://{self.folder}/small")
        redis = self.redis()
        redis.fill([(f"key {i}", os.urandom(100_000)) for i in range(500)])
        run = harness.kvctl(f"local://{self.folder}/small", "import", f"--from={redis.address()}")
        self.assertEqual(run.returncode, 73, run.stderr)
        self.resume_token(run.stderr)
        self.assertEqual(server.stop()[0], 0)


class RestartTest(redis_copies.TestCase):
    """The server is killed in the middle of an import, and started again."""

    RECORDS = {b"key %05d" % i: b"v" * 100 for i in range(5000)}

    def prepared(self):
        redis = self.redis()
        redis.fill(self.RECORDS.items())
        return redis, self.relay(redis, 200_000, holds=True)

    def again(self, server, start):
        def restart():
            server.kill()
            start()

        return restart

    def assert_rejected(self, status, output, errors):
        self.assertEqual(status, EX_UNAVAILABLE, errors)
        self.assertIn(b"started anew since, and may have lost records", errors)
        self.assertIn(b"start over without --resume", errors)
        self.assertNotIn(b"--resume=", errors)
        self.assertNotRegex(output, rb"imported [1-9]")

    def test_a_server_in_memory_has_lost_the_first_records(self):
        server = self.memory_server(memory="192M")
        redis, relay = self.prepared()
        restart = self.again(server, lambda: self.memory_server(memory="192M"))
        self.assert_rejected(*self.interrupted(relay, "import", f"--from={relay.address}", meanwhile=restart))
        self.kvctl("import", f"--from={redis.address()}", "--if_absent", "--verify")
        self.assertEqual(self.stored(), self.RECORDS)

    def test_a_resumed_import_into_a_server_in_memory(self):
        server = self.memory_server(memory="192M")
        redis, relay = self.prepared()
        _, _, errors = self.interrupted(relay, "import", f"--from={relay.address}")
        token = self.resume_token(errors)
        server.kill()
        self.memory_server(memory="192M")
        run = self.kvctl("import", f"--from={redis.address()}", f"--resume={token}", status=EX_UNAVAILABLE)
        self.assert_rejected(run.returncode, run.stdout, run.stderr)

    def test_a_logged_server_keeps_all_over_a_kill(self):
        server = self.logged_server(memory="192M")
        redis, relay = self.prepared()
        restart = self.again(server, lambda: self.logged_server(memory="192M"))
        status, output, errors = self.interrupted(relay, "import", f"--from={relay.address}", meanwhile=restart)
        self.assertEqual((status, errors), (0, b""))
        self.assertEqual(counts(output)["imported"], f"{len(self.RECORDS)}")
        self.assertEqual(self.stored(), self.RECORDS)

    def test_a_logged_server_that_lost_its_last_writes(self):
        """As after a power cut: the data directory is that of a moment before."""
        server = self.logged_server(memory="192M")
        self.kvctl("put", "first", "x")
        server.kill()
        shutil.copytree(f"{self.folder}/data", f"{self.folder}/before")
        server = self.logged_server(memory="192M")
        redis, relay = self.prepared()
        _, _, errors = self.interrupted(relay, "import", f"--from={relay.address}")
        token = self.resume_token(errors)
        server.kill()
        kept = self.logged_server(memory="192M")
        # As long as nothing is lost, the import goes on.
        self.kvctl("import", f"--from={redis.address()}", f"--resume={token}")
        self.assertEqual(self.stored(), self.RECORDS | {b"first": b"x"})
        kept.kill()
        shutil.rmtree(f"{self.folder}/data")
        shutil.move(f"{self.folder}/before", f"{self.folder}/data")
        self.logged_server(memory="192M")
        run = self.kvctl("import", f"--from={redis.address()}", f"--resume={token}", status=EX_UNAVAILABLE)
        self.assert_rejected(run.returncode, run.stdout, run.stderr)

    def test_a_json_import_into_a_server_in_memory(self):
        server = self.memory_server()
        run = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "import"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        run.stdin.write(b'{"remora_export":1}\n{"key":"one","value":"1"}\n')
        run.stdin.flush()
        harness.wait_until(lambda: harness.kvctl(self.address, "exists", "one").returncode == 0, "it is stored")
        server.kill()
        self.memory_server()
        output, errors = run.communicate(b'{"key":"two","value":"2"}\n{"records":2}\n', timeout=harness.PATIENCE)
        self.assertEqual((run.returncode, output), (EX_UNAVAILABLE, b""), errors)
        self.assertIn(b"may have lost records of this copy", errors)
        self.assertIn(b"import all lines again", errors)


class JsonTest(redis_copies.TestCase):
    def test_an_export_without_its_footer(self):
        self.memory_server()
        lines = b'{"remora_export":1}\n{"key":"one","value":"1"}\n{"key":"two","value":"2"}\n'
        run = self.kvctl("import", stdin=lines, status=65)
        self.assertIn(b"--without_footer", run.stderr)
        run = self.kvctl("import", "--without_footer", stdin=lines)
        self.assertEqual((run.stdout.splitlines()[0], run.stderr), (b"imported 2", b""))
        # The footer may be there nevertheless; and half a line is none.
        self.kvctl("import", "--without_footer", stdin=lines + b'{"records":2}\n')
        self.kvctl("import", "--without_footer", stdin=lines + b'{"key":"thr', status=65)
        self.kvctl("import", "--without_footer", status=65)


if __name__ == "__main__":
    unittest.main()
