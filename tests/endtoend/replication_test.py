"""A primary and its followers: kill -9, stops and restarts of each, promotions, and servers that do not fit.

REMORA_ROUNDS: how often a primary is killed under load (2 by default).
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

import harness
from kill_test import Writer

ROUNDS = int(os.environ.get("REMORA_ROUNDS", "2"))
KEYS = 200


class ReplicationCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.addresses = {}

    def at(self, name):
        """The address of a server, the same at each start."""
        if name not in self.addresses:
            self.addresses[name] = self.new_address(name)
        return self.addresses[name]

    def start(self, name, *flags, to=(), **options):
        server = harness.Server(
            f"--listen={self.at(name)}", "--insecure_open", f"--data_dir={self.folder / (name + '.data')}",
            "--memory=32M", *[f"--replicate_to={self.at(one)}" for one in to], *flags, **options,
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    def follower(self, name, *flags, **options):
        return self.start(name, "--follow", *flags, **options)

    def kvctl(self, name, *arguments):
        return harness.kvctl(self.at(name), *arguments)

    def expect(self, run, code, *words):
        self.assertEqual(run.returncode, code, run.stderr)
        for word in words:
            self.assertIn(word, (run.stdout + run.stderr).decode())

    def await_serving(self, name):
        harness.wait_until(lambda: self.kvctl(name, "get", "no such key").returncode == 1, f"{name} serves")

    def put(self, name, key, value):
        self.expect(self.kvctl(name, "put", key, value), 0)

    def get(self, name, key):
        run = self.kvctl(name, "get", key)
        return run.stdout.decode() if run.returncode == 0 else None

    def stat(self, name, metric):
        return harness.stats(self.at(name))[metric]

    def await_no_read(self, name, why):
        """Returns when a read fails for this reason; until then it fails, too, as a busy machine takes longer."""

        def says_why():
            run = harness.kvctl(self.at(name), "--timeout=1000", "get", "key")
            self.assertEqual((run.returncode, run.stdout), (69, b""), run.stderr)
            return why in run.stderr

        harness.wait_until(says_why, f"a read says {why}")

    def follow_in_place(self, name):
        """The step of an operator who lets a primary's directory, or a copy of it, follow."""
        file = self.folder / f"{name}.data" / "REMORA-REPLICATION"
        file.write_text(file.read_text().replace("role primary", "role follower"))

    def replace_by_copy(self, primary, value):
        """Has the copy follow the primary, which has this value at "key", and promotes it. No write is missing."""
        self.follow_in_place("copy")
        self.follower("copy")
        self.start(primary, to=["copy"])
        self.await_serving(primary)
        self.put(primary, "other", "9")
        self.expect(self.kvctl("copy", "promote"), 0)
        self.assertEqual((self.get("copy", "key"), self.get("copy", "other")), (value, "9"))

    def rejected(self, *flags):
        run = subprocess.run(
            [harness.program("kvserver"), f"--listen={self.at('rejected')}", *flags],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        return run


class PairTest(ReplicationCase):
    def test_a_follower_serves_nobody_until_it_is_promoted(self):
        follower = self.follower("f")
        self.start("p", to=["f"])
        self.await_serving("p")
        self.put("p", "key", "value")
        self.expect(self.kvctl("f", "get", "key"), 69, "it follows a primary", "kvctl promote")
        self.expect(self.kvctl("f", "ping"), 0)
        self.assertEqual(self.stat("f", "replication_role"), 1)
        self.assertEqual(self.stat("p", "replication_role"), 3)
        self.expect(self.kvctl("f", "promote"), 0, "promoted: a primary of epoch 2")
        self.assertEqual(self.get("f", "key"), "value")
        self.put("f", "key", "later")
        self.assertEqual(self.get("f", "key"), "later")
        self.expect(self.kvctl("f", "promote"), 69, "a primary already, of epoch 2")
        follower.await_said(b"warning promoted: promoted: a primary from epoch 2 on")

    def test_an_old_primary_writes_nothing_after_the_promotion(self):
        self.follower("f")
        primary = self.start("p", to=["f"])
        self.await_serving("p")
        self.put("p", "key", "value")
        self.expect(self.kvctl("f", "promote"), 0)
        run = harness.kvctl(self.at("p"), "--timeout=1000", "put", "key", "lost")
        self.assertNotEqual(run.returncode, 0)
        primary.await_said(b"error follower_rejected: .*is a primary itself, of epoch 2")
        self.await_no_read("p", b"may have been replaced")
        self.assertEqual(self.get("f", "key"), "value")
        # Nor does it serve once it starts again.
        primary.kill()
        again = self.start("p", to=["f"])
        again.await_said(b"follower_rejected: .*is a primary itself")
        self.expect(self.kvctl("p", "get", "key"), 69, "it waits for its followers")

    def test_reads_stop_and_writes_wait_while_a_follower_is_away(self):
        follower = self.follower("f")
        primary = self.start("p", to=["f"])
        self.await_serving("p")
        self.put("p", "key", "1")
        follower.kill()
        primary.await_said(b"follower_away: .*writes wait for it")
        waiting = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.at('p')}", "--timeout=60000", "put", "key", "2"],
            stdin=subprocess.DEVNULL,
        )
        time.sleep(0.3)
        self.assertIsNone(waiting.poll())
        self.await_no_read("p", b"a follower is away")
        self.assertEqual(self.stat("p", "followers_away"), 1)
        self.follower("f")
        self.assertEqual(waiting.wait(harness.PATIENCE), 0)
        self.assertEqual(self.get("p", "key"), "2")
        harness.wait_until(lambda: self.stat("p", "followers_away") == 0, "the follower is back")

    def test_a_stopped_follower_goes_on_where_it_was(self):
        follower = self.follower("f")
        primary = self.start("p", to=["f"])
        self.await_serving("p")
        harness.freeze(follower.process)
        waiting = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.at('p')}", "--timeout=60000", "put", "key", "2"],
            stdin=subprocess.DEVNULL,
        )
        primary.await_said(b"follower_away: .*does not answer; writes wait")
        self.assertIsNone(waiting.poll())
        follower.process.send_signal(signal.SIGCONT)
        self.assertEqual(waiting.wait(harness.PATIENCE), 0)
        self.expect(self.kvctl("f", "promote"), 0)
        self.assertEqual(self.get("f", "key"), "2")

    def test_what_waits_for_a_follower_is_bounded(self):
        follower = self.follower("f")
        self.start("p", "--replication_buffer=1M", "--max_clients=20", to=["f"])
        self.await_serving("p")
        harness.freeze(follower.process)
        writers = [
            subprocess.Popen(
                [harness.program("kvctl"), f"--server={self.at('p')}", "--timeout=60000", "put", str(i), "x" * 120000],
                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            ) for i in range(12)
        ]  # fmt: skip
        harness.wait_until(lambda: any(one.poll() is not None for one in writers), "a write is rejected")
        follower.process.send_signal(signal.SIGCONT)
        outcomes = []
        for i, one in enumerate(writers):
            error = one.communicate(timeout=harness.PATIENCE)[1].decode()
            outcomes.append(one.returncode)
            if one.returncode != 0:
                self.assertIn("--replication_buffer", error)
            self.assertEqual(self.get("p", str(i)) is not None, one.returncode == 0)
        self.assertIn(0, outcomes)

    def test_the_largest_values_come_in_parts(self):
        self.follower("f")
        self.start("p", to=["f"])
        self.await_serving("p")
        value = bytes(random.Random(1).randbytes(3 << 20))
        self.expect(harness.kvctl(self.at("p"), "put", "large", stdin=value), 0)
        self.expect(self.kvctl("f", "promote"), 0)
        self.assertEqual(self.kvctl("f", "get", "large").stdout, value)


