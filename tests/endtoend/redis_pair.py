"""A real redis-server and a kvgate with its kvserver, side by side, and raw connections to both."""

import shutil
import socket
import subprocess

import harness

REDIS_SERVER = shutil.which("redis-server") or "/usr/bin/redis-server"


class Gate:
    """A kvgate that serves when the constructor returns."""

    def __init__(self, *flags, **options):
        self.process = subprocess.Popen(
            [harness.program("kvgate"), *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **options,
        )  # fmt: skip
        line = self.process.stdout.readline()
        if line != b"ready\n":
            self.process.kill()
            _, errors = self.process.communicate()
            raise AssertionError(f"kvgate {flags} is not ready; {self.process.returncode}: {errors!r}")

    def stop(self):
        """Asks it to stop; returns its exit status and what it wrote to stderr."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=harness.PATIENCE)
        return self.process.returncode, errors

    def close(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()

    def resident(self):
        """Returns how many bytes of memory it has of its own, without the server's, which it maps."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon:"))


class Wire:
    """A connection that sends bytes and takes replies as the bytes that they are."""

    def __init__(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(harness.PATIENCE)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self.input = self.socket.makefile("rb")

    def close(self):
        self.input.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        """Returns one reply, with all that it has inside, or what came before the end."""
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            return line
        kind, text = line[:1], line[1:-2]
        if kind in b"$=" and text != b"-1":
            return line + self.input.read(int(text) + 2)
        count = int(text) if kind in b"*~%>" and text != b"-1" else 0
        return line + b"".join(self.reply() for _ in range(count * (2 if kind == b"%" else 1)))

    def call(self, *words):
        self.send(request(*words))
        return self.reply()


def request(*words):
    """Returns the bytes of a command."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class TestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.gate_path = f"{self.folder}/gate.sock"

    def gate(self, *flags):
        gate = Gate(f"--listen=redis://{self.gate_path}", f"--server={self.address}", *flags)
        self.addCleanup(gate.close)
        return gate

    def wire(self, address=None):
        wire = Wire(address or self.gate_path)
        self.addCleanup(wire.close)
        return wire

    def redis(self, *flags):
        """Starts a redis-server, with further flags; returns the path of its socket."""
        path = f"{self.folder}/redis.sock"
        server = subprocess.Popen(
            [REDIS_SERVER, "--port", "0", "--unixsocket", path, "--databases", "1", "--save", "", "--dir", self.folder, *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)

        def serves():
            try:
                Wire(path).close()
            except OSError:
                return False
            return True

        harness.wait_until(serves, "redis-server serves")
        return path
