"""kvserver's start and end: one clear line and a fitting exit status for every bad start; a clean stop."""

import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import harness
from harness import kvctl

NOBODY = 65534


def start(*flags, executable=None, **options):
    """Runs a kvserver that is expected to end by itself."""
    command = [executable or harness.program("kvserver"), *flags]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False, **options
    )


class BadStartTest(harness.TestCase):
    def expect_rejection(self, run, status):
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertRegex(run.stderr, rb"\Akvserver: [^\n]+\n\Z")
        self.assertEqual(run.stdout, b"")

    def test_bad_flags(self):
        listen = f"--listen={self.address}"
        memory = "--durability=memory"
        for flags in (
            [], [memory], [listen, memory, "--bogus"], [listen, memory, "extra"],
            [listen, "--durability=sometimes"], [listen, "--durability=logged"],
            [listen, memory, f"--data_dir={self.folder}/data"],
            [listen, memory, "--default_ttl=-1s"], [listen, memory, "--default_ttl=0s"],
            [listen, memory, "--default_ttl=10"], [listen, memory, "--default_ttl="],
            [listen, memory, "--default_ttl=999999999999999999999d"],
            [listen, memory, "--memory=much"], [listen, memory, "--memory=1K"], [listen, memory, "--memory=0"],
            [listen, memory, "--memory=G"], [listen, memory, "--memory="], [listen, memory, "--memory=1.5G"],
            [listen, memory, "--memory=1e9"], [listen, memory, "--memory=0x4000000"], [listen, memory, "--memory=-64M"],
            [listen, memory, "--memory=64 M"], [listen, memory, "--memory=99999999999T"],
            [listen, "--durability=1"], [listen, memory, "--eviction=1"], [listen, memory, "--large_pages=true"],
            [listen, memory, "--quiet=no"], [listen, memory, memory], [listen, memory, "extra"],
            [listen, memory, f"--listen={self.address}-2", "--listen="], [listen, memory, "--tokens="],
            [listen, memory, "--memory_windows=sometimes"], [listen, memory, "--large_pages=sometimes"],
            [listen, memory, "--memory=16M"], [listen, memory, "--memory=64M", "--max_clients=200"],
            [listen, memory, "--nice=1"], [listen, memory, "--nice=-21"], [listen, memory, "--nice=high"],
            ["--listen=tcp://host:1", memory], ["--listen=local://relative", memory], ["--listen=verbs://host", memory],
            ["--listen=local:///" + "x" * 120, memory],
        ):  # fmt: skip
            with self.subTest(flags=flags):
                self.expect_rejection(start(*flags), 64)

    def test_an_empty_flag_takes_nothing_else(self):
        listen = f"--listen={self.address}"
        for flags in (["--data_dir=", "--memory=64M"], ["--data_dir", "--memory=64M"]):
            with self.subTest(flags=flags):
                run = start(listen, *flags, cwd=self.folder)
                self.expect_rejection(run, 64)
                self.assertIn(b"--data_dir: ", run.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_retention_that_is_none(self):
        for span in ("soon", "-1s", "0s", "10", "", "never"):
            with self.subTest(span=span):
                run = start(f"--listen={self.address}", f"--data_dir={self.folder}/data", f"--watch_retention={span}")
                self.expect_rejection(run, 64)
                self.assertIn(b"--watch_retention: ", run.stderr)
        self.assertFalse((self.folder / "data").exists())

    @unittest.skipIf(pathlib.Path("/sys/class/infiniband").exists(), "this machine has RDMA devices")
    def test_no_rdma_device(self):
        self.expect_rejection(start("--listen=verbs://127.0.0.1:7470", "--durability=memory"), 69)

    def test_more_memory_than_it_may_have(self):
        limit = 1 << 30
        run = start(
            f"--listen={self.address}", "--durability=memory", "--memory=4G",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )  # fmt: skip
        self.expect_rejection(run, 71)

    def test_a_priority_that_it_may_not_have(self):
        # Root without the capability; the limit of another user is 0, if nobody has changed it.
        before = ["setpriv", "--bounding-set=-sys_nice"] if os.geteuid() == 0 else []
        command = [*before, harness.program("kvserver"), f"--listen={self.address}", f"--data_dir={self.folder}/data"]
        for flags in ([], ["--check_config"]):
            run = subprocess.run([*command, "--nice=-19", *flags], capture_output=True, timeout=harness.PATIENCE, check=False)
            self.expect_rejection(run, 77)
            self.assertIn(b"--nice=-19: ", run.stderr)
            self.assertIn(b"LimitNICE=-19", run.stderr)
        self.assertFalse((self.folder / "data").exists())

    def test_folder_of_the_socket_is_missing(self):
        run = start(f"--listen=local://{self.folder}/none/socket", "--durability=memory")
        self.expect_rejection(run, 73)
        self.assertIn(b"cannot make the lock file", run.stderr)
        self.assertIn(b"; make its directory, or choose another path", run.stderr)

    def test_parent_of_the_data_directory_is_missing(self):
        run = start(f"--listen={self.address}", f"--data_dir={self.folder}/none/data")
        self.expect_rejection(run, 73)
        self.assertIn(b"; make the directory above it", run.stderr)

    def test_disk_full(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            self.skipTest("mounting a small file system is not permitted here")
        self.addCleanup(subprocess.run, ["umount", str(disk)], check=True)
        (disk / "filler").write_bytes(bytes(56 << 10))
        self.expect_rejection(start(f"--listen={self.address}", f"--data_dir={disk}/data"), 74)

    def test_data_directory_in_use(self):
        self.logged_server()
        second = start(f"--listen={self.address}2", f"--data_dir={self.folder}/data")
        self.expect_rejection(second, 75)
        self.assertEqual(kvctl(self.address, "ping").returncode, 0)

    def test_socket_in_use(self):
        self.memory_server()
        self.expect_rejection(start(f"--listen={self.address}", "--durability=memory"), 75)
        self.assertEqual(kvctl(self.address, "ping").returncode, 0)

    def test_an_address_in_use_leaves_no_data_directory(self):
        host = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(host.close)
        stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(stranger.close)
        stranger.bind(f"{self.folder}/stranger")
        stranger.listen()
        self.memory_server()
        port = host.getsockname()[1]
        for address, action in (
            (self.address, b"stop it, or choose another path" if self.address.startswith("local") else b"choose another one"),
            (f"tcp://127.0.0.1:{port}", b"the port is in use by another program; choose another one"),
            (f"local://{self.folder}/stranger", b"listen elsewhere"),
        ):
            with self.subTest(address=address):
                run = start(f"--listen={address}", f"--data_dir={self.folder}/new", f"--backup_dir={self.folder}/backups")
                self.expect_rejection(run, 75)
                self.assertIn(action, run.stderr)
                self.assertFalse((self.folder / "new").exists())
                self.assertFalse((self.folder / "backups").exists())

    def test_no_permission(self):
        """As another user when we are root, whom no permission stops."""
        closed = self.folder / "closed"
        closed.mkdir(mode=0o500)
        options = {}
        if os.geteuid() == 0:
            # A copy: the build may lie where that user cannot go.
            options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            options["executable"] = shutil.copy(harness.program("kvserver"), self.folder)
            self.folder.chmod(0o755)
        open_folder = self.folder / "open"
        open_folder.mkdir()
        open_folder.chmod(0o777)
        with self.subTest("data directory"):
            data = [f"--listen=local://{open_folder}/socket", f"--data_dir={closed}/data"]
            self.expect_rejection(start(*data, **options), 77)
        with self.subTest("socket"):
            self.expect_rejection(start(f"--listen=local://{closed}/socket", "--durability=memory", **options), 77)

    def test_data_does_not_fit(self):
        server = self.logged_server()
        value = os.urandom(256 << 10)
        for number in range(60):
            self.assertEqual(kvctl(self.address, "put", str(number), stdin=value).returncode, 0)
        self.assertEqual(server.stop()[0], 0)
        data = f"--data_dir={self.folder}/data"
        run = start(f"--listen={self.address}", data, "--memory=18M", "--eviction=none", "--quiet")
        self.assertEqual(run.returncode, 78, run.stderr)
        self.assertRegex(run.stderr, rb"\Akvserver: [^\n]* does not fit: 60 keys [^\n]*--memory[^\n]*\n\Z")
        self.logged_server()
        self.assertEqual(kvctl(self.address, "get", "59").stdout, value)


    def test_data_damaged(self):
        value = os.urandom(64 << 10)
        server = self.logged_server(f"--backup_dir={self.folder}/backups")
        for number in range(20):
            self.assertEqual(kvctl(self.address, "put", str(number), stdin=value).returncode, 0)
        self.assertEqual(kvctl(self.address, "backup").returncode, 0)  # of tables, with all that was logged
        server.stop()
        table = max((self.folder / "data").glob("*.sst"), key=lambda path: path.stat().st_size)
        damaged = bytearray(table.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        table.write_bytes(damaged)
        # It is found out when the server serves already.
        run = start(f"--listen={self.address}", f"--data_dir={self.folder}/data", "--quiet")
        self.assertEqual(run.returncode, 74, run.stderr)
        self.assertRegex(run.stderr, rb"\Akvserver: \S+ error serving_failed: data directory [^\n]+ is damaged[^\n]+\n\Z")


class RunTest(harness.TestCase):
    def test_clean_stop(self):
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=signal_number):
                server = self.logged_server()
                self.assertEqual(kvctl(self.address, "put", str(signal_number), "value").returncode, 0)
                status, output = server.stop(signal_number)
                self.assertEqual(status, 0)
                self.assertEqual(output.decode(), f"kvserver: ready at {self.address}\n")
                self.assertFalse((self.folder / "socket").exists(), "the socket is left behind")
        self.logged_server()
        self.assertEqual(kvctl(self.address, "get", str(int(signal.SIGTERM))).stdout, b"value")

    def test_restart_over_a_socket_that_a_killed_server_left(self):
        self.logged_server().kill()
        self.assertTrue((self.folder / "socket").exists())
        self.logged_server()
        self.assertEqual(kvctl(self.address, "ping").returncode, 0)

    def test_default_ttl(self):
        self.memory_server("--default_ttl=10h")
        self.assertEqual(kvctl(self.address, "put", "default", "value").returncode, 0)
        self.assertEqual(kvctl(self.address, "put", "own", "value", "--ttl=never").returncode, 0)
        self.assertRegex(kvctl(self.address, "ttl", "default").stdout, rb"\A[0-9]+ms\n\Z")
        self.assertEqual(kvctl(self.address, "ttl", "own").stdout, b"never\n")

    def test_expired_keys_are_gone_after_a_restart(self):
        server = self.logged_server()
        self.assertEqual(kvctl(self.address, "put", "stays", "value").returncode, 0)
        self.assertEqual(kvctl(self.address, "put", "goes", "value", "--ttl=1ms").returncode, 0)
        server.kill()
        self.logged_server()
        self.assertEqual(kvctl(self.address, "get", "goes").returncode, 1)
        harness.wait_until(lambda: harness.stats(self.address)["loading"] == 0, "it has loaded what it stored")
        self.assertEqual(harness.stats(self.address)["keys"], 1)

    def test_says_when_it_has_loaded(self):
        server = self.logged_server()
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        server.stop()
        server = self.logged_server()
        line = b" info loaded: loaded 1 keys in "
        harness.wait_until(lambda: line in server.said(), "the log says that it has loaded")
        counters = harness.stats(self.address)
        self.assertEqual((counters["loading"], counters["keys_loaded"]), (0, 1))

    def test_says_that_it_is_empty(self):
        server = self.logged_server()
        server.await_said(rb" info loaded: the store is empty\n")
        self.assertNotIn(b"keys per second", server.said())

    def test_warns_of_an_address_for_every_user_of_the_host(self):
        def warnings(*flags):
            address = f"tcp://127.0.0.1:{harness.free_port()}"
            server = self.memory_server("--log_level=warning", *flags, address=address)
            self.assertEqual(server.stop()[0], 0)
            return server.said().replace(address.encode(), b"ADDRESS")

        said = rb"every user of this host can read and change everything at ADDRESS; --tokens=FILE limits it"
        self.assertRegex(warnings(), rb"\Akvserver: \S+ warning open_to_host: " + said + rb"\n\Z")
        self.assertEqual(warnings("--insecure_open"), b"")
        self.assertEqual(warnings(f"--tokens={self.write('tokens', self.make_token('one'))}"), b"")
        server = self.memory_server("--log_level=warning", address=f"local://{self.folder}/other")
        self.assertNotIn(b"open_to_host", server.said())

    def test_the_help_fits_a_terminal(self):
        text = start("--help").stdout.decode()
        status = text[text.index("Exit status") :]
        self.assertLessEqual(max(map(len, status.splitlines())), 100)
        self.assertIn("\n  75  ", status)

    def test_a_watch_finds_what_it_has_missed(self):
        """Over restarts, clean or not, with the default retention."""
        self.watch_over_restarts()

    def test_a_watch_finds_what_it_has_missed_in_a_small_log(self):
        self.watch_over_restarts("--commit_log=4M")

    def test_a_watch_finds_what_it_has_missed_in_rocksdb(self):
        self.watch_over_restarts("--commit_log=off")

    def watch_over_restarts(self, *flags):
        server = self.logged_server(*flags)
        token = kvctl(self.address, "watch", "--show_positions", "--idle=1ms").stdout.decode().strip()
        missed = b""
        for i in range(25):
            self.assertEqual(kvctl(self.address, "put", str(i), "value").returncode, 0)
            missed += b"put\t%d\tvalue\n" % i
            if i % 5 == 0:
                server.stop() if i % 2 == 0 else server.kill()
                server = self.logged_server(*flags)
        run = kvctl(self.address, "watch", "--resume", token, "--idle=1ms")
        self.assertEqual((run.returncode, run.stdout), (0, missed), run.stderr)

    def test_a_commit_log(self):
        """Takes over the directory of an earlier server; keeps acknowledged writes over kills; goes back by a backup."""
        backups = f"{self.folder}/backups"
        self.logged_server("--commit_log=off").stop()
        server = self.logged_server(f"--backup_dir={backups}")
        harness.wait_until(lambda: b": groups are " in server.said(), "the log says how it is written")
        self.assertIn(b" info commit_log: commit log in ", server.said())
        value = "v" * 1000
        for i in range(12):
            self.assertEqual(kvctl(self.address, "put", f"key{i}", value).returncode, 0)
            if i % 4 == 3:
                server.kill()
                check = kvctl(None, "check", f"--data={self.folder}/data")
                self.assertEqual(check.returncode, 0, check.stderr)
                self.assertIn(b"keys %d\n" % (i + 1), check.stdout)
                server = self.logged_server("--commit_log=4M", f"--backup_dir={backups}")  # of another size
        self.assertEqual(kvctl(self.address, "count").stdout, b"12\n")
        self.assertEqual(kvctl(self.address, "backup").returncode, 0)
        server.stop()
        rejected = start(f"--listen={self.address}", f"--data_dir={self.folder}/data", "--commit_log=off")
        self.assertEqual(rejected.returncode, 78, rejected.stderr)
        self.assertIn(b"--commit_log", rejected.stderr)
        restored = kvctl(None, "restore", f"--from={backups}", f"--to={self.folder}/restored")
        self.assertEqual(restored.returncode, 0, restored.stderr)
        self.server("--durability=logged", f"--data_dir={self.folder}/restored", "--memory=64M")
        self.assertEqual(kvctl(self.address, "get", "key11").stdout, value.encode())

    def test_a_watch_shows_what_expires_while_nothing_is_written(self):
        self.logged_server()
        command = [harness.program("kvctl"), f"--server={self.address}", "watch", "--limit=2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as watch:
            harness.wait_until(lambda: harness.stats(self.address)["watches"] == 1, "it has begun")
            self.assertEqual(kvctl(self.address, "put", "key", "value", "--ttl=1ms").returncode, 0)
            self.assertEqual(watch.communicate(timeout=harness.PATIENCE)[0], b"put\tkey\tvalue\ndelete\tkey\n")

    def test_several_addresses_serve_one_store(self):
        second = f"local://{self.folder}/second"
        self.memory_server(f"--listen={second}")
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        self.assertEqual(kvctl(second, "get", "key").stdout, b"value")

    def test_full_memory_rejects_and_serves_on(self):
        self.memory_server("--eviction=none", memory="18M")
        value = os.urandom(256 << 10)
        outcomes = [kvctl(self.address, "put", str(number), stdin=value).returncode for number in range(80)]
        rejected = outcomes.index(73)  # 18 MiB cannot hold 80 of them
        self.assertGreater(rejected, 0)
        self.assertEqual(kvctl(self.address, "get", "0").stdout, value)
        self.assertEqual(kvctl(self.address, "get", str(rejected)).returncode, 1)


class LogTest(harness.TestCase):
    LINES = 30  # of one kind
    WINDOW = 10  # seconds

    def be_rejected(self, times):
        """Connects, and says no client's greeting; returns how many windows there may have been meanwhile."""
        begin = time.monotonic()
        header = pathlib.Path(__file__).resolve().parents[2] / "rdma" / "local/wire.h"
        version = int(re.search(r"kLocalVersion = (\d+);", header.read_text())[1])
        hello = struct.pack("=8sII56x", b"remlocal", version, 0)
        for _ in range(times):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                stranger.connect(str(self.folder / "socket"))
                stranger.send(hello)
                self.assertTrue(stranger.recv(4096))
        return int((time.monotonic() - begin) / self.WINDOW) + 2

    @staticmethod
    def left_out(said):
        told = re.findall(rb": ([0-9]+) more lines of clients that were rejected were not written", said)
        return sum(map(int, told))

    def test_who_comes_without_end_does_not_fill_it(self):
        server = self.memory_server(f"--tokens={self.write('tokens', self.make_token('writer'))}", "--insecure_open")
        windows = self.be_rejected(1000)
        # Nobody comes any more: all the same, it says how many there were.
        harness.wait_until(
            lambda: server.said().count(b": rejected: ") + self.left_out(server.said()) == 1000, "the rest is told of"
        )
        rejected = server.said().count(b": rejected: ")
        self.assertGreaterEqual(rejected, self.LINES)
        self.assertLessEqual(rejected, windows * self.LINES)
        # Others, and what no client causes, are not hidden by it; nor is how many there were by its end.
        self.be_rejected(1000)
        self.assertEqual(kvctl(self.address, "ping").returncode, 0)
        harness.wait_until(lambda: b": disconnected" in server.said(), "a client came and went")
        server.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: b"reloaded 1 auth tokens" in server.said(), "the tokens are read")
        self.assertEqual(server.stop()[0], 0)
        said = server.said()
        self.assertEqual(said.count(b": rejected: ") + self.left_out(said), 2000)

    def test_a_full_pipe_at_standard_error_holds_up_nothing(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        os.set_blocking(write_end, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(write_end, bytes(4096))
        os.set_blocking(write_end, True)
        ready, ready_write = os.pipe()
        server = subprocess.Popen(
            [harness.program("kvserver"), f"--listen={self.address}", f"--data_dir={self.folder}/data", "--memory=64M",
             f"--ready_fd={ready_write}"],
            stdin=subprocess.DEVNULL, stdout=write_end, stderr=write_end, pass_fds=[ready_write],
        )  # fmt: skip
        self.addCleanup(server.kill)
        os.close(write_end)
        os.close(ready_write)
        with os.fdopen(ready, "rb") as lines:
            self.assertEqual(lines.read(), b"ready\n")
        for number in range(2 * self.LINES):
            self.assertEqual(kvctl(self.address, "put", f"key{number}", "value").returncode, 0)
        server.terminate()
        self.assertEqual(server.wait(harness.PATIENCE), 0)


class PriorityTest(harness.TestCase):
    @staticmethod
    def nice_values(process):
        """The nice value of each thread, by its number."""
        values = {}
        for thread in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
            values[int(thread.name)] = int((thread / "stat").read_text().rpartition(")")[2].split()[16])
        return values

    def test_the_thread_that_serves_writes_alone_has_it(self):
        may = subprocess.run(["nice", "-n", "-9", "true"], capture_output=True, check=False)
        if may.stderr:
            self.skipTest("this user may not raise a priority")
        server = self.logged_server("--nice=-9")
        kvctl(self.address, "put", "key", "value")
        values = self.nice_values(server.process)
        self.assertEqual(values.pop(server.process.pid), -9)
        self.assertGreater(len(values), 3)
        self.assertNotIn(-9, values.values())
        self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    unittest.main()
