"""The real programs over tls://: by a token, by certificates as the guide makes them, and what rejections say."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import harness
from tcp_test import PACKAGE, Relay

GUIDE = pathlib.Path(__file__).parents[2] / "docs/guide/network.md"


def blocks_of_guide():
    """The commands of each block of the guide, from "TLS with certificates" on."""
    text = GUIDE.read_text().split("## TLS with certificates\n")[1]
    blocks = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    return [re.sub(r"\\\n\s*", "", re.sub(r"^    ", "", block, flags=re.MULTILINE)) for block in blocks]


class TlsTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.port = harness.free_port()
        self.address = f"tls://127.0.0.1:{self.port}"

    def start(self, *flags, address=None):
        return self.memory_server(*flags, address=address)

    def rejected(self, *flags):
        run = subprocess.run(
            [harness.program("kvserver"), "--durability=memory", "--memory=64M", *flags],
            capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        return run.returncode, run.stderr

    def make_certificates(self):
        """The commands of the guide, as they stand there."""
        for block in blocks_of_guide():
            if block.startswith("openssl"):
                subprocess.run(["sh", "-ec", block], cwd=self.folder, check=True, capture_output=True)

    def path(self, name):
        return f"{self.folder}/{name}"

    def test_a_token_is_enough_and_the_wire_shows_nothing(self):
        token = self.make_token("writer")
        server = self.logged_server(f"--tokens={self.write('tokens', token)}")
        heard = Relay(self.port)
        self.addCleanup(heard.close)
        address, flag = f"tls://127.0.0.1:{heard.port}", f"--token_file={self.write('writer', token)}"
        large = b"some large value" * 100_000
        for run, output in (
            (harness.kvctl(address, "put", "some key", "some value", flag), None),
            (harness.kvctl(address, "get", "some key", flag), b"some value"),
            (harness.kvctl(address, "put", "large", flag, stdin=large), None),
            (harness.kvctl(address, "get", "large", flag), large),
            (harness.kvctl(address, "scan", flag, "--prefix=some"), b"some key\tsome value\n"),
        ):
            self.assertEqual(run.returncode, 0, run.stderr)
            if output is not None:
                self.assertEqual(run.stdout, output)
        heard.close()
        self.assertGreater(len(heard.bytes), 2 * len(large))  # it hears everything
        secret = token.split()[2]
        for hidden in (b"some key", b"some value", b"some large", secret.encode(), bytes.fromhex(secret)):
            self.assertNotIn(hidden, heard.bytes)

        stranger = f"--token_file={self.write('stranger', self.make_token('writer'))}"
        run = harness.kvctl(self.address, "get", "some key", stranger)
        self.assertEqual(run.returncode, 77)
        self.assertIn(b"does not know this client's token", run.stderr)
        run = harness.kvctl(self.address, "get", "some key")
        self.assertEqual(run.returncode, 64)
        self.assertIn(b"needs an auth token", run.stderr)
        harness.wait_until(lambda: b"a token that is not known here" in server.said(), "the log says so")
        self.assertNotIn(secret.encode(), server.said())
        self.assertEqual(server.stop()[0], 0)

    def test_the_guide(self):
        self.make_certificates()
        self.write("tokens", self.make_token("app"))
        kvserver = [block for block in blocks_of_guide() if block.startswith("kvserver")]
        self.assertEqual(len(kvserver), 2)
        for number, block in enumerate(kvserver):
            with self.subTest(block):
                (line, *clients) = block.splitlines()
                for old, new in (("0.0.0.0:7470", f"127.0.0.1:{self.port}"), ("/var/lib/remora", f"data{number}")):
                    self.assertIn(old, line)
                    line = line.replace(old, new)
                flags = [f"{flag[:flag.index('=') + 1]}{self.path(flag.split('=')[1])}"
                         if flag.startswith(("--tls", "--tokens", "--data_dir")) else flag
                         for flag in line.split()[1:]]  # fmt: skip
                server = harness.Server(*flags, "--memory=64M")
                self.addCleanup(server.close)
                script = "\n".join(clients).replace("tls://server:7470", f"tls://localhost:{self.port}")
                if number == 1:  # nobody has written there
                    script = script.replace("get greeting", "put greeting hello")
                path = f"{pathlib.Path(harness.program('kvctl')).parent}:{os.environ['PATH']}"
                run = subprocess.run(
                    ["sh", "-ec", script], cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True,
                    timeout=harness.PATIENCE, check=False,
                )  # fmt: skip
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual(server.stop()[0], 0)

    def test_certificates_of_both_sides(self):
        self.make_certificates()
        server = self.start(
            f"--tls_cert={self.path('server.crt')}", f"--tls_key={self.path('server.key')}",
            f"--tls_ca={self.path('ca.crt')}",
        )  # fmt: skip
        known = f"--tls_ca={self.path('ca.crt')}"
        own = (f"--tls_cert={self.path('client.crt')}", f"--tls_key={self.path('client.key')}")
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value", known, *own).returncode, 0)
        run = harness.kvctl(self.address, "get", "key", known)
        self.assertEqual(run.returncode, 77)
        self.assertIn(b"certificate required", run.stderr)
        run = harness.kvctl(f"tls://127.0.0.2:{self.port}", "get", "key", known, *own)
        self.assertEqual(run.returncode, 69, run.stderr)  # nobody listens there
        run = harness.kvctl(f"tcp://127.0.0.1:{self.port}", "get", "key")
        self.assertEqual(run.returncode, 64)
        self.assertIn(b"serves with TLS alone", run.stderr)
        run = harness.kvctl(f"tcp://127.0.0.1:{self.port}", "get", "key", known)
        self.assertEqual(run.returncode, 64)
        self.assertIn(b"are for a tls:// address", run.stderr)
        run = harness.kvctl(self.address, "get", "key", env={
            **os.environ, "REMORA_TLS_CA": self.path("ca.crt"), "REMORA_TLS_CERT": self.path("client.crt"),
            "REMORA_TLS_KEY": self.path("client.key"),
        })  # fmt: skip
        self.assertEqual(run.stdout, b"value")
        self.assertEqual(harness.kvctl(self.address, "get", "key", known, own[0]).returncode, 64)
        bench = [harness.program("kvbench"), "all", f"--target={self.address}", "--workload=c", known, *own,
                 "-p", "recordcount=100", "-p", "operationcount=100"]  # fmt: skip
        run = subprocess.run(bench, capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)

        # Another authority, from now on.
        for name in ("ca.crt", "ca.key"):
            os.rename(self.path(name), self.path(f"old-{name}"))
        self.make_certificates()
        server.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: b"reloaded the files of TLS" in server.said(), "it has read them")
        run = harness.kvctl(self.address, "get", "key", f"--tls_ca={self.path('old-ca.crt')}", *own)
        self.assertEqual(run.returncode, 77)
        self.assertEqual(harness.kvctl(self.address, "get", "key", known, *own).stdout, b"value")
        self.write("server.key", "nonsense")
        server.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: b"kept all auth tokens" in server.said(), "the bad file is rejected")
        self.assertEqual(harness.kvctl(self.address, "get", "key", known, *own).stdout, b"value")
        self.assertEqual(server.stop()[0], 0)

    def test_a_client_with_tls_at_an_address_without(self):
        token = self.make_token("writer")
        plain = f"tcp://127.0.0.1:{self.port}"
        server = self.start(f"--tokens={self.write('tokens', token)}", address=plain)
        run = harness.kvctl(self.address, "get", "key", f"--token_file={self.write('writer', token)}")
        self.assertEqual(run.returncode, 64)
        self.assertIn(b"it serves without TLS", run.stderr)
        harness.wait_until(lambda: b"begins with a TLS handshake" in server.said(), "the log says so")

    def test_what_kvserver_rejects(self):
        self.make_certificates()
        listen = f"--listen={self.address}"
        cert, key = f"--tls_cert={self.path('server.crt')}", f"--tls_key={self.path('server.key')}"
        everywhere = f"--listen=tls://0.0.0.0:{self.port}"
        self.write("open.key", pathlib.Path(self.path("server.key")).read_text(), mode=0o644)
        for flags, status, words in (
            ([listen], 64, b"needs --tokens=FILE"),
            ([listen, cert], 64, b"come together"),
            ([listen, key], 64, b"come together"),
            ([listen, f"--tls_ca={self.path('ca.crt')}"], 64, b"come together"),
            ([f"--listen=tcp://127.0.0.1:{self.port}", cert, key], 64, b"no --listen has a tls:// address"),
            ([everywhere, cert, key], 64, b"--insecure_open"),
            ([listen, f"--tls_cert={self.path('none')}", key], 64, b"none: cannot be opened"),
            ([listen, cert, f"--tls_key={self.path('client.key')}"], 64, b"is not the key of the certificate"),
            ([listen, cert, f"--tls_key={self.path('open.key')}"], 77, b"chmod 600"),
        ):
            with self.subTest(flags):
                code, errors = self.rejected(*flags)
                self.assertEqual(code, status, errors)
                self.assertIn(words, errors)

    @unittest.skipUnless((PACKAGE / "remora").is_dir(), "no Python package was built")
    def test_python(self):
        self.make_certificates()
        token = self.make_token("writer")
        self.start(
            f"--tokens={self.write('tokens', token)}", f"--tls_cert={self.path('server.crt')}",
            f"--tls_key={self.path('server.key')}",
        )  # fmt: skip
        code = (
            "import asyncio, remora, remora.aio, sys\n"
            "address, token, ca = sys.argv[1:]\n"
            "with remora.Client(address, token=token) as store:\n"
            "    store['key'] = 'value'\n"
            "with remora.Client(address, token=token, tls_ca=ca) as store:\n"
            "    print(store['key'])\n"
            "async def main():\n"
            "    async with remora.aio.Client(address, token=token, tls_ca=ca) as store:\n"
            "        print(await store.get('key'))\n"
            "asyncio.run(main())\n"
        )
        run = subprocess.run(
            [sys.executable, "-B", "-c", code, self.address, token, self.path("ca.crt")],
            env={**os.environ, "PYTHONPATH": str(PACKAGE)}, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual((run.returncode, run.stdout), (0, b"b'value'\nb'value'\n"), run.stderr)


if __name__ == "__main__":
    unittest.main()