class RestartTest(ReplicationCase):
    def test_a_primary_brings_what_its_followers_lack_after_a_restart(self):
        one, two = self.follower("one"), self.follower("two")
        primary = self.start("p", to=["one", "two"])
        self.await_serving("p")
        self.put("p", "key", "1")
        two.kill()
        # The primary and one follower log it, and nobody acknowledges it.
        before = self.stat("one", "groups_applied")
        waiting = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.at('p')}", "--timeout=60000", "put", "key", "2"],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(waiting.wait)
        self.addCleanup(waiting.kill)
        harness.wait_until(lambda: self.stat("one", "groups_applied") > before, "one follower has it")
        self.assertIsNone(waiting.poll())
        primary.kill()
        waiting.kill()
        restarted = self.start("p", to=["one", "two"])
        restarted.await_said(b"follower_away")
        self.expect(self.kvctl("p", "get", "key"), 69, "it waits for its followers")
        self.follower("two")
        self.await_serving("p")
        self.assertEqual(self.get("p", "key"), "2")
        one.kill()
        restarted.kill()
        self.expect(self.kvctl("two", "promote"), 0)
        self.assertEqual(self.get("two", "key"), "2")

    def test_a_promoted_server_ships_to_the_others(self):
        self.follower("one", to=["two"])
        self.follower("two")
        primary = self.start("p", to=["one", "two"])
        self.await_serving("p")
        self.put("p", "key", "1")
        primary.kill()
        self.expect(self.kvctl("one", "promote"), 0, "epoch 2")
        self.await_serving("one")
        self.put("one", "key", "2")
        # The first primary is of an epoch that is over, for the second follower as well.
        old = self.start("p", to=["two"])
        old.await_said(b"follower_rejected: .*another server was promoted since")
        self.expect(self.kvctl("two", "promote"), 0, "epoch 3")
        self.assertEqual(self.get("two", "key"), "2")

    def test_a_server_that_was_promoted_alone_begins_a_history_of_its_own(self):
        one = self.follower("one")
        self.follower("two")
        primary = self.start("p", to=["one", "two"])
        self.await_serving("p")
        self.put("p", "key", "1")
        primary.kill()
        self.expect(self.kvctl("one", "promote"), 0, "epoch 2")
        self.put("one", "key", "2")
        self.assertEqual(self.stat("one", "replication_buffer_bytes"), 0)

        # No server has that history: not the other follower, the old primary, or an empty store.
        self.follow_in_place("p")
        self.follower("p")
        self.follower("empty")
        names = ["two", "p", "empty"]
        one.stop()
        again = self.start("one", to=names)
        for name, says in zip(names, ("their histories differ", "their histories differ", "the primary had data before"), strict=True):
            again.await_said(
                f"follower_rejected: the follower at {self.at(name)}: .*{says}.* a copy of the primary's --data_dir".encode()
            )
        self.expect(self.kvctl("one", "get", "key"), 69, "it waits for its followers")
        again.stop()
        shutil.copytree(self.folder / "one.data", self.folder / "copy.data")
        self.replace_by_copy("one", "2")

    def test_two_primaries_cannot_have_one_follower(self):
        follower = self.follower("f")
        self.start("p", to=["f"])
        self.await_serving("p")
        self.put("p", "key", "1")
        other = self.start("q", to=["f"])
        other.await_said(b"follower_rejected: .*their histories differ: stop one of two primaries")
        follower.await_said(b"primary_rejected: .*their histories differ")
        self.put("p", "key", "2")

    def test_a_copy_of_a_stopped_follower_follows(self):
        one = self.follower("one")
        primary = self.start("p", to=["one"])
        self.await_serving("p")
        self.put("p", "key", "1")
        one.stop()
        primary.stop()
        shutil.copytree(self.folder / "one.data", self.folder / "two.data")
        self.follower("one")
        self.follower("two")
        self.start("p", to=["one", "two"])
        self.await_serving("p")
        self.put("p", "key", "2")
        self.expect(self.kvctl("two", "promote"), 0)
        self.assertEqual(self.get("two", "key"), "2")

    def test_a_copy_of_a_primary_that_had_data_before_follows(self):
        plain = self.start("p")
        self.put("p", "key", "1")
        plain.stop()
        self.follower("empty")
        primary = self.start("p", to=["empty"])
        primary.await_said(b"follower_rejected: .*the primary had data before it had followers")
        primary.stop()
        shutil.copytree(self.folder / "p.data", self.folder / "copy.data")
        run = self.rejected(f"--data_dir={self.folder / 'copy.data'}", "--follow")
        self.assertIn(b"write 'role follower' in its file REMORA-REPLICATION", run.stderr)
        self.replace_by_copy("p", "1")


