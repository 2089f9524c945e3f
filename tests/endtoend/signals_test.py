"""Signals and limits that end a process by default: kvserver outlives them, or says why it ends."""

import itertools
import os
import resource
import shutil
import signal
import subprocess
import unittest

import harness
from harness import kvctl

EX_UNAVAILABLE = 69
EX_OSERR = 71
EX_IOERR = 74


class SignalsTest(harness.TestCase):
    def test_it_outlives_what_does_not_ask_it_to_stop(self):
        for tokens in ([], [f"--tokens={self.write('tokens', self.make_token('all'))}", "--insecure_open"]):
            with self.subTest(tokens=tokens):
                server = self.logged_server(*tokens)
                ends = {signal.SIGTERM, signal.SIGINT, signal.SIGXCPU, signal.SIGQUIT, signal.SIGKILL}
                crashes = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV,
                           signal.SIGSYS, signal.SIGTRAP}  # fmt: skip
                stops = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
                for number in signal.valid_signals() - ends - crashes - stops:
                    server.process.send_signal(number)
                    self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0, number)
                self.assertEqual(server.stop()[0], 0)
                self.assertFalse((self.folder / "socket").exists(), "the socket is left behind")

    def test_signals_without_end_while_it_stops(self):
        server = self.logged_server()
        numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        while server.process.poll() is None:
            for number in numbers:
                server.process.send_signal(number)
        self.assertEqual(server.process.returncode, 0)

    def test_a_limit_on_its_time_stops_it(self):
        server = self.logged_server()
        self.assertEqual(server.stop(signal.SIGXCPU)[0], 0)
        self.assertFalse((self.folder / "socket").exists(), "the socket is left behind")

    def test_it_can_be_stopped_where_its_parent_has_blocked_signals(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
        self.addCleanup(signal.pthread_sigmask, signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGHUP])
        server = self.memory_server()
        server.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: b"neither auth tokens nor certificates to read anew" in server.said(), "it has heard SIGHUP")
        self.assertEqual(server.stop()[0], 0)


