"""Members of a shard that come back with data from which they cannot go on: they get a copy of the primary's data by
themselves. Real processes, and a real etcd.

REMORA_ROUNDS: how often a member is killed while it gets a copy, and the primary that sends it (1 by default).
"""

import os
import pathlib
import re
import socket
import subprocess
import threading
import unittest
import unittest.mock

import harness
from failover_test import NAMES, PATIENT, FailoverCase
from kill_test import Writer
from lease_test import remora

ROUNDS = int(os.environ.get("REMORA_ROUNDS", "1"))
# The log on disk goes back 64 MiB and some files.
SHORT_LOG = ["--commit_log=8M", "--replication_buffer=1M"]
FILLING = 100  # values of a megabyte that no table compresses


class RejoinCase(FailoverCase):
    FLAGS = []

    def start(self, name, *flags, data=None):
        return super().start(name, "--insecure_open", *self.FLAGS, *flags, data=data)

    def others(self, *names):
        return [name for name in NAMES if name not in names]

    def fill(self, primary):
        with remora.Client(self.addresses[primary], timeout=harness.PATIENCE) as store:
            for i in range(FILLING):
                store.put(f"fill{i}", os.urandom(1_000_000))

    def folder_of(self, name):
        return self.folder / f"{name}.data"

    def copied_bytes(self, name):
        """Bytes of a copy that has not taken the place of the data."""
        sizes = []
        for path in (self.folder_of(name) / "REMORA-COPY").glob("*"):
            try:
                sizes.append(path.stat().st_size)
            except FileNotFoundError:
                pass
        return sum(sizes)

    def await_copied(self, name):
        """The service manager's part: a server that ends with 75 is started again."""
        server = self.servers[name]
        self.assertEqual(server.process.wait(harness.PATIENCE), 75, server.said())
        self.assertRegex(server.said(), b"cluster_ended: a copy of the primary's data has come")
        self.start(name).await_said(b"copy_taken: the copy of a primary's data is in place")

    def diverge(self):
        """Returns a primary that was killed with a write that no other member has, and its successor."""
        old = self.start_all()
        self.assertEqual(self.put(old, "key", "1"), 0)
        for name in self.others(old):
            self.servers[name].kill()
        waiting = self.put_that_waits(old, "unacknowledged", "1")
        self.assertIsNone(waiting.poll())
        self.servers[old].kill()
        waiting.kill()
        for name in self.others(old):
            self.start(name)
        self.await_in_sync(2)
        return old, self.primary()

    def export(self, name):
        run = harness.kvctl(self.addresses[name], "export")
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def assert_equal_to_primary(self, member):
        """Has the member take over, and compares every key with what the primary had."""
        expected = self.export(self.primary())
        for name in self.others(member):
            self.servers[name].kill()
            # Below the minimum, nothing changes: so one is killed after the other has left the configuration.
            if name == self.others(member)[0]:
                self.await_in_sync(2)
        harness.wait_until(lambda: self.stat(member, "replication_role") == 3, "the member serves")
        self.start(self.others(member)[0])
        self.await_in_sync(2)  # a scan needs the minimum
        self.assertEqual(self.export(member), expected)


class RejoinTest(RejoinCase):
    def test_an_old_primary_with_unacknowledged_writes_is_in_sync_again(self):
        old, successor = self.diverge()
        self.assertEqual(self.put(successor, "key", "2"), 0)
        self.start(old)
        self.await_copied(old)
        self.await_in_sync(3)
        self.servers[successor].await_said(b"follower_copied: .* it gets a copy of the data, [0-9]* bytes")
        self.assertGreater(self.stat(successor, "copy_bytes_sent"), 0)
        self.assert_equal_to_primary(old)
        self.assertIsNone(self.get(old, "unacknowledged"))
        self.assertEqual(self.get(old, "key"), "2")