class LoadTest(ReplicationCase):
    def test_a_killed_primary_loses_no_acknowledged_write(self):
        for round_number in range(ROUNDS):
            with self.subTest(round_number):
                names = [f"{name}{round_number}" for name in ("p", "one", "two")]
                servers = [self.follower(names[1]), self.follower(names[2])]
                primary = self.start(names[0], to=names[1:])
                self.await_serving(names[0])
                writers = [Writer(self.at(names[0]), f"w{i}", KEYS) for i in range(3)]
                for writer in writers:
                    writer.wait_for(100)
                time.sleep(random.uniform(0, 0.5))
                primary.kill()
                for writer in writers:
                    writer.kill()
                    self.assertGreater(writer.acked, 0)
                promoted = names[1 + round_number % 2]
                self.expect(self.kvctl(promoted, "promote"), 0)
                for writer in writers:
                    writer.address = self.at(promoted)
                    self.assertEqual(writer.verify(), (0, ""))
                for server in servers:
                    server.close()

    def test_a_killed_follower_comes_back_under_load(self):
        follower = self.follower("f")
        self.start("p", to=["f"])
        self.await_serving("p")
        writers = []
        for round_number in range(2):
            writer = Writer(self.at("p"), f"w{round_number}", KEYS)
            writers.append(writer)
            writer.wait_for(100)
            follower.kill()
            follower = self.follower("f")
            # On a busy machine, its write may have waited for longer than its timeout.
            writer.kill()
        self.await_serving("p")
        self.put("p", "key", "value")
        self.expect(self.kvctl("f", "promote"), 0)
        for writer in writers:
            writer.address = self.at("f")
            self.assertEqual(writer.verify(), (0, ""))


