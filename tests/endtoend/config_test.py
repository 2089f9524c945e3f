"""kvserver's configuration file: read, outvoted by flags, printed, and refused with the line that is wrong."""

import os
import pathlib
import subprocess
import unittest

import harness

NOBODY = 65534


class ConfigTest(harness.TestCase):
    def run_kvserver(self, *flags, **options):
        return subprocess.run(
            [harness.program("kvserver"), *flags], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=harness.PATIENCE, check=False, **options,
        )  # fmt: skip

    def refused(self, *flags, status=78, **options):
        run = self.run_kvserver(*flags, **options)
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertRegex(run.stderr, rb"\Akvserver: [^\n]+\n\Z")
        self.assertEqual(run.stdout, b"")
        return run.stderr.decode()

    def test_from_a_file_to_a_server(self):
        token = self.make_token("one")
        file = self.write(
            "kvserver.conf",
            f"""# A server for a test.
                listen = {self.address}
                listen = "local://{self.folder}/b # 2"
                durability = memory   # keeps nothing
                memory = 32M
                max_clients = 3
                tokens = {self.write("tokens", token)}
            """,
        )
        server = harness.Server(f"--config={file}", "--max_clients=5")
        self.addCleanup(server.close)
        server.await_said(b"clients: 5 at most")
        token_file = f"--token_file={self.write('token', token)}"
        for address in (self.address, f"local://{self.folder}/b # 2"):
            self.assertEqual(harness.kvctl(address, "ping", token_file).returncode, 0)
        self.assertEqual(harness.kvctl(self.address, "ping").returncode, 77)

    def test_what_is_printed_says_the_same(self):
        token = self.make_token("one")
        tokens = self.write("tokens", token)
        file = self.write("kvserver.conf", f"listen = {self.address}\nmemory = 64M\ntokens = {tokens}\nquiet = true\n")
        run = self.run_kvserver(f"--config={file}", "--memory=32M", f"--data_dir={self.folder}/data", "--print_config")
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        lines = run.stdout.decode().splitlines()
        for line in (f"listen = {self.address}", "memory = 32M", f"data_dir = {self.folder}/data", "quiet = true",
                     f"tokens = {tokens}", "# durability = logged", "# commit_log = off", "# backup_dir ="):  # fmt: skip
            self.assertIn(line, lines)
        self.assertNotIn(token.split()[2], run.stdout.decode())
        # Nothing was made, or served.
        self.assertFalse((self.folder / "data").exists())
        self.assertFalse((self.folder / "socket").exists())
        again = self.run_kvserver(f"--config={self.write('printed', run.stdout.decode())}", "--print_config")
        self.assertEqual((again.returncode, again.stdout), (0, run.stdout))
        # Bad flags are found, as for a server that starts.
        self.assertIn("--data_dir", self.refused(f"--config={file}", "--print_config", status=64))

    def test_each_flag_has_a_key(self):
        flags = subprocess.run([harness.program("kvserver"), "--help"], capture_output=True, check=True, text=True).stdout
        names = {line.split()[0].split(",")[-1] for line in flags.splitlines() if line.startswith("  -")}
        run = self.run_kvserver(f"--listen={self.address}", "--durability=memory", "--print_config")
        keys = {line.removeprefix("# ").split(" =")[0] for line in run.stdout.decode().splitlines()[1:]}
        self.assertEqual({f"--{key}" for key in keys} | {"--help", "--version", "--config", "--print_config"}, names)

    def test_bad_lines(self):
        base = f"listen = {self.address}\ndurability = memory\n"
        for line, says in (
            ("memroy = 64M", "line 3: there is no key memroy; the nearest is memory"),
            ("memory = much", "line 3: memory: 'much' is not "),
            ("memory = 64M\nmemory = 64M", "line 4: memory: stands in line 3, too"),
            ("default_ttl = soon", "line 3: default_ttl: "),
            ("watch_retention = never", "line 3: watch_retention: the disk would fill"),
            ("listen = tcp://host:1x", "line 3: listen: "),
            ("insecure_open = yes", "line 3: insecure_open: 'yes' is neither true nor false"),
            ("tokens =", "line 3: tokens: the value is empty"),
            ("print_config = true", "line 3: print_config: stands on the command line only"),
            ("[server]", "line 3: write key = value"),
            ("memory = \x1b[2J", "line 3: there is a control character"),
        ):
            with self.subTest(line=line):
                file = self.write("kvserver.conf", base + line + "\n")
                self.assertIn(f"kvserver: {file}: {says}", self.refused(f"--config={file}"))
        self.assertFalse((self.folder / "socket").exists())

    def test_files_that_are_none(self):
        self.assertIn("No such file", self.refused(f"--config={self.folder}/none", status=66))
        self.assertIn("is a directory", self.refused(f"--config={self.folder}", status=66))
        self.assertIn("no regular file", self.refused("--config=/dev/null", status=66))
        self.assertIn("more than 1 MiB", self.refused(f"--config={self.write('large', '#' * (10 << 20))}"))
        binary = pathlib.Path(harness.program("kvserver")).read_bytes()[:4096]
        (self.folder / "binary").write_bytes(binary)
        self.assertIn("line 1: there is a control character", self.refused(f"--config={self.folder}/binary"))
        self.assertIn("is given twice", self.refused("--config=a", "--config=b", status=64))

    @unittest.skipIf(os.geteuid() != 0, "takes root, to be another user")
    def test_a_file_that_may_not_be_read(self):
        file = self.write("secret", "memory = 64M\n")
        self.folder.chmod(0o755)
        run = subprocess.run(
            [harness.program("kvserver"), f"--config={file}"], capture_output=True, timeout=harness.PATIENCE, check=False,
            user=NOBODY, group=NOBODY, extra_groups=[],
        )  # fmt: skip
        self.assertEqual(run.returncode, 77, run.stderr)
        self.assertIn(b"Permission denied", run.stderr)


if __name__ == "__main__":
    unittest.main()
