"""Error messages of the programs: subject, words and exit status."""

import os
import resource
import subprocess
import unittest

import harness
from harness import kvctl

EX_USAGE = 64
EX_DATAERR = 65
EX_OSERR = 71
EX_IOERR = 74
EX_NOPERM = 77


def run(program, *arguments, **options):
    """Runs a program that is expected to end by itself."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([harness.program(program), *arguments], timeout=harness.PATIENCE, check=False, **streams)


def kvserver(*arguments):
    return run("kvserver", *arguments)


class UsageTest(harness.TestCase):
    def expect(self, rejected, status, *words):
        self.assertEqual(rejected.returncode, status, rejected.stderr)
        self.assertRegex(rejected.stderr, rb"\Akv[a-z]+: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, rejected.stderr)

    def test_settings_that_contradict_each_other(self):
        listen = f"--listen={self.address}"
        data = f"{self.folder}/data"
        (self.folder / "link").symlink_to("data")
        for flags, words in (
            ([listen, listen, "--durability=memory"], b": is given twice"),
            (["--durability=memory", *(f"--listen=local:///{n}" for n in range(257))], b"257 addresses are given, and 256 is the most"),
            ([listen, f"--listen=local://{self.folder}//./socket", "--durability=memory"], b": is given twice"),
            (["--listen=verbs://localhost:1", "--listen=verbs://localhost:1", "--durability=memory"], b": is given twice"),
            ([listen, f"--data_dir={data}", f"--backup_dir={data}/"], b"--data_dir and --backup_dir are the same"),
            ([listen, f"--data_dir={data}", f"--backup_dir={self.folder}/link"], b"--data_dir and --backup_dir are the same"),
            ([listen, "--durability=memory", "--watch_retention=1h"], b"leave out --watch_retention"),
            ([listen, "--durability=memory", "--commit_log=1G"], b"leave out --commit_log"),
            ([listen, f"--data_dir={data}", "--commit_log=1K"], b"--commit_log: '1K' is neither off nor a size from 1M to 1T"),
        ):  # fmt: skip
            with self.subTest(flags=flags):
                self.expect(kvserver(*flags), EX_USAGE, words)
        same = [f"--data={data}", f"--to={self.folder}/link"]
        self.expect(kvctl(None, "backup", *same), EX_USAGE, b"--data_dir and --to are the same")
        self.expect(kvctl(None, "restore", f"--from={data}", f"--to={data}"), EX_USAGE, b"--from and --to are the same")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["link"])

    def test_a_fault_of_an_address_says_what_to_do(self):
        long = "x" * 120
        self.expect(kvserver(f"--listen=local:///{long}", "--durability=memory"), EX_USAGE, b"at most 107; shorten it")
        nowhere = kvctl(f"tcp://127.0.0.1:{harness.free_port()}", "ping")
        self.expect(nowhere, 69, b"Connection refused; see that kvserver runs there")
        tokens = self.write("tokens", "one\n")
        self.expect(kvserver(f"--listen={self.address}", "--durability=memory", f"--tokens={tokens}"), EX_USAGE,
                    b"line 1: a token is: name, role, secret; `kvctl create_token NAME` prints")  # fmt: skip
        config = self.write("config", f'data_dir = "{self.folder}\n')
        self.expect(kvserver(f"--listen={self.address}", f"--config={config}"), 78,
                    b"line 1: data_dir: the closing quote is missing")  # fmt: skip

    def test_flags_that_would_change_nothing(self):
        listen = [f"--listen={self.address}", "--durability=memory"]
        server = f"--server={self.address}"
        bench = ["all", "--target=embedded"]
        for program, flags, words in (
            ("kvserver", [*listen, "--tcp_threads=1"], b"--tcp_threads: is for tcp addresses"),
            ("kvserver", [*listen, "--memory_windows=auto"], b"--memory_windows: is for verbs addresses"),
            ("kvserver", ["--listen=tcp://127.0.0.1:1", "--insecure_open", "--durability=memory", "--local_access=group"],
             b"--local_access: is for local addresses"),
            ("kvserver", ["--listen=tcp://127.0.0.1:1", "--insecure_open", "--durability=memory", "--socket_mode=660"],
             b"--socket_mode: is for local addresses"),
            ("kvserver", [*listen, "--redis=redis://127.0.0.1:1", "--redis_token_file=/none"],
             b"--redis_token_file: the server has no tokens"),
            ("kvserver", [*listen, "--read_threads=1"], b"--durability=memory reads nothing from RocksDB"),
            ("kvserver", [*listen, "--backup_keep=1"], b"--backup_keep needs --backup_dir"),
            ("kvserver", [*listen, "--insecure_http"], b"--insecure_http needs --http"),
            ("kvctl", ["backups", "--from=x", server], b"--server: is for commands that ask a server"),
            ("kvctl", ["check", "--data=x", "--timeout=5"], b"--timeout: is for commands that ask a server"),
            ("kvctl", ["restore", "--from=x", "--to=y", "--token_file=z"], b"--token_file: is for commands"),
            ("kvctl", ["backup", "--data=x", "--to=y", server], b"backup --data_dir asks none; leave it out"),
            ("kvctl", ["create_token", "name", server], b"create_token asks none; leave it out"),
            ("kvbench", [*bench, "--interval=1"], b"--interval: needs a file that takes the series"),
            ("kvbench", [*bench, "--time_every=5", "--depth=2"], b"--time_every: is for --depth=1"),
            ("kvbench", [*bench, "--time_every=5", "--rate=2"], b"--time_every: is for --depth=1"),
            ("kvbench", [*bench, "--token_file=x"], b"--token_file: is for a server of Remora's only"),
            ("kvbench", ["report", "x", "--html=y", "--records=5"], b"--records: is for a run"),
            ("kvbench", ["report", "x", "--html=y", "-p", "a=b"], b"-p: is for a run"),
            ("kvbench", ["report", "x", "--by=depth"], b"--by: draws charts: needs --html"),
            ("kvbench", ["floor", f"--target={self.address}", "--rate=5"], b"--rate: is for a run"),
        ):  # fmt: skip
            with self.subTest(flags=flags):
                self.expect(run(program, *flags), EX_USAGE, words)
        # The environment is that of all commands.
        listed = kvctl(None, "create_token", "name", env={**os.environ, "REMORA_SERVER": self.address})
        self.assertEqual(listed.returncode, 0, listed.stderr)

    def test_an_error_names_its_command_once(self):
        self.memory_server()
        rejected = kvctl(self.address, "delete_all")
        self.assertEqual(rejected.stderr, b"kvctl: delete_all: it deletes for good; confirm it with --yes\n")
        rejected = kvctl(self.address, "scan")
        self.assertRegex(rejected.stderr, rb"\Akvctl: scan: the store keeps no order of its keys; [^\n]+\n\Z")
        rejected = kvctl(self.address, "get", "missing")
        self.assertEqual(rejected.stderr, b"kvctl: get: no such key\n")

    def test_a_span_of_time_that_is_none(self):
        for flag, rejected in (
            (b"--idle", kvctl(self.address, "watch", "--idle=0s")),
            (b"--ttl", kvctl(self.address, "put", "key", "value", "--ttl=0s")),
            (b"DURATION", kvctl(self.address, "touch", "key", "0s")),
            (b"--default_ttl", kvserver(f"--listen={self.address}", "--durability=memory", "--default_ttl=0s")),
            (b"--watch_retention",
             kvserver(f"--listen={self.address}", f"--data_dir={self.folder}/data", "--watch_retention=0s")),
        ):  # fmt: skip
            with self.subTest(flag=flag):
                self.expect(rejected, EX_USAGE, flag + b": '0s' is no time at all; the least is 1ms")

    def test_a_size_that_is_too_large_is_told_the_bounds(self):
        rejected = kvserver(f"--listen={self.address}", "--durability=memory", "--memory=16777216T")
        self.expect(rejected, EX_USAGE, b"'16777216T' is not a size from 0 to 18446744073709551615: a whole number of bytes")

    def test_a_file_of_a_token_that_cannot_be_used(self):
        """The same status from all programs: of the server's tokens, and of a client's."""
        listen = [f"--listen={self.address}", "--durability=memory"]
        missing = f"{self.folder}/none"
        wrong = self.write("wrong", "nonsense nonsense nonsense\n")
        shown = self.write("shown", self.make_token("name"), mode=0o644)
        for path, status in (missing, EX_USAGE), (wrong, EX_USAGE), (str(self.folder), EX_USAGE), (shown, EX_NOPERM):
            with self.subTest(path=path):
                self.expect(kvserver(*listen, f"--tokens={path}"), status, path.encode())
                self.expect(kvctl(self.address, "ping", f"--token_file={path}"), status, path.encode())
                bench = ["all", f"--target={self.address}", f"--token_file={path}"]
                self.expect(run("kvbench", *bench), status, path.encode())

    def test_what_a_terminal_would_obey_is_shown(self):
        title = "\x1b]0;owned\x07"
        shown = rb"\x1b]0;owned\x07"
        (self.folder / f"log{title}").mkdir()
        listen = [f"--listen={self.address}", "--durability=memory"]
        for rejected in (
            kvctl(None, title), kvctl(None, f"--{title}"), kvctl(f"local:///{title}", "ping"), kvctl(title, "ping"),
            kvctl(None, "check", f"--data={self.folder}/{title}"), kvctl(self.address, "put", "key", "v", f"--ttl={title}"),
            kvserver(*listen, title), kvserver(f"--listen={title}", "--durability=memory"),
            kvserver(*listen, f"--tokens={self.folder}/{title}"), kvserver(f"--listen=local:///none/{title}", listen[1]),
            run("kvbench", title), run("kvbench", "all", f"--target=local:///none/{title}"),
            run("kvbench", "all", "--target=embedded", f"--json={self.folder}/none/{title}"),
            run("kvbench", "report", f"{self.folder}/{title}", f"--html={self.folder}/page"),
        ):  # fmt: skip
            with self.subTest(arguments=rejected.args):
                self.assertNotEqual(rejected.returncode, 0)
                self.assertIn(shown, rejected.stderr)
                self.assertNotRegex(rejected.stderr, rb"[\x00-\x09\x0b-\x1f\x7f]")

    def test_a_full_pipe_at_standard_error_holds_up_no_rejection(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        self.addCleanup(os.close, write_end)
        os.set_blocking(write_end, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(write_end, bytes(4096))
        os.set_blocking(write_end, True)
        for program in ("kvctl", "kvserver", "kvbench"):
            with self.subTest(program=program):
                self.assertEqual(run(program, "--bogus", stderr=write_end).returncode, EX_USAGE)
        self.assertEqual(run("kvctl", f"--server={self.address}", "ping", stderr=write_end).returncode, 69)

    def test_what_is_no_flag_has_no_nearest(self):
        rejected = kvctl(self.address, "put", "k=v", "--x=y")
        self.expect(rejected, EX_USAGE, b"there is no flag --x; write arguments that are no flags behind --")
        self.expect(kvctl(self.address, "GET", "key"), EX_USAGE, b"there is no command 'GET'; the nearest is get;")


class DoneTest(harness.TestCase):
    """A write stays done if its result cannot be printed, and the error says so."""

    def test_results_that_cannot_be_written(self):
        self.server(f"--data_dir={self.folder}/data", "--memory=64M", f"--backup_dir={self.folder}/backups")
        export = b'{"remora_export":1}\n{"key":"a","value":"b"}\n{"records":1}\n'
        for command, stdin, done in (
            (["incr", "number", "5"], b"", b"the sum 5 is stored"), (["append", "text", "more"], b"", b"has 4 bytes now"),
            (["import"], export, b"1 records were imported"), (["backup"], b"", b"the backup is made, and has the number 1"),
            (["delete_all", "--yes"], b"", b"3 keys were deleted"),
        ):  # fmt: skip
            with self.subTest(command=command), open("/dev/full", "wb") as full:
                failed = subprocess.run(
                    [harness.program("kvctl"), f"--server={self.address}", *command],
                    input=stdin, stdout=full, stderr=subprocess.PIPE, timeout=harness.PATIENCE, check=False,
                )  # fmt: skip
                self.assertEqual(failed.returncode, EX_IOERR, failed.stderr)
                self.assertIn(b"standard output: No space left on device; it was done all the same: ", failed.stderr)
                self.assertIn(done, failed.stderr)
        self.assertEqual(kvctl(self.address, "count").stdout, b"0\n")
        with open("/dev/full", "wb") as full:
            flags = ["restore", f"--from={self.folder}/backups", f"--to={self.folder}/new"]
            restored = run("kvctl", *flags, stdout=full)
        self.assertEqual(restored.returncode, EX_IOERR, restored.stderr)
        self.assertIn(b"backup 1 is restored", restored.stderr)

    def test_an_import_of_nothing(self):
        self.memory_server()
        rejected = kvctl(self.address, "import")
        self.assertEqual(rejected.returncode, EX_DATAERR)
        self.assertRegex(rejected.stderr, rb"\Akvctl: import: standard input is empty; [^\n;]+\n\Z")


class ShortageTest(harness.TestCase):
    def test_a_limit_of_descriptors_is_a_shortage_and_no_damage(self):
        """At each limit, a command is done, or says that descriptors are short."""
        server = self.server(f"--data_dir={self.folder}/data", "--memory=64M", f"--backup_dir={self.folder}/backups")
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        self.assertEqual(kvctl(self.address, "backup").returncode, 0)
        outcomes = set()
        for limit in (5, 6, 7, 8, 10, 12, 16, 20, 64):
            commands = [["get", "key"], ["check", f"--from={self.folder}/backups"]]
            if limit == 64:
                self.assertEqual(server.stop()[0], 0)
            if server.process.returncode is not None:
                commands = [["check", f"--data={self.folder}/data"]]
            commands.append(["restore", f"--from={self.folder}/backups", f"--to={self.folder}/new{limit}"])
            for command in commands:
                with self.subTest(limit=limit, command=command):
                    ended = run(
                        "kvctl", *command, env={**os.environ, "REMORA_SERVER": self.address},
                        preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
                    )  # fmt: skip
                    outcomes.add(ended.returncode)
                    if ended.returncode != 0:
                        self.assertEqual(ended.returncode, EX_OSERR, ended.stderr)
                        self.assertRegex(ended.stderr, rb"ulimit -n|Too many open files")
        self.assertEqual(outcomes, {0, EX_OSERR})


if __name__ == "__main__":
    unittest.main()