class AccessTest(ReplicationCase):
    def setUp(self):
        super().setUp()
        self.tokens = {role: self.make_token(role.replace("-", ""), role) for role in ("read-write", "replication")}
        for role, line in self.tokens.items():
            self.write(role, line)
        self.write("all", "".join(self.tokens.values()))

    def write(self, name, text):
        path = pathlib.Path(self.folder / name)
        path.touch(0o600)
        path.write_text(text)

    def start(self, name, *flags, to=(), **options):
        server = harness.Server(
            f"--listen={self.at(name)}", f"--tokens={self.folder}/all", f"--data_dir={self.folder / (name + '.data')}",
            "--memory=32M", *[f"--replicate_to={self.at(one)}" for one in to], *flags, **options,
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    def kvctl(self, name, *arguments, role="replication"):
        return harness.kvctl(self.at(name), f"--token_file={self.folder / role}", *arguments)

    def test_only_the_role_replication_replicates_and_promotes(self):
        self.follower("f")
        wrong = self.start("p", f"--replication_token_file={self.folder}/read-write", to=["f"])
        wrong.await_said(b"follower_rejected: .*a token with the role replication")
        wrong.kill()
        none = self.start("p", to=["f"])
        none.await_said(b"follower_rejected: .*requires a token; name the file of one")
        none.kill()
        self.write("other", "other replication " + "ab" * 32 + "\n")
        other = self.start("p", f"--replication_token_file={self.folder}/other", to=["f"])
        other.await_said(b"follower_rejected: .*does not accept this primary's token")
        other.kill()
        self.start("p", f"--replication_token_file={self.folder}/replication", to=["f"])
        self.await_serving("p")
        self.expect(self.kvctl("p", "put", "key", "1", role="read-write"), 0)
        self.expect(self.kvctl("f", "promote", role="read-write"), 77, "role replication")
        self.expect(self.kvctl("f", "promote"), 0)


class FlagsTest(ReplicationCase):
    def test_flags_that_make_no_sense_are_rejected(self):
        data = f"--data_dir={self.folder}/data"
        for flags, words in [
            (["--durability=memory", "--follow"], "need a commit log"),
            ([data, "--commit_log=off", "--follow"], "need a commit log"),
            ([data, f"--replicate_to={self.at('rejected')}"], "is an address of this server"),
            ([data, "--replicate_to=local:///x", "--replicate_to=local:///x"], "is given twice"),
            ([data, *(f"--replicate_to=local:///{n}" for n in range(65))], "65 followers are given, and 64 is"),
            ([data, "--replicate_to=nowhere"], "--replicate_to"),
            ([data, "--replication_buffer=8M"], "--replicate_to"),
            ([data, "--replicate_to=local:///x", "--replication_buffer=8K"], "from 1 MiB to 64 GiB"),
        ]:
            with self.subTest(flags):
                run = self.rejected(*flags)
                self.assertEqual(run.returncode, 64, run.stderr)
                self.assertIn(words, run.stderr.decode())

    def test_a_follower_is_not_opened_to_write(self):
        self.follower("f").stop()
        run = self.rejected(f"--data_dir={self.folder}/f.data")
        self.assertIn(b"is a follower's: start it with --follow", run.stderr)
        self.assertNotEqual(run.returncode, 0)
        self.start("plain").stop()
        run = self.rejected(f"--data_dir={self.folder}/plain.data", "--follow")
        self.assertIn(b"never followed a primary", run.stderr)


if __name__ == "__main__":
    unittest.main()
