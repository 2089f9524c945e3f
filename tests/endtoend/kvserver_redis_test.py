"""kvserver --redis: a gate that the server starts beside itself, watches, and ends."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import harness
import redis_copies
import redis_pair
import service_test

ROOT = pathlib.Path(__file__).parents[2]


class KvserverRedisTest(redis_pair.TestCase):
    def start(self, *flags, **options):
        server = harness.Server(
            f"--listen={self.address}", "--durability=memory", "--memory=64M", f"--redis=redis://{self.gate_path}",
            *flags, **options,
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    def gate_of(self, server):
        """The process of the gate."""
        children = subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True, check=False).stdout
        self.assertEqual(len(children.split()), 1, children)
        return int(children)

    def rejected(self, status, *flags, **options):
        run = subprocess.run(
            [harness.program("kvserver"), *flags], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=harness.PATIENCE, check=False, **options,
        )  # fmt: skip
        self.assertEqual(run.returncode, status, run.stderr)
        return run.stderr.decode()

    def test_it_serves_when_the_server_is_ready_and_ends_with_it(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.start()
            wire = self.wire()
            self.assertEqual(wire.call("SET", "k", "v"), b"+OK\r\n")
            self.assertEqual(harness.kvctl(self.address, "get", "k").stdout, b"v")
            gate = self.gate_of(server)
            self.assertEqual(server.stop(number)[0], 0)
            # The server has waited for it.
            self.assertFalse(harness.is_running(gate))
            self.assertFalse(pathlib.Path(self.gate_path).exists())
            self.assertRegex(server.said(), rb"info gate_ready: ")
            self.assertNotRegex(server.said(), rb"gate_ended|gate_said")

    def test_it_ends_with_a_server_that_is_killed(self):
        server = self.start()
        gate = self.gate_of(server)
        server.kill()
        harness.wait_until(lambda: not harness.is_running(gate), "the gate has ended")
        # And another server takes their places.
        self.start()
        self.assertEqual(self.wire().call("PING"), b"+PONG\r\n")

    def test_a_gate_that_dies_is_started_again(self):
        server = self.start()
        self.assertEqual(self.wire().call("SET", "k", "v"), b"+OK\r\n")
        gate = self.gate_of(server)
        os.kill(gate, signal.SIGKILL)
        server.await_said(rb"warning gate_ended: [^\n]*signal 9 ended it; it is started again")
        server.await_said(rb"(?s)gate_ready: .*gate_ready: ")
        self.assertNotEqual(self.gate_of(server), gate)
        self.assertEqual(self.wire().call("GET", "k"), b"$1\r\nv\r\n")
        # The server has not even noticed.
        self.assertEqual(harness.kvctl(self.address, "get", "k").stdout, b"v")
        self.assertEqual(server.stop()[0], 0)

    def test_a_gate_that_hangs_is_started_again(self):
        server = self.start("--hang_timeout=2s")
        self.assertEqual(self.wire().call("SET", "k", "v"), b"+OK\r\n")
        gate = self.gate_of(server)
        harness.freeze_until_it_ends(gate)
        server.await_said(rb"warning gate_hung: the gate of --redis hangs: it has done nothing for 2 s; it is ended\n")
        server.await_said(rb"warning gate_ended: [^\n]*signal 9 ended it; it is started again")
        server.await_said(rb"(?s)gate_ready: .*gate_ready: ")
        self.assertNotEqual(self.gate_of(server), gate)
        self.assertEqual(self.wire().call("GET", "k"), b"$1\r\nv\r\n")
        self.assertEqual(server.stop()[0], 0)

    def test_a_gate_hangs_if_any_thread_of_it_does(self):
        debugger = harness.Debugger()
        server = self.start("--hang_timeout=2s")
        gate = self.gate_of(server)
        others = [int(thread) for thread in os.listdir(f"/proc/{gate}/task") if int(thread) != gate]
        self.assertTrue(others)
        held = []
        for thread in others:
            if error := debugger.hold(thread):
                self.skipTest(f"ptrace: {os.strerror(error)}")
            held.append(thread)
        # Its main thread works, and it is spared for what holds the others.
        server.await_said(rb"warning gate_hung: [^\n]*for 2 s; it is left alone: a debugger holds it\n")
        for thread in held:
            debugger.let_go(thread)
        self.assertEqual(self.wire().call("PING"), b"+PONG\r\n")
        self.assertEqual(self.gate_of(server), gate)
        self.assertEqual(server.stop()[0], 0)

    def test_an_idle_gate_does_not_hang(self):
        server = self.start("--hang_timeout=2s")
        gate = self.gate_of(server)
        # Another server of this kind, whose gate hangs twice, shows that enough time has passed.
        other = harness.Server(
            f"--listen={self.address}.other", "--durability=memory", "--memory=64M", f"--redis=redis://{self.gate_path}.other",
            "--hang_timeout=2s",
        )  # fmt: skip
        self.addCleanup(other.close)
        for times in (1, 2):
            harness.freeze_until_it_ends(self.gate_of(other))
            other.await_said(rb"(?s)" + rb"gate_hung: .*" * times)
            other.await_said(rb"(?s)gate_ready: .*" + rb"gate_ready: .*" * times)
        self.assertEqual(self.gate_of(server), gate)
        self.assertEqual(server.stop()[0], 0)
        self.assertNotRegex(server.said(), rb"gate_hung")

    def test_bad_addresses_are_rejected_before_anything_starts(self):
        data = self.folder / "data"
        common = [f"--listen={self.address}", f"--data_dir={data}"]
        for flags, why in (
            (["--redis=localhost:6379"], "an address of the gate is"), (["--redis=redis://host"], "an address of the"),
            (["--redis=redis://127.0.0.1:0"], "an address of the gate is"), (["--redis=redis:///" + "x" * 108], "an address"),
            (["--redis=redis://0.0.0.0:6379"], "--insecure_open"), (["--redis_token_file=/none"], "--redis"),
            (["--cluster_nodes=redis://127.0.0.1:1"], "--redis"),
            (["--redis=redis:///x", "--cluster_announce=redis://127.0.0.1:1"], "--cluster_nodes"),
            (["--redis=redis:///x", "--cluster_nodes=redis://127.0.0.1:1"],
             "--cluster_nodes: none of them is an address at which this gate listens (--listen, or --redis of kvserver); add it"),
            (["--redis=redis://127.0.0.1:1", "--cluster_nodes=127.0.0.1:1"], "--cluster_nodes: '127.0.0.1:1' is no node"),
            (["--redis=redis://127.0.0.1:1", "--cluster_nodes=redis://127.0.0.1:1,redis://127.0.0.1:1"], "comes twice"),
            (["--redis=redis://127.0.0.1:1", "--cluster_nodes=redis://127.0.0.1:1", "--cluster_announce=redis://b:1"],
             "--cluster_announce: 'redis://b:1' is none of --cluster_nodes"),
            (["--redis=redis:///x", f"--tokens={self.write('tokens', self.make_token('one'))}"], "--redis_token_file"),
        ):  # fmt: skip
            with self.subTest(flags=flags):
                self.assertIn(why, self.rejected(64, *common, *flags))
        port = harness.free_port()
        without_local = [f"--listen=tcp://127.0.0.1:{port}", "--durability=memory", "--redis=redis:///x"]
        self.assertIn("--listen=local:", self.rejected(64, *without_local))
        self.assertFalse(data.exists())
        self.assertFalse(pathlib.Path(f"{self.folder}/socket").exists())

    def test_a_gate_that_cannot_serve_ends_the_server(self):
        taken = redis_pair.socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        flags = [f"--listen={self.address}", "--durability=memory", "--memory=64M"]
        said = self.rejected(75, *flags, f"--redis=redis://127.0.0.1:{taken.getsockname()[1]}")
        self.assertRegex(said, r"gate_said: kvgate: redis://127\.0\.0\.1:[0-9]+: Address already in use")
        self.assertRegex(said, r"gate_ended: .*exit status 75")
        self.assertRegex(said, r"error start_failed: the gate of --redis")
        self.assertNotIn("ready at", said)

    def test_a_missing_gate(self):
        shutil.copy(harness.program("kvserver"), self.folder)
        run = subprocess.run(
            [f"{self.folder}/kvserver", f"--listen={self.address}", f"--data_dir={self.folder}/data",
             f"--redis=redis://{self.gate_path}"],
            capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 69, run.stderr)
        self.assertIn(b"install kvgate beside kvserver", run.stderr)
        self.assertFalse((self.folder / "data").exists())

    def test_the_configuration(self):
        other = f"{self.folder}/gate2.sock"
        path = self.write("config", "\n".join([
            f"listen = {self.address}", "durability = memory", "memory = 64M", f"redis = redis://{self.gate_path}",
            f"redis = redis://{other}",
        ]))  # fmt: skip
        run = subprocess.run(
            [harness.program("kvserver"), f"--config={path}", "--print_config"], capture_output=True,
            timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(re.findall(rb"(?m)^redis = (.*)$", run.stdout),
                         [f"redis://{self.gate_path}".encode(), f"redis://{other}".encode()])  # fmt: skip
        self.assertFalse(pathlib.Path(self.gate_path).exists())
        server = harness.Server(f"--config={path}")
        self.addCleanup(server.close)
        for address in (self.gate_path, other):
            self.assertEqual(self.wire(address).call("PING"), b"+PONG\r\n")
        shown = harness.kvctl(self.address, "config").stdout.decode()
        self.assertIn(f"redis = redis://{other}", shown)
        # A gate stays where it is until the server is started again.
        pathlib.Path(path).write_text(pathlib.Path(path).read_text(encoding="utf-8").replace(other, other + "x"), encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        server.await_said(rb"restart_needed: [^\n]*redis")
        self.assertEqual(self.wire(other).call("PING"), b"+PONG\r\n")

    def test_the_gate_is_a_node_of_a_cluster(self):
        ports = [harness.free_port() for _ in range(3)]
        nodes = [f"redis://127.0.0.1:{port}" for port in ports]
        server = self.start(f"--redis={nodes[1]}", f"--cluster_nodes={','.join(nodes[:2])}")
        wire = self.wire()
        said = [line.split()[1:] for line in wire.call("CLUSTER", "NODES").decode().split("\r\n", 1)[1].splitlines()]
        own = sorted(f"127.0.0.1:{port}@0" for port in ports[:2]).index(f"127.0.0.1:{ports[1]}@0")
        self.assertEqual([words[0] for words in said if words], sorted(f"127.0.0.1:{port}@0" for port in ports[:2]))
        self.assertEqual([words[1].startswith("myself") for words in said if words], [own == 0, own == 1])
        shown = harness.kvctl(self.address, "config").stdout.decode()
        self.assertIn(f"cluster_nodes = {','.join(nodes[:2])} ", shown)
        self.assertEqual(server.stop()[0], 0)
        # Behind another address.
        server = self.start(f"--cluster_nodes={nodes[2]}", f"--cluster_announce={nodes[2]}")
        wire = self.wire()
        self.assertIn(f"127.0.0.1:{ports[2]}@0 myself,".encode(), wire.call("CLUSTER", "NODES"))
        self.assertEqual(wire.call("SET", "k", "v"), b"+OK\r\n")
        self.assertEqual(server.stop()[0], 0)

    def test_tokens(self):
        tokens = self.write("tokens", self.make_token("gate"))
        server = self.start(f"--tokens={tokens}", f"--redis_token_file={tokens}")
        self.assertEqual(self.wire().call("SET", "k", "v"), b"+OK\r\n")
        self.assertEqual(harness.kvctl(self.address, "get", "k").returncode, 77)
        self.assertEqual(server.stop()[0], 0)

    def test_the_manager_hears_of_it_when_the_gate_serves(self):
        manager = service_test.Manager(f"{self.folder}/notify")
        self.addCleanup(manager.socket.close)
        server = self.start(environment={"NOTIFY_SOCKET": f"{self.folder}/notify"})
        manager.until("READY=1")
        self.assertEqual(self.wire().call("PING"), b"+PONG\r\n")
        self.assertEqual(server.stop()[0], 0)
        self.assertEqual(manager.until("STOPPING=1"), ["STOPPING=1", "STATUS=stopping"])

    def test_no_file_of_the_server_is_the_gates(self):
        server = self.start()
        gate = self.gate_of(server)
        links = {os.readlink(f"/proc/{gate}/fd/{fd}") for fd in os.listdir(f"/proc/{gate}/fd")}
        files = {link for link in links if link.startswith("/") and not link.startswith("/memfd:")}
        self.assertEqual(files, {"/dev/null"}, links)
        self.assertEqual(server.stop()[0], 0)


class ShardsTest(redis_pair.TestCase):
    """One gate for the servers of --shards."""

    def flags(self, redis):
        return [f"--listen={self.address}", f"--data_dir={self.folder}/data", "--durability=logged", "--memory=128M",
                "--commit_log=8M", "--shards=2", f"--redis={redis}"]  # fmt: skip

    def children(self, server, name):
        """Returns the processes that run this program."""
        run = subprocess.run(["pgrep", "-P", str(server.process.pid), name], capture_output=True, check=False)
        return [int(pid) for pid in run.stdout.split()]

    def test_a_gate_over_all_servers(self):
        server = harness.Server(*self.flags(f"redis://{self.gate_path}"))
        self.addCleanup(server.close)
        wire = self.wire()
        for i in range(20):
            self.assertEqual(wire.call("SET", f"key{i}", i), b"+OK\r\n")
        self.assertEqual(wire.call("DBSIZE"), b":20\r\n")
        counts = [int(harness.kvctl(f"{self.address}.{shard}", "count").stdout) for shard in range(2)]
        self.assertEqual((sum(counts), min(counts) > 0), (20, True))
        for pid in self.children(server, "kvserver"):
            os.kill(pid, signal.SIGKILL)
        harness.wait_until(lambda: wire.call("DBSIZE") == b":20\r\n", "both servers are back")
        (gate,) = self.children(server, "kvgate")
        os.kill(gate, signal.SIGKILL)
        server.await_said(rb"(?s)gate_ready: .*gate_ready: ")
        self.assertEqual(self.wire().call("GET", "key7"), b"$1\r\n7\r\n")
        children = [*self.children(server, "kvgate"), *self.children(server, "kvserver")]
        self.assertEqual(len(children), 3)
        self.assertEqual(server.stop()[0], 0)
        self.assertEqual([pid for pid in children if harness.is_running(pid)], [])

    def test_the_gate_is_a_node_of_a_cluster(self):
        node = f"redis://127.0.0.1:{harness.free_port()}"
        server = harness.Server(*self.flags(node), f"--cluster_nodes={node}")
        self.addCleanup(server.close)
        cli = ["redis-cli", "-c", "-u", node]
        for i in range(10):
            run = subprocess.run([*cli, "set", f"key{i}", "v"], capture_output=True, timeout=harness.PATIENCE, check=False)
            self.assertEqual((run.returncode, run.stdout), (0, b"OK\n"), run.stderr)
        run = subprocess.run([*cli, "cluster", "nodes"], capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertIn(f" {node.removeprefix('redis://')}@0 myself,master - 0 0 1 connected 0-16383\n".encode(), run.stdout)
        self.assertEqual(harness.kvctl(None, f"--topology={self.folder}/data/topology", "count").stdout, b"10\n")
        self.assertEqual(server.stop()[0], 0)

    def test_a_gate_that_cannot_serve_ends_the_servers(self):
        taken = redis_pair.socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        run = subprocess.run(
            [harness.program("kvserver"), *self.flags(f"redis://127.0.0.1:{taken.getsockname()[1]}")],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual((run.returncode, run.stdout), (75, b""), run.stderr)
        self.assertRegex(run.stderr, rb"error start_failed: the gate of --redis")
        self.assertFalse(pathlib.Path(f"{self.folder}/socket.0").exists())

    def test_tokens(self):
        tokens = self.write("tokens", self.make_token("gate"))
        server = harness.Server(*self.flags(f"redis://{self.gate_path}"), f"--tokens={tokens}", f"--redis_token_file={tokens}")
        self.addCleanup(server.close)
        self.assertEqual(self.wire().call("SET", "k", "v"), b"+OK\r\n")
        self.assertEqual(server.stop()[0], 0)


class CookbookTest(redis_copies.TestCase):
    """The lines of docs/guide/redis.md, as they stand there, with places of the test's own."""

    def test_an_application_that_speaks_redis(self):
        page = (ROOT / "docs/guide/redis.md").read_text(encoding="utf-8")
        section = page.split("\n## Try Remora in an application that speaks Redis\n")[1].split("\n## ")[0]
        lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
        self.assertEqual(len(lines), 10)
        redis = self.redis()
        redis.fill([("greeting", "hello"), ("other", "value")])
        port = harness.free_port()
        # The application knows its Redis by a variable, and writes there.
        self.write("application", '#!/bin/sh\nredis-cli -u "$REDIS_URL" append greeting " again"\n', mode=0o700)
        script = "\n".join(["set -eu", *lines, "wait"])
        for old, new in (("6379", str(redis.port)), ("6380", str(port)), ("/tmp/remora", f"{self.folder}/remora")):
            self.assertIn(old, script)
            script = script.replace(old, new)
        with open(self.folder / "output", "wb") as output:
            run = subprocess.Popen(
                ["bash", "-c", script], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, "PATH": f"{harness.BIN}:{os.environ['PATH']}"}, start_new_session=True,
            )  # fmt: skip
        self.addCleanup(self.end_group, run.pid)
        run.wait(timeout=2 * harness.PATIENCE)
        said = (self.folder / "output").read_text()
        self.assertEqual(run.returncode, 0, said)
        for expected in ("imported 2\n", "exported 2\n", "greeting\thello again\n"):
            self.assertIn(expected, said)
        self.assertEqual(said.count("different 0\n"), 2, said)
        self.assertEqual(redis.records(1), {b"greeting": b"hello again", b"other": b"value"})
        self.assertEqual(redis.records(0), {b"greeting": b"hello", b"other": b"value"})

    def end_group(self, group):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    unittest.main()
