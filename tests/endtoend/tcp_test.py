"""The real programs over tcp://: addresses, tokens, who may listen where, and what both logs say of an end."""

import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")


class TcpTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.port = harness.free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"

    def test_kvctl_does_all_that_it_does_elsewhere(self):
        server = self.logged_server(f"--backup_dir={self.folder}/backups")
        large = os.urandom(5 << 20)
        self.assertEqual(harness.kvctl(self.address, "put", "large", stdin=large).returncode, 0)
        self.assertEqual(harness.kvctl(self.address, "get", "large").stdout, large)
        for key in ("a", "b", "c"):
            self.assertEqual(harness.kvctl(self.address, "put", f"key {key}", f"value {key}").returncode, 0)
        run = harness.kvctl(self.address, "scan", "--prefix=key ")
        self.assertEqual(run.stdout, b"key a\tvalue a\nkey b\tvalue b\nkey c\tvalue c\n")
        self.assertEqual(harness.kvctl(self.address, "incr", "sum", "5").stdout.strip(), b"5")
        self.assertEqual(harness.kvctl(self.address, "get", "nothing").returncode, 1)
        self.assertEqual(harness.kvctl(self.address, "backup").returncode, 0)
        self.assertEqual(harness.kvctl(self.address, "count").stdout.strip(), b"5")
        self.assertEqual(server.stop()[0], 0)
        run = harness.kvctl(self.address, "get", "key a")
        self.assertEqual(run.returncode, 69, run.stderr)
        self.assertIn(b"Connection refused", run.stderr)
        self.logged_server(f"--backup_dir={self.folder}/backups", "--tcp_threads=3")
        self.assertEqual(harness.kvctl(self.address, "get", "key a").stdout, b"value a")

    def test_ipv6_names_and_several_addresses_of_one_server(self):
        second = f"tcp://[::1]:{harness.free_port('::1')}"
        self.memory_server(f"--listen={second}", f"--listen=local://{self.folder}/socket")
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
        for address in (second, f"tcp://localhost:{self.port}", f"local://{self.folder}/socket"):
            self.assertEqual(harness.kvctl(address, "get", "key").stdout, b"value", address)

    def test_the_first_address_that_serves_is_taken(self):
        nobody, path = f"tcp://127.0.0.1:{harness.free_port()}", f"local://{self.folder}/socket"
        self.memory_server(f"--listen={path}")
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
        tcp = f"{self.address}, tcp (READs are served by the server's CPU)"
        self.assertIn(f"\nconnected to {tcp}\n", harness.kvctl(self.address, "ping").stdout.decode())
        local = f"{path}, local (READs are copies from mapped memory)"
        for addresses, choice in (
            (f"{self.address},{path}", tcp),
            (f"{nobody},{self.address}", f"{tcp}; not {nobody}: "),
            (f"auto:{self.address},{path}", local),
            (f"auto:{nobody},{self.address},local://{self.folder}/none", f"{tcp}; not local://{self.folder}/none: "),
        ):
            run = harness.kvctl(addresses, "get", "key")
            self.assertEqual((run.returncode, run.stdout), (0, b"value"), run.stderr)
            self.assertTrue(run.stderr.decode().startswith(f"kvctl: connected to {choice}"), run.stderr)
            self.assertEqual(run.stderr.count(b"\n"), 1)
        run = harness.kvctl(f"{nobody},local://{self.folder}/none", "get", "key")
        self.assertEqual(run.returncode, 69)
        self.assertIn(f"{self.folder}/none: connect: no server listens".encode(), run.stderr.replace(b"at ", b""))
        self.assertIn(f"; not {nobody}: ".encode(), run.stderr)
        self.assertEqual(harness.kvctl(f"{self.address},tcp://nobody", "get", "key").returncode, 64)
        # One address is taken without a word.
        self.assertEqual(harness.kvctl(self.address, "get", "key").stderr, b"")

    def test_a_server_that_says_no_ends_the_choice(self):
        path, writer = f"local://{self.folder}/socket", self.make_token("writer")
        self.memory_server(f"--tokens={self.write('tokens', writer)}")
        other = harness.Server(f"--listen={path}", "--memory=64M", "--durability=memory")
        self.addCleanup(other.stop)
        stranger = f"--token_file={self.write('stranger', self.make_token('writer'))}"
        run = harness.kvctl(f"{self.address},{path}", "put", "key", "value", stranger)
        self.assertEqual(run.returncode, 77, run.stderr)
        self.assertEqual(harness.kvctl(path, "get", "key").returncode, 1)

    def test_tokens(self):
        writer, stranger = self.make_token("writer"), self.make_token("writer")
        server = self.memory_server(f"--tokens={self.write('tokens', writer)}")
        token = f"--token_file={self.write('writer', writer)}"
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value", token).returncode, 0)
        self.assertEqual(harness.kvctl(self.address, "get", "key").returncode, 77)
        run = harness.kvctl(self.address, "get", "key", f"--token_file={self.write('stranger', stranger)}")
        self.assertEqual(run.returncode, 77)
        self.assertNotIn(writer.split()[2].encode(), server.said())

    def test_where_it_may_listen(self):
        def rejected(*flags):
            run = subprocess.run(
                [harness.program("kvserver"), "--durability=memory", "--memory=64M", *flags],
                capture_output=True, timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
            return run.returncode, run.stderr

        everywhere = f"--listen=tcp://0.0.0.0:{self.port}"
        code, errors = rejected(everywhere)
        self.assertEqual(code, 64)
        self.assertIn(b"--tokens=FILE", errors)
        self.assertIn(b"--insecure_open", errors)
        self.assertEqual(rejected("--listen=tcp://192.0.2.1:7470", "--insecure_open")[0], 69)
        for flag in ("--tcp_threads=0", "--tcp_threads=65", "--tcp_threads=many"):
            self.assertEqual(rejected(f"--listen={self.address}", flag)[0], 64)
        server = self.memory_server("--insecure_open", address=f"tcp://0.0.0.0:{self.port}")
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
        code, errors = rejected(f"--listen={self.address}")
        self.assertEqual(code, 75)
        self.assertIn(b"in use", errors)
        server.kill()

    def test_a_killed_server_is_back_at_its_port_at_once(self):
        for _ in range(3):
            server = self.memory_server()
            self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
            server.process.send_signal(signal.SIGKILL)
            server.close()

    def test_another_programs_bytes_are_dropped_and_counted(self):
        self.memory_server()
        for said in (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"\0" * 4096, os.urandom(512)):
            with socket.create_connection(("127.0.0.1", self.port), timeout=harness.PATIENCE) as one:
                one.sendall(said)
                try:
                    self.assertEqual(one.recv(1), b"")
                except ConnectionResetError:
                    pass
        harness.wait_until(lambda: harness.stats(self.address)["handshakes_dropped"] == 3, "they are counted")

    def test_what_goes_over_the_wire_has_no_token(self):
        token = self.make_token("writer")
        self.memory_server(f"--tokens={self.write('tokens', token)}")
        heard = Relay(self.port)
        self.addCleanup(heard.close)
        run = harness.kvctl(
            f"tcp://127.0.0.1:{heard.port}", "put", "some key", "some value",
            f"--token_file={self.write('writer', token)}",
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stderr)
        heard.close()
        self.assertIn(b"some value", heard.bytes)  # it hears everything
        self.assertNotIn(token.split()[2].encode(), heard.bytes)
        self.assertNotIn(bytes.fromhex(token.split()[2]), heard.bytes)

    @unittest.skipUnless((PACKAGE / "remora").is_dir(), "no Python package was built")
    def test_python(self):
        self.memory_server()
        code = (
            "import remora, sys\n"
            "with remora.Client(sys.argv[1]) as store:\n"
            "    store['key'] = 'value'\n"
            "    print(store['key'])\n"
        )
        run = subprocess.run(
            [sys.executable, "-B", "-c", code, self.address], env={**os.environ, "PYTHONPATH": str(PACKAGE)},
            capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual((run.returncode, run.stdout), (0, b"b'value'\n"), run.stderr)


class NamesTest(harness.TestCase):
    """Servers that have an /etc/hosts of their own."""

    def setUp(self):
        super().setUp()
        self.port = harness.free_port()
        self.before = [
            "unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
            'mount --bind "$0" /etc/hosts; exec "$@"', str(self.folder / "hosts"),
        ]  # fmt: skip
        self.write("hosts", "127.0.0.1 localhost\n", mode=0o644)
        tried = subprocess.run([*self.before, "true"], capture_output=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"the system gives this user no namespace: {tried.stderr.decode().strip()}")

    def at(self, host):
        return f"tcp://{host}:{self.port}"

    def hosts(self, **addresses):
        lines = [f"{address} {name}\n" for name, all in addresses.items() for address in all]
        self.write("hosts", "".join(lines), mode=0o644)

    def start(self, *flags):
        server = harness.Server(*flags, "--durability=memory", "--memory=64M", before=self.before)
        self.addCleanup(server.close)
        return server

    def rejected(self, *flags, storage="--durability=memory"):
        command = [*self.before, harness.program("kvserver"), storage, "--memory=64M", *flags]
        run = subprocess.run(command, capture_output=True, timeout=harness.PATIENCE, check=False)
        return run.returncode, run.stderr.decode()

    def test_a_name_is_served_at_all_its_addresses(self):
        self.hosts(localhost=["::1", "127.0.0.1", "127.0.0.1"])
        server = self.start(f"--listen={self.at('localhost')}")
        served = ["127.0.0.1"]
        try:
            harness.free_port("::1")
            served.append("[::1]")
        except OSError:
            pass  # this host has no IPv6, and the server does without that address
        for number, host in enumerate(served):
            put = harness.kvctl(self.at(host), "put", f"key {number}", "value")
            self.assertEqual(put.returncode, 0, put.stderr)
        self.assertEqual(harness.kvctl(self.at(served[0]), "count").stdout.strip(), str(len(served)).encode())
        (said,) = server.await_said(rb"serving at tcp://localhost:\d+ \(([^)]*)\)").groups()
        self.assertEqual(sorted(said.decode().split()), sorted(f"{host}:{self.port}" for host in served))
        status, output = server.stop()
        self.assertEqual((status, output), (0, f"kvserver: ready at tcp://localhost:{self.port}\n".encode()))

    def test_an_address_that_no_interface_has_is_left_out(self):
        self.hosts(server=["192.0.2.77", "127.0.0.9"])
        server = self.start(f"--listen={self.at('server')}", "--insecure_open")
        server.await_said(rb"serving at tcp://server:\d+ \(127\.0\.0\.9:\d+\)")
        self.assertEqual(harness.kvctl(self.at("127.0.0.9"), "put", "key", "value").returncode, 0)
        self.hosts(server=["192.0.2.77"])
        code, errors = self.rejected(f"--listen={self.at('server')}", "--insecure_open")
        self.assertEqual(code, 69)
        self.assertIn("no interface of this host has this address", errors)

    def test_localhost_that_other_hosts_reach_is_rejected(self):
        self.hosts(localhost=["127.0.0.1", "0.0.0.0"])
        code, errors = self.rejected(f"--listen={self.at('localhost')}")
        self.assertEqual(code, 69, errors)
        self.assertIn("localhost is 0.0.0.0 here, which other hosts reach; correct /etc/hosts", errors)

    def test_a_name_that_begins_as_a_loopback_address_is_none(self):
        self.hosts(**{"127.example": ["127.0.0.1"]})
        for host in ("127.example", "::ffff:10.0.0.1", "::2"):
            host = f"[{host}]" if ":" in host else host
            code, errors = self.rejected(f"--listen={self.at(host)}")
            self.assertEqual(code, 64, errors)
            self.assertIn("--tokens=FILE", errors)

    def test_two_addresses_that_overlap_are_rejected_before_files_are_made(self):
        self.hosts(localhost=["127.0.0.1"])
        for one, other in (("localhost", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")):
            code, errors = self.rejected(
                f"--listen={self.at(one)}", f"--listen={self.at(other)}", "--insecure_open",
                storage=f"--data_dir={self.folder}/data",
            )  # fmt: skip
            self.assertEqual(code, 64, errors)
            self.assertIn(f"belongs to {self.at(one)} already; leave one out", errors)
            self.assertFalse((self.folder / "data").exists())

    def test_all_of_ipv6_is_all_of_ipv4(self):
        try:
            harness.free_port("::1")
        except OSError:
            self.skipTest("this host has no IPv6")
        server = self.memory_server("--insecure_open", address=f"tcp://[::]:{self.port}")
        for host in ("127.0.0.1", "[::1]"):
            self.assertEqual(harness.kvctl(self.at(host), "put", "key", "value").returncode, 0, host)
        self.assertEqual(server.stop()[0], 0)
        code, errors = self.rejected(f"--listen={self.at('[::]')}", f"--listen={self.at('0.0.0.0')}", "--insecure_open")
        self.assertEqual(code, 64)
        self.assertIn("leave one out", errors)


class Relay:
    """Passes on what goes between a client and a server, and keeps it. By a process, so that both ends may wait."""

    def __init__(self, port):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.bytes = b""
        self.process = None
        self.heard = tempfile.TemporaryFile()  # a pipe would be full soon
        self.process = os.fork()
        if self.process == 0:
            self.relay(port, self.heard.fileno())
        self.listening.close()

    def relay(self, port, write):
        selector = selectors.DefaultSelector()
        passed = []  # those that have ended, too: they are closed with this process
        selector.register(self.listening, selectors.EVENT_READ, None)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    client, _ = self.listening.accept()
                    server = socket.create_connection(("127.0.0.1", port))
                    passed += [client, server]
                    selector.register(client, selectors.EVENT_READ, server)
                    selector.register(server, selectors.EVENT_READ, client)
                    continue
                try:
                    some = key.fileobj.recv(65536)
                    key.data.sendall(some)
                except OSError:
                    some = b""
                os.write(write, some)
                if not some:
                    selector.unregister(key.fileobj)
                    try:
                        key.data.shutdown(socket.SHUT_WR)
                    except OSError:
                        pass

    def close(self):
        if self.process is None:
            return
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.process = None
        self.heard.seek(0)
        self.bytes = self.heard.read()
        self.heard.close()


if __name__ == "__main__":
    unittest.main()
