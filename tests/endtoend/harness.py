"""Parts that the end-to-end tests share: the real programs, started, waited for and ended.

The environment variable REMORA_BIN names the folder of the built programs: build/bin by default. REMORA_TRANSPORT says
how the tests reach their servers: local (the default) or tcp. Tests about one transport name their own addresses.
A variable like REMORA_KVGATE names another program than that of the folder.
"""

import ctypes
import errno
import os
import pathlib
import random
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ.get("REMORA_BIN") or pathlib.Path(__file__).parents[2] / "build/bin")

# No test waits this long unless it fails.
PATIENCE = 60


def program(name):
    return os.environ.get(f"REMORA_{name.upper()}") or str(BIN / name)


def kvctl(address, *arguments, stdin=b"", **options):
    """Runs kvctl to its end; returns the CompletedProcess with bytes in stdout and stderr."""
    server = [f"--server={address}"] if address else []
    return subprocess.run(
        [program("kvctl"), *server, *arguments],
        input=stdin, capture_output=True, timeout=PATIENCE, check=False, **options,
    )  # fmt: skip


def stats(address, **options):
    """The server's counters, by kvctl, which gets the options."""
    run = kvctl(address, "stats", **options)
    if run.returncode != 0:
        raise AssertionError(f"kvctl stats: {run.returncode}: {run.stderr!r}")
    return {name: int(value) for name, value in (line.split() for line in run.stdout.decode().splitlines())}


def wait_until(condition, what):
    """Asks again until it is so. For what another process will do soon, and does not announce."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {PATIENCE} s: {what}")
        time.sleep(0.01)


def reserve(port):
    """Returns False if a test has the port already. Tests that run beside, or later in this process, get others."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        one.bind(f"\0remora-test-port-{port}")
    except OSError:
        one.close()
        return False
    one.detach()  # an abstract socket is there as long as this process
    return True


def is_free(host, port):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        try:
            one.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def free_port(host="127.0.0.1", count=1):
    """Returns the first of `count` free ports in a row, between those of tests in C++ (FreshAddress) and those that the
    system gives to clients."""
    while True:
        port = random.randint(20000, 30000 - count)
        if all(is_free(host, each) and reserve(each) for each in range(port, port + count)):
            return port


def read_if_there(path):
    """The bytes of a file of /proc; none if its thread or process has ended."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def freeze(process):
    """Stops a child by SIGSTOP; returns when all of its threads have stopped. Until then, some may go on."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def small_log(flags):
    """The flags of a kvserver, with a small commit log unless they name one: the files of the default are 130 MB of
    zeros at first."""
    has = {flag.partition("=")[0] for flag in flags}
    if "--data_dir" not in has or has & {"--commit_log", "--config"} or "--durability=memory" in flags:
        return flags
    return (*flags, "--commit_log=8M")


