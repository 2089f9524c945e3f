"""The five lines of "Connect from another machine" (docs/guide/network.md), as they stand there, on two hosts.

The hosts are namespaces (two_hosts.py), each with /etc/hosts, /var/lib and a home folder of its own. `scp` is a program of
this test, which copies from the server's host: no sshd runs there.

The environment variable REMORA_BIN names the folder of the built programs. Exit status: 0; 1 if something was wrong; 77 if
the system has no namespaces.
"""

import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile

import two_hosts

two_hosts.enter()

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "endtoend"))
from harness import BIN, PATIENCE  # noqa: E402

GUIDE = pathlib.Path(__file__).parents[2] / "docs/guide/network.md"
LINES = 5
LINES_OF_SERVER = 2


def lines_of_guide():
    """The commands of the first block."""
    return re.search(r"(?:^    .*\n)+", GUIDE.read_text(), re.MULTILINE)[0].splitlines()


class Host:
    """The files that one host has of its own, and a shell there."""

    def __init__(self, folder, name, others, scp_from=None):
        self.folder = folder / name
        self.others = others  # the beginning of a command there
        for part in ("home", "lib", "bin"):
            (self.folder / part).mkdir(parents=True)
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{two_hosts.SERVER_HOST} server\n")
        if scp_from is not None:
            scp = self.folder / "bin/scp"
            scp.write_text(f'#!/bin/sh\nexec cp "{scp_from}/${{1#server:}}" "$2"\n')
            scp.chmod(0o755)

    def start(self, lines):
        """Runs the lines by a shell in the home folder."""
        own = 'mount --bind "$0/hosts" /etc/hosts; mount --bind "$0/lib" /var/lib; cd "$0/home"; exec sh -ec "$1"'
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REMORA_")}
        environment |= {"HOME": f"{self.folder}/home", "PATH": f"{self.folder}/bin:{BIN.resolve()}:{os.environ['PATH']}"}
        return subprocess.Popen(
            [*self.others, "unshare", "--mount", "sh", "-ec", own, str(self.folder), "\n".join(lines)],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip


def end(process, number):
    """Sends the signal to the shell and its program. Returns what both have written."""
    os.killpg(process.pid, number)
    return process.communicate(timeout=PATIENCE)


def follow_guide(network, folder):
    lines = lines_of_guide()
    if len(lines) != LINES:
        return f"the guide has {len(lines)} lines, and not {LINES}"
    on_server = Host(folder, "server", [])
    on_client = Host(folder, "client", network.on_client_host(), scp_from=on_server.folder / "home")
    server = on_server.start(lines[:LINES_OF_SERVER])
    try:
        readable, _, _ = select.select([server.stdout], [], [], PATIENCE)
        said = os.read(server.stdout.fileno(), 4096) if readable else b""
        if not said.startswith(b"kvserver: ready at tls://0.0.0.0:7470"):
            return f"the server is not ready: {said!r} {end(server, signal.SIGKILL)[1]!r}"
        client = on_client.start(lines[LINES_OF_SERVER:])
        output, errors = client.communicate(timeout=PATIENCE)
        # kvctl ends a value with a newline for a terminal alone.
        if (client.returncode, output.strip()) != (0, b"hello, world"):
            return f"the client: {client.returncode}: {output!r} {errors!r}"
        if network.carried == 0:
            return "nothing went over the network"
        _, errors = end(server, signal.SIGTERM)
        return "" if b"stopped by a signal" in errors else f"the server's end: {errors!r}"
    finally:
        if server.poll() is None:
            end(server, signal.SIGKILL)


def main():
    network = two_hosts.Network()
    try:
        with tempfile.TemporaryDirectory(prefix="remora-") as folder:
            fault = follow_guide(network, pathlib.Path(folder))
    finally:
        network.close()
    print(fault or "the guide's lines do what it says")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
