"""kvserver --check_config: the faults of a configuration, before a start."""

import json
import os
import unittest

import harness
from config_test import NOBODY, ConfigTestCase


class CheckTest(ConfigTestCase):
    """--check_config finds the faults with which a start ends, and makes nothing."""

    def check(self, file, *flags):
        before = sorted(self.folder.rglob("*"))
        run = self.run_kvserver(f"--config={file}", "--check_config", *flags)
        self.assertEqual(sorted(self.folder.rglob("*")), before, "nothing was made")
        return run.returncode, run.stderr.decode().splitlines(), run.stdout.decode()

    def configure(self, *lines):
        return self.write("kvserver.conf", "\n".join((f"listen = {self.address}", "memory = 64M", *lines)) + "\n")

    def test_without_a_fault(self):
        http = f"127.0.0.1:{harness.free_port()}"
        file = self.configure(
            f"data_dir = {self.folder}/data", f"backup_dir = {self.folder}/backups", f"http = {http}",
            f"listen = tcp://127.0.0.1:{harness.free_port()}", f"tokens = {self.write('tokens', self.make_token('one'))}",
        )  # fmt: skip
        status, errors, output = self.check(file)
        self.assertEqual((status, errors), (0, []))
        self.assertRegex(output, r"kvserver: clients: \d+ at most; .*\nkvserver: memory: \d+ bytes for index and records")
        self.assertTrue(output.endswith("kvserver: no fault was found; nothing was made or opened\n"), output)
        # Beside a server that has the same addresses and directories.
        server = harness.Server(f"--config={file}")
        self.addCleanup(server.close)
        self.assertEqual(self.check(file)[:2], (0, []))
        self.assertEqual(server.stop()[0], 0)
        self.assertEqual(self.check(file)[:2], (0, []))

    def test_the_faults_of_a_start(self):
        plain = harness.Server(f"--listen={self.address}", f"--data_dir={self.folder}/used", f"--shard={'0' * 15}1/a")
        self.addCleanup(plain.close)
        self.assertEqual(plain.stop()[0], 0)
        (self.folder / "foreign").mkdir()
        self.write("foreign/file", "")
        self.write("open", self.make_token("one"))
        (self.folder / "open").chmod(0o644)
        self.write("pem", "no certificate")
        (self.folder / "pem").chmod(0o600)
        data, memory = f"data_dir = {self.folder}/data", "durability = memory"
        port = harness.free_port()
        for status, says, lines in (
            (64, "No such file", [memory, f"tokens = {self.folder}/none"]),
            (77, "tokens", [memory, f"tokens = {self.folder}/open"]),
            (64, "pem", [memory, f"listen = tls://127.0.0.1:{port}", f"tls_cert = {self.folder}/pem", f"tls_key = {self.folder}/pem"]),
            (64, "memory", [memory, "max_clients = 65536"]),
            (71, "a change log of", [memory, "change_log = 8T"]),
            (64, "is no HOST:PORT", [memory, "http = here"]),
            (64, "other machines reach this address", [memory, f"http = 0.0.0.0:{port}"]),
            (69, "no interface of this host has this address", [memory, f"http = 203.0.113.1:{port}", "insecure_http = true"]),
            (69, "no such host", [memory, f"http = nowhere.invalid:{port}"]),
            (69, "203.0.113.1", [memory, f"listen = tcp://203.0.113.1:{port}", "insecure_open = true"]),
            (64, "belongs to", [memory, f"listen = tcp://127.0.0.1:{port}", f"listen = tcp://0.0.0.0:{port}", "insecure_open = true"]),
            (73, "make its directory", [memory, f"listen = local://{self.folder}/none/socket"]),
            (75, "exists and is no socket", [memory, f"listen = local://{self.folder}/pem"]),
            (73, "make the directory above it", [f"data_dir = {self.folder}/none/data"]),
            (78, "is not a directory", [f"data_dir = {self.folder}/pem"]),
            (78, "is not a store's", [f"data_dir = {self.folder}/foreign"]),
            (78, "has a commit log", [f"data_dir = {self.folder}/used", "commit_log = off"]),
            (78, "has the data of shard", [f"data_dir = {self.folder}/used", f"shard = {'0' * 15}1/b"]),
            (78, "never followed a primary", [f"data_dir = {self.folder}/used", "follow = true"]),
            (73, "make the directory above it", [data, f"backup_dir = {self.folder}/none/backups"]),
            (78, "is not a backup's", [data, f"backup_dir = {self.folder}/foreign"]),
        ):  # fmt: skip
            with self.subTest(lines=lines):
                file = self.configure(*lines)
                found, errors, output = self.check(file)
                self.assertEqual((found, output), (status, ""), errors)
                self.assertEqual(len(errors), 1)
                self.assertIn(says, errors[0])
                # A start says the same.
                run = self.run_kvserver(f"--config={file}")
                self.assertEqual(run.returncode, status, run.stderr)
                self.assertIn(errors[0].removeprefix("kvserver: "), run.stderr.decode())

    def test_each_fault_is_named(self):
        file = self.configure(f"data_dir = {self.folder}/none/data", f"backup_dir = {self.folder}/none/backups", "http = here")
        status, errors, _ = self.check(file)
        self.assertEqual((status, len(errors)), (64, 3), errors)
        status, errors, _ = self.check(file, "--log_format=json")
        self.assertEqual([json.loads(line)["event"] for line in errors], ["start_failed"] * 3)

    def test_it_prints_no_settings(self):
        file = self.configure("durability = memory")
        self.assertIn("exclude each other", self.rejected(f"--config={file}", "--check_config", "--print_config", status=64))

    @unittest.skipIf(os.geteuid() != 0, "takes root, to be another user")
    def test_rights_of_the_user(self):
        (self.folder / "mine").mkdir(mode=0o700)
        self.folder.chmod(0o755)
        for lines in ([f"data_dir = {self.folder}/data"], [f"data_dir = {self.folder}/mine"]):
            file = self.configure(*lines)
            run = self.run_kvserver(f"--config={file}", "--check_config", user=NOBODY, group=NOBODY, extra_groups=[])
            self.assertEqual(run.returncode, 77, run.stderr)
            self.assertIn(b"Permission denied", run.stderr)


if __name__ == "__main__":
    unittest.main()