class Server:
    """A kvserver that serves when the constructor returns."""

    def __init__(self, *flags, environment=None, before=(), usual_log=False, **options):
        """`before`: a command that runs kvserver, and its arguments. `usual_log`: without small_log."""
        flags = flags if usual_log else small_log(flags)
        ready, ready_write = os.pipe()
        # A file and not a pipe: nobody reads while it serves, and it must not wait for a reader.
        self.errors = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(
                [*before, program("kvserver"), f"--ready_fd={ready_write}", *flags],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, pass_fds=[ready_write],
                env={**os.environ, **(environment or {})}, **options,
            )  # fmt: skip
            os.close(ready_write)
            readable, _, _ = select.select([ready], [], [], PATIENCE)
            if not readable or os.read(ready, 64) != b"ready\n":
                self.kill()
                self.errors.seek(0)
                raise AssertionError(
                    f"kvserver {flags} is not ready; {self.process.returncode}: {self.errors.read()!r}"
                )
        finally:
            os.close(ready)

    def stop(self, signal_number=signal.SIGTERM):
        """Asks it to stop; returns its exit status and what it wrote to stdout."""
        self.process.send_signal(signal_number)
        output, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output

    def kill(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()

    def said(self):
        """Returns its stderr so far; a line comes a little later than its event."""
        return os.pread(self.errors.fileno(), 1 << 20, 0)

    def await_said(self, pattern):
        """Returns the match, as soon as it has written it."""
        wait_until(lambda: re.search(pattern, self.said()), f"it says {pattern}")
        return re.search(pattern, self.said())

    def close(self):
        self.kill()
        self.errors.close()


class TestCase(unittest.TestCase):
    """A test with an empty folder of its own, self.folder, short enough for the path of a socket."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="remora-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.address = self.new_address("socket")

    def new_address(self, name):
        """Returns an address of this test's own, over the transport that REMORA_TRANSPORT names."""
        if os.environ.get("REMORA_TRANSPORT") == "tcp":
            return f"tcp://127.0.0.1:{free_port()}"
        return f"local://{self.folder}/{name}"

    def make_token(self, name, role="read-write"):
        run = kvctl(None, "create_token", name, f"--role={role}")
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        words = run.stdout.decode().split()
        self.assertEqual(words[:2], [name, role])
        self.assertEqual(len(bytes.fromhex(words[2])), 32)
        return run.stdout.decode()

    def write(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def memory_server(self, *flags, memory="64M", address=None):
        return self.server("--durability=memory", f"--memory={memory}", *flags, address=address)

    def logged_server(self, *flags, memory="64M"):
        return self.server("--durability=logged", f"--data_dir={self.folder}/data", f"--memory={memory}", *flags)

    def server(self, *flags, address=None):
        server = Server(f"--listen={address or self.address}", *flags)
        self.addCleanup(server.close)
        return server


def is_running(pid):
    """Returns whether the process runs; a zombie does not."""
    stat = read_if_there(pathlib.Path(f"/proc/{pid}/stat"))
    return stat != b"" and stat.rsplit(b")", 1)[1].split()[0] != b"Z"


def freeze_until_it_ends(pid):
    """Stops a process again and again, as another program may let it go on."""

    def has_ended():
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            return True
        return not is_running(pid)

    wait_until(has_ended, f"process {pid} is ended")


class Debugger:
    """Holds threads of other processes, as a debugger does. All calls come from one thread."""

    def __init__(self):
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def hold(self, thread):
        """Returns 0 once the thread has stopped; or the error of ptrace(2)."""
        ptrace_attach, wall = 16, 0x40000000
        if self._ptrace(ptrace_attach, thread, None, None) != 0:
            return ctypes.get_errno()
        os.waitpid(thread, wall)
        return 0

    def let_go(self, thread):
        ptrace_detach = 17
        if self._ptrace(ptrace_detach, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")


class ShardsTestCase(TestCase):
    """One with the flags of kvserver --shards, whose data and topology lie in the folder."""

    SHARDS = 3

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.topology = self.data / "topology"

    def flags(self, *flags, shards=None, address=None):
        return [f"--shards={shards or self.SHARDS}", f"--listen={address or self.address}", f"--data_dir={self.data}",
                "--durability=logged", "--memory=192M", "--commit_log=8M", *flags]  # fmt: skip

    def start(self, *flags, **options):
        parts = {name: options.pop(name) for name in ("shards", "address") if name in options}
        server = Server(*self.flags(*flags, **parts), **options)
        self.addCleanup(server.close)
        return server

    def expect_ended(self, children):
        """Waits until no process of children() runs any more."""
        for pid in children.values():
            wait_until(lambda pid=pid: not is_running(pid), f"process {pid} has ended")

    def children(self, server):
        """Returns the processes of the servers, by the number of their shard."""
        found = {}
        for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
            for pid in read_if_there(task / "children").split():
                words = read_if_there(pathlib.Path(f"/proc/{int(pid)}/cmdline")).split(b"\0")
                for word in words:  # one that is being started has the words of its parent yet
                    if word.startswith(b"--shard="):
                        found[int(word.rsplit(b"/")[-1])] = int(pid)
        return found

    def address_of(self, shard):
        return f"{self.address}.{shard}"

    def kvctl(self, *arguments, **options):
        """Runs kvctl over all shards."""
        return kvctl(None, f"--topology={self.topology}", *arguments, **options)


class FewThreadsTestCase(TestCase):
    """One with a kvserver of a user of its own, whose threads can be limited. Only root may start it."""

    def setUp(self):
        super().setUp()
        # A user that has no other process, whose threads would count.
        user = random.randrange(1 << 20, 1 << 30)
        self.folder.chmod(0o777)
        self.user = {"user": user, "group": user, "extra_groups": []}
        # A copy: the build may lie where that user cannot go.
        self.kvserver = shutil.copy(program("kvserver"), self.folder)

    def start(self, most_threads, name="data"):
        """Returns the server, and whether it has started to serve."""
        ready, write_end = os.pipe()
        with open(self.folder / "errors", "wb") as errors:
            server = subprocess.Popen(
                [self.kvserver, f"--listen={self.address}", f"--data_dir={self.folder}/{name}", "--memory=64M",
                 "--commit_log=8M", f"--backup_dir={self.folder}/backups", f"--ready_fd={write_end}", "--quiet"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[write_end],
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (most_threads, most_threads)), **self.user,
            )  # fmt: skip
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        os.close(write_end)
        with os.fdopen(ready, "rb") as lines:
            return server, lines.read() == b"ready\n"

    def limit(self, server, most_threads):
        command = ["prlimit", f"--pid={server.pid}", f"--nproc={most_threads}:1000"]
        subprocess.run(command, timeout=PATIENCE, check=True, **self.user)
