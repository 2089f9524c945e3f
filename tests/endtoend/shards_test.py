"""kvserver --shards: several servers on one host, started, watched and ended by one process."""

import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

import harness

SHARDS = harness.ShardsTestCase.SHARDS
EX_USAGE, EX_CANTCREAT, EX_IOERR, EX_TEMPFAIL, EX_CONFIG = 64, 73, 74, 75, 78


class ShardsTestCase(harness.ShardsTestCase):
    def status(self):
        """Returns the exit status, and the words of each shard's line."""
        run = harness.kvctl(None, "cluster", "status", f"--topology={self.topology}", "--timeout=5000")
        return run.returncode, [line.split() for line in run.stdout.decode().splitlines()[1:]]

    def example(self, user, name):
        return subprocess.run(
            [harness.program("example_cluster"), str(self.topology), user, name],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False, text=True,
        )  # fmt: skip

    def rejected(self, *arguments):
        """Returns the exit status, and what it said."""
        run = subprocess.run([harness.program("kvserver"), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                             timeout=harness.PATIENCE, check=False)  # fmt: skip
        return run.returncode, run.stderr.decode()


class ServingTest(ShardsTestCase):
    def test_one_command_serves_a_cluster(self):
        server = self.start()
        code, lines = self.status()
        self.assertEqual(code, 0)
        addresses = [f"{self.address}.{shard}" for shard in range(SHARDS)]
        self.assertEqual([(line[0], *line[5:]) for line in lines], [(str(i), "same", address) for i, address in enumerate(addresses)])
        for line in lines:
            self.assertLessEqual(int(line[4]), 192 // SHARDS)
        run = self.example("ada", "Ada Lovelace")
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        self.assertRegex(harness.kvctl(addresses[1], "config").stdout, rb"\n# slots = 5461-10921 +# default\n")
        # Each key is at its shard alone, and a server knows which one it is.
        self.assertEqual(harness.kvctl(addresses[0], "ping").returncode, 0)
        children = self.children(server)
        self.assertEqual(sorted(children), list(range(SHARDS)))
        code, output = server.stop()
        self.assertEqual(code, 0)
        self.assertEqual(output.decode(), f"kvserver: ready at {self.topology}\n")
        self.expect_ended(children)
        self.assertEqual([self.data.joinpath(str(shard), "REMORA-SHARD").exists() for shard in range(SHARDS)], [True] * SHARDS)

    def test_a_server_that_is_killed_comes_back_with_its_data(self):
        server = self.start()
        self.assertEqual(self.example("ada", "Ada Lovelace").returncode, 0)
        before = self.children(server)
        keys = [line[2] for line in self.status()[1]]
        for shard in range(SHARDS):
            os.kill(before[shard], signal.SIGKILL)
            server.await_said(b"shard %d: signal 9 ended it; it is started again" % shard)
            harness.wait_until(lambda: self.status()[0] == 0, "all shards serve")
            self.assertNotEqual(self.children(server)[shard], before[shard])
        harness.wait_until(lambda: [line[2] for line in self.status()[1]] == keys, "all keys are loaded")
        self.assertEqual(server.stop()[0], 0)

    def test_the_servers_end_with_the_process_that_started_them(self):
        server = self.start()
        children = self.children(server)
        server.kill()
        self.expect_ended(children)
        # And it starts again, with the same cluster.
        topology = self.topology.read_text()
        again = self.start()
        self.assertEqual(self.topology.read_text(), topology)
        self.assertEqual(self.status()[0], 0)
        self.assertEqual(again.stop(signal.SIGINT)[0], 0)

    def test_addresses_may_change_and_the_cluster_stays(self):
        self.start().stop()
        cluster = re.search(r"^cluster (\w+)$", self.topology.read_text(), re.MULTILINE).group(1)
        other = f"local://{self.folder}/other"
        server = self.start(address=other)
        text = self.topology.read_text()
        self.assertIn(f"cluster {cluster}\n", text)
        self.assertIn(f"{other}.2\n", text)
        self.assertEqual(self.status()[0], 0)
        self.assertEqual(server.stop()[0], 0)

    def test_one_of_them_by_itself(self):
        self.start().stop()
        cluster = re.search(r"^cluster (\w+)$", self.topology.read_text(), re.MULTILINE).group(1)
        server = self.start(f"--shard={cluster}/1")
        self.assertEqual(self.children(server), {})
        self.assertEqual(harness.kvctl(f"{self.address}.1", "put", "key", "value").returncode, 0)
        self.assertTrue(server.await_said(rb"kvserver\[1\]: [^\n]* serving: "))
        self.assertEqual(server.stop()[0], 0)

    def test_ports_and_http_are_divided(self):
        port, http = harness.free_port(count=SHARDS), harness.free_port(count=SHARDS)
        server = self.start(f"--http=127.0.0.1:{http}", address=f"tcp://127.0.0.1:{port}")
        self.assertEqual(self.status()[0], 0)
        for shard in range(SHARDS):
            run = subprocess.run(["curl", "-sf", f"http://127.0.0.1:{http + shard}/info.json"], capture_output=True, check=True)
            self.assertRegex(json.loads(run.stdout)["shard"], rf"^[0-9a-f]{{16}}/{shard}$")
        self.assertEqual(server.stop()[0], 0)

    def test_memory_alone_needs_a_topology(self):
        flags = [f"--shards={SHARDS}", f"--listen={self.address}", "--durability=memory", "--memory=192M"]
        code, said = self.rejected(*flags)
        self.assertEqual(code, EX_USAGE)
        self.assertIn("needs --topology=FILE", said)
        self.topology = self.folder / "topology"
        server = harness.Server(*flags, f"--topology={self.topology}")
        self.addCleanup(server.close)
        self.assertEqual(self.status()[0], 0)
        self.assertEqual(server.stop()[0], 0)


class HangTest(ShardsTestCase):
    """A server whose process lives, and whose thread does nothing."""

    def start_with(self, timeout, *flags, **options):
        return self.start(f"--hang_timeout={timeout}", *flags, **options)

    def freeze(self, pid):
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.thaw, pid)

    def thaw(self, pid):
        if harness.is_running(pid):
            os.kill(pid, signal.SIGCONT)

    def test_a_server_that_hangs_is_started_again(self):
        server = self.start_with("2s")
        self.assertEqual(self.example("ada", "Ada Lovelace").returncode, 0)
        before = self.children(server)
        keys = [line[2] for line in self.status()[1]]
        harness.freeze_until_it_ends(before[1])
        server.await_said(rb"\nkvserver: [^\n]* warning shard_hung: shard 1 hangs: it has done nothing for 2 s; it is ended\n")
        server.await_said(rb"warning shard_ended: shard 1: signal 9 ended it; it is started again")
        harness.wait_until(lambda: self.status()[0] == 0, "all shards serve")
        harness.wait_until(lambda: [line[2] for line in self.status()[1]] == keys, "all keys are loaded")
        after = self.children(server)
        self.assertEqual((after[0], after[2]), (before[0], before[2]))
        self.assertNotEqual(after[1], before[1])
        # Also the one that was started again is watched.
        harness.freeze_until_it_ends(after[1])
        server.await_said(rb"(?s)shard_hung: shard 1 .*shard_hung: shard 1 ")
        harness.wait_until(lambda: self.status()[0] == 0, "all shards serve")
        self.assertEqual(server.stop()[0], 0)
        self.assertNotRegex(server.said(), rb"shard_hung: shard [02]")

    def hang(self, server, shard, times):
        """Has a server hang and come back so many times. The others get that much time."""
        for _ in range(times):
            pid = self.children(server)[shard]
            harness.freeze_until_it_ends(pid)
            harness.wait_until(lambda pid=pid: self.children(server).get(shard, pid) != pid, "it is started again")
            harness.wait_until(lambda: harness.kvctl(self.address_of(shard), "ping").returncode == 0, "it serves")

    def test_idle_servers_do_not_hang(self):
        server = self.start_with("2s")
        before = self.children(server)
        self.hang(server, 0, 2)
        after = self.children(server)
        self.assertEqual((after[1], after[2]), (before[1], before[2]))
        self.assertEqual(server.stop()[0], 0)
        self.assertNotRegex(server.said(), rb"shard_hung: shard [12]")

    def test_a_server_that_starts_may_take_any_time(self):
        server = self.start_with("2s")
        os.kill(self.children(server)[2], signal.SIGKILL)
        before = self.children(server).get(2)
        # Stopped before it serves; one that was faster than this test is ended, and tried again.
        for served in itertools.count(server.said().count(b"shard_serving: shard 2 ")):
            harness.wait_until(lambda: self.children(server).get(2, before) != before, "it is started again")
            pid = self.children(server)[2]
            self.freeze(pid)
            if server.said().count(b"shard_serving: shard 2 ") == served:
                break
            os.kill(pid, signal.SIGKILL)
            before = pid
        self.hang(server, 0, 2)
        self.assertEqual(self.children(server)[2], pid)
        self.thaw(pid)
        harness.wait_until(lambda: self.status()[0] == 0, "all shards serve")
        self.assertEqual(self.children(server)[2], pid)
        self.assertEqual(server.stop()[0], 0)
        self.assertNotRegex(server.said(), rb"shard_hung: shard [12]")

    def test_a_server_that_a_debugger_holds_is_left_alone(self):
        debugger = harness.Debugger()
        server = self.start_with("2s")
        pid = self.children(server)[1]
        if error := debugger.hold(pid):
            self.skipTest(f"ptrace: {os.strerror(error)}")
        server.await_said(rb"warning shard_hung: shard 1 hangs: it has done nothing for 2 s; it is left alone: a debugger holds it\n")
        self.hang(server, 0, 2)
        debugger.let_go(pid)
        harness.wait_until(lambda: self.status()[0] == 0, "all shards serve")
        self.assertEqual(self.children(server)[1], pid)
        self.assertEqual(len(re.findall(rb"shard_hung: shard 1 ", server.said())), 1)
        self.assertEqual(server.stop()[0], 0)

    def test_without_a_timeout_nobody_is_asked(self):
        server = self.start_with("never")
        for pid in self.children(server).values():
            self.assertIn(b"REMORA_BEAT=%d:0" % server.process.pid, pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        self.assertEqual(server.stop()[0], 0)

    def test_a_server_by_itself_writes_no_beats(self):
        self.start().stop()
        cluster = re.search(r"^cluster (\w+)$", self.topology.read_text(), re.MULTILINE).group(1)
        server = self.start_with("1s", f"--shard={cluster}/1", environment={"REMORA_BEAT": "1:1"})
        self.assertEqual(harness.kvctl(self.address_of(1), "put", "a", "value").returncode in (0, 78), True)
        code, output = server.stop()
        self.assertEqual((code, output.decode()), (0, f"kvserver: ready at {self.address_of(1)}\n"))

    def test_bad_times(self):
        for text in ("0s", "999ms", "61m", "1", "x", ""):
            code, said = self.rejected(*self.flags(f"--hang_timeout={text}"))
            self.assertEqual(code, EX_USAGE, said)
            self.assertIn("--hang_timeout", said)
        code, said = self.rejected(f"--listen={self.address}", "--durability=memory", "--hang_timeout=5s")
        self.assertEqual(code, EX_USAGE)
        self.assertIn("--hang_timeout: is for --shards and --redis; leave it out", said)


class OperatingTest(ShardsTestCase):
    def test_the_manager_hears_one_process(self):
        path = str(self.folder / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(harness.PATIENCE)
            server = self.start(environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"})
            heard = []
            while heard.count(b"WATCHDOG=1") < 2 or not any(b"READY=1" in message for message in heard):
                heard.append(manager.recv(1024))
            self.assertEqual(len([message for message in heard if b"READY=1" in message]), 1, heard)
            self.assertEqual(server.stop()[0], 0)

    def test_the_log_names_the_server(self):
        server = self.start("--log_format=json")
        server.await_said(rb'"shard":2,"message":"serving at ')
        self.assertEqual(server.stop()[0], 0)
        lines = [json.loads(line) for line in server.said().decode().splitlines()]
        self.assertEqual({line["shard"] for line in lines if line["event"] == "stopped" and "shard" in line}, set(range(SHARDS)))
        self.assertEqual(len([line for line in lines if line["event"] == "shard_serving"]), SHARDS)

    def test_a_file_is_read_anew_by_all(self):
        config = self.folder / "kvserver.conf"
        lines = [flag.removeprefix("--").replace("=", " = ", 1) for flag in self.flags()]
        config.write_text("\n".join([*lines, "log_level = info"]) + "\n")
        server = harness.Server(f"--config={config}")
        self.addCleanup(server.close)
        config.write_text("\n".join([*lines, "log_level = warning"]) + "\n")
        server.process.send_signal(signal.SIGHUP)
        for shard in range(SHARDS):
            server.await_said(rb"kvserver\[%d\]: [^\n]* config_reloaded: " % shard)
        self.assertEqual(server.stop()[0], 0)

    def write_config(self, flags):
        """Returns the path of a file with the flags."""
        lines = [flag.removeprefix("--").replace("=", " = ", 1) for flag in flags]
        return self.write("kvserver.conf", "\n".join([*lines, ""]))

    def test_servers_stay_those_of_the_topology_when_the_file_changes(self):
        server = harness.Server(f"--config={self.write_config(self.flags())}")
        self.addCleanup(server.close)
        keys = [f"key{i}" for i in range(40)]
        for key in keys:
            self.assertEqual(self.kvctl("put", key, "value").returncode, 0)
        other = self.folder / "other"
        for shards in ("4", "1"):
            changed = [f"--shards={shards}" if flag.startswith("--shards") else flag for flag in self.flags(address=f"local://{other}.socket")]
            self.write_config([f"--data_dir={other}" if flag.startswith("--data_dir") else flag for flag in changed])
            for shard, pid in self.children(server).items():
                os.kill(pid, signal.SIGKILL)
                harness.wait_until(lambda shard=shard, pid=pid: self.children(server).get(shard, pid) != pid, "it is started again")
                harness.wait_until(lambda: self.status()[0] == 0, "all shards serve")
            self.assertEqual([self.kvctl("get", key).stdout for key in keys], [b"value"] * len(keys))
            self.assertEqual(self.kvctl("put", keys[0], "value").returncode, 0)
        self.assertEqual(list(self.folder.glob("other*")), [])
        self.assertEqual(server.stop()[0], 0)

    def test_changes_of_the_file_that_take_a_restart(self):
        server = harness.Server(f"--config={self.write_config(self.flags('--log_level=info'))}")
        self.addCleanup(server.close)
        changed = [*self.flags("--log_level=warning", "--redis=redis://127.0.0.1:6379", shards=2), "--default_ttl=1h",
                   "--cluster_nodes=redis://127.0.0.1:6379", "--hang_timeout=never"]  # fmt: skip
        self.write_config(changed)
        server.process.send_signal(signal.SIGHUP)
        server.await_said(rb"\nkvserver: [^\n]* config_reloaded: [^\n]*log_level is warning, it was info")
        named = server.await_said(rb"\nkvserver: [^\n]* warning restart_needed: [^\n]*after a restart: ([^\n]*)\n").group(1)
        self.assertEqual(set(named.split(b", ")), {b"shards", b"redis", b"cluster_nodes", b"hang_timeout", b"default_ttl"})
        for shard in range(self.SHARDS):  # the first process has the gate, and knows the shards
            named = server.await_said(rb"\nkvserver\[%d\]: [^\n]* restart_needed: [^\n]*after a restart: ([^\n]*)\n" % shard).group(1)
            self.assertEqual(named, b"default_ttl")
        self.assertEqual(server.stop()[0], 0)

    def test_a_signal_to_read_the_file_ends_no_server_that_starts(self):
        running = subprocess.Popen([harness.program("kvserver"), *self.flags()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        harness.wait_until(self.topology.exists, "the first process hears the signal")
        os.set_blocking(running.stdout.fileno(), False)
        while not (said := running.stdout.read()):  # nothing: none yet; empty: its end
            self.assertIsNone(said, "it has ended")
            running.send_signal(signal.SIGHUP)
            time.sleep(0.0005)
        self.assertEqual(said.decode(), f"kvserver: ready at {self.topology}\n")
        running.terminate()
        self.assertEqual(running.wait(timeout=harness.PATIENCE), 0)

    def test_the_configuration_is_checked_for_each(self):
        code, said = self.rejected(*self.flags("--check_config"))
        self.assertEqual((code, said), (0, ""))
        self.assertFalse(self.data.exists())
        code, said = self.rejected(*self.flags("--check_config", "--memory=6M"))
        self.assertNotEqual(code, 0)
        self.assertIn("--memory", said)


class MisuseTest(ShardsTestCase):
    def test_flags_that_make_no_sense_are_rejected(self):
        for flags, said in (
            (["--shards=0"], "--shards"),
            (["--shards=65"], "--shards"),
            (["--shards=1", "--topology=x"], "one server has no topology"),
            (self.flags("--replicate_to=local:///x"), "replicas are of one server"),
            (self.flags("--shard=0123456789abcdef/3"), "are called 0 to 2"),
            (self.flags("--shard=0123456789abcdef/01"), "are called 0 to 2"),
            (self.flags(address="tcp://127.0.0.1:65534"), "65535 is the last one"),
            (self.flags("--insecure_open", address="tcp://0.0.0.0:7470"), "name one"),
            (self.flags("--listen=tcp://127.0.0.1:7471", address="tcp://127.0.0.1:7470"), "more distance"),
            (self.flags(address=f"local:///{'x' * 105}"), "107"),
        ):
            with self.subTest(flags=flags):
                code, output = self.rejected(*(flags if len(flags) > 2 else [f"--listen={self.address}", "--durability=memory", *flags]))
                self.assertEqual(code, EX_USAGE, output)
                self.assertIn(said, output)
                self.assertFalse(self.data.exists())

    def test_another_division_is_rejected(self):
        self.start().stop()
        before = self.topology.read_bytes()
        code, said = self.rejected(*self.flags(shards=2))
        self.assertEqual(code, EX_CONFIG)
        self.assertIn("has 3 shards, and --shards=2 are asked for", said)
        self.topology.write_text(self.topology.read_text().replace("0-5460", "0-5459").replace("5461-", "5460-"))
        code, said = self.rejected(*self.flags())
        self.assertEqual(code, EX_CONFIG)
        self.assertIn("has other keys", said)
        self.topology.write_text("nothing of a topology\n")
        code, said = self.rejected(*self.flags())
        self.assertEqual(code, EX_USAGE, said)
        self.topology.unlink()
        code, said = self.rejected(*self.flags())
        self.assertEqual(code, EX_CONFIG)
        self.assertIn("REMORA-SHARD names; restore the file", said)
        self.topology.write_bytes(before)
        self.assertEqual(self.start().stop()[0], 0)

    def test_a_second_process_leaves_the_first_alone(self):
        server = self.start()
        before = self.topology.read_bytes()
        code, said = self.rejected(*self.flags(address=f"local://{self.folder}/other"))
        self.assertEqual(code, EX_TEMPFAIL)
        self.assertIn("another kvserver --shards serves", said)
        self.assertEqual(self.topology.read_bytes(), before)
        self.assertEqual(self.status()[0], 0)
        self.assertEqual(server.stop()[0], 0)

    def test_a_server_that_does_not_start_ends_all(self):
        other = self.memory_server(address=f"{self.address}.1")
        code, said = self.rejected(*self.flags())
        self.assertEqual(code, EX_TEMPFAIL, said)
        self.assertRegex(said, rf"kvserver\[1\]: [^\n]*start_failed: [^\n]*{self.folder}/socket.1")
        self.assertIn("a server does not start", said)
        self.assertEqual(harness.kvctl(f"{self.address}.1", "ping").returncode, 0)
        for shard in (0, 2):
            self.assertNotEqual(harness.kvctl(f"{self.address}.{shard}", "ping").returncode, 0)
        self.assertEqual(other.stop()[0], 0)
        self.assertEqual(self.start().stop()[0], 0)

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=4", "tmpfs", str(disk)], capture_output=True, check=False).returncode != 0:
            self.skipTest("a small disk needs mount, and root")
        self.addCleanup(subprocess.run, ["umount", str(disk)], check=True)
        self.data, self.topology = disk / "data", disk / "topology"
        for others, said in ((3, r"file .*topology\.lock"), (2, "folder .*/disk/data"), (1, r"topology\.swap"), (0, r"topology\.new")):
            for i in range(others):
                (disk / str(i)).touch()
            code, output = self.rejected(*self.flags(f"--topology={self.topology}"))
            self.assertEqual(code, EX_IOERR, output)
            self.assertRegex(output, rf"cannot make [^\n]*{said}[^\n]*: No space left")
            for name in disk.iterdir():
                name.rmdir() if name.is_dir() else name.unlink()

    def test_a_folder_that_cannot_be_made(self):
        self.data = self.folder / "missing" / "data"
        code, said = self.rejected(*self.flags())
        self.assertEqual(code, EX_CANTCREAT, said)
        self.assertRegex(said, f"{self.data}/: No such file or directory; make the folder above it")
        for path in ("file", "file/data"):
            self.data = pathlib.Path(self.write("file", "")).parent / path
            code, said = self.rejected(*self.flags())
            self.assertEqual(code, EX_CONFIG, said)
            self.assertRegex(said, f"{self.data}/: a file is there; name a folder")


if __name__ == "__main__":
    unittest.main()