class FileSizeTest(harness.TestCase):
    def start_limited(self, program, *arguments, size, **options):
        return subprocess.run(
            [harness.program(program), *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
            timeout=harness.PATIENCE, check=False, **options,
        )  # fmt: skip

    def test_memory_beyond_the_limit(self):
        data = f"--data_dir={self.folder}/data"
        run = self.start_limited("kvserver", f"--listen={self.address}", data, size=1 << 20)
        self.assertEqual(run.returncode, EX_OSERR, run.stderr)
        self.assertRegex(run.stderr, rb"\Akvserver: [^\n]*ulimit -f[^\n]*\n\Z")
        self.memory_server()
        run = self.start_limited("kvctl", f"--server={self.address}", "stats", size=1 << 10)
        self.assertEqual(run.returncode, EX_OSERR, run.stderr)
        self.assertRegex(run.stderr, rb"\Akvctl: [^\n]*ulimit -f[^\n]*\n\Z")

    def test_a_backup_beyond_the_limit(self):
        """By a server, and without one: the same exit status."""
        server = self.logged_server(f"--backup_dir={self.folder}/backups")
        self.assertEqual(kvctl(self.address, "put", "key", stdin=os.urandom(2 << 20)).returncode, 0)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        run = kvctl(self.address, "backup")
        self.assertEqual(run.returncode, EX_OSERR, run.stderr)
        self.assertIn(b"File too large", run.stderr)
        server.kill()
        offline = [f"--data={self.folder}/data", f"--to={self.folder}/others"]
        run = self.start_limited("kvctl", "backup", *offline, size=1 << 20)
        self.assertEqual(run.returncode, EX_OSERR, run.stderr)
        self.assertIn(b"File too large", run.stderr)

    def test_a_store_inside_kvbench_beyond_the_limit(self):
        for target in "rocksdb", "lmdb", "embedded":
            for size in 0, 8 << 10:
                with self.subTest(target=target, size=size):
                    data = self.folder / f"{target}{size}"
                    run = self.start_limited(
                        "kvbench", "all", f"--target={target}", f"--data_dir={data}", "--durability=logged",
                        "--records=1000", "--operations=10", size=size, stdout=subprocess.DEVNULL,
                    )  # fmt: skip
                    if run.returncode == EX_UNAVAILABLE and b"was built without" in run.stderr:
                        continue
                    # Opened, a store may hold some records before it is beyond the limit.
                    self.assertIn(run.returncode, {EX_OSERR, 1} if size > 0 else {EX_OSERR}, run.stderr)
                    self.assertIn(b"ulimit -", run.stderr)

    def test_output_beyond_the_limit(self):
        self.memory_server()
        for number in range(10):
            self.assertEqual(kvctl(self.address, "put", f"key{number}", stdin=bytes(256 << 10)).returncode, 0)
        with open(self.folder / "export", "wb") as output:
            server = f"--server={self.address}"
            run = self.start_limited("kvctl", server, "export", "--any_order", size=1 << 20, stdout=output)
        self.assertEqual(run.returncode, EX_IOERR, run.stderr)
        self.assertIn(b"standard output: File too large", run.stderr)

    def test_a_log_beyond_the_limit_rejects_writes(self):
        self.rejects_writes_beyond_the_limit("--commit_log=32M")

    def test_rocksdbs_log_beyond_the_limit_rejects_writes(self):
        self.rejects_writes_beyond_the_limit("--commit_log=off")

    def rejects_writes_beyond_the_limit(self, log):
        """And says so, also with --quiet. Reads go on, and nothing that was acknowledged is lost."""
        server = self.logged_server("--quiet", log)
        value = os.urandom(200_000)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        acknowledged = 0
        while (run := kvctl(self.address, "put", f"key{acknowledged}", stdin=value)).returncode == 0:
            acknowledged += 1
            self.assertLess(acknowledged, 100)
        self.assertIn(b"File too large", run.stderr)
        self.assertEqual(kvctl(self.address, "get", f"key{acknowledged}").returncode, 1)
        self.assertEqual(kvctl(self.address, "get", "key0").stdout, value)
        harness.wait_until(lambda: b" error disk_failed: writes are rejected" in server.said(), "the log says so")
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        harness.wait_until(
            lambda: kvctl(self.address, "put", "again", stdin=value).returncode == 0, "writes are taken again"
        )
        self.assertEqual(server.stop()[0], 0)
        self.logged_server()
        for number in range(acknowledged):
            self.assertEqual(kvctl(self.address, "get", f"key{number}").stdout, value)


class StackTest(harness.TestCase):
    def test_a_small_stack(self):
        """Threads get as much of it as the first one (ulimit -s)."""
        small = ["sh", "-c", 'ulimit -s 256 && exec "$@"', "sh"]

        def run(program, *arguments, stdin=b""):
            done = subprocess.run(
                [*small, harness.program(program), *arguments], input=stdin, capture_output=True, cwd=self.folder,
                timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, b""), arguments)
            return done.stdout

        tcp = f"tcp://127.0.0.1:{harness.free_port()}"
        with open(self.folder / "said", "wb") as said:
            process = subprocess.Popen(
                [*small, harness.program("kvserver"), f"--listen={self.address}", f"--listen={tcp}", "--memory=64M",
                 f"--data_dir={self.folder}/data", f"--backup_dir={self.folder}/backups"],
                stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        harness.wait_until(lambda: b"ready at" in (self.folder / "said").read_bytes(), "the server is ready")
        value = os.urandom(1 << 20)
        for address in self.address, tcp:
            run("kvctl", f"--server={address}", "put", "key", stdin=value)
            self.assertEqual(run("kvctl", f"--server={address}", "get", "key"), value)
            run("kvbench", "all", f"--target={address}", "--records=1000", "--operations=1000", "--depth=4")
        run("kvctl", f"--server={self.address}", "backup")
        process.terminate()
        self.assertEqual(process.wait(harness.PATIENCE), 0)
        run("kvctl", "check", "--from=backups")
        run("kvctl", "restore", "--from=backups", "--to=restored")
        run("kvctl", "check", "--data=restored")
        run("kvbench", "all", "--target=embedded", "--records=1000", "--operations=1000", "--threads=2")


@unittest.skipUnless(os.geteuid() == 0, "only root may start programs as a user of their own")
class ThreadsTest(harness.FewThreadsTestCase):
    def test_threads_that_cannot_be_started(self):
        """Whichever is the first of them: it ends with a line, or serves."""
        starts = itertools.count()

        def serves(most):
            server, is_ready = self.start(most, f"data{next(starts)}")
            if is_ready:
                server.terminate()
            self.assertEqual(server.wait(harness.PATIENCE), 0 if is_ready else EX_OSERR)
            if not is_ready:
                errors = (self.folder / "errors").read_bytes()
                self.assertRegex(errors, rb"\Akvserver: [^\n]*thread[^\n]*ulimit -u[^\n]*\n\Z")
            return is_ready

        enough = None
        for most in range(1, 28):
            with self.subTest(threads=most):
                if enough is not None:
                    # The system counts a thread for a moment after it has ended, and may do so at one start.
                    harness.wait_until(lambda: serves(most), f"it serves, as with {enough}")  # noqa: B023
                elif serves(most):
                    enough = most
        self.assertNotIn(enough, (None, 1))

    def test_threads_of_kvbench(self):
        _, serves = self.start(1000)
        self.assertTrue(serves)
        run = subprocess.run(
            [shutil.copy(harness.program("kvbench"), self.folder), "all", f"--target={self.address}", "--records=10",
             "--operations=10", "--threads=20"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (20, 20)), capture_output=True, cwd="/",
            timeout=harness.PATIENCE, check=False, **self.user,
        )  # fmt: skip
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn(b"kvbench: a thread cannot be started", run.stderr)

    def test_a_thread_for_one_client(self):
        """That client is told, and the others are served."""
        server, serves = self.start(1000)
        self.assertTrue(serves)
        token = kvctl(self.address, "watch", "--show_positions", "--idle=1ms").stdout.decode().strip()
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        self.limit(server, 1)
        for command in (["backup"], ["watch", f"--resume={token}", "--idle=1s"]):
            with self.subTest(command=command):
                run = kvctl(self.address, *command)
                self.assertEqual(run.returncode, EX_OSERR, run.stderr)
                self.assertIn(b"a thread cannot be started", run.stderr)
        self.assertEqual(kvctl(self.address, "get", "key").stdout, b"value")
        self.limit(server, 1000)
        run = kvctl(self.address, "watch", f"--resume={token}", "--idle=1ms", "--limit=1")
        self.assertEqual((run.returncode, run.stdout), (0, b"put\tkey\tvalue\n"), run.stderr)
        self.assertEqual(kvctl(self.address, "backup").returncode, 0)


if __name__ == "__main__":
    unittest.main()
