"""Networks and hosts that fail, over tcp:// and tls://, between two namespaces (two_hosts.py). Two clients on the client's
host work, and judge each answer that they get (network_client.cc). Other clients tell when they notice a failure.
  tcp_network_test.py tcp|tls [--long] [--only=STEP,...]

  --long        each network for ten seconds, longer cuts, small packets, and more; some two minutes
  --only=STEP   only these, by the names of their functions below

The environment variable REMORA_BIN names the folder of the built programs. Exit status: 0; 1 if something was wrong; 77 if
the system has no namespaces.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import two_hosts

SCHEME = sys.argv[1] if len(sys.argv) > 1 else ""
if SCHEME not in ("tcp", "tls"):
    print(__doc__)
    sys.exit(64)
two_hosts.enter()

import network_test as shared  # noqa: E402
from harness import PATIENCE, Server, kvctl, program, stats, wait_until  # noqa: E402
from network_test import LONG, ONLY, TIMEOUT_MS, check, failures, figures, say  # noqa: E402

ADDRESS = f"{SCHEME}://{two_hosts.SERVER_HOST}:7470"
# The CPUs may be busy with other tests: so much later than stated may anything be noticed, in seconds.
MARGIN = 6


class Client(shared.Client):
    def __init__(self, world, *arguments):
        self.name = arguments[0]
        self.process = subprocess.Popen(
            [*world.network.on_client_host(), program("network_client"), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**os.environ, "REMORA_TOKEN_FILE": str(world.token)},
        )  # fmt: skip


class World(shared.World):
    def __init__(self, folder):
        self.folder = folder
        self.local = f"local://{folder}/socket"
        self.token = folder / "tokens"
        self.token.write_bytes(kvctl(None, "create_token", "worker").stdout)
        self.token.chmod(0o600)
        self.network = two_hosts.Network()
        self.start_server()
        self.a = Client(self, "work", ADDRESS, "a", "b", str(TIMEOUT_MS))
        self.b = Client(self, "work", ADDRESS, "b", "a", str(TIMEOUT_MS))
        self.a.connected()
        self.b.connected()

    def start_server(self):
        self.server = Server(
            f"--listen={ADDRESS}", f"--listen={self.local}", f"--tokens={self.token}", "--durability=logged",
            f"--data_dir={self.folder}/data", "--memory=128M", "--quiet",
        )  # fmt: skip

    def connections(self):
        """As the server counts them on this transport."""
        return stats(self.local, env={**os.environ, "REMORA_TOKEN_FILE": str(self.token)})[f"connections_{SCHEME}"]

    def notices(self, *calls):
        clients = {call: Client(self, "notice", ADDRESS, call) for call in calls}
        return {call: client.connected() for call, client in clients.items()}

    def come_back(self, since):
        for client in (self.a, self.b):
            back = self.await_success(client, since)
            check(back <= TIMEOUT_MS / 1000 + 1 + MARGIN, f"{client.name}: back only after {back:.1f} s")
            say(f"{client.name}: a call succeeds {back:.1f} s after all is well again")


def noticed(clients, since, within_s, what):
    """Each client, by what it does, notices within so many seconds."""
    for call, client in clients.items():
        code, after = client.noticed(since)
        check(code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") and after <= within_s[call] + MARGIN,
              f"{what}, {call}: {code} after {after:.1f} s")  # fmt: skip
        say(f"{what}: a client that does {call} notices after {after:.2f} s: {code}")


# --- Networks


def lossy_networks(world):
    say(f"a good network: {figures(world.work(1)[0])}")
    kinds = [{"loss": 0.05}, {"delay_ms": 5, "reorder": 0.25, "duplicate": 0.1, "corrupt": 0.03}]
    more = [{"loss": 0.01}, {"delay_ms": 20}, {"duplicate": 0.3}, {"corrupt": 0.1},
            {"loss": 0.03, "duplicate": 0.03, "corrupt": 0.01, "delay_ms": 1}]  # fmt: skip
    for kind in kinds + more if LONG else kinds:
        world.network.effects = kind
        for report in world.work(10 if LONG else 1):
            say(f"{kind}: {figures(report)}")
        world.network.effects = {}
    check(world.network.lost > 0, "the network lost no packet")


def small_packets(world):
    """Both hosts send packets of at most so many bytes from now on, in connections that exist, too."""
    for mtu in (1280, 576):
        world.network.mtu(mtu)
        say(f"MTU {mtu}: a call succeeds after {world.await_success(world.a, time.monotonic()):.1f} s")
        for report in world.work(5):
            check(not report["failed"], f"MTU {mtu}: {failures(report)}")
            say(f"MTU {mtu}: {figures(report)}")
    world.network.mtu(1500)


def resets(world):
    """Somebody resets connections in the middle. Calls go on over others, and none fails."""
    world.work(0.2)
    before = sum(client.report()["reconnects"] for client in (world.a, world.b))
    for _ in range(10 if LONG else 3):
        world.network.resets = 1
        for report in world.work(0.5):
            check(not report["failed"], f"after a reset: {failures(report)}")
    after = sum(client.report()["reconnects"] for client in (world.a, world.b))
    check(after > before, "no connection was reset")
    say(f"{after - before} connections were reset, and made again")


# --- Cuts and ends


def cut(world):
    """The network is cut: clients in flight and idle ones notice, and so does the server. Then it is back."""
    clients = world.notices("get", "put", "nothing")
    check(world.connections() == 2 + 3, "all clients have connections")
    world.network.is_cut = True
    since = time.monotonic()
    noticed(clients, since, {"get": 2.8, "put": 2.8, "nothing": 2}, "the network is cut")
    wait_until(lambda: world.connections() == 0, "the server notices that its clients are gone")
    after = time.monotonic() - since
    check(after <= 5.5 + MARGIN, f"the server noticed only after {after:.1f} s")
    say(f"the network is cut: the server notices after {after:.2f} s")
    world.network.is_cut = False
    world.come_back(time.monotonic())


def short_cuts(world):
    for seconds in (1, 3, 3, 6):
        world.work(0.5)
        world.network.is_cut = True
        time.sleep(seconds)
        world.network.is_cut = False
        say(f"cut for {seconds} s")
        world.come_back(time.monotonic())


def frozen_server(world):
    """A client waits for a server that is frozen until its deadline, and goes on after a shorter time."""
    world.work(0)
    world.server.process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    world.server.process.send_signal(signal.SIGCONT)
    for client in (world.a, world.b):
        report = client.report()
        check(not report["failed"], f"a server that was frozen for 2 s: {failures(report)}")
        say(f"the server frozen for 2 s: {figures(report)}")
    if not LONG:
        return
    clients = world.notices("get", "put")
    world.server.process.send_signal(signal.SIGSTOP)
    noticed(clients, time.monotonic(), {"get": 5, "put": 5}, "the server is frozen")
    world.server.process.send_signal(signal.SIGCONT)
    world.come_back(time.monotonic())


def killed_clients(world):
    # A client that has just come back may have two for a moment.
    wait_until(lambda: world.connections() == 2, "the two clients have a connection each")
    gone = Client(world, "connect", ADDRESS, "5", "5").connected()
    wait_until(lambda: world.connections() == 2 + 5, "5 more clients have 5 connections")
    since = time.monotonic()
    gone.ends(signal.SIGKILL)
    wait_until(lambda: world.connections() == 2, "the server notices that clients were killed")
    after = time.monotonic() - since
    check(after <= MARGIN, f"the server noticed only after {after:.1f} s that clients were killed")
    say(f"clients were killed: the server notices after {after:.2f} s")


def killed_server(world):
    clients = world.notices("get", "put", "nothing")
    since = time.monotonic()
    world.server.kill()
    noticed(clients, since, {"get": 0, "put": 0, "nothing": 0}, "the server is killed")
    world.server.close()
    world.start_server()
    world.come_back(time.monotonic())


def main():
    with tempfile.TemporaryDirectory(prefix="remora-network.") as folder:
        world = World(pathlib.Path(folder))
        try:
            say(f"the server and two clients are there: {ADDRESS}")
            steps = [lossy_networks, resets, cut, killed_clients, killed_server]
            if LONG:
                steps += [frozen_server, short_cuts, small_packets]
            for step in steps:
                if not ONLY or step.__name__ in ONLY:
                    step(world)
            for client in (world.a, world.b):
                report = client.report("end")
                say(f"at the end: {report['reconnects']} reconnects, {report['completion_queries']} lost answers asked for")
                client.process.wait(PATIENCE)
        finally:
            for client in (world.a, world.b):
                client.process.kill()
            world.server.close()
            world.network.close()
    say("nothing was wrong" if not shared.wrong else f"{len(shared.wrong)} things were WRONG")
    return 1 if shared.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
