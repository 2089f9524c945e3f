"""Parts that the tests of kvctl import --from and export --to share: a real redis-server with a port, and its data."""

import contextlib
import select
import signal
import socket
import subprocess
import threading

import harness
import redis_pair


class Redis:
    """A redis-server that serves when the constructor returns: at a port, and at a Unix socket."""

    def __init__(self, folder, *flags, password=None):
        self.port = harness.free_port()
        self.path = f"{folder}/redis{self.port}.sock"
        self.password = password
        self.flags = ["--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.path, "--save", "",
                      "--dir", str(folder), "--enable-debug-command", "yes", *flags]  # fmt: skip
        if password:
            self.flags += ["--requirepass", password]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [redis_pair.REDIS_SERVER, *self.flags], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        harness.wait_until(self.serves, "redis-server serves")

    def serves(self):
        try:
            wire = redis_pair.Wire(("127.0.0.1", self.port))
        except OSError:
            return False
        reply = wire.call("PING")
        wire.close()
        return reply.startswith((b"+PONG", b"-NOAUTH"))

    def address(self, database=0):
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}127.0.0.1:{self.port}/{database}"

    def wire(self, database=0):
        wire = redis_pair.Wire(self.path)
        if self.password:
            assert wire.call("AUTH", self.password) == b"+OK\r\n"
        assert wire.call("SELECT", database) == b"+OK\r\n"
        return wire

    def call(self, *words, database=0):
        """Does one command; returns the bytes of the reply."""
        wire = self.wire(database)
        try:
            return wire.call(*words)
        finally:
            wire.close()

    def fill(self, records, database=0):
        """Stores many records, of (key, value)."""
        wire = self.wire(database)
        records = list(records)
        for begin in range(0, len(records), 1000):
            part = records[begin : begin + 1000]
            wire.send(b"".join(redis_pair.request("SET", key, value) for key, value in part))
            for _ in part:
                assert wire.reply() == b"+OK\r\n"
        wire.close()

    def records(self, database=0):
        """Returns all strings as {key: value}, by commands of its own."""
        wire = self.wire(database)
        keys = array(wire.call("KEYS", "*"))
        values = {}
        for begin in range(0, len(keys), 1000):
            part = keys[begin : begin + 1000]
            values |= dict(zip(part, array(wire.call("MGET", *part)), strict=True))
        wire.close()
        return values

    def close(self):
        self.process.kill()
        self.process.wait()


def array(reply):
    """The strings of an array. It copies no rest of the reply, which may have many megabytes."""
    end = reply.index(b"\r\n")
    count, at, strings = int(reply[1:end]), end + 2, []
    for _ in range(count):
        end = reply.index(b"\r\n", at)
        size, at = int(reply[at + 1 : end]), end + 2
        strings.append(reply[at : at + size] if size >= 0 else None)
        at += size + 2 if size >= 0 else 0
    return strings


def counts(output):
    """The lines NAME NUMBER of a report."""
    lines = [line.split(" ") for line in output.decode().splitlines() if "\t" not in line]
    return {name: number for name, number in lines}


def skipped(output):
    """The lines about keys that were skipped, as sets of (why, key as it is shown)."""
    lines = [line.split("\t") for line in output.decode().splitlines() if line.startswith("skipped\t")]
    return {(why, key) for _, why, key in lines}


class Relay:
    """A connection to a Redis that goes through here. After so many bytes of replies it is cut or, with `holds`,
    held until `release` is set; `held` says when."""

    def __init__(self, port, bytes_to_client, holds=False):
        self.target = port
        self.left = bytes_to_client
        self.holds = holds
        self.held, self.release = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve_one)
        self.thread.start()

    def serve_one(self):
        client, _ = self.listener.accept()
        with client, socket.create_connection(("127.0.0.1", self.target)) as server, contextlib.suppress(OSError):
            while True:
                readable, _, _ = select.select([client, server], [], [], harness.PATIENCE)
                if not readable:
                    return
                for source in readable:
                    data = source.recv(65536)
                    if not data or not self.pass_on(data, server if source is client else None, client):
                        return

    def pass_on(self, data, server, client):
        """Returns False if the connection ends."""
        if server:
            server.sendall(data)
            return True
        part = data[: max(self.left, 0)] if self.left < len(data) else data
        client.sendall(part)
        self.left -= len(part)
        if len(part) == len(data):
            return True
        if not self.holds:
            return False
        self.held.set()
        self.release.wait(harness.PATIENCE)
        self.left = 1 << 60
        client.sendall(data[len(part) :])
        return True

    def close(self):
        self.release.set()
        self.thread.join()
        self.listener.close()


class Impostor:
    """Serves one connection, and answers commands by bytes of the test's choice; others as a Redis with the key `k` does."""

    USUAL = {b"INFO": b"$0\r\n\r\n", b"DBSIZE": b":1\r\n", b"SCAN": b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n",
             b"TYPE": b"+string\r\n", b"STRLEN": b":1\r\n", b"GET": b"$1\r\nv\r\n", b"PTTL": b":-1\r\n", b"SET": b"+OK\r\n"}  # fmt: skip

    def __init__(self, replies):
        self.replies = self.USUAL | replies
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve_one)
        self.thread.start()

    def address(self):
        return f"redis://127.0.0.1:{self.port}"

    def serve_one(self):
        client, _ = self.listener.accept()
        with client, client.makefile("rb") as commands, contextlib.suppress(OSError):
            while line := commands.readline():
                words = []
                for _ in range(int(line[1:])):
                    size = int(commands.readline()[1:])
                    words.append(commands.read(size + 2)[:-2])
                client.sendall(self.replies.get(words[0], b"+OK\r\n"))

    def close(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()  # if nobody has come
        self.thread.join()
        self.listener.close()


class TestCase(harness.TestCase):
    def impostor(self, **replies):
        impostor = Impostor({name.encode(): reply for name, reply in replies.items()})
        self.addCleanup(impostor.close)
        return impostor

    def redis(self, *flags, **options):
        redis = Redis(self.folder, *flags, **options)
        self.addCleanup(redis.close)
        return redis

    def relay(self, redis, bytes_to_client, **options):
        relay = Relay(redis.port, bytes_to_client, **options)
        self.addCleanup(relay.close)
        return relay

    def kvctl(self, *arguments, status=0, stdin=b""):
        run = harness.kvctl(self.address, *arguments, stdin=stdin)
        self.assertEqual(run.returncode, status, (run.stdout[-2000:], run.stderr))
        return run

    def resume_token(self, run_stderr):
        self.assertRegex(run_stderr, rb"\Akvctl: (import|export): [^\n]*go on by the same command with --resume=[^\s]+\n\Z")
        return run_stderr.decode().rsplit("--resume=", 1)[1].strip()

    def interrupted(self, relay, *arguments, meanwhile=None):
        """Runs kvctl until the relay holds, does `meanwhile`, and interrupts it unless that was given. Returns its
        exit status, output and errors."""
        run = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", f"--timeout={harness.PATIENCE * 1000}", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        self.assertTrue(relay.held.wait(harness.PATIENCE))
        if meanwhile:
            meanwhile()
        else:
            run.send_signal(signal.SIGINT)
        relay.release.set()
        output, errors = run.communicate(timeout=harness.PATIENCE)
        return run.returncode, output, errors

    def stored(self):
        """All records of the server as {key: value}, by its JSON export."""
        import transfer_test

        export = self.kvctl("export", "--any_order").stdout
        records = transfer_test.records_of(export)
        return {transfer_test.bytes_of(record, "key"): transfer_test.bytes_of(record, "value") for record in records}
