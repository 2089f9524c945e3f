"""kvgate with real clients, and with a server that goes and comes back."""

import pathlib
import re
import select
import signal
import subprocess
import threading
import time
import unittest

import harness
import redis_pair

MIB = 1 << 20


class ClientsTest(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server(memory="256M")
        self.gate("--threads=2")

    def run_program(self, *words, stdin=b""):
        run = subprocess.run(words, input=stdin, capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_redis_cli(self):
        cli = ["redis-cli", "-s", self.gate_path]
        self.assertEqual(self.run_program(*cli, "set", "key", "value"), b"OK\n")
        self.assertEqual(self.run_program(*cli, "get", "key"), b"value\n")
        self.assertEqual(harness.kvctl(self.address, "get", "key").stdout, b"value")
        self.assertEqual(self.run_program(*cli, "-3", "mget", "key", "none"), b"value\n\n")
        # As a terminal does, which asks for COMMAND DOCS first.
        typed = self.run_program(*cli, stdin=b"incr n\nincrby n 41\nget n\n")
        self.assertEqual(typed, b"1\n42\n42\n")
        self.assertIn(b"remora_version", self.run_program(*cli, "info"))
        self.assertIn(b"db0:keys=2", self.run_program(*cli, "info", "keyspace"))
        piped = b"".join(redis_pair.request("SET", f"p{i}", i) for i in range(1000))
        self.assertIn(b"errors: 0, replies: 1000", self.run_program(*cli, "--pipe", stdin=piped))
        self.assertEqual(self.run_program(*cli, "dbsize"), b"1002\n")

    def test_redis_benchmark(self):
        for depth in ("1", "16"):
            words = ["redis-benchmark", "-s", self.gate_path, "-t", "ping,get,set,incr,mset", "-n", "2000", "-c", "20"]
            said = self.run_program(*words, "-P", depth, "--csv", "-r", "100").decode()
            tests = [line.split(",")[0] for line in said.splitlines() if line.startswith('"')]
            wanted = ['"PING_INLINE"', '"PING_MBULK"', '"SET"', '"GET"', '"INCR"', '"MSET (10 keys)"']
            self.assertEqual([name for name in tests if name in wanted], wanted, said)

    def test_python_redis(self):
        # By the interpreter that Debian's package is for.
        program = pathlib.Path(__file__).with_name("kvgate_python_redis.py")
        self.assertEqual(self.run_program("/usr/bin/python3", "-B", program, self.gate_path), b"done\n")

    def test_hiredis(self):
        # kvbench speaks to Redis through it, one by one and with a depth, and verifies each value.
        words = [harness.program("kvbench"), "all", f"--target=redis://{self.gate_path}", "--workload=a", "--records=200"]
        for depth in ("1", "16"):
            self.run_program(*words, "--operations=1000", "--verify", f"--depth={depth}")

    def test_clients_see_each_other(self):
        one, other = self.wire(), self.wire()
        one.call("CLIENT", "SETNAME", "first")
        self.assertEqual(other.call("CLIENT", "SETINFO", "LIB-NAME", "mine"), b"+OK\r\n")
        clients = other.call("CLIENT", "LIST").decode()
        self.assertIn(" name=first ", clients)
        self.assertIn(" lib-name=mine ", clients)
        first = int(one.call("CLIENT", "ID")[1:])
        self.assertIn(f"id={first} ", other.call("CLIENT", "LIST", "ID", first).decode())
        self.assertIn(" cmd=client|info ", one.call("CLIENT", "INFO").decode())
        one.close()
        harness.wait_until(lambda: b"name=first" not in other.call("CLIENT", "LIST"), "the client is gone")

    def test_commands_after_silent_ones_are_answered(self):
        wire = self.wire()
        for _ in range(3):
            silent = [("CLIENT", "REPLY", "OFF"), *[("SET", "k", "v")] * 40, ("CLIENT", "REPLY", "ON")]
            wire.send(b"".join(redis_pair.request(*words) for words in silent))
            self.assertEqual(wire.reply(), b"+OK\r\n")
            wire.send(redis_pair.request("GET", "k") * 40 + redis_pair.request("PING"))
            answers = [wire.reply() for _ in range(40)]
            self.assertEqual(answers, [b"$1\r\nv\r\n"] * 40)
            self.assertEqual(wire.reply(), b"+PONG\r\n")

    def test_killing_clients(self):
        wires = [self.wire() for _ in range(5)]
        ids = [int(wire.call("CLIENT", "ID")[1:]) for wire in wires]
        mine = self.wire()
        self.assertEqual(mine.call("CLIENT", "KILL", "ID", ids[0]), b":1\r\n")
        self.assertEqual(wires[0].input.read(), b"")
        self.assertEqual(mine.call("CLIENT", "KILL", "TYPE", "normal"), b":4\r\n")
        for wire in wires[1:]:
            self.assertEqual(wire.input.read(), b"")
        harness.wait_until(lambda: mine.call("CLIENT", "LIST").count(b"id=") == 1, "the others are gone")
        mine.send(redis_pair.request("CLIENT", "KILL", "ID", mine.call("CLIENT", "ID")[1:-2].decode(), "SKIPME", "no"))
        self.assertEqual(mine.input.read(), b":1\r\n")

    def test_replies_can_be_off(self):
        wire = self.wire()
        wire.send(b"CLIENT REPLY SKIP\r\nSET k 1\r\nGET k\r\nCLIENT REPLY OFF\r\nSET k 2\r\nPING\r\nNOSUCH\r\n")
        wire.send(b"CLIENT REPLY ON\r\nGET k\r\n")
        self.assertEqual([wire.reply() for _ in range(3)], [b"$1\r\n1\r\n", b"+OK\r\n", b"$1\r\n2\r\n"])

    def test_help_lists_what_there_is(self):
        theirs, ours = self.wire(self.redis()), self.wire()
        for command in ("CLIENT", "COMMAND", "CONFIG", "MEMORY", "OBJECT", "PUBSUB"):
            expected, lines = (wire.call(command, "HELP").split(b"\r\n")[1:-1] for wire in (theirs, ours))
            self.assertEqual((lines[0], lines[-2:]), (expected[0], expected[-2:]), command)
            names = [line[1:].split()[0] for line in lines[1:-2] if not line.startswith((b"+ ", b"+("))]
            self.assertNotEqual(names, [], command)
            for name in names:
                if name != b"SETINFO":  # It came after Redis 7.0.
                    self.assertIn(b"+" + name, [line.split()[0] for line in expected], command)
                # More arguments than any has; the reply is another error than for a name that is not there.
                self.assertNotIn(b"unknown subcommand '", ours.call(command, name, *["x"] * 9), (command, name))
            self.assertEqual(ours.call(command, "HELP", "x"), theirs.call(command, "HELP", "x"))
        self.assertIn(b"unknown subcommand", ours.call("CONFIG", "REWRITE"))
        ours.send(b"MULTI\r\nOBJECT HELP\r\nEXEC\r\n")
        self.assertEqual((ours.reply(), ours.reply()), (b"+OK\r\n", b"+QUEUED\r\n"))
        self.assertIn(b"+OBJECT <subcommand>", ours.reply())

    def test_info_tells_the_memory_of_the_server(self):
        def used(*sections):
            text = wire.call("INFO", *sections)
            return int(re.search(rb"\r\nused_memory:(\d+)\r\n", text).group(1))

        wire = self.wire()
        before = used("memory")
        self.assertEqual(wire.call("SET", "large", bytes(4 * MIB)), b"+OK\r\n")
        self.assertGreaterEqual(used() - before, 4 * MIB)
        self.assertIn(b"\r\nblocked_clients:0\r\n", wire.call("INFO", "clients"))
        self.assertIn(b"\r\nconnected_slaves:0\r\n", wire.call("INFO", "replication"))
        self.assertEqual(wire.call("WAIT", 0, 0), b":0\r\n")

    def test_info_tells_the_time_of_the_processor(self):
        wire = self.wire()
        for sections in (("cpu",), ()):
            text = wire.call("INFO", *sections)
            used = sum(float(number) for number in re.findall(rb"\r\nused_cpu_(?:sys|user):(\d+\.\d{6})\r\n", text))
            self.assertGreater(used, 0, text)

    def test_the_last_command_of_a_client_has_its_subcommand(self):
        wire, other = self.wire(), self.wire()
        for words, name in ((("CONFIG", "GET", "save"), "config|get"), (("OBJECT", "ENCODING", "k"), "object|encoding"),
                            (("GET", "k"), "get"), (("CLIENT", "nothing"), "client")):  # fmt: skip
            wire.call(*words)
            self.assertIn(f" cmd={name} ".encode(), other.call("CLIENT", "LIST"), words)

    def test_describing_commands(self):
        wire = self.wire()
        count = int(wire.call("COMMAND", "COUNT")[1:])
        self.assertTrue(wire.call("COMMAND").startswith(b"*%d\r\n" % count))
        self.assertIn(b"*10\r\n$3\r\nset\r\n:-3\r\n", wire.call("COMMAND", "INFO", "set"))
        self.assertEqual(wire.call("COMMAND", "INFO", "lpush"), b"*1\r\n*-1\r\n")
        self.assertTrue(wire.call("COMMAND", "DOCS", "get", "none").startswith(b"*2\r\n$3\r\nget\r\n"))

    def test_many_keys_and_large_values(self):
        wire = self.wire()
        for i in range(0, 3000, 1000):
            pairs = [word for j in range(i, i + 1000) for word in (f"m{j}", j)]
            self.assertEqual(wire.call("MSET", *pairs), b"+OK\r\n")
        keys = [f"m{j}" for j in range(3000)]
        self.assertTrue(wire.call("MGET", *keys).endswith(b"$4\r\n2999\r\n"))
        self.assertEqual(wire.call("EXISTS", *keys), b":3000\r\n")
        self.assertEqual(wire.call("DEL", *keys, *keys), b":3000\r\n")
        reply = wire.call("MSET", *[word for j in range(1025) for word in (f"m{j}", j)])
        self.assertIn(b"-ERR mset: not all of it fits into an atomic batch", reply)
        self.assertEqual(wire.call("EXISTS", *keys), b":0\r\n")
        large = b"v" * (3 * MIB)
        self.assertEqual(wire.call("SET", "large", large), b"+OK\r\n")
        self.assertEqual(wire.call("GET", "large"), b"$%d\r\n%b\r\n" % (len(large), large))
        self.assertEqual(wire.call("APPEND", "large", "w"), b":%d\r\n" % (len(large) + 1))
        self.assertEqual(wire.call("SETRANGE", "large", 0, "w"), b":%d\r\n" % (len(large) + 1))
        self.assertEqual(wire.call("GETRANGE", "large", -2, -1), b"$2\r\nvw\r\n")
        self.assertIn(b"atomic batch", wire.call("RENAME", "large", "other"))
        self.assertEqual(wire.call("COPY", "large", "other"), b":1\r\n")
        self.assertEqual(wire.call("STRLEN", "other"), b":%d\r\n" % (len(large) + 1))

    def test_keys_that_no_store_has(self):
        wire = self.wire()
        for key in (b"", b"k" * 4097):
            self.assertEqual(wire.call("GET", key), b"$-1\r\n")
            self.assertEqual(wire.call("EXISTS", key), b":0\r\n")
            self.assertEqual(wire.call("DEL", key), b":0\r\n")
            self.assertEqual(wire.call("TTL", key), b":-2\r\n")
            self.assertIn(b"-ERR key: it has %d bytes" % len(key), wire.call("SET", key, "v"))

    def test_writers_of_one_key_lose_nothing(self):
        def write():
            wire = redis_pair.Wire(self.gate_path)
            for _ in range(200):
                wire.call("INCRBYFLOAT", "sum", "0.5")
                wire.call("APPEND", "text", "x")
            wire.close()

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wire = self.wire()
        self.assertEqual(wire.call("GET", "sum"), b"$3\r\n400\r\n")
        self.assertEqual(wire.call("STRLEN", "text"), b":800\r\n")

    def test_changes_keep_the_expiry_exactly(self):
        wire = self.wire()
        at = (int(time.time()) + 1000) * 1000 + 321
        wire.call("SET", "k", "1", "PXAT", at)
        for change in (("INCRBYFLOAT", "k", "0.5"), ("SETRANGE", "k", 0, "2"), ("APPEND", "k", "0"),
                       ("SET", "k", "3", "KEEPTTL"), ("INCR", "k"), ("RENAME", "k", "l"), ("COPY", "l", "k")):  # fmt: skip
            self.assertFalse(wire.call(*change).startswith(b"-"), change)
            key = "l" if change[0] == "RENAME" else "k"
            self.assertEqual(wire.call("PEXPIRETIME", key), b":%d\r\n" % at, change)


class ServerTest(redis_pair.TestCase):
    def test_a_server_that_is_killed_and_comes_back(self):
        server = self.logged_server()
        gate = self.gate("--timeout=3000")
        wire, other = self.wire(), self.wire()
        self.assertEqual(wire.call("SET", "k", "v"), b"+OK\r\n")
        server.kill()
        reply = wire.call("GET", "k")  # in less than the patience of a Wire
        self.assertTrue(reply.startswith(b"-ERR "), reply)
        # Meanwhile the gate answers what needs no server.
        wire.send(redis_pair.request("SET", "k", "w"))
        self.assertEqual(other.call("PING"), b"+PONG\r\n")
        self.assertTrue(wire.reply().startswith(b"-ERR "))
        self.logged_server()
        harness.wait_until(lambda: other.call("GET", "k") == b"$1\r\nv\r\n", "it serves again")
        self.assertEqual(wire.call("SET", "k", "x"), b"+OK\r\n")
        self.assertEqual(wire.call("DBSIZE"), b":1\r\n")
        self.assertEqual(gate.stop(), (0, b""))

    def test_a_reply_does_not_wait_for_that_of_a_later_command(self):
        server = self.memory_server()
        self.gate("--timeout=3000")
        wire = self.wire()
        self.assertEqual(wire.call("SET", "k", "v"), b"+OK\r\n")
        harness.freeze(server.process)
        self.addCleanup(server.process.send_signal, signal.SIGCONT)
        wire.send(redis_pair.request("PING") + redis_pair.request("SET", "k", "w"))
        self.assertEqual(wire.socket.recv(1 << 10), b"+PONG\r\n")
        server.process.send_signal(signal.SIGCONT)
        self.assertFalse(wire.reply().startswith(b"+PONG"))

    def test_commands_wait_for_a_server_that_is_back_in_time(self):
        server = self.logged_server()
        self.gate("--timeout=30000")
        wire = self.wire()
        wire.call("SET", "k", "v")
        server.kill()
        wire.send(redis_pair.request("GET", "k"))
        self.logged_server()
        self.assertEqual(wire.reply(), b"$1\r\nv\r\n")

    def test_so_do_commands_of_all_keys_before_their_first_connection(self):
        server = self.logged_server()
        self.gate(f"--timeout={1000 * harness.PATIENCE}")
        wires = {words: self.wire() for words in (("DBSIZE",), ("SCAN", 0), ("INFO", "keyspace"), ("KEYS", "*"))}
        self.assertEqual(self.wire().call("SET", "k", "v"), b"+OK\r\n")
        server.kill()
        for words, wire in wires.items():
            wire.send(redis_pair.request(*words))
        for words, wire in wires.items():
            self.assertEqual(select.select([wire.socket], [], [], 0.2)[0], [], words)
        self.logged_server()
        for words, wire in wires.items():
            reply = wire.reply()
            self.assertFalse(reply.startswith(b"-"), (words, reply))
            self.assertRegex(reply, rb"\A:1\r|\$1\r\nk\r|db0:keys=1\r", words)

    def test_it_ends_while_a_command_waits_for_the_server(self):
        server = self.logged_server()
        gate = self.gate("--timeout=600000")
        server.kill()
        wire = self.wire()
        wire.send(redis_pair.request("DBSIZE"))
        self.assertEqual(select.select([wire.socket], [], [], 0.2)[0], [])
        self.assertEqual(gate.stop(), (0, b""))

    def test_a_read_only_token(self):
        writer = self.make_token("writer")
        reader = self.make_token("reader", "read-only")
        self.memory_server(f"--tokens={self.write('tokens', writer + reader)}")
        harness.kvctl(self.address, "put", "k", "v", f"--token_file={self.write('writer', writer)}")
        self.gate(f"--token_file={self.write('reader', reader)}")
        wire = self.wire()
        self.assertEqual(wire.call("GET", "k"), b"$1\r\nv\r\n")
        self.assertTrue(wire.call("SET", "k", "w").startswith(b"-NOPERM "))
        self.assertTrue(wire.call("DEL", "k").startswith(b"-NOPERM "))

    def test_a_full_server(self):
        self.memory_server("--eviction=none")
        self.gate()
        wire = self.wire()
        value = b"v" * MIB
        replies = {wire.call("SET", f"k{i}", value) for i in range(100)}
        self.assertEqual(len(replies), 2, replies)
        self.assertTrue(any(reply.startswith(b"-OOM ") for reply in replies), replies)


class CommandLineTest(redis_pair.TestCase):
    def rejected(self, *flags):
        run = subprocess.run([harness.program("kvgate"), *flags], capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(run.stdout, b"")
        return run.returncode, run.stderr

    def test_bad_flags(self):
        listen, server = f"--listen=redis://{self.gate_path}", f"--server={self.address}"
        for flags in ([], [listen], [server], [listen, "--server=nothing"], ["--listen=tcp://127.0.0.1:1", server],
                      ["--listen=redis://", server], ["--listen=redis://host", server], ["--listen=redis://h:0", server],
                      [listen, server, "--threads=0"], [listen, server, "--max_clients=0"],
                      [listen, server, "--token_file=/nowhere"]):  # fmt: skip
            code, errors = self.rejected(*flags)
            self.assertEqual(code, 64, (flags, errors))
            self.assertTrue(errors.startswith(b"kvgate: "), errors)

    def test_no_server(self):
        code, errors = self.rejected(f"--listen=redis://{self.gate_path}", f"--server={self.address}")
        self.assertEqual(code, 69, errors)
        code, errors = self.rejected(f"--listen=redis://{self.folder}/none/x", f"--server={self.address}")
        self.assertEqual(code, 73, errors)

    def test_where_it_may_listen(self):
        self.memory_server()
        server, port = f"--server={self.address}", harness.free_port()
        code, errors = self.rejected(f"--listen=redis://0.0.0.0:{port}", server)
        self.assertEqual(code, 64)
        self.assertIn(b"--insecure_open", errors)
        gate = redis_pair.Gate(f"--listen=redis://0.0.0.0:{port}", "--insecure_open", server)
        self.addCleanup(gate.close)
        self.assertEqual(self.wire(("127.0.0.1", port)).call("PING"), b"+PONG\r\n")
        self.assertEqual(self.rejected(f"--listen=redis://127.0.0.1:{port}", server)[0], 75)
        self.gate()
        self.assertEqual(self.rejected(f"--listen=redis://{self.gate_path}", server)[0], 75)
        self.assertEqual(self.wire().call("PING"), b"+PONG\r\n")

    def test_signals_and_stale_sockets(self):
        self.memory_server()
        for number in (signal.SIGTERM, signal.SIGINT):
            gate = self.gate()
            self.assertEqual(self.wire().call("SET", "k", "v"), b"+OK\r\n")
            gate.process.send_signal(number)
            gate.process.communicate(timeout=harness.PATIENCE)
            self.assertEqual(gate.process.returncode, 0)
            self.assertFalse((self.folder / "gate.sock").exists())
        gate = self.gate()
        gate.close()
        self.assertTrue((self.folder / "gate.sock").exists())
        self.gate()
        self.assertEqual(self.wire().call("GET", "k"), b"$1\r\nv\r\n")


if __name__ == "__main__":
    unittest.main()
