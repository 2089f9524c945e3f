"""Access to kvgate: tokens by AUTH and HELLO, and TLS."""

import pathlib
import socket
import ssl
import subprocess
import unittest

import harness
import redis_pair
from tls_test import blocks_of_guide

NOAUTH = b"-NOAUTH Authentication required.\r\n"
WRONG = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"


class TlsWire(redis_pair.Wire):
    """A connection over TLS."""

    def __init__(self, port, context):
        plain = socket.create_connection(("127.0.0.1", port), timeout=harness.PATIENCE)
        try:
            self.socket = context.wrap_socket(plain, server_hostname="localhost")
        except OSError:
            plain.close()
            raise
        self.input = self.socket.makefile("rb")


class TokensTest(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server()
        writer, reader = self.make_token("writer"), self.make_token("reader", "read-only")
        self.tokens = self.write("tokens", writer + reader)
        self.writer, self.reader = writer.split()[2], reader.split()[2]

    def test_replies_are_those_of_redis(self):
        self.gate(f"--tokens={self.tokens}")
        theirs, ours = self.wire(self.redis()), self.wire()
        rights = ("+@read", "+@connection", "+@transaction", "+@fast", "-@write")
        theirs.call("ACL", "SETUSER", "reader", "on", ">secret", "~*", *rights)
        theirs.call("CONFIG", "SET", "requirepass", "top")
        theirs = self.wire(f"{self.folder}/redis.sock")
        for words in (
            ("PING",), ("GET", "k"), ("NOSUCH",), ("GET",), ("MULTI",), ("EXEC",), ("HELLO",), ("HELLO", 3), ("HELLO", 9),
            ("AUTH",), ("AUTH", "nothing"), ("AUTH", "reader", "nothing"), ("AUTH", "a", "b", "c"), ("AUTH", "nobody", "@"),
            ("HELLO", 3, "AUTH", "reader", "nothing"), ("HELLO", 3, "AUTH", "reader"), ("PING",), ("RESET",),
            ("AUTH", "reader", "@"), ("GET", "k"), ("SET", "k", "v"), ("DEL", "k"), ("INCR", "k"), ("SET",),
            ("MULTI",), ("GET", "k"), ("SET", "k", "v"), ("EXEC",), ("MULTI",), ("GET", "k"), ("EXEC",),
            ("AUTH", "reader", "nothing"), ("GET", "k"), ("RESET",), ("GET", "k"), ("QUIT",),
        ):  # fmt: skip
            expected = theirs.call(*["secret" if word == "@" else word for word in words])
            got = ours.call(*[self.reader if word == "@" else word for word in words])
            self.assertEqual(got, expected, words)

    def test_tokens(self):
        self.gate(f"--tokens={self.tokens}")
        wire = self.wire()
        self.assertEqual(wire.call("SET", "k", "v"), NOAUTH)
        self.assertEqual(wire.call("AUTH", "writer", self.reader), WRONG)
        self.assertEqual(wire.call("AUTH", "writer", self.writer), b"+OK\r\n")
        self.assertEqual(wire.call("SET", "k", "v"), b"+OK\r\n")
        self.assertIn(b" user=writer ", wire.call("CLIENT", "INFO"))
        self.assertEqual(wire.call("AUTH", self.reader), b"+OK\r\n")
        for command in (("SET", "k", "w"), ("FLUSHALL",), ("EXPIRE", "k", 1), ("RENAME", "k", "l"), ("GETDEL", "k"),
                        ("CONFIG", "SET", "maxclients", 5)):  # fmt: skip
            reply = b"-NOPERM this user has no permissions to run the '%b' command\r\n" % command[0].lower().encode()
            self.assertEqual(wire.call(*command), reply)
        self.assertEqual(wire.call("GET", "k"), b"$1\r\nv\r\n")
        self.assertEqual(wire.call("KEYS", "*"), b"*1\r\n$1\r\nk\r\n")
        other = self.wire()
        self.assertTrue(other.call("HELLO", 3, "AUTH", "writer", self.writer, "SETNAME", "n").startswith(b"%7\r\n"))
        self.assertEqual(other.call("INCR", "n"), b":1\r\n")
        self.assertEqual(self.wire().call("HELLO", 3, "AUTH", "writer", ""), WRONG)

    def test_strangers_send_little(self):
        self.gate(f"--tokens={self.tokens}")
        self.wire(self.redis()).call("CONFIG", "SET", "requirepass", "top")
        for begin in (b"*11\r\n", b"*2\r\n$4\r\nECHO\r\n$16385\r\n"):
            replies = []
            for wire in (self.wire(), self.wire(f"{self.folder}/redis.sock")):
                wire.send(begin)
                replies.append(wire.input.read())
            self.assertTrue(replies[0].startswith(b"-ERR Protocol error: unauthenticated "), replies[0])
            self.assertEqual(*replies)
        wire = self.wire()
        wire.send(redis_pair.request("AUTH", self.writer) + redis_pair.request("ECHO", "x" * 20_000))
        self.assertEqual((wire.reply(), len(wire.reply())), (b"+OK\r\n", 20_010))

    def test_without_tokens(self):
        self.gate()
        theirs, ours = self.wire(self.redis()), self.wire()
        for words in (("AUTH", "x"), ("AUTH", "default", "x"), ("AUTH", "x", "y"), ("HELLO", 2, "AUTH", "a", "b"), ("PING",)):
            self.assertEqual(ours.call(*words), theirs.call(*words), words)

    def rejected(self, *flags):
        run = subprocess.run(
            [harness.program("kvgate"), f"--server={self.address}", *flags], capture_output=True,
            timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.stdout, b"")
        return run.returncode, run.stderr

    def test_bad_files(self):
        listen = f"--listen=redis://{self.gate_path}"
        limited = self.write("limited", "a read-only " + "ab" * 32 + " connections=4\n")
        for flags, code, text in (
            ([listen, f"--tokens={self.folder}/none"], 64, b"tokens in "),
            ([listen, f"--tokens={self.write('junk', 'junk')}"], 64, b"a token is: name, role, secret"),
            ([listen, f"--tokens={self.write('open', 'a read-only ' + 'ab' * 32, mode=0o644)}"], 77, b"tokens in "),
            ([listen, f"--tokens={limited}"], 64, b"has limits, which kvgate does not apply"),
            (["--listen=rediss://127.0.0.1:1"], 64, b"needs a certificate"),
            (["--listen=rediss:///path"], 64, b"it has another form"),
            ([listen, "--listen_tls_cert=x", "--listen_tls_key=y"], 64, b"no --listen has one"),
            (["--listen=rediss://127.0.0.1:1", "--listen_tls_cert=/none", "--listen_tls_key=/none"], 64, b"/none"),
            (["--listen=rediss://127.0.0.1:1", "--listen_tls_cert=/none"], 64, b"come together"),
            ([f"--listen=redis://0.0.0.0:{harness.free_port()}", f"--tokens={self.tokens}"], 64, b"rediss://"),
        ):
            got = self.rejected(*flags)
            self.assertEqual(got[0], code, (flags, got))
            self.assertIn(text, got[1], flags)


class TlsTest(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server()
        for block in blocks_of_guide():
            if block.startswith("openssl"):
                subprocess.run(["sh", "-ec", block], cwd=self.folder, check=True, capture_output=True)
        self.port = harness.free_port()
        self.flags = [f"--listen_tls_cert={self.folder}/server.crt", f"--listen_tls_key={self.folder}/server.key"]

    def tls_gate(self, *flags):
        gate = redis_pair.Gate(f"--listen=rediss://127.0.0.1:{self.port}", f"--server={self.address}", *self.flags, *flags)
        self.addCleanup(gate.close)
        return gate

    def context(self, own=False):
        context = ssl.create_default_context(cafile=f"{self.folder}/ca.crt")
        context.check_hostname = False
        if own:
            context.load_cert_chain(f"{self.folder}/client.crt", f"{self.folder}/client.key")
        return context

    def tls_wire(self, **options):
        wire = TlsWire(self.port, self.context(**options))
        self.addCleanup(wire.close)
        return wire

    def test_commands(self):
        self.tls_gate("--threads=2")
        wires = [self.tls_wire() for _ in range(4)]
        large = b"v" * (5 << 20)
        for i, wire in enumerate(wires):
            self.assertEqual(wire.call("SET", f"large {i}", large), b"+OK\r\n")
            self.assertEqual(wire.call("GET", f"large {i}"), b"$%d\r\n%b\r\n" % (len(large), large))
            wire.send(b"".join(redis_pair.request("INCR", f"n{i}") for _ in range(10_000)))
        for wire in wires:
            self.assertEqual([wire.reply() for _ in range(10_000)], [b":%d\r\n" % n for n in range(1, 10_001)])

    def test_pipelines_with_large_replies(self):
        self.tls_gate()
        wire = self.tls_wire()
        wire.call("SET", "k", b"v" * 100_000)
        wire.send(redis_pair.request("GET", "k") * 200)
        for _ in range(200):
            self.assertEqual(len(wire.reply()), 100_011)

    def test_redis_cli(self):
        self.tls_gate()
        words = ["redis-cli", "-h", "127.0.0.1", "-p", str(self.port), "--tls", "--cacert", f"{self.folder}/ca.crt"]
        run = subprocess.run([*words, "set", "k", "v"], capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual((run.returncode, run.stdout), (0, b"OK\n"), run.stderr)

    def test_nodes_of_a_cluster(self):
        nodes = [f"rediss://127.0.0.1:{port}" for port in (self.port, harness.free_port())]
        for node in nodes:
            gate = redis_pair.Gate(f"--listen={node}", f"--server={self.address}", *self.flags, f"--cluster_nodes={','.join(nodes)}")
            self.addCleanup(gate.close)
        program = pathlib.Path(__file__).with_name("kvgate_python_nodes.py")
        words = ["/usr/bin/python3", "-B", program, str(self.port), f"{self.folder}/ca.crt"]
        run = subprocess.run(words, capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual((run.returncode, run.stdout), (0, b"done\n"), run.stderr)

    def test_strangers(self):
        gate = self.tls_gate(f"--listen_tls_ca={self.folder}/ca.crt")
        self.assertEqual(self.tls_wire(own=True).call("PING"), b"+PONG\r\n")
        # Without a certificate, without TLS, and with nothing at all.
        with self.assertRaises((ssl.SSLError, OSError)):
            wire = self.tls_wire()
            if wire.call("PING") == b"":
                raise OSError("ended")
        plain = self.wire(("127.0.0.1", self.port))
        plain.send(b"PING\r\n" * 100)
        try:
            self.assertNotIn(b"PONG", plain.input.read())
        except ConnectionResetError:
            pass
        silent = [self.wire(("127.0.0.1", self.port)) for _ in range(20)]
        self.assertEqual(self.tls_wire(own=True).call("PING"), b"+PONG\r\n")
        for wire in silent:
            wire.close()
        self.assertEqual(gate.stop(), (0, b""))

    def test_beyond_loopback(self):
        tokens = self.write("tokens", self.make_token("writer"))
        run = subprocess.run(
            [harness.program("kvgate"), f"--server={self.address}", f"--listen=rediss://0.0.0.0:{self.port}", *self.flags],
            capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 64, run.stderr)
        gate = redis_pair.Gate(
            f"--server={self.address}", f"--listen=rediss://0.0.0.0:{self.port}", f"--tokens={tokens}", *self.flags
        )
        self.addCleanup(gate.close)
        self.assertEqual(self.tls_wire().call("PING"), NOAUTH)


if __name__ == "__main__":
    unittest.main()
