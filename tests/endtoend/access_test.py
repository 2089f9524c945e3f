"""Tokens, with the real programs: made, demanded, proven, taken back."""

import os
import signal
import subprocess
import unittest

import harness


class AccessTest(harness.TestCase):
    def kvctl(self, token_file, *arguments, **options):
        return harness.kvctl(self.address, *arguments, *([f"--token_file={token_file}"] if token_file else []), **options)

    def test_from_the_making_of_a_token_to_its_end(self):
        writer, reader = self.make_token("writer"), self.make_token("reader", "read-only")
        self.assertNotEqual(writer, self.make_token("writer"))
        tokens = self.write("tokens", "# who may connect\n" + writer + reader)
        writer_file, reader_file = self.write("writer", writer), self.write("reader", reader)
        server = self.memory_server(f"--tokens={tokens}")

        self.assertEqual(self.kvctl(writer_file, "put", "key", "value").returncode, 0)
        run = self.kvctl(reader_file, "get", "key")
        self.assertEqual((run.returncode, run.stdout), (0, b"value"))
        run = self.kvctl(reader_file, "put", "key", "other")
        self.assertEqual(run.returncode, 77)
        self.assertIn(b"for reading alone", run.stderr)
        run = self.kvctl(None, "get", "key")
        self.assertEqual(run.returncode, 77)
        self.assertIn(b"requires an auth token", run.stderr)
        stranger = self.write("stranger", self.make_token("reader", "read-only"))
        run = self.kvctl(stranger, "get", "key")
        self.assertEqual(run.returncode, 77)
        self.assertIn(b"does not accept this client's auth token", run.stderr)
        environment = {**os.environ, "REMORA_TOKEN_FILE": reader_file}
        counters = harness.stats(self.address, env=environment)
        self.assertEqual(counters["refused_token"], 2)
        self.assertEqual(counters["requests_denied"], 1)
        self.assertEqual(counters["tokens"], 2)

        self.write("tokens", "nonsense\n")
        server.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: b"kept all auth tokens" in server.said(), "the bad file is rejected")
        self.assertIn(b"line 1", server.said())
        self.assertEqual(self.kvctl(reader_file, "get", "key").returncode, 0)
        self.write("tokens", writer)
        server.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: b"reloaded 1 auth tokens" in server.said(), "the new file is read")
        self.assertEqual(self.kvctl(reader_file, "get", "key").returncode, 77)
        self.assertEqual(self.kvctl(writer_file, "get", "key").returncode, 0)
        for line in (writer, reader):
            self.assertNotIn(line.split()[2].encode(), server.said())
        self.assertEqual(server.stop()[0], 0)

    def test_measuring_programs(self):
        writer, reader = self.make_token("writer"), self.make_token("reader", "read-only")
        writer_file, reader_file = self.write("writer", writer), self.write("reader", reader)
        stranger = self.write("stranger", self.make_token("writer"))
        self.memory_server(f"--tokens={self.write('tokens', writer + reader)}")

        def measure(program, token_file, *arguments):
            options = [*arguments, *([f"--token_file={token_file}"] if token_file else [])]
            return subprocess.run([harness.program(program), *options], capture_output=True, timeout=harness.PATIENCE)

        programs = {
            "kvbench": ["all", f"--target={self.address}", "--workload=a", "--records=100", "--operations=200"],
            "pipeline": [f"--server={self.address}", "--records=64", "--turns=1", "--operations=16", "--value_size=64"],
            "path_ratio": [f"--server={self.address}", "--records=16", "--rounds=2", "--value_size=64"],
        }
        for program, arguments in programs.items():
            with self.subTest(program):
                run = measure(program, writer_file, *arguments)
                self.assertEqual(run.returncode, 0, run.stderr)
                run = measure(program, reader_file, *arguments)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(b"for reading alone", run.stderr)
                run = measure(program, None, *arguments)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(b"requires an auth token", run.stderr)
                run = measure(program, stranger, *arguments)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(b"does not accept this client's auth token", run.stderr)
                run = measure(program, f"{self.folder}/none", *arguments)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(b"none", run.stderr)

    def test_a_connection_ends_with_its_token(self):
        writer, reader = self.make_token("writer"), self.make_token("reader", "read-only")
        tokens = self.write("tokens", writer + reader)
        server = self.logged_server(f"--tokens={tokens}")
        reader_file, writer_file = self.write("reader", reader), self.write("writer", writer)
        environment = {**os.environ, "REMORA_TOKEN_FILE": writer_file}
        with subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", f"--token_file={reader_file}", "watch"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as watch:  # fmt: skip
            try:
                harness.wait_until(lambda: harness.stats(self.address, env=environment)["watches"] == 1, "it has begun")
                self.assertEqual(self.kvctl(writer_file, "put", "key", "value").returncode, 0)
                self.assertIn(b"key", watch.stdout.readline())
                self.write("tokens", writer)
                server.process.send_signal(signal.SIGHUP)
                _, errors = watch.communicate(timeout=harness.PATIENCE)
            finally:
                watch.kill()
        self.assertEqual(watch.returncode, 77)
        self.assertIn(b"does not accept this client's auth token", errors)
        server.await_said(b"was revoked")

    def test_what_is_rejected_before_anything_is_served(self):
        token = self.make_token("one")
        memory = ["--durability=memory", "--memory=64M"]

        def rejected(*flags):
            run = subprocess.run(
                [harness.program("kvserver"), *flags, *memory], capture_output=True, timeout=harness.PATIENCE
            )  # fmt: skip
            self.assertEqual(run.stdout, b"")
            return run.returncode, run.stderr

        listen = f"--listen={self.address}"
        code, errors = rejected("--listen=verbs://10.0.0.1:7470")
        self.assertEqual(code, 64)
        self.assertIn(b"--tokens=FILE", errors)
        self.assertIn(b"--insecure_open", errors)
        for flag in (f"--tokens={self.write('good', token)}", "--insecure_open"):
            code, errors = rejected("--listen=verbs://10.0.0.1:7470", flag)
            self.assertEqual(code, 69, errors)  # there is no such device here, and that is all
        code, errors = rejected(listen, f"--tokens={self.write('open', token, 0o644)}")
        self.assertEqual(code, 77)
        self.assertIn(b"chmod 600", errors)
        code, errors = rejected(listen, f"--tokens={self.write('bad', token + token)}")
        self.assertEqual(code, 64)
        self.assertIn(b"line 2", errors)
        code, errors = rejected(listen, f"--tokens={self.folder}/none")
        self.assertEqual(code, 64)
        self.assertIn(b"No such file", errors)
        run = self.kvctl(self.write("others", token, 0o644), "ping")
        self.assertEqual(run.returncode, 77)
        self.assertIn(b"chmod 600", run.stderr)
        self.assertEqual(harness.kvctl(None, "create_token", "bad name").returncode, 64)
        self.assertEqual(harness.kvctl(None, "create_token", "name", "--role=admin").returncode, 64)

    def test_a_token_for_a_server_that_has_none(self):
        self.memory_server()
        run = self.kvctl(self.write("token", self.make_token("one")), "ping")
        self.assertEqual(run.returncode, 77)
        self.assertIn(b"may be an impostor", run.stderr)


if __name__ == "__main__":
    unittest.main()