class LogTest(RejoinCase):
    FLAGS = SHORT_LOG

    def away(self, *flags):
        """Returns a member that was away while more was written than the primary's log keeps."""
        primary = self.start_all()
        away = self.others(primary)[0]
        self.servers[away].kill()
        self.await_in_sync(2)
        self.fill(primary)
        return primary, away

    def test_a_member_that_was_away_beyond_the_log_is_in_sync_again_under_load(self):
        primary, away = self.away()
        writers = [Writer(self.addresses[primary], f"w{i}", 200) for i in range(2)]
        self.start(away)
        self.await_copied(away)
        self.await_in_sync(3)
        for writer in writers:
            writer.wait_for(100)
            writer.kill()
        self.assert_equal_to_primary(away)
        for writer in writers:
            writer.address = self.addresses[away]
            self.assertEqual(writer.verify(), (0, ""))

    def test_a_new_member_joins_an_old_shard(self):
        primary, away = self.away()
        del primary
        self.FLAGS = SHORT_LOG
        for path in sorted(self.folder_of(away).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        self.start(away)
        self.await_copied(away)
        self.await_in_sync(3)
        self.assert_equal_to_primary(away)


class KillCase(RejoinCase):
    """A copy that takes some seconds."""

    FLAGS = [*SHORT_LOG, "--copy_rate=16M"]

    TABLES = b"; ([0-9]+) tables of an earlier copy are here"

    def await_whole_table(self, name):
        """Returns the bytes of the tables that have come as a whole, once these are some."""
        sizes = []

        def has_one():
            tables = [path.stat() for path in (self.folder_of(name) / "REMORA-COPY").glob("*.sst")]
            tables.sort(key=lambda table: table.st_mtime_ns)
            sizes[:] = [table.st_size for table in tables[:-1]]
            return sum(sizes) > FILLING * 500_000

        harness.wait_until(has_one, "a whole table of the copy is there")
        return sum(sizes)

    def bytes_of_last_copy(self, server):
        """Returns the bytes that came, and those of all files."""
        words = (b"has sent the copy, ([0-9]+) bytes", b"sends a copy of its data, ([0-9]+) bytes")
        return (int(re.findall(one, server.said())[-1]) for one in words)

    def begin_copy(self):
        primary = self.start_all()
        away = self.others(primary)[0]
        self.servers[away].kill()
        self.await_in_sync(2)
        self.fill(primary)
        self.start(away)
        return primary, away

    def await_part(self, name, copies=1):
        """Waits until the member has a part of this one of the copies since its start."""
        server = self.servers[name]
        harness.wait_until(lambda: len(re.findall(b"sends a copy of its data", server.said())) >= copies, "a copy begins")
        taken = self.stat(name, "copy_bytes_taken") or 0
        harness.wait_until(lambda: (self.stat(name, "copy_bytes_taken") or 0) > taken + 1_000_000
                           or server.process.poll() is not None, "a part of the copy is there")  # fmt: skip


class KillTest(KillCase):
    """kill -9 in the middle of a copy."""

    def test_the_member_is_killed_and_goes_on_from_its_tables(self):
        _, away = self.begin_copy()
        kept = self.await_whole_table(away)
        for _ in range(ROUNDS):
            self.servers[away].kill()
            self.start(away).await_said(b"copy_taken: a part of a copy of a primary's data is here")
            self.await_part(away)
        server = self.servers[away]
        self.await_copied(away)
        self.assertGreater(int(re.search(self.TABLES, server.said())[1]), 0)
        came, whole = self.bytes_of_last_copy(server)
        print(f"{came} of {whole} bytes came after the last kill")
        self.assertLess(came, whole - kept // 2)
        self.await_in_sync(3)
        self.assert_equal_to_primary(away)

    def test_the_primary_is_killed(self):
        primary, away = self.begin_copy()
        for number in range(ROUNDS):
            self.await_part(away, number + 1)
            self.servers[primary].kill()
            self.assertIsNone(self.servers[away].process.poll(), "it goes on trying")
            self.start(primary)
            primary = self.primary()
            self.assertNotEqual(primary, away, "its data are old")
        harness.wait_until(lambda: self.servers[away].process.poll() is not None, "the copy has come")
        self.await_copied(away)
        for name in self.others(away):
            if self.servers[name].process.poll() is not None:
                self.start(name)
        self.await_in_sync(3)
        self.assert_equal_to_primary(away)


class Relay:
    """Passes on what goes between the clients of a server and the server, until their connections are cut."""

    def __init__(self, port):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.to = port
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                client.close()
                continue
            self.sockets += [client, server]
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=ends, daemon=True).start()

    def pass_on(self, source, sink):
        try:
            while some := source.recv(1 << 16):
                sink.sendall(some)
        except OSError:
            pass
        self.end([source, sink])
        source.close()

    def end(self, sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.end(self.sockets)

    def close(self):
        self.end([self.listening])
        self.listening.close()
        self.cut()


class CutTest(KillCase):
    def test_a_copy_goes_on_after_its_connection_was_lost(self):
        relays = {}
        for name in NAMES:
            port = harness.free_port()
            relays[name] = Relay(port)
            self.addCleanup(relays[name].close)
            self.listens[name] = f"tcp://127.0.0.1:{port}"
            self.addresses[name] = f"tcp://127.0.0.1:{relays[name].port}"
        primary, away = self.begin_copy()
        kept = self.await_whole_table(away)
        server = self.servers[away]
        relays[away].cut()
        self.servers[primary].await_said(f"follower_away: the follower at {self.addresses[away]}".encode())
        server.await_said(self.TABLES)
        self.await_copied(away)
        sent = re.search(b"with ([0-9]+) tables of an earlier copy", self.servers[primary].said())
        self.assertGreater(int(sent[1]), 0)
        came, whole = self.bytes_of_last_copy(server)
        print(f"{came} of {whole} bytes came after the connection was lost")
        self.assertLess(came, whole - kept // 2)
        self.await_in_sync(3)
        self.assert_equal_to_primary(away)


class TlsTest(RejoinCase):
    """A copy over tls://, between members that prove tokens."""

    def setUp(self):
        super().setUp()
        lines = {role: self.make_token(role, role) for role in ("read-write", "replication")}
        tokens = self.write("tokens", "".join(lines.values()))
        self.FLAGS = [f"--tokens={tokens}", f"--replication_token_file={self.write('replication', lines['replication'])}"]
        self.addresses = {name: f"tls://127.0.0.1:{harness.free_port()}" for name in NAMES}
        secret = self.write("read-write", lines["read-write"])
        self.enterContext(unittest.mock.patch.dict(os.environ, {"REMORA_TOKEN_FILE": secret}))

    def start(self, name, *flags, data=None):
        return FailoverCase.start(self, name, *self.FLAGS, *flags, data=data)

    def test_a_member_gets_its_copy_over_tls(self):
        old, successor = self.diverge()
        large = os.urandom(3_000_000).hex().encode()
        run = harness.kvctl(self.addresses[successor], PATIENT, "put", "large", stdin=large)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.start(old)
        self.await_copied(old)
        self.await_in_sync(3)
        self.assertGreater(self.stat(successor, "copy_bytes_sent"), 3_000_000)
        self.assert_equal_to_primary(old)
        self.assertEqual(self.get(old, "large"), large.decode())
        self.assertIsNone(self.get(old, "unacknowledged"))


class FullDiskTest(RejoinCase):
    FLAGS = SHORT_LOG

    def test_a_full_disk_is_named_and_the_copy_comes_once_there_is_space(self):
        primary = self.start_all()
        away = self.others(primary)[0]
        self.servers[away].kill()
        self.await_in_sync(2)
        self.fill(primary)
        disk = self.folder_of(away)
        kept = self.folder / "kept"
        disk.rename(kept)
        disk.mkdir(0o700)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=700", "tmpfs", str(disk)], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest(f"no file system of its own: {mounted.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=False)
        subprocess.run(["cp", "-a", f"{kept}/.", str(disk)], check=True)
        ballast = pathlib.Path(disk) / "ballast"
        free = os.statvfs(disk)
        ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize - (30 << 20)))
        server = self.start(away)
        server.await_said(b"copy_failed: .*has no space for a copy of [0-9]* bytes.*the data here stay")
        self.servers[primary].await_said(b"follower_rejected: .*has no space for a copy of")
        self.assertTrue((disk / "CURRENT").exists())
        self.assertIsNone(server.process.poll())
        ballast.unlink()
        self.await_copied(away)
        self.await_in_sync(3)
        self.assert_equal_to_primary(away)


class MisuseTest(RejoinCase):
    def test_data_of_no_member_are_left_alone(self):
        primary = self.start_all()
        member = self.others(primary)[0]
        self.servers[member].kill()
        self.await_in_sync(2)
        history = self.folder_of(member) / "REMORA-REPLICATION"
        history.write_text("\n".join(history.read_text().split("\n")[:3]) + "\n")
        server = self.start(member)
        server.await_said(b"primary_rejected: .*has data that did not come from a primary")
        self.assertIsNone(server.process.poll())


if __name__ == "__main__":
    unittest.main()
